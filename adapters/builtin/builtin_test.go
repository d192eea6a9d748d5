package builtin_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/braise-run/braise/adapters/builtin"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// call calls a tool with arguments given as a Go value, and returns its decoded result.
func call(ctx context.Context, t *testing.T, tool runtime.Tool, args any) (map[string]any, error) {
	t.Helper()
	text, err := json.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	result, err := tool.Call(ctx, text)
	if err != nil {
		return nil, err
	}
	var out map[string]any
	if err := json.Unmarshal(result, &out); err != nil {
		t.Fatalf("result %s: %v", result, err)
	}
	return out, nil
}

// args are the arguments of a call.
type args map[string]any

// checkError fails unless err says every part of want, one per line.
func checkError(t *testing.T, err error, want ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that says %q", want)
	}
	for _, w := range want {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}

// failureOf returns the retry.Failure in err.
func failureOf(t *testing.T, err error) *retry.Failure {
	t.Helper()
	f, ok := errors.AsType[*retry.Failure](err)
	if !ok {
		t.Fatalf("error %v is no retry.Failure", err)
	}
	return f
}

func TestToolsNamesAndSchemas(t *testing.T) {
	rt := runtime.Runtime{Tools: builtin.Tools(builtin.Options{})}
	if err := rt.Validate(); err != nil {
		t.Error(err)
	}
	var names []string
	for _, tool := range rt.Tools {
		names = append(names, tool.Spec().Name)
	}
	if got, want := strings.Join(names, " "), "http.request exec.run file.read file.write"; got != want {
		t.Errorf("tools %s, want %s", got, want)
	}
}

func TestToolsRefuseWhatTheHostDoesNotAllow(t *testing.T) {
	tools := map[string]runtime.Tool{}
	for _, tool := range builtin.Tools(builtin.Options{}) {
		tools[tool.Spec().Name] = tool
	}
	for _, tt := range []struct {
		tool string
		args args
		want string
	}{
		{"exec.run", args{"argv": []string{"true"}}, "tools.exec.allow in braise.yaml"},
		{"file.read", args{"path": "builtin_test.go"}, "tools.file.base in braise.yaml"},
		{"file.write", args{"path": "x", "content": ""}, "tools.file.base in braise.yaml"},
		{"http.request", args{"url": "http://127.0.0.1:1"}, "tools.http.allow_private in braise.yaml"},
	} {
		_, err := call(t.Context(), t, tools[tt.tool], tt.args)
		checkError(t, err, tt.want)
		if f := failureOf(t, err); f.Reason != "" || f.Sent {
			t.Errorf("%s: refusal %+v could be retried", tt.tool, f)
		}
	}
	if _, err := os.Stat("x"); err == nil {
		t.Error("file.write wrote")
	}
}

// Trust 2.3: of a tool that the host does not allow its spec says so, and it stays what it is otherwise.
func TestToolsThatAreOff(t *testing.T) {
	on := builtin.Tools(builtin.Options{
		Exec: &builtin.ExecOptions{Allow: []string{"true"}}, File: &builtin.FileOptions{Base: t.TempDir()}})
	for i, tool := range builtin.Tools(builtin.Options{}) {
		spec, was := tool.Spec(), on[i].Spec()
		if off := spec.Name != "http.request"; (spec.Off != "") != off || was.Off != "" {
			t.Errorf("%s: off is %q, and %q where it is allowed", spec.Name, spec.Off, was.Off)
		}
		text := json.RawMessage(`{"argv": ["x"], "effect": "read_only"}`)
		if got, want := spec.EffectFor(text), was.EffectFor(text); got != want {
			t.Errorf("%s: effect %q, want %q", spec.Name, got, want)
		}
	}
}

func TestToolsDoWhatTheHostAllows(t *testing.T) {
	tools := builtin.Tools(builtin.Options{
		HTTP: &builtin.HTTPOptions{},
		Exec: &builtin.ExecOptions{Allow: []string{"true"}},
		File: &builtin.FileOptions{Base: t.TempDir()},
	})
	if _, err := call(t.Context(), t, tools[1], args{"argv": []string{"true"}}); err != nil {
		t.Error(err)
	}
	if _, err := call(t.Context(), t, tools[3], args{"path": "x", "content": "hello"}); err != nil {
		t.Error(err)
	}
	if got, err := call(t.Context(), t, tools[2], args{"path": "x"}); err != nil || got["content"] != "hello" {
		t.Errorf("file.read gave %v, %v", got, err)
	}
}

func TestToolsReadArgumentsStrictly(t *testing.T) {
	for _, tool := range builtin.Tools(builtin.Options{Exec: &builtin.ExecOptions{Allow: []string{"true"}}, File: &builtin.FileOptions{}}) {
		name := tool.Spec().Name
		for _, text := range []string{`{"surprise": 1}`, `[]`, `{} {}`, `{`, ``} {
			_, err := tool.Call(t.Context(), json.RawMessage(text))
			checkError(t, err, "arguments of "+name)
			if f := failureOf(t, err); f.Reason != "" {
				t.Errorf("%s(%s): reason %q", name, text, f.Reason)
			}
		}
	}
}

func TestToolsDoNothingOnceCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	tool := builtin.FileWrite(builtin.FileOptions{Base: t.TempDir()})
	if _, err := call(ctx, t, tool, args{"path": "x", "content": ""}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
}

func TestEffectOf(t *testing.T) {
	for _, tt := range []struct {
		tool runtime.Tool
		args string
		want runtime.Effect
	}{
		{builtin.HTTPRequest(builtin.HTTPOptions{}), `{"url": "u"}`, runtime.ReadOnly},
		{builtin.HTTPRequest(builtin.HTTPOptions{}), `{"url": "u", "method": "head"}`, runtime.ReadOnly},
		{builtin.HTTPRequest(builtin.HTTPOptions{}), `{"url": "u", "method": "PUT"}`, runtime.External},
		{builtin.HTTPRequest(builtin.HTTPOptions{}), `{`, runtime.External},
		{builtin.ExecRun(builtin.ExecOptions{}), `{"argv": ["a"]}`, runtime.External},
		{builtin.ExecRun(builtin.ExecOptions{}), `{"argv": ["a"], "effect": "idempotent"}`, runtime.Idempotent},
		{builtin.ExecRun(builtin.ExecOptions{}), `{"argv": ["a"], "effect": "none"}`, runtime.External},
		{builtin.FileRead(builtin.FileOptions{}), `{"path": "a"}`, runtime.ReadOnly},
		{builtin.FileWrite(builtin.FileOptions{}), `{"path": "a", "content": ""}`, runtime.Idempotent},
		{builtin.FileWrite(builtin.FileOptions{}), `{"path": "a", "content": "", "append": true}`, runtime.External},
	} {
		spec := tt.tool.Spec()
		if got := spec.EffectFor(json.RawMessage(tt.args)); got != tt.want {
			t.Errorf("%s(%s): effect %s, want %s", tt.tool.Spec().Name, tt.args, got, tt.want)
		}
	}
}
