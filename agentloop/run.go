package agentloop

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// Input is what one run of a loop gets. Only Prompt is needed.
type Input struct {
	Prompt  string
	Context string // goes before the prompt, in the same message; ""

	RunID      string // for requests and idempotency keys, see resume.Key
	Generation int    // the same. Defaults to 1
	Path       string // of the step; events and pauses name it

	Journal Journal  // nil: in memory, so nothing can go on later
	Vouched bool     // the journal is of this loop, whatever the digests say: instructions may name the run
	Answers []Answer // to pauses of an earlier leg; nil: none

	Archive Archive        // nil: conversations are not compacted
	Tools   []runtime.Tool // of this run: they shadow all others
	Allow   []string       // the host's list of tools that may be called; empty: all
	Deny    []string       // the host's list of those that may not

	// Emit is told of events as they happen, by one goroutine at a time; nil: nobody. content is, with
	// Content, what goes into or comes out of a call of the model or of a tool: decoded JSON.
	Emit    func(e trace.Event, content any)
	Content bool
	Deltas  bool // Emit wants the pieces of answers too; with an Ask they are for it to show

	// Ask and Call are called in place of the adapters, and call those: to retry, to take a slot, to
	// hide secrets. A resume.Suspension from either pauses the loop. nil: the adapter itself.
	Ask  func(ctx context.Context, c *ModelCall) (*runtime.Response, error)
	Call func(ctx context.Context, c *ToolCall) (json.RawMessage, error)
	// Port is called in place of the memory and the retriever, and calls them: to retry. nil: they are
	// called once.
	Port func(ctx context.Context, c *PortCall) (any, error)
	// Permit refuses a call before anybody is asked for approval, by an error. nil: nothing is refused.
	Permit func(ctx context.Context, tool string, args json.RawMessage) error

	watch func(*State) // told of the state after every event, by tests
}

// ModelCall is a call of a model that is to be made.
type ModelCall struct {
	Model   runtime.Model
	Request *runtime.Request  // its Step is the path of the loop, or of the child, that asks
	Emit    func(trace.Event) // tells of something that happens in the call; valid until it returns
}

// ToolCall is a call of a tool that is to be made.
type ToolCall struct {
	Tool      runtime.Tool
	Arguments json.RawMessage
	Path      string            // of the loop, or of the child, that calls
	Number    int               // of the call in that loop, from 1
	Emit      func(trace.Event) // tells of something that happens in the call; valid until it returns
}

// PortCall is a call of the memory or the retriever that is to be made.
type PortCall struct {
	Kind retry.Kind
	Path string                                 // of the loop, or of the child, that calls
	Call func(ctx context.Context) (any, error) // makes it; it may be called again
	Emit func(trace.Event)                      // tells of something that happens in the call; valid until it returns
}

// Result is how far a loop came.
type Result struct {
	Text        string            // of the model's last answer
	Data        any               // the validated answer, of a Loop with a Schema; nil where a bound stopped it
	Steps       int               // calls of the model, without repair turns
	Calls       []Call            // all tool calls with their results, in order
	Messages    []runtime.Message // the conversation, without the system prompt
	Usage       runtime.Usage     // children's with it
	StopReason  StopReason        // "paused" while it waits
	Trace       []trace.Event     // of this leg, in the order of the calls
	Diagnostics diagnostics.List  // of this leg
	Snapshot    Snapshot
}

// PauseError is the error of a loop that waits for answers, at least one.
type PauseError struct {
	Pauses []Pause // in the order of the calls, children's in place
}

// Error names what the loop waits for.
func (e *PauseError) Error() string {
	ids := make([]string, len(e.Pauses))
	for i, p := range e.Pauses {
		ids[i] = p.String()
	}
	return "the agent waits: " + strings.Join(ids, ", ")
}

// failure ends a loop with an error that its journal keeps.
type failure struct{ err *runtime.Error }

func (f *failure) Error() string { return f.err.Error() }

func fail(category runtime.Category, code string, err error) error {
	return &failure{&runtime.Error{Category: category, Code: code, Err: err}}
}

// errPaused says that a loop, or a child of it, waits for answers.
var errPaused = errors.New("the loop is paused")

