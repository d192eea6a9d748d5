package execution_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// as are the options of a person's answer.
func as(by string, groups ...string) *workflow.ResumeOptions {
	return &workflow.ResumeOptions{By: by, Groups: groups}
}

// serve 3: a human step says who may answer. An answer by another person is refused, and nothing is recorded. Whoever
// has a token may answer.
func TestPeopleWhoMayAnswer(t *testing.T) {
	for _, tt := range []struct {
		name, with, startedBy string
		answer                *workflow.ResumeOptions // nil: by token
		want                  string                  // code of the error
		to                    []string
		fourEyes              bool
	}{
		{name: "by name", with: "to: [ada, support]", answer: as("ada"), to: []string{"ada", "support"}},
		{name: "by group", with: "to: [ada, support]", answer: as("bob", "users", "support"), to: []string{"ada", "support"}},
		{name: "another", with: "to: [ada, support]", answer: as("eve", "users"), want: "answer.notAllowed", to: []string{"ada", "support"}},
		{name: "nobody", with: "to: [ada, support]", answer: as(""), want: "answer.notAllowed", to: []string{"ada", "support"}},
		{name: "an expression in the list", with: `to: ["${{ inputs.boss }}"]`, answer: as("cem"), to: []string{"cem"}},
		{name: "an expression", with: `to: "${{ inputs.team }}"`, answer: as("cem"), want: "answer.notAllowed", to: []string{"x", "y"}},
		{name: "a token", with: "to: [ada], four_eyes: true", startedBy: "eve", to: []string{"ada"}, fourEyes: true},
		{name: "four eyes", with: "four_eyes: true", startedBy: "ada", answer: as("bob"), fourEyes: true},
		{name: "the starter", with: "four_eyes: true", startedBy: "ada", answer: as("ada"), want: "answer.notAllowed", fourEyes: true},
		{name: "the starter is not known", with: "four_eyes: true", answer: as("bob"), want: "answer.notAllowed", fourEyes: true},
		{name: "by the runtime's name", with: "four_eyes: true", startedBy: "ada", answer: as(""), want: "answer.notAllowed", fourEyes: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wf := runtest.Load(t, []byte(runtest.Head+"inputs: {boss: {type: string, default: cem}, team: {type: array, default: [x, y]}}\n"+
				"steps:\n  ask: {uses: human, with: {prompt: Go, "+tt.with+"}}\n"))
			rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}, By: tt.startedBy}
			out, err := wf.Run(t.Context(), nil, rt)
			if err != nil {
				t.Fatal(err)
			}
			if p := out.Pauses[0]; !cmp.Equal(tt.to, p.To) || p.FourEyes != tt.fourEyes {
				t.Errorf("the pause is for %q, four eyes %v", p.To, p.FourEyes)
			}
			before := len(runtest.RecordsIn(t.Context(), rt.Store, out.RunID))
			if tt.answer == nil {
				out, err = workflow.Resume(t.Context(), out.Token, runtest.Yes, rt, nil)
			} else {
				out, err = workflow.Answer(t.Context(), out.RunID, "ask", runtest.Yes, rt, tt.answer)
			}
			if runtest.ErrorCode(out) != tt.want || tt.want == "" && out.Status != workflow.StatusOK {
				t.Fatalf("%s %v", out.Status, err)
			}
			if after := len(runtest.RecordsIn(t.Context(), rt.Store, out.RunID)); tt.want != "" && after != before {
				t.Errorf("%d records were added", after-before)
			}
		})
	}
}

// A list that an expression leaves empty would let nobody answer, or everybody: the step fails.
func TestNobodyMayAnswer(t *testing.T) {
	for _, tt := range []struct{ inputs, want string }{
		{"team: []", "to is empty"}, {"team: [1]", "to holds a number"}, {"team: ada", "to must be a list of names, not a string"},
		{`team: [""]`, "to holds a string"}, {"team: null", "to must be a list of names, not null"},
	} {
		wf := runtest.Load(t, []byte(runtest.Head+"consts: {"+tt.inputs+"}\nsteps:\n  ask: {uses: human, with: {prompt: Go, to: \"${{ consts.team }}\"}}\n"))
		out, err := wf.Run(t.Context(), nil, &runtime.Runtime{})
		if runtest.ErrorCode(out) != "wait.arguments" || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.inputs, err, tt.want)
		}
	}
}

