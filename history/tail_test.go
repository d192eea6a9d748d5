package history_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// growing is a store whose run grows by some records each time it is read.
type growing struct {
	history.Source
	recs       []checkpoint.Record
	sum        checkpoint.Summary
	step, read int // how many records each time, and how many were given out
	at         int64
	loaded     chan struct{}
}

func (g *growing) Load(_ context.Context, _ string, after int64) (checkpoint.Summary, []checkpoint.Record, error) {
	g.at = min(g.at+int64(g.step), int64(len(g.recs)))
	sum := g.sum
	if sum.Seq = g.at; g.at < int64(len(g.recs)) {
		sum.Status, sum.EndedAt = checkpoint.Running, time.Time{}
	}
	recs := g.recs[min(after, g.at):g.at]
	g.read += len(recs)
	select {
	case g.loaded <- struct{}{}:
	default:
	}
	return sum, recs, nil
}

func (g *growing) Watch(ctx context.Context, changed func(string)) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-g.loaded:
			changed("")
		}
	}
}

// turns answers an agent: so often it calls a tool.
type turns struct{ left int }

func (m *turns) Generate(context.Context, *runtime.Request) (*runtime.Response, error) {
	if m.left--; m.left < 0 {
		return &runtime.Response{Text: "done"}, nil
	}
	args := fmt.Appendf(nil, `{"n":%d}`, m.left)
	return &runtime.Response{ToolCalls: []runtime.ToolCall{{ID: fmt.Sprint(m.left), Name: "x.look", Arguments: args}}}, nil
}

// An agent of 999 turns, which is all that it may have, is followed in as much reading as its journal is long.
func TestTailOfManyTurns(t *testing.T) {
	n := 999
	if testing.Short() {
		n = 100
	}
	r, err := recipe.Parse("look.yaml", fmt.Appendf(nil, `apiVersion: braise/v1
name: look
agents: {looker: {model: m, tools: [x.look], max_steps: %d}}
steps:
  go: {uses: agent, with: {agent: looker, prompt: go}}
  not: {uses: set, when: inputs.on, with: {a: 1}}
  behind: {uses: set, needs: [not], with: {a: "${{ steps.not.output.a }}"}}
inputs: {on: {type: boolean, default: false}}
`, n+1))
	if err != nil {
		t.Fatal(err)
	}
	wf, err := workflow.Compile(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	store := &checkpoint.Memory{}
	look := runtime.NewTool(runtime.ToolSpec{Name: "x.look", Effect: runtime.ReadOnly},
		func(_ context.Context, in struct{ N int }) (int, error) { return in.N, nil })
	out, err := wf.Run(t.Context(), nil, &runtime.Runtime{Store: store, Models: map[string]runtime.Model{"m": &turns{n}}, Tools: []runtime.Tool{look}})
	if err != nil {
		t.Fatal(err)
	}

	g := &growing{Source: store, step: 3, loaded: make(chan struct{}, 1)}
	if g.sum, g.recs, err = store.Load(t.Context(), out.RunID, 0); err != nil {
		t.Fatal(err)
	}
	tail := (&history.Reader{Store: g}).Tail(out.RunID)
	events, messages := 0, 0
	for some, err := range tail.Watch(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		events += len(some)
		if w := tail.Work("go"); w != nil {
			if len(w.Messages) < messages {
				t.Fatalf("%d messages, after %d", len(w.Messages), messages)
			}
			messages = len(w.Messages)
		}
	}
	if g.read != len(g.recs) || events == 0 {
		t.Errorf("%d records were read for %d events of a journal of %d", g.read, events, len(g.recs))
	}
	if want := 2 + 2*n; messages != want {
		t.Errorf("%d messages, want %d", messages, want)
	}
	if w := tail.Work("not"); w != nil {
		t.Errorf("a step without an agent has done %v", w)
	}

	// The same, as it is read in one go.
	steps, err := (&history.Reader{Store: store}).Steps(t.Context(), out.RunID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(steps[0].Work.Messages, tail.Work("go").Messages); diff != "" {
		t.Errorf("(-read +followed):\n%s", diff)
	}
	for _, s := range steps[1:] { // nothing went into what was skipped
		if s.Status != "skipped" || s.Input != nil {
			t.Errorf("%s: %s, input %v", s.Step.Step, s.Status, s.Input)
		}
	}
}