// Run executes the loop until it ends or pauses. in.Journal may hold an earlier leg: then Run goes on
// there, and what has a result is not done again. The result is never nil; for a loop that has ended
// already it is the stored one, and nothing is written.
//
// The error is a [*PauseError], or a *runtime.Error: a failure that the journal keeps; one of the world
// around (a missing model, the journal itself), after which Run can be called again; or of category
// cancelled, the same.
func (l *Loop) Run(ctx context.Context, in Input, rt *runtime.Runtime) (*Result, error) {
	// 1. Check what is given, and fold what is recorded.
	refuse := func(category runtime.Category, code string, err error) (*Result, error) {
		return &Result{StopReason: StopError}, &runtime.Error{Category: category, Code: code, Step: in.Path, Err: err}
	}
	if rt == nil {
		rt = &runtime.Runtime{}
	}
	if err := errors.Join(l.Validate(), rt.Validate()); err != nil {
		return refuse(runtime.CategoryConfig, "agent.invalid", err)
	}
	if in.Journal == nil {
		in.Journal = forgetful{}
	}
	root, err := Fold(in.Journal.Events())
	if err != nil {
		return refuse(runtime.CategoryInfra, "journal.corrupt", err)
	}
	if root.Phase != "" && !in.Vouched && root.Start.Definition != l.Digest() {
		return refuse(runtime.CategoryConfig, "resume.definitionChanged", fmt.Errorf("agent %q is not the one that began", l.Name))
	}
	f := &frame{loop: l, in: &in, rt: rt, offers: rt.Resolve(), limits: rt.Limits.WithDefaults(),
		log: &ledger{root: &root, watch: in.watch}, state: &root, path: in.Path,
		trace: &tracer{live: &live{emit: in.Emit, content: in.Content}}, crew: new(crew),
		maxDepth: cmp.Or(l.MaxDelegationDepth, DefaultMaxDelegationDepth)}
	past := context.WithoutCancel(ctx) // what has happened is recorded, also when the run is being cancelled
	f.log.append = func(events ...Event) error { return in.Journal.Append(past, events...) }
	if in.Generation == 0 {
		in.Generation = 1
	}
	if root.Phase == Over {
		return f.result(), f.stored()
	}
	defer f.crew.dismiss()

	// 2. Take the answers in, and go on.
	f.trace.list = make([]trace.Event, 0, room(l.maxSteps(), 5))
	if err = f.takeAnswers(); err == nil {
		err = f.execute(ctx, Start{Definition: l.Digest(), Prompt: in.Prompt, Context: in.Context})
	}
	res := f.result()
	if err != nil {
		res.StopReason = f.ending(ctx, err)
	}
	return res, f.outward(ctx, err)
}

// outward makes the error of a run of what ended its last leg.
func (f *frame) outward(ctx context.Context, err error) error {
	var known *runtime.Error
	failed, ok := errors.AsType[*failure](err)
	switch {
	case ok:
		return failed.err
	case errors.Is(err, errPaused):
		return &PauseError{f.state.openPauses()}
	case err == nil || errors.As(err, &known):
		return err
	case ctx.Err() != nil:
		return f.outside(runtime.CategoryCancelled, "step.cancelled", stopped(ctx))
	}
	return f.outside(runtime.CategoryInfra, "agent.interrupted", err)
}

// outside is an error that the journal does not keep: with the world in order again, the loop goes on.
func (f *frame) outside(category runtime.Category, code string, err error) error {
	return &runtime.Error{Category: category, Code: code, Step: f.path, Err: err}
}

// stored is the error of a loop that has ended; nil unless it failed.
func (f *frame) stored() error {
	if s := f.state; s.Stop == StopError {
		return &runtime.Error{Category: s.Category, Code: s.Code, Step: f.path, Err: errors.New(s.Failure)}
	}
	return nil
}

// frame is one loop that runs: the root, a delegate or a sub-agent.
type frame struct {
	loop   *Loop
	in     *Input
	rt     *runtime.Runtime
	offers *runtime.Resolution
	limits runtime.Limits
	log    *ledger
	state  *State // its part of log.root; while it is calling, read it under log.mu

	name     string // in the journal; "" for the root
	path     string // in traces, pauses and idempotency keys
	depth    int
	maxDepth int // where no more children are offered
	narrow   []string

	crew       *crew
	trace      *tracer
	tools      *toolset
	skillTools []runtime.Tool
	archived   string            // what the model sees for state.Archive
	seen       []runtime.Message // the last view; nil: the next has another beginning
	shown      int               // how many of state.Messages came into it, those before state.From with them
	memory     runtime.Conversation
	layers     []*Layer // that work, by slot
}

// ledger is the journal of a loop and its children, with the state that it comes to.
type ledger struct {
	mu     sync.Mutex
	append func(...Event) error // to the journal
	root   *State
	last   [1]Event
	err    error // what ended it
	watch  func(*State)
}

// record reduces and persists an event of the frame. Only then may it be published.
func (f *frame) record(e Event) error {
	g := f.log
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return g.err
	}
	e.Seq, e.Frame = g.root.Seq+1, f.name
	g.last[0] = e
	if err := g.root.apply(&g.last[0]); err != nil {
		return f.outside(runtime.CategoryInfra, "journal.illegal", err)
	}
	if err := g.append(g.last[:]...); err != nil {
		if g.err = err; !errors.As(err, new(*runtime.Error)) {
			g.err = f.outside(runtime.CategoryInfra, "store.failed", fmt.Errorf("journal: %w", err))
		}
		return g.err
	}
	if e.Kind == Started {
		f.state = g.root.at(f.name)
	}
	if g.watch != nil {
		g.watch(g.root)
	}
	return nil
}

