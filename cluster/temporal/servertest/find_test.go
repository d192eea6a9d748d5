package servertest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	root := t.TempDir()
	inside := filepath.Join(root, "cluster", "temporal")
	if err := os.MkdirAll(inside, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Chdir(inside)
	if _, _, err := find(""); err == nil || !strings.Contains(err.Error(), Variable) {
		t.Errorf("without a command: %v, want an error that names %s", err, Variable)
	}
	tool := filepath.Join(root, ".tools", "temporal")
	if err := os.Mkdir(filepath.Dir(tool), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(tool, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		value, command, addr string
		fails                bool
	}{
		{"", tool, "", false},
		{tool, tool, "", false},
		{"127.0.0.1:7233", "", "127.0.0.1:7233", false},
		{"[::1]:7233", "", "[::1]:7233", false},
		{filepath.Join(root, "temporal"), "", "", true},
		{"localhost", "", "", true},
		{":7233", "", "", true},
	} {
		command, addr, err := find(tt.value)
		if command != tt.command || addr != tt.addr || (err != nil) != tt.fails {
			t.Errorf("find(%q) = %q, %q, %v, want %q, %q", tt.value, command, addr, err, tt.command, tt.addr)
		}
	}
}
