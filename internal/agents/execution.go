package agents

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// Terms is what one run of a loop is about. Only Prompt is needed, or Before.
type Terms struct {
	Before  []Message // what comes before the prompt; nil: nothing
	Prompt  string
	Files   []runtime.File // that go with the prompt; nil: none
	Context string         // goes before the prompt, in the same message; ""

	RunID string // for requests and the names of what is kept
	Path  string // of the step; events and pauses name it

	Answers []Answer // to pauses of an earlier execution; nil: none
	Content bool     // Action.Content is wanted

	// Check says what is wrong with an answer beside the schema, "" if nothing is, and Repairs how many turns there are
	// to mend it. nil: nothing ever is, and there are two turns.
	Check   func(*Result) (fault string, err error)
	Repairs *int

	Tools []RecipeTool // that the recipe defines; nil: none
	// Earlier says that the run began by a version for which an unknown name in a loop's Tools was a warning.
	Earlier bool
}

// Execution is a loop from where its state stands until it ends or pauses. It is data, and decides: it makes no call,
// starts nothing and asks no clock. Beside the state it holds what this execution has done that no journal keeps,
// such as which calls are under way.
//
// The driver carries out what Next returns, in order, until Next has nothing more, then waits for a call to end,
// passes its result to Done, and asks again. An Execution is for one goroutine at a time. To run a loop with
// the adapters of a Runtime, use workflow.Agent, which drives an Execution as the agent steps of recipes do.
type Execution struct {
	// Set by the driver, before each call of a method: the time, for events of the trace and pauses, and what else
	// was approved for the run, sorted; and the notes that came for the agent, beside those of an inbox.
	Now    time.Time
	Grants []string
	Notes  []runtime.Note
	// Changed says of tools how they differ from what the run first saw, by name: they are not called. nil: none does.
	Changed map[string]string

	terms   Terms
	offer   *Offer
	state   *State
	root    *frame
	answers []Event // that are to be recorded first
	event   Event   // that is to be recorded: between two events an Execution decides again
	queue   []item
	at      int // in queue
	jobs    map[*Job]pending
	owner   owner      // of the event that Next returned last
	attrs   trace.Data // room for those of the next events
	broken  error      // the journal takes no more
	cut     error      // the context's error: the run is being cancelled
	stopped error      // cut, with its cause
	past    bool       // the loop had ended before
	resting bool       // see Rest
}

// Action is one thing to do: exactly one of its fields is set, or none while calls are under way.
type Action struct {
	// Record is to be applied to the state and to be appended to the journal. Where either fails, Broken says so to
	// the Execution. It may be used until the next call of Next.
	Record  *Event
	Tell    *trace.Event // is to be shown; Result has it, too
	Content any          // with Tell and Terms.Content: what goes into or comes out of a call, as decoded JSON
	Job     *Job         // is to be made, and Done to be called
	Over    bool         // the Execution has ended: see Result and Err
}

// item is an Action to come.
type item struct {
	owner   owner   // of the event that is to be recorded
	to      *tracer // of an event of the trace
	tell    trace.Event
	content any
	job     *Job
}

// owner is what a failure to record something ends.
type owner interface{ broke(err error) }

// Begin returns an Execution that continues the loop from a state, the fold of its journal, which the driver changes
// by State.Apply and by nothing else. An error is a *runtime.Error: Validate finds something wrong with the loop, or
// it does not have an agent to which the conversation was handed off.
func Begin(l *agentloop.Loop, s *State, t Terms, o *Offer) (*Execution, error) {
	if err := l.Validate(); err != nil {
		return nil, &runtime.Error{Category: runtime.CategoryConfig, Code: "agent.invalid", Step: t.Path, Err: err}
	}
	x := &Execution{terms: t, offer: o, state: s, jobs: map[*Job]pending{}}
	x.root = &frame{execution: x, loop: l, trace: &tracer{}, memory: l.Memory,
		place: place{path: t.Path, maxDepth: cmp.Or(l.MaxDelegationDepth, agentloop.DefaultMaxDelegationDepth)},
		start: Start{Definition: l.Digest(), Before: t.Before, Prompt: t.Prompt, Files: t.Files, Context: t.Context}}
	if err := x.root.follow(); err != nil {
		return nil, err
	}
	if s.Phase == Over {
		x.past, x.root.done, x.root.err = true, true, x.stored()
		return x, nil
	}
	x.root.trace.list = make([]trace.Event, 0, room(maxSteps(l), 5))
	if x.answers, x.root.err = x.checkAnswers(); x.root.err != nil {
		x.root.done = true
	}
	return x, nil
}

// Next says what to do next. The zero Action says that a call under way has to end first.
func (x *Execution) Next() Action {
	for {
		for x.at < len(x.queue) {
			i := &x.queue[x.at]
			x.at++
			switch {
			case i.job != nil:
				return Action{Job: i.job}
			case i.to != nil:
				i.tell.At = x.Now
				i.to.list = append(i.to.list, i.tell)
				return Action{Tell: &i.tell, Content: i.content}
			case x.broken != nil:
				x.owner = i.owner
				x.Broken(x.broken)
			default:
				x.event.Seq, x.owner = x.state.Seq+1, i.owner
				return Action{Record: &x.event}
			}
		}
		clear(x.queue)
		x.queue, x.at = x.queue[:0], 0
		switch {
		case x.root.done:
			return Action{Over: true}
		case len(x.answers) > 0:
			x.record(x, x.answers[0].Frame, x.answers[0])
			x.answers = x.answers[1:]
		case !x.root.step():
			return Action{}
		}
	}
}

