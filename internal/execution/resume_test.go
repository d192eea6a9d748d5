package execution_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/jsonl"
	"github.com/braise-run/braise/checkpoint/sqlite"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

const asking = runtest.Head + `steps:
  ask: {uses: human, with: {prompt: Send it, decisions: [yes_please, no_thanks], form: {type: object, properties: {to: {type: string, maxLength: 3}}}}}
  send: {uses: test.act, needs: [ask], with: {n: "${{ steps.ask.output.form.to }}"}}
output: ${{ steps.send.output }}
`

// refusing is a resume adapter that says no.
type refusing struct{}

func (refusing) Resolve(context.Context, resume.Request) (any, error) {
	return nil, errors.New("it is not you")
}

func TestResumeRefusals(t *testing.T) {
	good := map[string]any{"decision": "yes_please", "form": map[string]any{"to": "Ada"}}
	for _, tt := range []struct {
		name   string
		adapt  func(rt *runtime.Runtime)
		token  func(token string) string
		input  any
		code   string
		usable bool // the token, afterwards
	}{
		{"no adapter", func(rt *runtime.Runtime) { rt.Resume = nil }, nil, good, "resume.noAdapter", true},
		{"an adapter that refuses", func(rt *runtime.Runtime) { rt.Resume = refusing{} }, nil, good, "resume.refused", true},
		{"no decision", nil, nil, map[string]any{"form": map[string]any{}}, "answer.unfit", true},
		{"an unknown decision", nil, nil, map[string]any{"decision": "maybe"}, "answer.unfit", true},
		{"a form that does not fit", nil, nil, map[string]any{"decision": "yes_please", "form": map[string]any{"to": "Ada Lovelace"}}, "answer.unfit", true},
		{"nothing", nil, nil, nil, "answer.unfit", true},
		{"an answer that is no JSON", nil, nil, func() {}, "answer.unfit", true},
		{"a truncated token", nil, func(s string) string { return s[:len(s)-1] }, good, "resume.invalidToken", true},
		{"a forged token", nil, func(s string) string {
			return s[:len(s)-1] + map[bool]string{true: "A", false: "B"}[s[len(s)-1] == 'B']
		}, good, "resume.invalidToken", true},
		{"a token of another run", nil, func(s string) string { return "other" + s[strings.Index(s, "."):] }, good, "resume.invalidToken", true},
		{"no token", nil, func(string) string { return "" }, good, "resume.invalidToken", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			log := &runtest.Effects{}
			rt := &runtime.Runtime{Tools: []runtime.Tool{log.External("test.act")}, Resume: resume.PassThrough{}, Store: &checkpoint.Memory{}}
			out, err := runtest.Load(t, []byte(asking)).Run(t.Context(), nil, rt)
			if err != nil {
				t.Fatal(err)
			}
			with, token := *rt, out.Token
			if tt.adapt != nil {
				tt.adapt(&with)
			}
			if tt.token != nil {
				token = tt.token(token)
			}
			before := runtest.JournalOf(t, rt.Store, out.RunID)
			got, err := workflow.Resume(t.Context(), token, tt.input, &with, nil)
			if err == nil || got.Status != workflow.StatusError || got.Failure().Code != tt.code {
				t.Fatalf("%s, %v", got.Status, err)
			}
			if token != "" && strings.Contains(err.Error(), token) {
				t.Errorf("the error shows the token: %v", err)
			}
			if strings.HasPrefix(tt.code, "resume.") { // beside the error of a resume there is a diagnostic
				found(t, got.Diagnostics, diagnostics.Code(tt.code))
			} else if got.Diagnostics != nil {
				t.Errorf("diagnostics %v", got.Diagnostics)
			}
			if after := runtest.JournalOf(t, rt.Store, out.RunID); before != after {
				t.Errorf("the journal changed:\n%s\nbefore:\n%s", after, before)
			}
			got, err = workflow.Resume(t.Context(), out.Token, good, rt, nil)
			if err != nil || got.Output != "Ada" || len(log.Lines) != 1 {
				t.Errorf("afterwards: output %v, %v, effects %v", got.Output, err, log.Lines)
			}
		})
	}
}

