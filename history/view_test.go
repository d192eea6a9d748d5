package history_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/script"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

// lines describe steps: path, what it uses, status, reason, code, items.
func lines(steps []history.Step) (list []string) {
	for _, s := range steps {
		line := strings.Join([]string{s.Step, s.Uses, s.Status, s.Reason + s.Error.Code}, " ")
		if s.Items != nil {
			text, _ := json.Marshal(s.Items)
			line += " " + string(text)
		}
		list = append(list, strings.TrimSpace(line))
	}
	return list
}

const everything = `inputs: {n: {type: integer, default: 2}}
steps:
  first: {uses: test.echo, with: {n: "${{ inputs.n }}"}}
  double: {uses: set, with: {twice: "${{ steps.first.output.n * 2 }}"}}
  never: {uses: test.echo, when: steps.double.output.twice > 100, with: {}}
  after: {uses: set, needs: [never], with: 1}
  each:
    uses: recipe
    needs: [double]
    foreach: {in: [1, 2, 3], as: x, on_error: collect}
    with:
      steps:
        check: {uses: test.fail, when: x == 2, with: {}}
        done: {uses: set, trigger: none_failed, needs: [check], with: "${{ x }}"}
      output: ${{ steps.done.output }}
  pick:
    uses: switch
    needs: [each]
    with:
      cases:
        - {name: big, when: inputs.n > 10, steps: {a: {uses: set, with: 1}}}
        - {name: small, when: inputs.n > 0, steps: {b: {uses: set, with: 2}}}
  rounds:
    uses: loop
    needs: [pick]
    with:
      steps: {r: {uses: set, with: "${{ iteration }}"}}
      output: ${{ steps.r.output }}
      until: last == 2
      max_iterations: 3
  ask: {uses: human, needs: [rounds], with: {prompt: "Go?"}}
  last:
    uses: recipe
    needs: [ask]
    with: {steps: {z: {uses: test.echo, with: {key: v}}}, output: "${{ steps.z.output }}"}
output: ${{ steps.double.output }}
`

