package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/braise-run/braise/adapters/builtin"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/files"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

// looker is a model that takes files, and tells what it is shown.
type looker struct {
	answers []any // of its calls: a text, a response or an error
	shown   []string
	before  func(call int) // each answer, from 1
}

func (m *looker) Metadata() runtime.Metadata {
	return runtime.Metadata{Options: []string{"files"}, Retry: &retry.Metadata{Policy: retry.Policy{MaxAttempts: 3}}}
}

func (m *looker) Generate(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
	var files []string
	for _, f := range req.Messages[0].Files {
		files = append(files, f.MediaType+" "+f.URL)
	}
	m.shown = append(m.shown, strings.Join(files, ", "))
	answer := m.answers[len(m.shown)-1]
	if m.before != nil {
		m.before(len(m.shown))
	}
	if err, ok := answer.(error); ok {
		return nil, err
	}
	if resp, ok := answer.(*runtime.Response); ok {
		return resp, nil
	}
	return &runtime.Response{Text: answer.(string), Finish: runtime.FinishStop}, nil
}

// looks are recipes that show a file, by the kind of their step.
var looks = map[string]string{
	"model": runtest.Head + `steps:
  look: {uses: model, retry: {max_attempts: 3}, with: {model: m, prompt: What is it?, images: [a.txt]}, output: {schema: {type: object}}}
output: ${{ steps.look.output }}
`,
	"agent": runtest.Head + `agents: {a: {model: m, tools: []}}
steps:
  look: {uses: agent, retry: {max_attempts: 3}, with: {agent: a, prompt: What is it?, images: [a.txt]}, output: {schema: {type: object}}}
output: ${{ steps.look.output }}
`,
}

func baseWith(t *testing.T, content string) (file string, files runtime.Files) {
	t.Helper()
	dir := t.TempDir()
	file = filepath.Join(dir, "a.txt")
	write(t, file, content)
	return file, builtin.Files(builtin.FileOptions{Base: dir})
}

func write(t *testing.T, file, content string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Error(err)
	}
}

const hi = "text/plain data:text/plain;base64,aGk="

// Attempts, repairs and other models see the file as it was when the step began, with a store and without one.
func TestLocalFilesStayTheSame(t *testing.T) {
	down := &retry.Failure{Reason: retry.Network, Err: errors.New("down")}
	for _, tt := range []struct {
		name    string
		answers []any
	}{{"an attempt", []any{down, "{}"}}, {"a repair", []any{"no JSON", "{}"}}, {"another model", []any{down, down, down, "{}"}}} {
		for i := range 4 {
			kind, stored := []string{"model", "agent"}[i/2], i%2 == 1
			t.Run(fmt.Sprint(kind, " ", tt.name, " ", stored), func(t *testing.T) {
				file, files := baseWith(t, "hi")
				m := &looker{answers: tt.answers}
				m.before = func(call int) {
					if call == len(tt.answers)-1 {
						write(t, file, "ho")
					}
				}
				rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": m, "n": m}, Files: files,
					Fallbacks: map[string][]string{"m": {"n"}}}
				if stored {
					rt.Store = new(checkpoint.Memory)
				}
				if _, err := runtest.Load(t, []byte(looks[kind])).Run(t.Context(), nil, rt); err != nil {
					t.Error(err)
				}
				if len(m.shown) != len(tt.answers) || m.shown[len(m.shown)-1] != hi {
					t.Errorf("shown %q", m.shown)
				}
			})
		}
	}
}

// A run whose process died while it asked a model goes on with what is in the store, whatever has become of the file. If
// the store does not have it, as of a run of an earlier version, the file must be the same, or the step fails. A fork
// that runs the step again reads the file as it is.
func TestLocalFilesAfterRecovery(t *testing.T) {
	for i, want := range []string{"", "", "", "file.changed", "file.unreadable", "file.changed"} {
		for _, kind := range []string{"model", "agent"} {
			lost, becomes := i >= 2, []string{"", "ho", "", "ho", "gone", ""}[i]
			damaged := i == 5
			t.Run(fmt.Sprint(kind, i), func(t *testing.T) {
				recovers(t, kind, becomes, lost, damaged, want)
			})
		}
	}
}

