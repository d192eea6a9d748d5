package agents_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/trace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type object = map[string]any

// says is an answer of the model: a text, and calls written as NAME or NAME ARGUMENTS.
func says(text string, calls ...string) runtimetest.Answer {
	a := runtimetest.Answer{Text: text, Usage: runtime.Usage{InputTokens: 10, OutputTokens: 1}}
	for i, c := range calls {
		name, args, _ := strings.Cut(c, " ")
		if args == "" {
			args = "{}"
		}
		a.ToolCalls = append(a.ToolCalls, runtime.ToolCall{ID: fmt.Sprint("id", i+1), Name: name, Arguments: json.RawMessage(args)})
	}
	return a
}

func model(answers ...runtimetest.Answer) *runtimetest.Model {
	return &runtimetest.Model{Answers: answers}
}

// tool returns a tool of that name and effect which returns a value.
func tool(name string, effect runtime.Effect, result any) *runtimetest.Tool {
	return &runtimetest.Tool{ToolSpec: runtime.ToolSpec{Name: name, Effect: effect},
		Func: func(context.Context, json.RawMessage) (any, error) { return result, nil }}
}

// host is a Runtime with one model, m, and tools.
func host(m runtime.Model, tools ...runtime.Tool) *runtime.Runtime {
	return &runtime.Runtime{Models: map[string]runtime.Model{"m": m}, Tools: tools}
}

// journal keeps events as a store would: as text. It folds them, too.
type journal struct {
	t       testing.TB
	earlier []agents.Event
	events  []agents.Event // all, those of earlier executions with them
	fold    agents.State
	fail    func(agents.Event) error
	quiet   bool // does without the checks that take long
}

// after is the journal of an execution that continues after these events.
func after(t testing.TB, events []agents.Event) *journal {
	fold, err := agents.Fold(events)
	if err != nil {
		t.Fatal(err)
	}
	return &journal{t: t, earlier: events, events: slices.Clone(events), fold: fold}
}

// append records an event, after which the live state is live.
func (j *journal) append(e *agents.Event, live *agents.State) error {
	if j.fail != nil {
		if err := j.fail(*e); err != nil {
			return err
		}
	}
	if j.quiet {
		j.events = append(j.events, *e)
		return nil
	}
	text := canonical(j.t, e)
	var back agents.Event
	if err := json.Unmarshal([]byte(text), &back); err != nil {
		j.t.Fatalf("%s: %v", text, err)
	}
	if again := canonical(j.t, back); again != text {
		j.t.Fatalf("event read back:\ngot  %s\nwant %s", again, text)
	}
	before := canonical(j.t, j.fold)
	next, err := agents.Reduce(j.fold, back)
	if err != nil {
		j.t.Fatal(err)
	}
	if canonical(j.t, j.fold) != before {
		j.t.Fatalf("Reduce of %s changed the state it was given", text)
	}
	j.fold, j.events = next, append(j.events, back)
	if live, fold := canonical(j.t, live), canonical(j.t, j.fold); live != fold {
		j.t.Errorf("after event %d:\nlive %s\nfold %s", e.Seq, live, fold)
	}
	return nil
}

// kinds lists the kinds of the events, the frames of children in front.
func (j *journal) kinds() (list []string) {
	for _, e := range j.events {
		list = append(list, strings.TrimPrefix(e.Frame+" "+string(e.Kind), " "))
	}
	return list
}

func canonical(t testing.TB, v any) string {
	t.Helper()
	text, err := value.JSON(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// eventSchema is that of trace events, which all events of loops fit.
var eventSchema = sync.OnceValue(func() *schema.Schema {
	s, err := schema.Compile(trace.EventSchema())
	if err != nil {
		panic(err)
	}
	return s
})

// run executes a loop, and sees that its state is the fold of its journal after every event. A nil
// journal is a new one.
func run(t testing.TB, l *agentloop.Loop, in input, rt *runtime.Runtime) (*agents.Ran, error) {
	t.Helper()
	return runIn(t.Context(), t, l, in, rt)
}

func runIn(ctx context.Context, t testing.TB, l *agentloop.Loop, in input, rt *runtime.Runtime) (*agents.Ran, error) {
	t.Helper()
	if in.Journal == nil {
		in.Journal = after(t, nil)
	}
	if in.Prompt == "" {
		in.Prompt = "do it"
	}
	res, err := (&stepper{input: in}).run(ctx, t, l, rt)
	for _, e := range res.Trace {
		text, _ := e.MarshalJSON()
		v, _ := value.Decode(text)
		if problems := eventSchema().Check(v); problems != nil {
			t.Errorf("%s: %s", text, schema.Describe(problems))
		}
	}
	return res, err
}

// must is run for a loop that ends well.
func must(t testing.TB, l *agentloop.Loop, in input, rt *runtime.Runtime) *agents.Ran {
	t.Helper()
	res, err := run(t, l, in, rt)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// paused is run for a loop that pauses.
func paused(t testing.TB, l *agentloop.Loop, in input, rt *runtime.Runtime) []agents.Pause {
	t.Helper()
	res, err := run(t, l, in, rt)
	p, ok := errors.AsType[*agents.PauseError](err)
	if !ok {
		t.Fatalf("%v, %q, want a pause", err, res.Text)
	}
	return p.Pauses
}

// failed checks the category and the code of an error, and part of its text.
func failed(t testing.TB, err error, category runtime.Category, code, text string) {
	t.Helper()
	e, ok := errors.AsType[*runtime.Error](err)
	if !ok || e.Category != category || e.Code != code || !strings.Contains(err.Error(), text) {
		t.Errorf("got  %v %+v\nwant %s %s %q", err, e, category, code, text)
	}
}

// snapshot is the canonical JSON of what a run was made of.
func snapshot(t testing.TB, res *agents.Ran) string { return canonical(t, res.Snapshot) }

// lines prints events as trace.Event.Line does, without snapshots.
func lines(events []trace.Event) (list []string) {
	for _, e := range events {
		if e.Kind != trace.LoopSnapshot {
			list = append(list, e.Line())
		}
	}
	return list
}

// results lists the results of calls as the model sees them.
func results(res *agents.Ran) (list []string) {
	for _, c := range res.Calls {
		list = append(list, c.Result)
	}
	return list
}

// codes lists the codes of the diagnostics.
func codes(res *agents.Ran) (list []string) {
	for _, d := range res.Diagnostics {
		list = append(list, string(d.Code))
	}
	return list
}

// talk prints messages, one on a line.
func talk(messages []runtime.Message) (list []string) {
	for _, m := range messages {
		line := string(m.Role) + ": " + m.Text
		for _, c := range m.ToolCalls {
			line += " " + c.Name
		}
		list = append(list, line)
	}
	return list
}

func same(t testing.TB, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