// serve 3: a view has every step of the plan with its status: those that only compute and those that were skipped, each
// round of a loop, what is in a foreach by counts, and bodies that have not begun or are not taken.
func TestView(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &checkpoint.Memory{}
		rt := &runtime.Runtime{Tools: tools, Store: store, Resume: resume.PassThrough{}, By: "ada", NewRunID: func() string { return "r1" }}
		out, err := load(t, everything).Run(t.Context(), nil, rt)
		if out.Status != workflow.StatusPaused {
			t.Fatal(err)
		}
		reader := &history.Reader{Store: store}
		run, err := reader.Load(t.Context(), "r1")
		if err != nil {
			t.Fatal(err)
		}
		paused := []string{
			"first test.echo succeeded",
			"double set succeeded",
			"never test.echo skipped when_false",
			"after set skipped upstream",
			`each recipe succeeded  {"failed":1,"succeeded":2}`,
			`each/check test.fail failed  {"failed":1,"skipped":2}`,
			`each/done set succeeded  {"skipped":1,"succeeded":2}`,
			"pick switch succeeded",
			"pick/big/a set skipped not_taken",
			"pick/small/b set succeeded",
			"rounds loop succeeded",
			"rounds#1/r set succeeded",
			"rounds#2/r set succeeded",
			"ask human waiting",
			"last recipe pending",
			"last/z test.echo pending",
		}
		if diff := cmp.Diff(paused, lines(run.Steps)); diff != "" || run.Diagnostics != nil {
			t.Errorf("steps of a paused run (-want +got): %v\n%s", run.Diagnostics, diff)
		}
		if diff := cmp.Diff(map[string]any{"n": int64(2)}, run.Inputs); diff != "" || run.By != "ada" || run.Output != nil || run.Error.Code != "" {
			t.Errorf("inputs %v by %q, output %v, error %v", run.Inputs, run.By, run.Output, run.Error)
		}

		if out, err = workflow.Resume(t.Context(), out.Token, map[string]any{"decision": "approve"}, rt, nil); err != nil {
			t.Fatal(err)
		}
		run, err = reader.Load(t.Context(), "r1")
		if err != nil {
			t.Fatal(err)
		}
		ended := append(paused[:13:13], "ask human succeeded", "last recipe succeeded", "last/z test.echo succeeded")
		if diff := cmp.Diff(ended, lines(run.Steps)); diff != "" {
			t.Errorf("steps of a run that is ok (-want +got)\n%s", diff)
		}
		if diff := cmp.Diff(out.Output, run.Output); diff != "" || run.Status != history.OK {
			t.Errorf("output (-want +got)\n%s", diff)
		}

		// One step in full, as the outcome has it.
		for id, want := range out.Artefact {
			d, err := reader.Step(t.Context(), "r1", id)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, d.Output); diff != "" {
				t.Errorf("output of %s (-want +got)\n%s", id, diff)
			}
		}
		d, err := reader.Step(t.Context(), "r1", "last/z")
		if diff := cmp.Diff(any(map[string]any{"key": "v"}), d.Input); diff != "" || err != nil {
			t.Errorf("input (-want +got): %v\n%s", err, diff)
		}
		paths, err := reader.Paths(t.Context(), "r1", "test.fail", "loop")
		if diff := cmp.Diff([]string{"each[0]/check", "each[1]/check", "each[2]/check", "rounds"}, paths); diff != "" || err != nil {
			t.Errorf("paths (-want +got): %v\n%s", err, diff)
		}
		if some, err := reader.Steps(t.Context(), "r1", "rounds", "each[1]/check"); err != nil || len(some) != 2 || some[0].Uses != "loop" || some[1].Status != "failed" {
			t.Errorf("some steps: %+v, %v", some, err)
		}
		if _, err := reader.Steps(t.Context(), "r1", "rounds", "gone"); !errors.Is(err, checkpoint.ErrNotFound) {
			t.Errorf("steps that are not known: %v", err)
		}
		all, err := reader.Steps(t.Context(), "r1")
		if err != nil || len(all) != len(run.Steps) {
			t.Fatalf("all steps: %d, %v; want %d", len(all), err, len(run.Steps))
		}
		for i := range all {
			one, err := reader.Step(t.Context(), "r1", run.Steps[i].Step)
			if err != nil {
				t.Fatal(err)
			}
			one.Inside = nil
			if diff := cmp.Diff(one, &all[i]); diff != "" {
				t.Errorf("one of all steps (-alone +listed)\n%s", diff)
			}
		}
		if d, err = reader.Step(t.Context(), "r1", "each[1]"); err != nil || d.Status != "failed" || len(d.Inside) != 2 || d.Inside[0].Step != "each[1]/check" || d.Inside[0].Error.Code != "tool.failed" {
			t.Errorf("an item: %+v, %v", d, err)
		}
		if d, err = reader.Step(t.Context(), "r1", "rounds"); err != nil || strings.Join(lines(d.Inside), ", ") != "rounds#1/r set succeeded, rounds#2/r set succeeded" {
			t.Errorf("a loop: %+v, %v", d, err)
		}
		if d, err = reader.Step(t.Context(), "r1", "pick/big/a"); err != nil || d.Status != "skipped" {
			t.Errorf("a step that is not taken: %+v, %v", d, err)
		}
		if _, err = reader.Step(t.Context(), "r1", "gone"); !errors.Is(err, checkpoint.ErrNotFound) {
			t.Errorf("an unknown step: %v", err)
		}
		for _, tt := range []struct {
			o    *history.ItemsOptions
			want string
		}{
			{nil, "each[0] each[1] each[2]"},
			{&history.ItemsOptions{Limit: 2}, "each[0] each[1]"},
			{&history.ItemsOptions{From: 1, Limit: 1}, "each[1]"},
			{&history.ItemsOptions{Status: "succeeded"}, "each[0] each[2]"},
			{&history.ItemsOptions{From: 3}, ""},
		} {
			list, err := reader.Items(t.Context(), "r1", "each", tt.o)
			var got []string
			for _, s := range list {
				got = append(got, s.Step)
			}
			if strings.Join(got, " ") != tt.want || err != nil {
				t.Errorf("items %+v: %q, %v; want %s", tt.o, got, err, tt.want)
			}
		}
	})
}