// look reads the state while calls may be changing it.
func look[T any](f *frame, read func(*State) T) T {
	f.log.mu.Lock()
	defer f.log.mu.Unlock()
	return read(f.state)
}

// takeAnswers records the answers that came in. All of them must be for open pauses.
func (f *frame) takeAnswers() error {
	open := f.state.openPauses()
	bad := func(err error) error {
		return f.outside(runtime.CategoryConfirmation, "resume.notPending", err)
	}
	var events []Event
	var frames []string
	for _, a := range f.in.Answers {
		i := slices.IndexFunc(open, func(p Pause) bool { return p.ID == a.Pause })
		if i < 0 {
			return bad(fmt.Errorf("pause %q is not open", a.Pause))
		}
		p := open[i]
		open = slices.Delete(slices.Clone(open), i, i+1)
		if !a.Due {
			v, err := p.Check(formless(a.Value), matches)
			if err != nil {
				return bad(err)
			}
			a.Value = v
		}
		events, frames = append(events, Event{Kind: Answered, Answer: &a}), append(frames, p.Frame)
	}
	for i, e := range events {
		at := *f
		at.name = frames[i]
		if err := at.record(e); err != nil {
			return err
		}
	}
	return nil
}

// formless leaves out a form that is null, as resume.Pause.Check has it after a decision without one.
func formless(answer any) any {
	m, ok := answer.(map[string]any)
	if form, sent := m["form"]; !ok || !sent || form != nil {
		return answer
	}
	return map[string]any{"decision": m["decision"]}
}

func matches(want, v any) error {
	s, err := schema.CompileValue(want)
	if err != nil {
		return err
	}
	if problems := s.Check(v); problems != nil {
		return errors.New(schema.Describe(problems))
	}
	return nil
}

// execute runs one leg of the frame from its state on.
func (f *frame) execute(ctx context.Context, start Start) error {
	f.memory = f.loop.Memory
	data := []any{"agent", f.loop.Name, "model", f.loop.Model, "depth", f.depth}
	if f.state.Phase != "" {
		data = append(data, "resume", true, "usage", look(f, (*State).Total))
	}
	f.emit(trace.AgentStart, data...)
	layers, err := f.openLayers(ctx)
	if err == nil {
		err = f.drive(ctx, start)
	}
	code := ""
	if failed, ok := errors.AsType[*failure](err); ok {
		failed.err.Step, code = f.path, failed.err.Code
		if bad := f.record(Event{Kind: Ended, Stop: StopError, Category: failed.err.Category, Code: failed.err.Code, Text: cmp.Or(failed.Error(), "failed")}); bad != nil {
			err = bad
		}
	}
	f.closeLayers(ctx, layers)
	if err != nil && !errors.Is(err, errPaused) {
		f.emit(trace.AgentError, append(known("code", code), "message", err.Error())...)
	}
	f.emit(trace.LoopSnapshot, "snapshot", f.snapshot())
	f.emit(trace.AgentEnd, "stopReason", string(f.ending(ctx, err)))
	return err
}

// ending is the word for how a leg ended.
func (f *frame) ending(ctx context.Context, err error) StopReason {
	_, failed := errors.AsType[*failure](err)
	switch {
	case err == nil:
		return f.state.Stop
	case errors.Is(err, errPaused):
		return stopPaused
	case ctx.Err() != nil && !failed:
		return StopCancelled
	}
	return StopError
}

