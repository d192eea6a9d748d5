package builtin_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/braise-run/braise/adapters/builtin"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// The calls of an agent with a cwd are held to that folder, whatever their paths and links say.
func TestCwd(t *testing.T) {
	top := t.TempDir()
	base := filepath.Join(top, "base")
	for path, text := range map[string]string{"out.txt": "out", "base/in.txt": "in", "base/desk/note.txt": "note",
		"base/desk/sub/deep.txt": "deep"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(top, path)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(top, path), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"base/same": "desk", "base/away": "..", "base/desk/up": "../in.txt", "base/desk/above": ".."} {
		if err := os.Symlink(to, filepath.Join(top, link)); err != nil {
			t.Skip(err)
		}
	}
	tools := map[string]runtime.Tool{}
	for _, tool := range builtin.Tools(builtin.Options{File: &builtin.FileOptions{Base: base},
		Exec: &builtin.ExecOptions{Allow: []string{"pwd"}, Dir: base}}) {
		tools[tool.Spec().Name] = tool
	}
	for _, tt := range []struct{ cwd, tool, args, want, fails string }{
		{"", "file.read", `{"path": "in.txt"}`, `"in"`, ""},
		{"desk", "file.read", `{"path": "note.txt"}`, `"note"`, ""},
		{"desk/sub/..", "file.read", `{"path": "./sub/deep.txt"}`, `"deep"`, ""},
		{"same", "file.read", `{"path": "note.txt"}`, `"note"`, ""},
		{"desk", "file.read", `{"path": "in.txt"}`, "", "no such file"},
		{"desk", "file.read", `{"path": "../in.txt"}`, "", "the path leaves the base folder"},
		{"desk", "file.read", `{"path": "up"}`, "", "path escapes from parent"},
		{"desk", "file.read", `{"path": "above/in.txt"}`, "", "path escapes from parent"},
		{"away", "file.read", `{"path": "out.txt"}`, "", `the agent's folder "away": path escapes from parent`},
		{"..", "file.read", `{"path": "out.txt"}`, "", `the agent's folder "..": path escapes from parent`},
		{"none", "file.read", `{"path": "in.txt"}`, "", `the agent's folder "none": no such file`},
		{"new/folder", "file.write", `{"path": "a/b.txt", "content": "b"}`, `1`, ""},
		{"new/folder", "file.read", `{"path": "a/b.txt"}`, `"b"`, ""},
		{"same", "file.write", `{"path": "c.txt", "content": "b"}`, `1`, ""},
		{"away", "file.write", `{"path": "d.txt", "content": "b"}`, "", "path escapes from parent"},
		{"in.txt", "file.write", `{"path": "d.txt", "content": "b"}`, "", `the agent's folder "in.txt": `},
		{"desk", "file.write", `{"path": "above/d.txt", "content": "b"}`, "", "path escapes from parent"},
		{"desk", "exec.run", `{"argv": ["pwd"]}`, `/base/desk\n"`, ""},
		{"same", "exec.run", `{"argv": ["pwd"], "dir": "sub"}`, `/base/desk/sub\n"`, ""},
		{"desk", "exec.run", `{"argv": ["pwd"], "dir": ".."}`, "", "is outside of the folder"},
		{"desk", "exec.run", `{"argv": ["pwd"], "dir": "above"}`, "", "is outside of the folder"},
		{"desk", "exec.run", `{"argv": ["pwd"], "dir": "` + filepath.ToSlash(base) + `"}`, "", "is outside of the folder"},
		{"away", "exec.run", `{"argv": ["pwd"]}`, "", `the agent's folder: dir "away" is outside of the folder`},
		{"none", "exec.run", `{"argv": ["pwd"]}`, "", "the agent's folder: "},
	} {
		var ctx context.Context = &resume.CallContext{Context: t.Context(), RunID: "r", Path: "a", Detail: &resume.CallDetail{Agent: "a", Cwd: tt.cwd}}
		got, err := tools[tt.tool].Call(ctx, json.RawMessage(tt.args))
		if tt.fails != "" && (err == nil || !strings.Contains(err.Error(), tt.fails)) || tt.fails == "" && err != nil {
			t.Errorf("%s in %q: %s: error %v, want %q", tt.tool, tt.cwd, tt.args, err, tt.fails)
		}
		if tt.fails == "" && !strings.Contains(string(got), tt.want) {
			t.Errorf("%s in %q: %s gives %s, want %s", tt.tool, tt.cwd, tt.args, got, tt.want)
		}
	}
	if text, _ := os.ReadFile(filepath.Join(top, "d.txt")); text != nil {
		t.Error("a file was written outside")
	}
}