func recovers(t *testing.T, kind, becomes string, lost, damaged bool, code string) {
	file, base := baseWith(t, "hi")
	ctx, cancel := context.WithCancel(t.Context())
	m := &looker{answers: []any{context.Canceled, "{}", `{"a": 1}`}, before: func(int) { cancel() }}
	store := new(checkpoint.Memory)
	rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": m}, Files: base, Store: store, Resume: resume.PassThrough{}}
	wf := runtest.Load(t, []byte(looks[kind]))
	out, err := wf.Run(ctx, nil, rt)
	if out.Status != workflow.StatusCancelled {
		t.Fatalf("got %v, %v", out.Status, err)
	}
	_, recs, err := store.Load(t.Context(), out.RunID, 0)
	if err != nil {
		t.Fatal(err)
	}
	var kept []string
	for _, rec := range recs {
		if rec.Kind == "call.files" {
			kept = append(kept, rec.Path+" "+string(rec.Data))
		}
		if strings.Contains(string(rec.Data), "aGk=") {
			t.Errorf("the journal has the file: %s", rec.Data)
		}
	}
	// printf hi | sha256sum
	sum := "8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4"
	want := `look {"files":[{"bytes":2,"mediaType":"text/plain","path":"a.txt","sha256":"` + sum + `"}],"n":`
	if len(kept) != 1 || !strings.HasPrefix(kept[0], want) {
		t.Errorf("got %q", kept)
	}
	if content, err := files.Get(t.Context(), store, sum); err != nil || string(content) != "hi" {
		t.Errorf("the store has %q, %v", content, err)
	}
	place, err := store.Collections(t.Context(), "content/"+sum)
	switch {
	case err != nil || len(place) != 1:
		t.Fatalf("it is kept %d times, %v", len(place), err)
	case damaged:
		err = store.PutDocument(t.Context(), place[0], checkpoint.Document{Name: "data", Text: "aG8="})
	case lost:
		err = store.DeleteDocuments(t.Context(), "files/"+sum)
	}
	if err != nil {
		t.Fatal(err)
	}
	seen := hi
	switch becomes {
	case "ho":
		seen = "text/plain data:text/plain;base64,aG8="
		write(t, file, becomes)
	case "gone":
		if err := os.Rename(file, file+"2"); err != nil {
			t.Fatal(err)
		}
	}
	again, err := wf.Recover(t.Context(), out.RunID, rt)
	if e, failed := errors.AsType[*runtime.Error](err); failed != (code != "") || failed && e.Code != code {
		t.Errorf("got %v", err)
	}
	if (code == "") != (again.Status == workflow.StatusOK) || code == "" && m.shown[1] != hi {
		t.Errorf("got %v, shown %q", again.Status, m.shown)
	}
	if becomes == "gone" {
		return
	}
	forked, err := workflow.Fork(t.Context(), out.RunID, "look", workflow.Edits{}, rt, nil)
	if err != nil || forked.Status != workflow.StatusOK {
		t.Errorf("the fork: %v", err)
	}
	if got := m.shown[len(m.shown)-1]; got != seen {
		t.Errorf("the fork was shown %s", got)
	}
}

// A file has at most 20 MiB, and the files of a call 50 MiB together.
func TestLocalFilesOfOneCallAreBounded(t *testing.T) {
	file, files := baseWith(t, "")
	write(t, file, strings.Repeat("a", runtime.MaxFileBytes+1))
	m := &looker{answers: []any{"{}"}}
	for kind, text := range looks {
		_, err := runtest.Load(t, []byte(text)).Run(t.Context(), nil, &runtime.Runtime{Models: map[string]runtime.Model{"m": m}, Files: files})
		if e, ok := errors.AsType[*runtime.Error](err); !ok || e.Code != "file.unreadable" || !strings.HasSuffix(err.Error(), "larger than 20971520 bytes") {
			t.Errorf("%s: got %v", kind, err)
		}
	}
}

