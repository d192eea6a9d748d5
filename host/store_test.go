package host_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/host"
)

func ExampleOpenStore() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	store, err := host.OpenStore(context.Background(), "sqlite:state/runs.db", dir)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	runs, err := store.List(context.Background(), checkpoint.Filter{})
	fmt.Println(len(runs), err)
	// Output: 0 <nil>
}

func TestCheckStore(t *testing.T) {
	const first = "store: a store is a URL that begins with its kind\n  hint: say \"sqlite:runs.db\" or \"memory:\""
	tests := []struct{ url, want string }{
		{"memory:", ""},
		{"sqlite:runs.db", ""},
		{"sqlite:/var/lib/runs.db?synchronous=normal", ""},
		{"sqlite:///var/lib/runs.db", ""},
		{"jsonl:dir", ""},
		{"postgres://u:hunter2@h/db", ""},
		{"postgresql://h/db", ""},
		{"", first},
		{"runs.db", first},
		{"memory:x", `store: nothing may follow "memory:"`},
		{"sqlite:", `store: a path must follow "sqlite:"`},
		{"jsonl:", `store: a path must follow "jsonl:"`},
		{"sqlite://runs.db", "store: no \"//\" may follow \"sqlite:\": it is followed by a path\n  hint: say \"sqlite:runs.db\""},
		{"sqlite:runs.db?synchronous=off", "store: synchronous is \"full\" or \"normal\", not \"off\"\n  hint: say \"sqlite:PATH?synchronous=normal\""},
		{"sqlite:runs.db?mode=ro", "store: unknown option \"mode\" of the store\n  hint: say \"sqlite:PATH?synchronous=normal\""},
		{"sqlite:runs.db?%zz", "store: the options of the store are malformed\n  hint: say \"sqlite:PATH?synchronous=normal\""},
		{"postgres:h/db", "store: \"postgres:\" must be followed by \"//\"\n  hint: say \"postgres://user@host/database\""},
		{"postgre://u:hunter2@h/db", "store: unknown store \"postgre\"\n  hint: did you mean \"postgres\"?"},
	}
	for _, tt := range tests {
		got := ""
		if err := host.CheckStore(tt.url); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("CheckStore(%q) = %q, want %q", tt.url, got, tt.want)
		}
	}
}

// What a store is given is still in it when it is opened again; folders are made for their owner only.
func TestOpenStore(t *testing.T) {
	dir := t.TempDir()
	for _, tt := range []struct{ url, made string }{
		{"sqlite:a/b/runs.db?synchronous=normal", "a/b/runs.db"},
		{"sqlite:" + filepath.Join(dir, "abs/runs.db"), "abs/runs.db"},
		{"jsonl:c/d", "c/d"},
	} {
		if _, err := host.FindStore(t.Context(), tt.url, dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: found before it exists: %v", tt.url, err)
		}
		store, err := host.OpenStore(t.Context(), tt.url, dir)
		if err != nil {
			t.Errorf("%s: %v", tt.url, err)
			continue
		}
		run := checkpoint.Run{ID: "r1", Recipe: "r", Digest: "d", StartedAt: time.Now()}
		if _, err := store.Create(t.Context(), run, "me", 0); err != nil {
			t.Errorf("%s: %v", tt.url, err)
		}
		store.Close()
		if info, err := os.Stat(filepath.Dir(filepath.Join(dir, tt.made))); err != nil || info.Mode().Perm()&0o077 != 0 && filepath.Dir(tt.made) != "." {
			t.Errorf("%s: %v, %v", tt.url, info, err)
		}
		if store, err = host.FindStore(t.Context(), tt.url, dir); err != nil {
			t.Errorf("%s: %v", tt.url, err)
			continue
		}
		if runs, err := store.List(t.Context(), checkpoint.Filter{}); err != nil || len(runs) != 1 || runs[0].ID != "r1" {
			t.Errorf("%s: %v, %v", tt.url, runs, err)
		}
		store.Close()
	}
	store, err := host.OpenStore(t.Context(), host.MemoryStore, dir)
	if err != nil {
		t.Fatal(err)
	}
	store.Close()
}

func TestOpenStoreFails(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "text"), "this is not a database, and no folder either\n")
	for _, tt := range []struct {
		url, want string
		is        error
	}{
		{"sqlite:text", "text", checkpoint.ErrCorrupt},
		{"sqlite:text/runs.db", "text", nil},
		{"jsonl:text", "text", nil},
		{"postgres://u:hunter2hunter2@127.0.0.1:1/db?connect_timeout=2", "127.0.0.1:1", nil},
		{"postgres://u:hunter2/hunter2@127.0.0.1:1/db", "the URL is malformed", nil},
		{"redis:x", "unknown store", nil},
	} {
		store, err := host.OpenStore(t.Context(), tt.url, dir)
		switch {
		case err == nil:
			store.Close()
			t.Errorf("%s opens", tt.url)
		case store != nil:
			t.Errorf("%s: a store with the error %v", tt.url, err)
		case !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter2"):
			t.Errorf("%s: %v", tt.url, err)
		case tt.is != nil && !errors.Is(err, tt.is):
			t.Errorf("%s: %v is no %v", tt.url, err, tt.is)
		}
	}
}

func TestDefaultStore(t *testing.T) {
	t.Setenv("HOME", "/home/ada")
	for state, want := range map[string]string{
		"":        "sqlite:/home/ada/.local/state/braise/runs.db",
		"here":    "sqlite:/home/ada/.local/state/braise/runs.db",
		"/states": "sqlite:/states/braise/runs.db",
	} {
		t.Setenv("XDG_STATE_HOME", state)
		if got, err := host.DefaultStore(); err != nil || filepath.ToSlash(got) != want {
			t.Errorf("XDG_STATE_HOME=%q: %q, %v, want %q", state, got, err, want)
		}
	}
}
