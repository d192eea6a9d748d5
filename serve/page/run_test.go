package page_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/braise-run/braise/runtime"
)

// desk has what a run screen can show: a model, an agent with a delegate, items, rounds, a failure, a pause.
const desk = `apiVersion: braise/v1
name: desk
inputs: {list: {type: array, default: [0, 1, 2]}}
agents:
  dig: {model: fast, instructions: Dig deep., tools: []}
  clerk: {model: fast, instructions: Be kind., tools: [test.echo], delegates: [dig]}
steps:
  classify: {uses: model, with: {model: fast, prompt: What is it?}}
  ask: {uses: agent, needs: [classify], with: {agent: clerk, prompt: Look into it.}}
  verify:
    uses: model
    foreach: {in: "${{ inputs.list }}", as: i, on_error: collect}
    with: {model: fast, prompt: "Number ${{ i }}"}
  draft:
    uses: loop
    with:
      steps: {write: {uses: model, with: {model: fast, prompt: Write.}}}
      output: {text: "${{ steps.write.output.text }}"}
      max_iterations: 2
  approve: {uses: human, needs: [ask, verify, draft], with: {prompt: "Send it?", decisions: [approve, reject]}}
  break: {uses: fail, needs: [approve], with: {message: Nothing is right.}}
output: done
`

const deskAnswers = `steps:
  classify: [{text: "A *bug*."}]
  ask:
    - {tool_calls: [{name: test.echo, args: {n: 1}}, {name: delegate_dig, args: {task: dig}}], text: Let me see.}
    - {text: "## Found\n\nIt is **new**."}
  "ask/dig#2": [{text: dug}]
matches:
  - {contains: "Number 1", error: {status: 400, message: bad item}}
  - {contains: Number, text: fine}
  - {contains: Write, text: written}
`

// tool is a tool of the tests.
type tool struct {
	name string
	call func(context.Context, json.RawMessage) (json.RawMessage, error)
}

func (o tool) Spec() runtime.ToolSpec {
	return runtime.ToolSpec{Name: o.name, Effect: runtime.ReadOnly}
}
func (o tool) Call(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
	return o.call(ctx, args)
}

// echo returns its arguments.
var echo = tool{"test.echo", func(_ context.Context, args json.RawMessage) (json.RawMessage, error) { return args, nil }}

func newDesk(t testing.TB) (s *site, id string) {
	s = newSite(t, options{recipes: map[string]string{"desk": desk}, answers: deskAnswers, tools: []runtime.Tool{echo}})
	return s, s.run("desk", nil)
}

// The screen of a run says what it is and what it waits for, and follows it to its end.
func TestRun(t *testing.T) {
	s, id := newDesk(t)
	b := s.open(olga, "#/runs/"+id)
	b.sees("h1", "desk")
	b.sees("h1 .state", "waiting")
	b.sees(".facts", id)
	b.sees(".facts", "by ada")
	b.sees(".facts", "execution 1")
	b.sees(".facts", "tokens")
	b.sees(".why", "Send it?")
	b.is("document.querySelector('.why a:last-of-type').hash.split('at=')[1]", id+"%2Fapprove")
	for i, view := range []string{".graph", ".time", ".steps", ".trace", ".result", ".empty"} {
		b.keys(string(rune('1' + i)))
		b.see(".view " + view)
	}
	b.goTo("#/runs/" + id + "/result?step=approve")
	b.sees(".detail", "waiting")
	b.keys("4")
	b.see(".trace")
	b.sees(".detail h2", "approve") // the step stays where it is
	b.is("history.back(), true", true)
	b.see(".result")

	b.is(`fetch('api/v1/runs/`+id+`/pauses/approve/answer', {method: 'POST', body: '{"decision":"approve"}',
		headers: {'Content-Type': 'application/json'}}), true`, true)
	b.sees("h1 .state", "failed")
	b.sees(".trouble", "Nothing is right.")
	b.sees(".result section", "answered approve")
	b.sees(".detail", "succeeded")
	b.press("break")
	b.sees(".detail h2", "break")
	b.keys("\x1b")
	b.gone(".detail")
	b.count(".result tbody tr", 4) // two acts and two executions
	b.is("document.querySelector('a[href$=journal]').download", id+".jsonl")
	s.open(rita, "#/runs/"+id+"/result").see("a[href$=output]")
}

// What a run can do depends on its phase and on who looks.
func TestRunActs(t *testing.T) {
	s, id := newDesk(t)
	r := s.open(rita, "#/runs/"+id)
	r.sees("h1", "desk")
	r.gone(".acts button, .acts a")
	b := s.open(olga, "#/runs/"+id)
	b.press("Send to a channel…")
	b.fill("input[name=channel]", "orders")
	b.fill("textarea", "paid")
	b.press("Send")
	b.sees("dialog [role=alert]", "no JSON")
	b.fill("textarea", `"paid"`)
	b.press("Send")
	b.sees("dialog [role=alert]", "orders") // there is no such channel
	b.press("Close")
	b.press("Cancel…")
	b.fill("input[name=reason]", "a mistake")
	b.press("Cancel the run")
	b.gone("dialog")
	b.sees("h1 .state", "cancelled")
	b.keys("5")
	b.sees(".result", "cancelled it: a mistake")
	b.is("[...document.querySelectorAll('.acts a')].map((a) => a.hash)", []string{"#/runs/" + id + "/fork", "#/recipes/desk?again=" + id})
	b.press("Delete…")
	b.fill("input[name=id]", "r-01")
	b.press("Delete for good")
	b.sees("dialog [role=alert]", "not the id")
	b.fill("input[name=id]", id)
	b.press("Delete for good")
	b.is("location.hash", "#/runs")
	b.goTo("#/runs/" + id)
	b.sees("[role=alert]", "there is no run")
}

// A step shows its parts, its items by status, and its rounds.
func TestDetail(t *testing.T) {
	s, id := newDesk(t)
	b := s.open(olga, "#/runs/"+id+"/steps?step=verify")
	b.count(".choose li", 3)
	b.press("✗failed 1")
	b.count(".choose li", 1)
	b.sees(".choose li", "bad item")
	b.press("verify[1]")
	b.sees(".detail .trouble", "model.failed")
	b.sees(".detail .json", "Number 1")
	b.axe("the input of a step")
	b.press("Events")
	b.count(".detail .event", 3)
	b.axe("the events of a step")
	b.press("verify")
	b.sees(".chip", "all")

	b.goTo("#/runs/" + id + "/steps?step=draft/write") // as the graph has it
	b.sees(".detail", "2 rounds")
	b.press("draft#2/write")
	b.sees(".detail .json", "written")
	b.axe("the output of a step")
	b.press("Conversation")
	b.sees(".said.user", "Write.")
	b.press("Close the step")
	b.gone(".detail")
	b.goTo("#/runs/" + id + "/steps?step=nothing")
	b.sees(".detail [role=alert]", "no step")
}

func TestRunForEverybody(t *testing.T) {
	s, id := newDesk(t)
	b := s.open(olga, "#/runs/"+id+"/trace?step=ask&event=3")
	b.see(".event .json")
	b.see(".said.assistant")
	b.axe("trace")
	b.goTo("#/runs/" + id + "/result?step=verify")
	b.see(".choose")
	b.axe("result")
}