func TestLocalFilesOfOneCallAreBoundedTogether(t *testing.T) {
	file, files := baseWith(t, "")
	write(t, file, strings.Repeat("a", runtime.MaxFileBytes))
	m := &looker{answers: []any{"{}"}}
	text := strings.Replace(looks["model"], "images: [a.txt]", "images: [a.txt, a.txt, a.txt]", 1)
	_, err := runtest.Load(t, []byte(text)).Run(t.Context(), nil, &runtime.Runtime{Models: map[string]runtime.Model{"m": m}, Files: files})
	if e, ok := errors.AsType[*runtime.Error](err); !ok || e.Code != "file.unreadable" ||
		!strings.HasSuffix(err.Error(), `with the file "a.txt", the files of the call have more than 52428800 bytes together`) {
		t.Errorf("got %v", err)
	}
}

// reader is a model that takes texts and PNGs.
type reader struct{ looker }

func (*reader) Metadata() runtime.Metadata {
	return runtime.Metadata{Options: []string{"files", "text/*", "image/png"}}
}

// A file of a type that the model does not take is not sent. If the recipe names it, the finding comes before the run.
func TestFilesOfATypeThatNoModelTakes(t *testing.T) {
	for _, tt := range []struct {
		name, file, content string // below the base folder, if there is content
		want                string // "": it is sent
		before              bool
	}{
		{"a text", "a.txt", "hi", "", false},
		{"a data URL", "data:image/png;base64,iVBORw0KGgo=", "", "", false},
		{"an https URL", "https://example.com/picture", "", "", false},
		{"another picture", "a.txt", "GIF89a", "files of the type image/gif", false},
		{"another data URL", "data:image/gif;base64,R0lGODlh", "", "files of the type image/gif", true},
		{"another https URL", "https://example.com/a.pdf", "", "files of the type application/pdf", true},
	} {
		for kind, text := range looks {
			t.Run(kind+" "+tt.name, func(t *testing.T) {
				_, files := baseWith(t, tt.content)
				m := &reader{looker{answers: []any{"{}"}}}
				text := strings.Replace(text, "[a.txt]", `["`+tt.file+`"]`, 1)
				out, err := runtest.Load(t, []byte(text)).Run(t.Context(), nil,
					&runtime.Runtime{Models: map[string]runtime.Model{"m": m}, Files: files})
				e, failed := errors.AsType[*runtime.Error](err)
				if failed != (tt.want != "") || failed && (e.Code != "model.option" || !strings.HasSuffix(err.Error(), `model "m" does not take `+tt.want)) {
					t.Errorf("got %v", err)
				}
				if failed != (len(m.shown) == 0) {
					t.Errorf("asked %q", m.shown)
				}
				warned := slices.ContainsFunc(out.Diagnostics, func(d diagnostics.Diagnostic) bool {
					return d.Code == diagnostics.CodeModelOption && d.Position.Line > 0 &&
						d.Message == `model "m" does not take `+tt.want+`; step "look" gives it`
				})
				if warned != tt.before {
					t.Errorf("warned before: %v", out.Diagnostics)
				}
			})
		}
	}
}

// blind is a model that takes no files.
type blind struct{ looker }

func (*blind) Metadata() runtime.Metadata { return runtime.Metadata{} }

// Files are not sent to models that take none: neither to an agent's own, nor to that of one that takes over, nor to one
// that answers instead.
func TestFilesForNoModelThatTakesNone(t *testing.T) {
	handOff := &runtime.Response{ToolCalls: []runtime.ToolCall{{Name: "handoff_b", Arguments: []byte("{}")}}, Finish: runtime.FinishCalls}
	down := &retry.Failure{Reason: retry.Network, Err: errors.New("down")}
	for _, tt := range []struct {
		name, agent string
		answers     []any // of the model that takes files
		code        string
	}{
		{"its own", "b", nil, "model.option"},
		{"the next agent's", "a", []any{handOff}, "model.option"},
		{"one that answers instead", "a", []any{down}, "model.failed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, files := baseWith(t, "hi")
			sees, no := &looker{answers: tt.answers}, &blind{}
			rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": sees, "n": no}, Files: files,
				Fallbacks: map[string][]string{"m": {"n"}}}
			out, err := runtest.Load(t, []byte(runtest.Head+`defaults: {retry: {model: {max_attempts: 1}}}
agents: {a: {model: m, tools: [], handoffs: [b]}, b: {model: n, tools: []}}
steps:
  look: {uses: agent, with: {agent: `+tt.agent+`, prompt: What is it?, images: [a.txt]}}
`)).Run(t.Context(), nil, rt)
			if e, ok := errors.AsType[*runtime.Error](err); !ok || e.Code != tt.code {
				t.Errorf("got %v", err)
			}
			warned := slices.ContainsFunc(out.Diagnostics, func(d diagnostics.Diagnostic) bool {
				return d.Code == diagnostics.CodeModelOption && d.Step == "look"
			})
			if want := tt.agent == "b"; warned != want {
				t.Errorf("warned before: %v, want %v", warned, want)
			}
			if len(no.shown) > 0 || len(sees.shown) != len(tt.answers) {
				t.Errorf("asked %q and %q", sees.shown, no.shown)
			}
		})
	}
}