// drive does what the state asks for, until the loop has ended, paused or failed. So a loop that goes
// on after a pause or a crash is not a special case, except where a call was under way.
func (f *frame) drive(ctx context.Context, start Start) error {
	if err := f.reenter(ctx); err != nil {
		return err
	}
	for {
		if ctx.Err() != nil {
			return stopped(ctx)
		}
		var err error
		switch f.state.Phase {
		case "":
			start.Agent, start.Depth, start.MaxSteps = f.loop.Name, f.depth, f.loop.maxSteps()
			err = f.record(Event{Kind: Started, Start: &start})
		case Ready:
			err = f.step(ctx)
		case Asking:
			err = f.interrupted(ctx)
		case Calling:
			err = f.settle(ctx)
		case Said:
			err = f.answered(ctx)
		case Over:
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// step does what comes between two rounds: see whether the loop is over, take in what is new, ask.
func (f *frame) step(ctx context.Context) error {
	if s := f.state; s.Steps > 0 {
		stop, err := f.bound()
		switch {
		case err != nil:
			return err
		case stop != "":
			return f.succeed(ctx, stop)
		}
		if err := f.compact(ctx); err != nil {
			return err
		}
	} else if err := f.gather(ctx); err != nil {
		return err
	}
	if err := f.steer(ctx); err != nil {
		return err
	}
	if f.offers.Models[f.loop.Model] == nil {
		return f.noModel()
	}
	if err := f.record(Event{Kind: ModelBegan}); err != nil {
		return err
	}
	return f.ask(ctx)
}

// bound says why the loop is over between two steps; "" if it is not.
func (f *frame) bound() (StopReason, error) {
	s := f.state
	if f.loop.Until != nil {
		over, err := f.decide("until", f.loop.Until)
		if err != nil {
			return "", fail(runtime.CategoryConfig, "agent.until", err)
		}
		if over {
			return StopUntil, nil
		}
	}
	switch {
	case s.Repeats >= maxRounds:
		f.warn(diagnostics.CodeRepetition, "agent %q made the same calls with the same results %d times, and was stopped", f.loop.Name, s.Repeats)
		return StopRepetition, nil
	case s.Steps < s.Start.MaxSteps:
		return "", nil
	case f.loop.FailAtLimit:
		return "", fail(runtime.CategoryLimit, string(diagnostics.CodeMaxSteps), fmt.Errorf("agent %q gave no answer in %d steps", f.loop.Name, s.Steps))
	}
	f.warn(diagnostics.CodeMaxSteps, "agent %q gave no answer in %d steps, and was stopped", f.loop.Name, s.Steps)
	return StopMaxSteps, nil
}

// decide asks a predicate about the loop; one that panics fails.
func (f *frame) decide(what string, by func(Progress) (bool, error)) (bool, error) {
	s := f.state
	return guard(context.Background(), f, 0, what, "", func(context.Context) (bool, error) {
		return by(Progress{StepsDone: s.Steps, Text: s.Text, Calls: slices.Clone(s.Calls), Usage: s.Total()})
	})
}

// answered ends the loop with what the model said, or lets it mend that.
func (f *frame) answered(ctx context.Context) error {
	s := f.state
	if f.loop.Schema == nil {
		if !s.Silent {
			return f.succeed(ctx, StopAnswer)
		}
		f.warn(diagnostics.CodeNoAction, "agent %q ended without an answer: the model said nothing", f.loop.Name)
		return f.succeed(ctx, StopNoAction)
	}
	_, fault := f.parse()
	switch {
	case fault == "":
		return f.succeed(ctx, StopAnswer)
	case s.Repairs == maxRepairs:
		return fail(runtime.CategoryModel, "answer.invalid", fmt.Errorf("model %q gave no valid answer in %d turns: %s", f.loop.Model, maxRepairs+1, fault))
	}
	if err := f.record(Event{Kind: ModelBegan, Repair: true, Messages: []runtime.Message{{Role: runtime.User,
		Text: "That answer cannot be used: " + fault + "\nAnswer again, with nothing but JSON that matches this schema:\n" + string(f.loop.Schema)}}}); err != nil {
		return err
	}
	return f.ask(ctx)
}

// succeed ends the loop without an error: what others keep of it is written first.
func (f *frame) succeed(ctx context.Context, stop StopReason) error {
	s := f.state
	if !s.Saved {
		names := []any{}
		for _, c := range s.Calls {
			names = append(names, c.Name)
		}
		f.emit(trace.AgentItem, "item", "plan", "steps", s.Steps, "tools", names)
		f.emit(trace.AgentItem, "item", "response", "bytes", len(s.Text))
		if err := f.save(ctx); err != nil {
			return err
		}
	}
	return f.record(Event{Kind: Ended, Stop: stop})
}

// result is what the state comes to.
func (f *frame) result() *Result {
	s := f.state
	r := &Result{Text: s.Text, Steps: s.Steps, Calls: s.Calls, Messages: s.Messages, Usage: s.Total(),
		StopReason: s.Stop, Trace: f.trace.list, Diagnostics: f.trace.found, Snapshot: f.snapshot()}
	if s.Phase == Over && s.Stop != StopError && f.loop.Schema != nil {
		r.Data, _ = f.parse()
	}
	return r
}

// parse reads the last answer by the schema. fault says what is wrong with it; "" is good.
func (f *frame) parse() (data any, fault string) {
	want, err := schema.Compile(f.loop.Schema)
	if err != nil { // Validate has seen to it
		return nil, err.Error()
	}
	return want.Answer(f.state.Text)
}

// stopped says that the context is done, and why.
func stopped(ctx context.Context) error {
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		return fmt.Errorf("%w: %w", ctx.Err(), cause)
	}
	return context.Cause(ctx)
}

// suspension returns the pause that an adapter asked for; nil if it asked for none.
func suspension(err error) *resume.Pause {
	if s, ok := errors.AsType[*resume.Suspension](err); ok {
		return &s.Pause
	}
	return nil
}