// What nobody's answer would be is checked when the question is asked, where an expression gives it.
func TestExpirySetsWhatFits(t *testing.T) {
	for _, tt := range []struct{ asked, value, want string }{
		{"answer: {type: integer}, on_expire: {set: \"${{ consts.v }}\"}", "3", ""},
		{"answer: {type: integer}, on_expire: {set: \"${{ consts.v }}\"}", "no", "what on_expire sets: must be an integer, not a string"},
		{"form: {type: object, required: [why]}, on_expire: {set: \"${{ consts.v }}\"}", "late", ""},
		{"form: {type: object, required: [why]}, on_expire: {set: {decision: reject, form: \"${{ consts.v }}\"}}", "{}",
			"what on_expire sets: /why: is required"},
	} {
		wf := runtest.Load(t, []byte(runtest.Head+"consts: {v: "+tt.value+"}\nsteps:\n  ask: {uses: human, with: {prompt: Go, expires: 1h, "+tt.asked+"}}\n"))
		out, err := wf.Run(t.Context(), nil, &runtime.Runtime{Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}})
		if tt.want == "" && out.Status != workflow.StatusPaused ||
			tt.want != "" && (runtest.ErrorCode(out) != "wait.arguments" || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s with %s: %s %v, want %s", tt.asked, tt.value, out.Status, err, tt.want)
		}
	}
}

// Four eyes ask who began this run: of a fork, who forked it.
func TestFourEyesOfFork(t *testing.T) {
	wf := runtest.Load(t, []byte(runtest.Head+"steps:\n  a: {uses: set, with: 1}\n  ask: {uses: human, needs: [a], with: {prompt: Go, four_eyes: true}}\n"))
	rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}, By: "ada"}
	out, err := wf.Run(t.Context(), nil, rt)
	if err == nil {
		out, err = workflow.Fork(t.Context(), out.RunID, "ask", workflow.Edits{}, rt, as("bob"))
	}
	if err != nil {
		t.Fatal(err)
	}
	if refused, _ := workflow.Answer(t.Context(), out.RunID, "ask", runtest.Yes, rt, as("bob")); runtest.ErrorCode(refused) != "answer.notAllowed" {
		t.Errorf("who forked the run answers: %s %v", refused.Status, refused.Err)
	}
	if out, err := workflow.Answer(t.Context(), out.RunID, "ask", runtest.Yes, rt, as("ada")); out.Status != workflow.StatusOK {
		t.Error(err)
	}
}

// An expiry is nobody's answer, and needs nobody's permission.
func TestPeopleWhoDoNotAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wf := runtest.Load(t, []byte(runtest.Head+"steps:\n  ask: {uses: human, with: {prompt: Go, to: [ada], four_eyes: true, expires: 1h, on_expire: reject}}\n"+
			"output: ${{ steps.ask.output.decision }}\n"))
		rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}}
		out, err := wf.Run(t.Context(), nil, rt)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		if out, err = workflow.Recover(t.Context(), out.RunID, rt, nil); err != nil || out.Output != "reject" {
			t.Errorf("%s %v %v", out.Status, out.Output, err)
		}
	})
}

// trust 2.1: an answer is for the people who were asked. A definition that asks others asks again.
func TestOtherPeopleAreAskedAgain(t *testing.T) {
	text := runtest.Head + "steps:\n  ask: {uses: human, with: {prompt: Go, to: [ada]}}\n"
	rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}}
	out, err := runtest.Load(t, []byte(text)).Run(t.Context(), nil, rt)
	if err != nil {
		t.Fatal(err)
	}
	o := as("ada")
	o.Workflow, o.AcceptChanged = runtest.Load(t, []byte(strings.Replace(text, "ada", "bob", 1))), true
	out, err = workflow.Answer(t.Context(), out.RunID, "ask", runtest.Yes, rt, o)
	if err != nil || out.Status != workflow.StatusPaused || !cmp.Equal([]string{"bob"}, out.Pauses[0].To) {
		t.Fatalf("%s %v %v", out.Status, err, out.Pauses)
	}
}