// held is a folder whose files take until the call is stopped.
type held struct {
	runtime.Files
	begun func()
}

func (h held) Read(ctx context.Context, _ string, _ int64) ([]byte, error) {
	h.begun()
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

// A run that is cancelled while it looks at files has not asked a model, and recovers.
func TestCancelledBeforeFilesAreKnown(t *testing.T) {
	for kind, text := range looks {
		_, files := baseWith(t, "hi")
		ctx, cancel := context.WithCancel(t.Context())
		m := &looker{answers: []any{"{}"}}
		rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": m}, Files: held{files, cancel}, Store: new(checkpoint.Memory),
			Resume: resume.PassThrough{}}
		wf := runtest.Load(t, []byte(text))
		out, err := wf.Run(ctx, nil, rt)
		if out.Status != workflow.StatusCancelled || len(m.shown) > 0 {
			t.Fatalf("%s: got %v, %v, asked %q", kind, out.Status, err, m.shown)
		}
		rt.Files = files
		if out, err = wf.Recover(t.Context(), out.RunID, rt); out.Status != workflow.StatusOK || len(m.shown) != 1 {
			t.Errorf("%s: got %v, %v, asked %q", kind, out.Status, err, m.shown)
		}
	}
}

// The loser of a race that looks at files is stopped.
func TestRaceEndsALookAtFiles(t *testing.T) {
	_, files := baseWith(t, "hi")
	m := &looker{answers: []any{"first"}}
	begun := make(chan struct{}, 2)
	rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": m}, Files: held{files, func() { begun <- struct{}{} }},
		Tools: []runtime.Tool{runtimetest.NewTool("t.wait", func(context.Context, json.RawMessage) (any, error) {
			<-begun
			<-begun
			return 1, nil
		})}}
	out, err := runtest.Load(t, []byte(runtest.Head+`agents: {a: {model: m, tools: []}}
steps:
  race:
    uses: fork
    with:
      mode: race
      branches:
        model: {steps: {look: {uses: model, with: {model: m, prompt: Hi, images: [a.txt]}}}}
        agent: {steps: {look: {uses: agent, with: {agent: a, prompt: Hi, images: [a.txt]}}}}
        tool: {steps: {wait: {uses: t.wait}}}
output: ${{ steps.race.output.winner }}
`)).Run(t.Context(), nil, rt)
	if err != nil || out.Output != "tool" || len(m.shown) > 0 {
		t.Errorf("got %v, %v, asked %q", out.Output, err, m.shown)
	}
}

// A folder that panics fails the step, and no model is asked.
func TestFolderPanics(t *testing.T) {
	for kind, who := range map[string]string{"model": `model "m"`, "agent": "the files of an agent"} {
		m := &looker{}
		rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": m}, Files: held{begun: func() { panic("boo") }}}
		_, err := runtest.Load(t, []byte(looks[kind])).Run(t.Context(), nil, rt)
		if e, ok := errors.AsType[*runtime.Error](err); !ok || e.Code != "step.panic" || !strings.Contains(err.Error(), "panic in "+who+": boo") {
			t.Errorf("%s: got %v", kind, err)
		}
		if len(m.shown) > 0 {
			t.Errorf("%s: asked %q", kind, m.shown)
		}
	}
}