// found reports an error unless the list has one diagnostic, of level error and about resuming, with that code.
func found(t *testing.T, list diagnostics.List, code diagnostics.Code) {
	t.Helper()
	if len(list) != 1 || list[0].Level != diagnostics.ErrorLevel || list[0].Kind != diagnostics.KindResume || list[0].Code != code {
		t.Errorf("diagnostics %v, want one of %s", list, code)
	}
}

func TestResumeOfAnotherDefinition(t *testing.T) {
	rt := &runtime.Runtime{Tools: []runtime.Tool{(&runtest.Effects{}).External("test.act")}, Resume: resume.PassThrough{}, Store: &checkpoint.Memory{}}
	out, err := runtest.Load(t, []byte(asking)).Run(t.Context(), nil, rt)
	if err != nil {
		t.Fatal(err)
	}
	changed := runtest.Load(t, []byte(strings.ReplaceAll(asking, "Send it", "Really")))
	good := map[string]any{"decision": "yes_please", "form": map[string]any{"to": "Ada"}}
	refused, err := changed.Resume(t.Context(), out.Token, good, rt)
	if err == nil || refused.Failure().Code != "resume.definitionChanged" {
		t.Errorf("another definition: %v", err)
	}
	found(t, refused.Diagnostics, diagnostics.CodeChanged)
	commented := runtest.Load(t, []byte("# a comment\n"+asking))
	if out, err := commented.Resume(t.Context(), out.Token, good, rt); err != nil || out.Output != "Ada" {
		t.Errorf("another comment: output %v, %v", out.Output, err)
	}
}

// Of many that resume with one token exactly one goes on.
func TestResumeAtOnce(t *testing.T) {
	for _, name := range []string{"memory", "jsonl", "sqlite"} {
		t.Run(name, func(t *testing.T) {
			log := &runtest.Effects{}
			rt := &runtime.Runtime{Tools: []runtime.Tool{log.External("test.act")}, Resume: resume.PassThrough{}, Store: namedStore(t, name)}
			out, err := runtest.Load(t, []byte(asking)).Run(t.Context(), nil, rt)
			if err != nil {
				t.Fatal(err)
			}
			var group sync.WaitGroup
			codes := make([]string, 8)
			for i := range codes {
				group.Go(func() {
					out, err := workflow.Resume(t.Context(), out.Token, map[string]any{"decision": "yes_please", "form": map[string]any{"to": "Ada"}}, rt, nil)
					if err != nil {
						codes[i] = out.Failure().Code
					}
				})
			}
			group.Wait()
			went := 0
			for _, code := range codes {
				switch code {
				case "":
					went++
				case "run.busy", "resume.invalidToken":
				default:
					t.Errorf("code %q", code)
				}
			}
			if went != 1 || len(log.Lines) != 1 {
				t.Errorf("%d went on, effects %v, codes %q", went, log.Lines, codes)
			}
		})
	}
}

// slowClaim is a store where something happens just before the first claim.
type slowClaim struct {
	checkpoint.Store
	before func()
}

func (s *slowClaim) Claim(ctx context.Context, runID, owner string, ttl time.Duration) (checkpoint.Lease, error) {
	if f := s.before; f != nil {
		s.before = nil
		f()
	}
	return s.Store.Claim(ctx, runID, owner, ttl)
}