// serve 3, trust 7.5: an agent says who approves its calls. A yes for the run covers only calls that the same people
// approve.
func TestPeopleWhoApprove(t *testing.T) {
	const text = runtest.Head + `inputs: {boss: {type: string, default: ada}}
agents:
  mine: {model: m, tools: [t.send], approval: pause, approval_to: ["${{ inputs.boss }}", support]}
  others: {model: m, tools: [t.send], approval: pause, approval_to: [bob]}
  anybodys: {model: m, tools: [t.send], approval: pause}
steps:
  a: {uses: agent, with: {agent: mine, prompt: 't.send {"n":1}; t.send {"n":2}'}}
  b: {uses: agent, with: {agent: others, prompt: 't.send {"n":3}'}}
  c: {uses: agent, with: {agent: anybodys, prompt: 't.send {"n":4}'}}
  d: {uses: agent, needs: [a], with: {agent: mine, prompt: 't.send {"n":5}'}}
  e: {uses: agent, needs: [a], with: {agent: others, prompt: 't.send {"n":6}'}}
`
	log := &runtest.Effects{}
	rt := runtest.Approving(log)
	out, err := runtest.Load(t, []byte(text)).Run(t.Context(), nil, rt)
	if err != nil || len(out.Pauses) != 4 {
		t.Fatal(err, out.Pauses)
	}
	if to := out.Pauses[0].To; !cmp.Equal([]string{"ada", "support"}, to) {
		t.Errorf("the first is for %q", to)
	}
	forRun := runtest.Approval(map[string]any{"scope": "run"})
	first := out.Pauses[0].ID
	if refused, _ := workflow.Answer(t.Context(), out.RunID, first, forRun, rt, as("bob")); runtest.ErrorCode(refused) != "answer.notAllowed" {
		t.Fatalf("another approves: %s %v", refused.Status, refused.Err)
	}
	out, err = workflow.Answer(t.Context(), out.RunID, first, forRun, rt, as("cem", "support"))
	var open []string
	for _, p := range out.Pauses {
		open = append(open, p.Step)
	}
	if diff := cmp.Diff([]string{"b", "c", "e"}, open); diff != "" || err != nil {
		t.Errorf("open (-want +got): %v\n%s", err, diff)
	}
	if diff := cmp.Diff([]string{`{"n":1}`, `{"n":2}`, `{"n":5}`}, log.Lines); diff != "" {
		t.Errorf("sent (-want +got)\n%s", diff)
	}
	out, err = workflow.Answer(t.Context(), out.RunID, out.Pauses[0].ID, forRun, rt, as("bob"))
	if err != nil || len(out.Pauses) != 1 || out.Pauses[0].Step != "c" || len(log.Lines) != 5 {
		t.Errorf("%v %v %v", err, out.Pauses, log.Lines)
	}
}

// The pause of a recipe that is a tool is for the people whom the recipe asks; who answers the call answers the recipe.
func TestPeopleOfRecipeAsTool(t *testing.T) {
	inner := strings.Replace(runtest.Called, `{prompt: "Refund ${{ inputs.order }}?"}`, `{prompt: Refund, to: [ada], four_eyes: true}`, 1)
	pay := runtest.Tool("test.pay", func(context.Context, map[string]any) (any, error) { return "paid", nil })
	rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}, By: "bob"}
	rt.Tools = []runtime.Tool{runtest.Load(t, []byte(inner)).Tool(&runtime.Runtime{Store: rt.Store, Tools: []runtime.Tool{pay}})}
	out, err := runtest.Load(t, []byte(runtest.Head+"steps:\n  a: {uses: recipe.refund, with: {order: A7}}\noutput: ${{ steps.a.output.decision }}\n")).Run(t.Context(), nil, rt)
	if err != nil || !cmp.Equal([]string{"ada"}, out.Pauses[0].To) || !out.Pauses[0].FourEyes {
		t.Fatal(err, out.Pauses)
	}
	if refused, _ := workflow.Answer(t.Context(), out.RunID, "a", runtest.Yes, rt, as("bob")); runtest.ErrorCode(refused) != "answer.notAllowed" {
		t.Errorf("another answers: %s %v", refused.Status, refused.Err)
	}
	if out, err = workflow.Answer(t.Context(), out.RunID, "a", runtest.Yes, rt, as("ada")); err != nil || out.Output != "approve" {
		t.Errorf("%s %v", out.Status, err)
	}
}

// Who put a run into a queue began it, whoever executes it.
func TestFourEyesOfQueuedRun(t *testing.T) {
	wf := runtest.Load(t, []byte(runtest.Head+"steps:\n  ask: {uses: human, with: {prompt: Go, four_eyes: true}}\n"))
	rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}, By: "worker"}
	id, err := wf.Enqueue(t.Context(), nil, rt, &workflow.EnqueueOptions{Queue: "default", By: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := workflow.Recover(t.Context(), id, rt, nil); out.Status != workflow.StatusPaused {
		t.Fatal(err)
	}
	if refused, _ := workflow.Answer(t.Context(), id, "ask", runtest.Yes, rt, as("ada")); runtest.ErrorCode(refused) != "answer.notAllowed" {
		t.Errorf("who queued the run answers: %s %v", refused.Status, refused.Err)
	}
	if out, err := workflow.Answer(t.Context(), id, "ask", runtest.Yes, rt, as("bob")); out.Status != workflow.StatusOK {
		t.Error(err)
	}
}