// A run that another process executes shows what is under way, with the times of what was before.
func TestViewOfRunAtWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &checkpoint.Memory{}
		began, ends := make(chan bool), make(chan bool)
		hold := runtime.NewTool(runtime.ToolSpec{Name: "test.hold", Effect: runtime.Idempotent}, func(context.Context, struct{}) (string, error) {
			began <- true
			<-ends
			return "held", nil
		})
		nap := runtime.NewTool(runtime.ToolSpec{Name: "test.nap", Effect: runtime.Idempotent}, func(context.Context, struct{}) (string, error) {
			time.Sleep(3 * time.Second)
			return "slept", nil
		})
		wf := load(t, "steps:\n  nap: {uses: test.nap}\n  note: {uses: set, needs: [nap], with: 1}\n"+
			"  box: {uses: recipe, needs: [note], with: {steps: {hold: {uses: test.hold}, then: {uses: set, needs: [hold], with: 1}}}}\n")
		done := make(chan *workflow.Outcome)
		start := time.Now()
		go func() {
			out, _ := wf.Run(t.Context(), nil, &runtime.Runtime{Tools: []runtime.Tool{hold, nap}, Store: store, NewRunID: func() string { return "r1" }})
			done <- out
		}()
		<-began
		run, err := history.Load(t.Context(), store, "r1")
		if err != nil {
			t.Fatal(err)
		}
		want := []string{"nap test.nap succeeded", "note set succeeded", "box recipe running", "box/hold test.hold running", "box/then set pending"}
		if diff := cmp.Diff(want, lines(run.Steps)); diff != "" || run.Status != history.Running {
			t.Errorf("%s (-want +got)\n%s", run.Status, diff)
		}
		if s := run.Steps[0]; !s.StartedAt.Equal(start) || s.EndedAt.Sub(start) != 3*time.Second {
			t.Errorf("nap from %v to %v", s.StartedAt.Sub(start), s.EndedAt.Sub(start))
		}
		if s := run.Steps[3]; s.StartedAt.Sub(start) != 3*time.Second || !s.EndedAt.IsZero() {
			t.Errorf("hold from %v to %v", s.StartedAt.Sub(start), s.EndedAt)
		}
		ends <- true
		<-done
	})
}

// An agent shows what it said, its calls and its children.
func TestViewOfAgent(t *testing.T) {
	wf := load(t, `agents:
  dig: {model: fast, tools: []}
  clerk: {model: fast, tools: [test.echo], delegates: [dig]}
steps:
  ask: {uses: agent, with: {agent: clerk, prompt: Look.}}
`)
	model, err := script.Parse("script.yaml", []byte(`steps:
  ask:
    - tool_calls: [{name: test.echo, args: {n: 1}}, {name: delegate_dig, args: {task: dig}}]
    - {text: done}
  "ask/dig#2": [{text: dug}]
`))
	if err != nil {
		t.Fatal(err)
	}
	store := &checkpoint.Memory{}
	out, err := wf.Run(t.Context(), nil, &runtime.Runtime{Models: map[string]runtime.Model{"fast": model}, Tools: tools, Store: store})
	if err != nil {
		t.Fatal(err)
	}
	d, err := (&history.Reader{Store: store}).Step(t.Context(), out.RunID, "ask")
	if err != nil || d.Work == nil {
		t.Fatal(d, err)
	}
	calls := []history.ToolCall{
		{Call: 1, Step: 1, Tool: "test.echo", Arguments: json.RawMessage(`{"n":1}`), Done: true, Result: `{"n":1}`},
		{Call: 2, Step: 1, Tool: "delegate_dig", Arguments: json.RawMessage(`{"task":"dig"}`), Done: true, Result: "dug"},
	}
	for i := range d.Work.Calls {
		call := &d.Work.Calls[i]
		if call.StartedAt.IsZero() || call.EndedAt.Before(call.StartedAt) {
			t.Errorf("call %d from %v to %v", i+1, call.StartedAt, call.EndedAt)
		}
		call.StartedAt, call.EndedAt = time.Time{}, time.Time{}
	}
	if diff := cmp.Diff(calls, d.Work.Calls); diff != "" {
		t.Errorf("calls (-want +got)\n%s", diff)
	}
	if w := d.Work; w.Agent != "clerk" || w.Stop != "answer" || len(w.Children) != 1 || w.Children[0].Path != "ask/dig#2" || w.Messages[0].Text != "Look." {
		t.Errorf("work %+v", w)
	}
	if in, _ := d.Input.(map[string]any); in["prompt"] != "Look." || d.Usage == nil || d.Usage.Calls != 3 {
		t.Errorf("input %v, usage %+v", d.Input, d.Usage)
	}
}