// A run that ends between the look at it and the claim is like one that had ended before.
func TestRunEndsBeforeItsClaim(t *testing.T) {
	good := map[string]any{"decision": "yes_please", "form": map[string]any{"to": "Ada"}}
	for _, tt := range []struct {
		name   string
		second func(token, runID string, rt *runtime.Runtime) (*workflow.Outcome, error)
		code   string // "": the outcome of the run
	}{
		{"answer", func(token, _ string, rt *runtime.Runtime) (*workflow.Outcome, error) {
			return workflow.Resume(t.Context(), token, good, rt, nil)
		}, "resume.invalidToken"},
		{"recover", func(_, runID string, rt *runtime.Runtime) (*workflow.Outcome, error) {
			return workflow.Recover(t.Context(), runID, rt, nil)
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			log := &runtest.Effects{}
			store := &slowClaim{Store: &checkpoint.Memory{}}
			rt := &runtime.Runtime{Tools: []runtime.Tool{log.External("test.act")}, Resume: resume.PassThrough{}, Store: store}
			out, err := runtest.Load(t, []byte(asking)).Run(t.Context(), nil, rt)
			if err != nil {
				t.Fatal(err)
			}
			store.before = func() {
				if first, err := workflow.Resume(t.Context(), out.Token, good, rt, nil); err != nil || first.Output != "Ada" {
					t.Errorf("the first: %v, %v", first.Output, err)
				}
			}
			got, err := tt.second(out.Token, out.RunID, rt)
			if tt.code != "" && (err == nil || got.Failure().Code != tt.code) || tt.code == "" && (err != nil || got.Output != "Ada") {
				t.Errorf("the second: %v, %v", got.Output, err)
			}
			if len(log.Lines) != 1 {
				t.Errorf("effects %v", log.Lines)
			}
			if _, err := store.Claim(t.Context(), out.RunID, "other", time.Second); err != nil {
				t.Errorf("the run is held: %v", err)
			}
		})
	}
}

