package workflow_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/files"
	"github.com/braise-run/braise/checkpoint/sqlite"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

// painter is a model that is shown what tools return.
type painter struct {
	takes   []string
	answers []*runtime.Response
	shown   [][]string // of each call, the results with the files that go with them
}

func (m *painter) Metadata() runtime.Metadata { return runtime.Metadata{Options: m.takes} }

func (m *painter) Generate(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
	var shown []string
	for _, msg := range req.Messages {
		if msg.Role != runtime.ToolRole {
			continue
		}
		text := msg.Text
		for _, f := range msg.Files {
			text += fmt.Sprintf(" (%s %.40s %s%d)", f.MediaType, f.URL, f.SHA256, f.Bytes)
		}
		shown = append(shown, text)
	}
	m.shown = append(m.shown, shown)
	resp := m.answers[0]
	m.answers = m.answers[1:]
	return resp, nil
}

func callsTool(name, args string) *runtime.Response {
	return &runtime.Response{ToolCalls: []runtime.ToolCall{{ID: name, Name: name, Arguments: json.RawMessage(args)}},
		Finish: runtime.FinishCalls}
}

func gives(text string) *runtime.Response {
	return &runtime.Response{Text: text, Finish: runtime.FinishStop}
}

// shooter returns a tool that returns blocks, as MCP has them.
func shooter(blocks ...any) runtime.Tool {
	return runtimetest.NewTool("t.shot", func(context.Context, json.RawMessage) (any, error) {
		if len(blocks) == 1 {
			return blocks[0], nil
		}
		return blocks, nil
	})
}

func picture(data string) map[string]any {
	return map[string]any{"type": "image", "mimeType": "image/png", "data": base64.StdEncoding.EncodeToString([]byte(data))}
}

const shoots = runtest.Head + `agents: {a: {model: m, tools: [t.shot, human.ask]}}
steps:
  look: {uses: agent, with: {agent: a, prompt: Look.}}
output: ${{ steps.look.output.text }}
`

// A picture that a tool returns is a part of what the model is shown: a text that names it, and the picture.
func TestPicturesOfTools(t *testing.T) {
	const png, gif = "\x89PNG\r\n\x1a\n", "GIF89a"
	large := png + strings.Repeat("x", 3<<20)
	all := []string{"files", "image/*"}
	for _, tt := range []struct {
		name   string
		takes  []string
		blocks []any
		times  int
		want   []string // of the last call
	}{
		{"one", all, []any{picture(png)}, 1, []string{"[image/png, 8 bytes] (image/png data:image/png;base64,iVBORw0KGgo= 0)"}},
		{"by what it is", all, []any{picture(gif)}, 1, []string{"[image/png, 6 bytes] (image/gif data:image/gif;base64,R0lGODlh 0)"}},
		{"several", all, []any{"Before.", picture(png), "Between.", picture(gif)}, 1, []string{
			`["Before.","[image/png, 8 bytes]","Between.","[image/png, 6 bytes]"] (image/png data:image/png;base64,iVBORw0KGgo= 0) (image/gif data:image/gif;base64,R0lGODlh 0)`}},
		{"a resource", all, []any{map[string]any{"type": "resource", "resource": map[string]any{"uri": "file:///a.png", "blob": "iVBORw0KGgo="}}}, 1,
			[]string{"[file:///a.png, data, 8 bytes] (image/png data:image/png;base64,iVBORw0KGgo= 0)"}},
		{"none", all, []any{picture("no picture")}, 1, []string{"[image/png, 10 bytes]"}},
		{"no base64", all, []any{map[string]any{"type": "image", "mimeType": "image/png", "data": "~"}}, 1, []string{"[image/png, 0 bytes]"}},
		{"a model without files", []string{"tool_choice"}, []any{picture(png)}, 1, []string{
			"[image/png, 8 bytes]\n[not shown: the model does not take files of the type image/png]"}},
		{"a model without pictures", []string{"files", "text/*"}, []any{picture(png)}, 1, []string{
			"[image/png, 8 bytes]\n[not shown: the model does not take files of the type image/png]"}},
		{"too many", all, []any{picture(large)}, 7, append(manyTimes("[image/png, 3.0 MiB] (image/png data:image/png;base64,iVBORw0KGgp4eHh4eH 0)", 6),
			"[image/png, 3.0 MiB]\n[not shown: the pictures of all results would have more than 20.0 MiB]")},
	} {
		for _, stored := range []bool{false, true} {
			t.Run(fmt.Sprint(tt.name, " ", stored), func(t *testing.T) {
				m := &painter{takes: tt.takes}
				for i := range tt.times {
					m.answers = append(m.answers, callsTool("t.shot", fmt.Sprintf(`{"n":%d}`, i)))
				}
				m.answers = append(m.answers, gives("Nice."))
				rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": m}, Tools: []runtime.Tool{shooter(tt.blocks...)},
					Limits: runtime.Limits{MaxOutputBytes: 8 << 20}}
				if stored {
					rt.Store = new(checkpoint.Memory)
				}
				out, err := runtest.Load(t, []byte(shoots)).Run(t.Context(), nil, rt)
				if err != nil || out.Output != "Nice." {
					t.Fatalf("%v, %v", out.Output, err)
				}
				if diff := cmp.Diff(tt.want, m.shown[tt.times]); diff != "" {
					t.Errorf("(-want +got)\n%s", diff)
				}
				for i, shown := range m.shown[1:] { // requests begin alike
					if diff := cmp.Diff(m.shown[tt.times][:i+1], shown); diff != "" {
						t.Errorf("call %d (-want +got)\n%s", i+2, diff)
					}
				}
			})
		}
	}
}