// other is a store that changes what it has.
type other struct {
	checkpoint.Store
	definition func(json.RawMessage) (json.RawMessage, error)
	record     func(*checkpoint.Record)
	loads      int // of whole journals
}

func (s *other) Definition(ctx context.Context, digest string) (json.RawMessage, error) {
	text, err := s.Store.Definition(ctx, digest)
	if err == nil && s.definition != nil {
		return s.definition(text)
	}
	return text, err
}

func (s *other) Load(ctx context.Context, runID string, after int64) (checkpoint.Summary, []checkpoint.Record, error) {
	sum, recs, err := s.Store.Load(ctx, runID, after)
	if after != math.MaxInt64 {
		s.loads++
	}
	for i := range recs {
		if s.record != nil {
			s.record(&recs[i])
		}
	}
	return sum, recs, err
}

// A recipe that this version refuses, a damaged definition or record: the view has the steps with records, the events,
// and the reason.
func TestViewWithoutReplay(t *testing.T) {
	store := &checkpoint.Memory{}
	begin(t, store)
	want := past(t, store).Events
	for _, tt := range []struct {
		name  string
		store *other
		found string // in the diagnostics
	}{
		{"a recipe that is refused", &other{definition: func(text json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(strings.Replace(string(text), "uses: human", "uses: hunam", 1)), nil
		}}, "hunam"},
		{"a damaged definition", &other{definition: func(json.RawMessage) (json.RawMessage, error) { return json.RawMessage(`{"format":1`), nil }}, "damaged"},
		{"a later definition", &other{definition: func(text json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(strings.Replace(string(text), `"format":1`, `"format":9`, 1)), nil
		}}, "9"},
		{"no definition", &other{definition: func(json.RawMessage) (json.RawMessage, error) { return nil, checkpoint.ErrNotFound }}, "not in the store"},
		{"another recipe", &other{definition: func(text json.RawMessage) (json.RawMessage, error) {
			return json.RawMessage(strings.Replace(string(text), "first:", "fürst:", 1)), nil
		}}, ""},
		{"a damaged record", &other{record: func(rec *checkpoint.Record) {
			if rec.Kind == "call.ended" {
				rec.Data = json.RawMessage(`[]`)
			}
		}}, "damaged"},
		{"a record in a wrong place", &other{record: func(rec *checkpoint.Record) {
			if rec.Kind == "call.ended" {
				rec.Path = "elsewhere"
			}
		}}, "elsewhere"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.store.Store = store
			reader := &history.Reader{Store: tt.store}
			run, err := reader.Load(t.Context(), "r1")
			if err != nil {
				t.Fatal(err)
			}
			if len(run.Diagnostics) == 0 || run.Diagnostics[0].Code != "history.partial" || !strings.Contains(fmt.Sprint(run.Diagnostics), tt.found) {
				t.Errorf("found %v, want %s", run.Diagnostics, tt.found)
			}
			if run.Status != history.Paused || len(run.Pauses) != 1 || len(run.Events) < len(want)-1 {
				t.Errorf("%s, %d pauses, %d events", run.Status, len(run.Pauses), len(run.Events))
			}
			if d, err := reader.Step(t.Context(), "r1", "ask"); err != nil || d.Status != "waiting" {
				t.Errorf("ask: %+v, %v", d, err)
			}
			if list, err := reader.Items(t.Context(), "r1", "ask", nil); !errors.Is(err, checkpoint.ErrNotFound) {
				t.Errorf("items: %v, %v", list, err)
			}
		})
	}
}