func namedStore(t *testing.T, name string) checkpoint.Store {
	t.Helper()
	var store checkpoint.Store
	var err error
	switch name {
	case "memory":
		store = &checkpoint.Memory{}
	case "jsonl":
		store, err = jsonl.Open(t.TempDir())
	case "sqlite":
		store, err = sqlite.Open(t.Context(), t.TempDir()+"/runs.db", nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	return store
}

const several = runtest.Head + `steps:
  each:
    uses: human
    foreach: {in: [a, b, c], as: it}
    with: {prompt: "${{ it }}", form: {type: object}}
  sub:
    uses: recipe
    with:
      steps:
        first: {uses: test.act, with: {n: 1}}
        asked: {uses: test.gate, needs: [first], with: {n: 2}}
      output: ${{ steps.asked.output }}
  event: {uses: wait, with: {event: paid}}
  last: {uses: test.act, needs: [each, sub, event], with: {n: "${{ steps.sub.output }}"}}
output: ["${{ map(steps.each.output, .form.x) }}", "${{ steps.sub.output }}", "${{ steps.event.output }}", "${{ steps.last.output }}"]
`

// Any order of the answers gives the same end, each in a process of its own.
func TestAnswersInAnyOrder(t *testing.T) {
	answers := map[string]any{
		"each[0]": map[string]any{"decision": "approve", "form": map[string]any{"x": int64(1)}}, "each[1]": map[string]any{"decision": "approve", "form": map[string]any{"x": int64(2)}},
		"each[2]": map[string]any{"decision": "reject", "form": map[string]any{"x": int64(3)}}, "sub/asked": map[string]any{"decision": "approve"}, "event": map[string]any{"sum": 1.5},
	}
	want := []any{[]any{int64(1), int64(2), int64(3)}, "approve", map[string]any{"sum": 1.5}, "approve"}
	var artefact map[string]any
	for round := range 12 {
		name := []string{"memory", "jsonl", "sqlite"}[round%3]
		log := &runtest.Effects{}
		rt := &runtime.Runtime{Tools: []runtime.Tool{log.External("test.act"), runtest.Gate}, Resume: resume.PassThrough{}, Store: namedStore(t, name)}
		out, err := runtest.Load(t, []byte(several)).Run(t.Context(), nil, rt)
		if err != nil {
			t.Fatal(err)
		}
		var open []string
		for _, p := range out.Pauses {
			open = append(open, p.ID)
		}
		if diff := cmp.Diff([]string{"each[0]", "each[1]", "each[2]", "sub/asked", "event"}, open); diff != "" {
			t.Fatalf("pauses (-want +got)\n%s", diff)
		}
		old := map[string]string{}
		for out.Status == workflow.StatusPaused {
			if round%2 == 0 { // a process that looks, and gets tokens of its own
				if out, err = workflow.Recover(t.Context(), out.RunID, rt, nil); err != nil {
					t.Fatal(err)
				}
			}
			p := out.Pauses[rand.IntN(len(out.Pauses))]
			if journal := runtest.JournalOf(t, rt.Store, out.RunID); strings.Contains(journal, p.Token[strings.LastIndex(p.Token, ".")+1:]) {
				t.Error("the journal shows a token")
			}
			if text, _ := json.Marshal(out.Trace); strings.Contains(string(text), p.Token) {
				t.Error("the trace shows a token")
			}
			if token := old[p.ID]; token != "" && rand.IntN(2) == 0 {
				p.Token = token // all tokens of a pause stay valid until one is used
			}
			for _, q := range out.Pauses {
				old[q.ID] = q.Token
			}
			if out, err = workflow.Resume(t.Context(), p.Token, answers[p.ID], rt, nil); err != nil {
				t.Fatal(p.ID, err)
			}
		}
		if diff := cmp.Diff(want, out.Output); diff != "" {
			t.Fatalf("output (-want +got)\n%s", diff)
		}
		if artefact == nil {
			artefact = out.Artefact
		}
		if diff := cmp.Diff(artefact, out.Artefact); diff != "" {
			t.Errorf("artefact (-first +this)\n%s", diff)
		}
		if diff := cmp.Diff([]string{"test.act 1", "test.act approve"}, log.Lines); diff != "" {
			t.Errorf("effects (-want +got)\n%s", diff)
		}
		for id, token := range old {
			if _, err := workflow.Resume(t.Context(), token, answers[id], rt, nil); err == nil {
				t.Errorf("the token of %s works once more", id)
			}
		}
	}
}

func TestOnPause(t *testing.T) {
	told := make(chan resume.Pause, 1)
	wf := runtest.Load(t, []byte(runtest.Head+`steps:
  ask: {uses: human, with: {prompt: Go on}}
  beside: {uses: test.wait}
`))
	rt := &runtime.Runtime{Resume: resume.PassThrough{}, Store: &checkpoint.Memory{}, OnPause: func(p resume.Pause) { told <- p },
		Tools: []runtime.Tool{runtest.Tool("test.wait", func(context.Context, map[string]any) (any, error) {
			p := <-told // while this sibling still runs
			return fmt.Sprint(p.ID, " ", p.Prompt, " ", p.Token != ""), nil
		})}}
	out, err := wf.Run(t.Context(), nil, rt)
	if err != nil || out.Artefact["beside"] != "ask Go on true" {
		t.Errorf("artefact %v, %v", out.Artefact, err)
	}
}

// A failure closes what is pending: nobody is asked for nothing.
func TestFailureClosesPauses(t *testing.T) {
	rt := &runtime.Runtime{Resume: resume.PassThrough{}, Store: &checkpoint.Memory{}}
	out, err := runtest.Load(t, []byte(runtest.Head+`steps:
  body:
    uses: recipe
    on_error: continue
    with:
      steps:
        ask: {uses: human, with: {prompt: Go on}}
        nap: {uses: wait, with: {duration: 1ms}}
        no: {uses: fail, needs: [nap]}
  other: {uses: human, with: {prompt: And here}}
`)).Run(t.Context(), nil, rt)
	if err != nil || len(out.Pauses) != 1 || out.Pauses[0].ID != "other" {
		t.Fatalf("pauses %v, %v", out.Pauses, err)
	}
	sum, _, err := rt.Store.Load(t.Context(), out.RunID, 0)
	if err != nil || len(sum.Pauses) != 1 {
		t.Errorf("the store has %d open pauses, %v", len(sum.Pauses), err)
	}
	if out, err = workflow.Resume(t.Context(), out.Token, map[string]any{"decision": "approve"}, rt, nil); err != nil || out.Status != workflow.StatusOK {
		t.Errorf("%s, %v", out.Status, err)
	}
}

// A call that waits for a slot is a decision without a command, also for whoever replays it.
func TestResumeWithFullSlots(t *testing.T) {
	log := &runtest.Effects{}
	wf := runtest.Load(t, []byte(runtest.Head+`limits: {max_parallel: 1}
steps:
  a: {uses: test.act, with: {n: 1}}
  b: {uses: test.act, with: {n: 2}}
  ask: {uses: test.gate, with: {n: 2}}
output: "${{ steps.ask.output }}"
`))
	rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Tools: []runtime.Tool{log.External("test.act"), runtest.Gate}, Resume: resume.PassThrough{}}
	out, err := wf.Run(t.Context(), nil, rt)
	if err != nil {
		t.Fatal(err)
	}
	out, err = wf.Resume(t.Context(), out.Token, map[string]any{"decision": "approve"}, rt)
	if err != nil || out.Output != "approve" || len(log.Lines) != 2 {
		t.Errorf("output %v, %v, effects %v", out.Output, err, log.Lines)
	}
}

// A wait that cannot begin fails its step in every execution alike.
func TestWaitsThatCannotBegin(t *testing.T) {
	wf := runtest.Load(t, []byte(runtest.Head+`inputs: {at: string}
steps:
  nap: {uses: wait, with: {at: "${{ inputs.at }}"}, on_error: continue}
  act: {uses: test.act, needs: [nap], trigger: all_done, with: {n: 1}}
  ask: {uses: human, needs: [act], with: {prompt: Go on}}
output: "${{ steps.nap.error.code }}"
`))
	log := &runtest.Effects{}
	rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Tools: []runtime.Tool{log.External("test.act")}, Resume: resume.PassThrough{}}
	out, err := wf.Run(t.Context(), map[string]any{"at": "noon"}, rt)
	if err != nil || len(out.Pauses) != 1 {
		t.Fatal(out.Pauses, err)
	}
	out, err = wf.Resume(t.Context(), out.Token, map[string]any{"decision": "approve"}, rt)
	if err != nil || out.Output != "wait.arguments" || len(log.Lines) != 1 {
		t.Errorf("output %v, %v, effects %v", out.Output, err, log.Lines)
	}
}