func manyTimes(text string, n int) (list []string) {
	for range n {
		list = append(list, text)
	}
	return list
}

// A run goes on in another process with the pictures that its tools returned: they are in the store, once, and not in
// the journal. A fork has them, too.
func TestPicturesOfToolsAfterAPause(t *testing.T) {
	data := "\x89PNG\r\n\x1a\n" + strings.Repeat("x", 2<<20)
	file := filepath.Join(t.TempDir(), "runs.db")
	open := func() *sqlite.Store {
		t.Helper()
		store, err := sqlite.Open(t.Context(), file, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		return store
	}
	wf := runtest.Load(t, []byte(shoots))
	begin := func(store checkpoint.Store, answers ...*runtime.Response) (*painter, *runtime.Runtime) {
		m := &painter{takes: []string{"files"}, answers: answers}
		return m, &runtime.Runtime{Models: map[string]runtime.Model{"m": m}, Tools: []runtime.Tool{shooter(picture(data))}, Store: store,
			Resume: resume.PassThrough{}}
	}
	first := open()
	_, rt := begin(first, callsTool("t.shot", `{}`), callsTool("t.shot", `{"n":1}`), callsTool("human.ask", `{"question":"Good?"}`))
	out, err := wf.Run(t.Context(), nil, rt)
	if err != nil || out.Status != workflow.StatusPaused {
		t.Fatalf("%v, %v", out.Status, err)
	}
	sum := files.Sum([]byte(data))
	_, recs, err := first.Load(t.Context(), out.RunID, 0)
	if err != nil {
		t.Fatal(err)
	}
	bytes, named := 0, 0
	for _, rec := range recs {
		bytes += len(rec.Data)
		named += strings.Count(string(rec.Data), `"files":[{"bytes":2097160,"media_type":"image/png","sha256":"`+sum+`","url":"t.shot-1.png"}]`)
	}
	if bytes > 10_000 || named != 2 {
		t.Errorf("the journal has %d bytes, and names the picture %d times", bytes, named)
	}
	if places, err := first.Collections(t.Context(), "content/"); err != nil || len(places) != 1 {
		t.Errorf("the picture is kept %d times, %v", len(places), err)
	}
	first.Close()

	store := open()
	_, rt = begin(store, gives("It is."))
	forked, err := workflow.Fork(t.Context(), out.RunID, "look", workflow.Edits{}, rt, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{out.RunID, forked.RunID} {
		if _, ok, err := store.Document(t.Context(), "files/"+sum, "run "+id); !ok || err != nil {
			t.Errorf("run %s has not the picture, %v", id, err)
		}
	}
	want := manyTimes("[image/png, 2.0 MiB] (image/png data:image/png;base64,iVBORw0KGgp4eHh4eH 0)", 2)
	m, rt := begin(open(), gives("It is."))
	again, err := workflow.Resume(t.Context(), out.Token, map[string]any{"answer": "yes"}, rt, nil)
	if err != nil || again.Output != "It is." {
		t.Fatalf("%v, %v", again.Output, err)
	}
	if diff := cmp.Diff(want, m.shown[0][:2]); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestPicturesOfToolsThatAreGone(t *testing.T) {
	store := new(checkpoint.Memory)
	data := "\x89PNG\r\n\x1a\n"
	m := &painter{takes: []string{"files"}, answers: []*runtime.Response{callsTool("t.shot", `{}`), callsTool("human.ask", `{"question":"Good?"}`)}}
	rt := &runtime.Runtime{Models: map[string]runtime.Model{"m": m}, Tools: []runtime.Tool{shooter(picture(data))}, Store: store,
		Resume: resume.PassThrough{}}
	wf := runtest.Load(t, []byte(shoots))
	out, err := wf.Run(t.Context(), nil, rt)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.DeleteDocuments(t.Context(), "files/"+files.Sum([]byte(data))); err != nil {
		t.Fatal(err)
	}
	_, err = workflow.Resume(t.Context(), out.Token, map[string]any{"answer": "yes"}, rt, nil)
	// printf '\x89PNG\r\n\x1a\n' | sha256sum
	const want = `the store no longer has the file "t.shot-1.png" that a tool returned, with the SHA-256 ` +
		"4c4b6a3be1314ab86138bef4314dde022e600960d8689a2c8f8631802d20dab6"
	if e, ok := errors.AsType[*runtime.Error](err); !ok || e.Code != "file.gone" || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v", err)
	}
}