// A Reader reads a journal again when it has grown, and may be used from many goroutines.
func TestReaderKeeps(t *testing.T) {
	inner := &checkpoint.Memory{}
	out := begin(t, inner)
	store := &other{Store: inner}
	reader := &history.Reader{Store: store}
	load := func() *history.Run {
		t.Helper()
		run, err := reader.Load(t.Context(), "r1")
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	if first := load(); load() != first || store.loads != 1 {
		t.Errorf("the journal was read %d times", store.loads)
	}
	answer(t, inner, out)
	if run := load(); run.Status != history.Failed || store.loads != 2 || run.Error.Code != "tool.failed" || run.Error.Step != "bad" {
		t.Errorf("%s, read %d times, %+v", run.Status, store.loads, run.Error)
	}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for _, path := range []string{"first", "ask", "bad"} {
				if _, err := reader.Step(t.Context(), "r1", path); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if err := inner.Delete(t.Context(), "r1"); err != nil {
		t.Fatal(err)
	}
	if _, err := reader.Load(t.Context(), "r1"); !errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("a run that is gone: %v", err)
	}
}

// BenchmarkReader reads runs of many model steps, the recipe compiled before, and for the first time.
func BenchmarkReader(b *testing.B) {
	for _, n := range []int{200, 2000} {
		text := &strings.Builder{}
		text.WriteString("steps:\n")
		for i := range n {
			fmt.Fprintf(text, "  s%d: {uses: model, with: {model: m, prompt: \"Say %d\"}}\n", i, i)
		}
		store := &checkpoint.Memory{}
		model := &runtimetest.Model{Func: func(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
			return &runtime.Response{Text: strings.Repeat(req.Messages[0].Text, 10), Finish: "stop"}, nil
		}}
		out, err := load(b, text.String()).Run(b.Context(), nil, &runtime.Runtime{Models: map[string]runtime.Model{"m": model}, Store: store})
		if err != nil {
			b.Fatal(err)
		}
		for _, name := range []string{"first", "again"} {
			b.Run(fmt.Sprintf("steps=%d/%s", n, name), func(b *testing.B) {
				changing := &renewed{Store: store}
				reader := &history.Reader{Store: changing}
				for b.Loop() {
					if name == "first" {
						reader = &history.Reader{Store: changing}
					}
					changing.n++ // as if the run had begun at another time: nothing is kept but the recipe
					run, err := reader.Load(b.Context(), out.RunID)
					if err != nil || len(run.Steps) != n || run.Diagnostics != nil {
						b.Fatal(err, len(run.Steps), run.Diagnostics)
					}
				}
			})
		}
	}
}

// renewed is a store whose runs always differ.
type renewed struct {
	checkpoint.Store
	n int
}

func (s *renewed) Load(ctx context.Context, runID string, after int64) (checkpoint.Summary, []checkpoint.Record, error) {
	sum, recs, err := s.Store.Load(ctx, runID, after)
	sum.StartedAt = sum.StartedAt.Add(time.Duration(s.n))
	return sum, recs, err
}

// A queued run has done nothing; an interrupted one stands where its journal ends; a fork shows what it shares.
func TestViewOfOtherRuns(t *testing.T) {
	wf := load(t, "steps:\n  calc: {uses: set, with: 1}\n  first: {uses: test.echo, needs: [calc], with: {n: 1}}\n"+
		"  ask: {uses: human, needs: [first], with: {prompt: \"Go?\"}}\n")
	store := &checkpoint.Memory{}
	rt := &runtime.Runtime{Tools: tools, Store: store, Resume: resume.PassThrough{}}
	queued, err := wf.Enqueue(t.Context(), nil, rt, &workflow.EnqueueOptions{Queue: "default", By: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	out, err := wf.Run(t.Context(), nil, rt)
	if err != nil {
		t.Fatal(err)
	}
	fork, err := workflow.Fork(t.Context(), out.RunID, "ask", workflow.Edits{}, rt, nil)
	if err != nil {
		t.Fatal(err)
	}
	cancelled, err := workflow.Fork(t.Context(), out.RunID, "first", workflow.Edits{}, rt, nil)
	if err != nil {
		t.Fatal(err)
	}
	if out, _ := workflow.Cancel(t.Context(), cancelled.RunID, "", rt, nil); out.Status != workflow.StatusCancelled {
		t.Fatal(out.Err)
	}
	for _, tt := range []struct {
		runID  string
		status history.Status
		want   string
	}{
		{queued, history.Queued, "calc set pending, first test.echo pending, ask human pending"},
		{out.RunID, history.Paused, "calc set succeeded, first test.echo succeeded, ask human waiting"},
		{fork.RunID, history.Paused, "calc set succeeded, first test.echo succeeded, ask human waiting"},
		{cancelled.RunID, history.Cancelled, "calc set succeeded, first test.echo succeeded, ask human cancelled"},
	} {
		run, err := history.Load(t.Context(), store, tt.runID)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(lines(run.Steps), ", "); got != tt.want || run.Status != tt.status || run.Diagnostics != nil {
			t.Errorf("%s: %s %v, want %s", run.Status, got, run.Diagnostics, tt.want)
		}
	}
}