// Done passes the result of a call that Next asked for. It ignores one that the Execution does not wait for.
func (x *Execution) Done(j *Job, r Reply) {
	if p, waits := x.jobs[j]; waits {
		delete(x.jobs, j)
		p.then(r)
	}
}

// Told takes an event of the trace from inside a call; false: the call is over, so the event is dropped.
func (x *Execution) Told(j *Job, e trace.Event) bool {
	p, waits := x.jobs[j]
	if waits {
		p.trace.list = append(p.trace.list, e)
	}
	return waits
}

// Broken says that the event which Next returned last was not recorded. The Execution ends, and records nothing more.
func (x *Execution) Broken(err error) {
	if !errors.As(err, new(*runtime.Error)) {
		err = &runtime.Error{Category: runtime.CategoryInfra, Code: "store.failed",
			Step: framePath(x.terms.Path, x.event.Frame),
			Err:  fmt.Errorf("journal: %w", err)}
	}
	x.broken = err
	clear(x.queue)
	x.queue, x.at = x.queue[:0], 0
	x.owner.broke(err)
}

func maxSteps(l *agentloop.Loop) int { return cmp.Or(l.MaxSteps, agentloop.DefaultMaxSteps) }

// framePath is the path of a frame below that of the loop itself.
func framePath(path, frame string) string {
	if frame == "" {
		return path
	}
	return strings.TrimPrefix(path+"/"+frame, "/")
}

// broke ends an Execution that cannot record an answer.
func (x *Execution) broke(err error) { x.root.err, x.root.done, x.answers = err, true, nil }

// Stop says that the run is being cancelled: err is its context's error, cause the context's cause. The Execution ends
// as soon as the calls under way have.
func (x *Execution) Stop(err, cause error) {
	if x.cut != nil {
		return
	}
	x.cut, x.stopped = err, cause
	if !errors.Is(cause, err) {
		x.stopped = fmt.Errorf("%w: %w", err, cause)
	}
}

// Definition returns the loop that a frame at work runs, by the frame's name; "" is the Execution's own.
func (x *Execution) Definition(frame string) *agentloop.Loop {
	f := x.root
	for _, name := range strings.FieldsFunc(frame, func(r rune) bool { return r == '/' }) {
		f = f.children[name]
	}
	return f.loop
}

// Result is how far the loop has come. It shares the state's data.
func (x *Execution) Result() *Result {
	s, f := x.state, x.root
	r := &Result{Text: s.Text, Steps: s.Steps, Calls: s.Calls, Messages: s.Messages, Usage: s.Total(),
		Agent: s.InCharge(), StopReason: s.Stop, Finish: s.Finish,
		Trace: f.trace.list, Diagnostics: f.trace.found}
	if s.Phase == Over && s.Stop != agentloop.StopError && f.loop.Schema != nil {
		r.Data, _ = f.parse()
	}
	if f.err != nil && !x.past {
		r.StopReason = f.ending()
	}
	return r
}

// Err is the error of an Execution that is over; nil where the loop has ended well. It is a [*PauseError], or a
// *runtime.Error: a failure that the journal keeps; one of the world around (a missing model, the journal itself),
// after which another execution can continue; or of category cancelled, the same.
func (x *Execution) Err() error {
	f, err := x.root, x.root.err
	var known *runtime.Error
	failed, ok := errors.AsType[*failure](err)
	switch {
	case ok:
		return failed.err
	case errors.Is(err, errPaused):
		return &PauseError{x.state.openPauses()}
	case err == nil || errors.As(err, &known):
		return err
	case x.cut != nil:
		return f.outside(runtime.CategoryCancelled, "step.cancelled", x.stopped)
	}
	return f.outside(runtime.CategoryInfra, "agent.interrupted", err)
}

// stored is the error of a loop that has ended; nil unless it failed.
func (x *Execution) stored() error {
	if s := x.state; s.Stop == agentloop.StopError {
		return &runtime.Error{Category: s.Category, Code: s.Code, Step: x.terms.Path, Err: errors.New(s.Failure)}
	}
	return nil
}

// checkAnswers returns the events of the answers that came in. All of them must be for open pauses.
func (x *Execution) checkAnswers() ([]Event, error) {
	open := x.state.openPauses()
	bad := func(err error) ([]Event, error) {
		return nil, &runtime.Error{Category: runtime.CategoryConfirmation, Code: "resume.notPending",
			Step: x.terms.Path, Err: err}
	}
	var events []Event
	for _, a := range x.terms.Answers {
		i := slices.IndexFunc(open, func(p Pause) bool { return p.ID == a.Pause })
		if i < 0 {
			return bad(fmt.Errorf("pause %q is not open", a.Pause))
		}
		p := open[i]
		open = slices.Delete(slices.Clone(open), i, i+1)
		if !a.Due {
			v, err := p.Check(formless(a.Value))
			if err != nil {
				return bad(err)
			}
			a.Value = v
		}
		events = append(events, Event{Kind: Answered, Frame: p.Frame, More: &More{Answer: &a}})
	}
	return events, nil
}

// formless leaves out a form that is null, as resume.Pause.Check has it after a decision without one.
func formless(answer any) any {
	m, ok := answer.(map[string]any)
	if form, sent := m["form"]; !ok || !sent || form != nil {
		return answer
	}
	return map[string]any{"decision": m["decision"]}
}

// failure ends a loop with an error that its journal keeps.
type failure struct{ err *runtime.Error }

func (f *failure) Error() string { return f.err.Err.Error() } // the one that shows it names the step

func fail(category runtime.Category, code string, err error) error {
	return &failure{&runtime.Error{Category: category, Code: code, Err: err}}
}

// errPaused says that a loop, or a child of it, waits for answers.
var errPaused = errors.New("the loop is paused")