// With Complete a run is resumed only where everything is there that it still needs.
func TestComplete(t *testing.T) {
	wf := runtest.Load(t, []byte(runtest.Head+`steps:
  first: {uses: test.first}
  ask: {uses: human, needs: [first], with: {prompt: "Now?"}}
  last: {uses: test.last, needs: [ask]}
output: ${{ steps.last.output }}
`))
	named := func(name string) runtime.Tool {
		return runtimetest.NewTool(name, func(context.Context, json.RawMessage) (any, error) { return name, nil })
	}
	store := new(checkpoint.Memory)
	with := func(tools ...runtime.Tool) *runtime.Runtime {
		return &runtime.Runtime{Store: store, Resume: resume.PassThrough{}, Tools: tools}
	}
	out, err := wf.Run(t.Context(), nil, with(named("test.first")))
	if err != nil || out.Status != workflow.StatusPaused {
		t.Fatal(err, out.Status)
	}
	yes, opts := map[string]any{"decision": "approve"}, &workflow.ResumeOptions{Complete: true}
	bad, _ := workflow.Resume(t.Context(), out.Token, yes, with(named("test.first")), opts)
	if e := bad.Failure(); e == nil || e.Code != "tool.missing" {
		t.Fatalf("without the last tool: %v", bad.Err)
	}
	if bad, _ = workflow.Recover(t.Context(), out.RunID, with(), opts); bad.Failure() == nil {
		t.Fatalf("recovered without tools: %s", bad.Status)
	}
	good, err := workflow.Resume(t.Context(), out.Token, yes, with(named("test.last")), opts)
	if err != nil || good.Output != "test.last" {
		t.Errorf("without the first tool: %v %v", good.Output, err)
	}
}
