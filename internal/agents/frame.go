package agents

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// frame is one loop in an Execution: the root, a delegate or a sub-agent.
type frame struct {
	place
	progress
	view
	execution *Execution
	parent    *frame // nil for the root
	loop      *agentloop.Loop
	start     Start
	memory    runtime.Conversation
	narrow    []string // what a sub-agent is offered of its tools; nil: all

	tools    *toolset
	skills   []runtime.ToolSpec // the tools that skills bring
	layers   []*agentloop.Layer // that work, by slot
	recalled []string           // what they said
	noted    []string           // notes of the inbox that are in the journal
	trace    *tracer
	children map[string]*frame // that are at work, by the last part of their names
	followed int               // how many hand-offs led to loop
}

// place is where a frame stands among others.
type place struct {
	name     string // in the journal; "" for the root
	path     string // in traces, pauses and idempotency keys
	depth    int
	maxDepth int // where no more children are offered
}

// progress is how far a frame is in its Execution.
type progress struct {
	stage stage
	item  int  // in the stage, or in what comes between two rounds
	layer int  // the next of the layers in that
	job   *Job // under way, of the frame itself
	due   bool // the call of the model that the state has begun is to be made
	round *round
	ends  agentloop.StopReason // it succeeds with; "" while it continues
	err   error                // that ends the frame
	done  bool                 // the frame has ended
}

// view is what the model has seen of the state.
type view struct {
	archived string            // for State.Archive
	seen     []runtime.Message // the last view; nil: the next has another beginning
	shown    int               // how many of State.Messages came into it, those before State.From with them
}

// stopPaused is how an execution ends, not a loop.
const stopPaused agentloop.StopReason = "paused"

// stage is how far a frame is in its Execution.
type stage int

// The stages, in order. A frame is driving most of the time; then the phase of its state says what is to be done.
const (
	opening   stage = iota // tells that it begins
	readying               // its layers
	reloading              // its skills
	fetching               // its archive
	driving
	failing   // records why
	disposing // of its layers
	closing   // tells that it ends
)

// state is the frame's part of the state; before its first event that is empty.
func (f *frame) state() *State {
	if s := f.execution.state.at(f.name); s != nil {
		return s
	}
	return new(State)
}

// record records an event of the frame.
func (f *frame) record(e Event) { f.execution.record(f, f.name, e) }

func (x *Execution) record(by owner, frame string, e Event) {
	x.event = e
	x.event.Frame = frame
	x.queue = append(x.queue, item{owner: by})
}

// want asks for a call; then takes its result.
func (f *frame) want(j *Job, then func(Reply)) {
	f.job = j
	f.execution.want(f, j, f.trace, func(r Reply) {
		f.job = nil
		then(r)
	})
}

func (x *Execution) want(f *frame, j *Job, to *tracer, then func(Reply)) {
	j.Path, j.Frame, j.Conversation = f.path, f.name, f.memory
	x.jobs[j] = pending{to, then}
	x.queue = append(x.queue, item{job: j})
}

// step does the next thing there is to do; false: there is none before a call under way has ended.
func (f *frame) step() bool {
	if f.job != nil {
		return false
	}
	switch f.stage {
	case opening:
		data := []any{"agent", f.loop.Name, "model", f.loop.Model, "depth", f.depth}
		if s := f.state(); s.Phase != "" {
			data = append(data, "resume", true, "usage", s.Total())
		}
		f.emit(trace.AgentStart, data...)
		f.stage = readying
	case readying:
		f.ready()
	case reloading:
		f.stage = fetching
		f.reload()
	case fetching:
		f.stage = driving
		f.fetch()
	case driving:
		return f.drive()
	case failing:
		f.stage, f.layer = disposing, len(f.loop.Layers)
		if failed, ok := errors.AsType[*failure](f.err); ok {
			failed.err.Step = f.path
			f.record(Event{Kind: Ended, Code: failed.err.Code, Text: cmp.Or(failed.Error(), "failed"),
				More: &More{Stop: agentloop.StopError, Category: failed.err.Category}})
		}
	case disposing:
		f.dispose()
	case closing:
		f.close()
	}
	return true
}

// drive does what the state asks for, until the loop has ended, paused or failed. So a loop that continues
// after a pause or a crash is not a special case, except where a call was under way.
func (f *frame) drive() bool {
	s := f.state()
	between := !f.due && f.round == nil && f.item == 0 && f.ends == ""
	if f.execution.cut != nil && between {
		f.finish(f.execution.stopped)
		return true
	}
	switch s.Phase {
	case "":
		start := f.start
		start.Agent, start.Depth, start.MaxSteps = f.loop.Name, f.depth, maxSteps(f.loop)
		start.Late = (f.memory.Thread != "" || start.Before != nil) &&
			(f.loop.TopK > 0 || f.loop.Layers != nil || f.loop.Handoffs != nil)
		if err := f.homeless(); err != nil {
			f.finish(err)
			return true
		}
		f.record(Event{Kind: Started, More: &More{Start: &start}})
	case Ready:
		if f.round != nil {
			return f.settle()
		}
		f.between()
	case Asking:
		f.asking()
	case Calling:
		return f.settle()
	case Said:
		f.answered()
	case Over:
		if f.ends = ""; f.execution.cut != nil {
			f.finish(f.execution.stopped)
		} else {
			f.finish(nil)
		}
	}
	return true
}

// finish ends the frame: nil, errPaused, a failure, or an error that the journal does not keep.
func (f *frame) finish(err error) { f.err, f.stage = err, failing }

// broke takes that an event of the frame is not recorded.
func (f *frame) broke(err error) {
	if f.stage >= disposing { // it was why it failed
		f.err = err
		return
	}
	f.finish(err)
}

// close reports how the frame ends.
func (f *frame) close() {
	if f.err != nil && !errors.Is(f.err, errPaused) {
		code, message := "", f.err.Error()
		if e, ok := errors.AsType[*runtime.Error](f.err); ok {
			message = e.Err.Error() // the event names the step
		}
		if failed, ok := errors.AsType[*failure](f.err); ok {
			code = failed.err.Code
		}
		f.emit(trace.AgentError, append(known("code", code), "message", message)...)
	}
	f.emit(trace.LoopSnapshot, "snapshot", f.snapshot())
	f.emit(trace.AgentEnd, "stopReason", string(f.ending()))
	f.done = true
}

// ending is the word for how the frame ended.
func (f *frame) ending() agentloop.StopReason {
	_, failed := errors.AsType[*failure](f.err)
	switch {
	case f.err == nil:
		return f.state().Stop
	case errors.Is(f.err, errPaused):
		return stopPaused
	case f.execution.cut != nil && !failed:
		return agentloop.StopCancelled
	}
	return agentloop.StopError
}

// outside is an error that the journal does not keep: once the cause is repaired, the loop continues.
func (f *frame) outside(category runtime.Category, code string, err error) error {
	return &runtime.Error{Category: category, Code: code, Step: f.path, Err: err}
}

// failed ends the frame with the failure of a call, unless the run is being cancelled. A port that is not configured
// says so with a code of its own.
func (f *frame) failed(category runtime.Category, code string, err error) {
	if e, ok := errors.AsType[*runtime.Error](err); ok && e.Category == runtime.CategoryConfig {
		err = f.outside(e.Category, e.Code, e.Err)
	} else if f.execution.cut == nil {
		err = fail(category, code, err)
	}
	f.finish(err)
}

// The items between two rounds.
const (
	checking = 0  // or, before the first step, the first that is gathered
	compacts = 1  // after a step
	steers   = 10 // reads the inbox
	steered  = 11 // clears it
	begins   = 12 // the next call of the model
)

// between does what comes between two rounds: see whether the loop is over, take in what is new, ask.
func (f *frame) between() {
	s := f.state()
	switch {
	case f.ends != "":
		f.succeed()
	case f.item == steers:
		f.item = begins
		f.steer()
	case f.item == steered:
		f.item = begins
		f.want(&Job{Op: ClearInbox, Names: f.noted}, func(r Reply) {
			if r.Err != nil {
				f.failed(runtime.CategoryInfra, "inbox.failed", r.Err)
			}
		})
	case f.item == begins:
		f.item = checking
		if _, ok := f.execution.offer.Models[f.loop.Model]; !ok {
			f.finish(f.noModel(f.loop.Model))
			return
		}
		f.due = true
		f.record(Event{Kind: ModelBegan})
	case s.fresh() && s.left() > 0:
		f.gather()
	case f.item == checking:
		stop, err := f.bound()
		if f.item = compacts; err != nil {
			f.finish(err)
		} else if f.ends = stop; stop != "" {
			f.item = 0
		}
	default:
		f.item = steers
		f.compact()
	}
}

// ask asks a predicate about the loop.
func (f *frame) ask(what string, by func(agentloop.Progress) (bool, error)) (bool, error) {
	s := f.state()
	p := agentloop.Progress{StepsDone: s.Steps, Text: s.Text, Calls: slices.Clone(s.Calls), Usage: s.Total()}
	if f.execution.offer.Ask == nil {
		return by(p)
	}
	return f.execution.offer.Ask(what, by, p)
}

// answered ends the loop with what the model said, or lets it mend that.
func (f *frame) answered() {
	s := f.state()
	switch {
	case f.ends != "":
		f.succeed()
		return
	case s.Finish == runtime.FinishFilter:
		f.finish(fail(runtime.CategoryModel, "model.filtered",
			fmt.Errorf("model %q: a filter of the provider held the answer back, or a part of it", f.loop.Model)))
		return
	case s.Finish == runtime.FinishLength:
		f.stops(agentloop.StopCut, runtime.CategoryLimit, diagnostics.CodeAnswerCut,
			"hit the token limit of an answer before the answer was complete")
		return
	case f.loop.Schema == nil && s.Finish == runtime.FinishCalls:
		f.stops(agentloop.StopNoAction, runtime.CategoryModel, diagnostics.CodeNoAction,
			"gave no answer (the model said that it calls tools, and called none)")
		return
	case f.loop.Schema == nil && s.Silent:
		f.stops(agentloop.StopNoAction, runtime.CategoryModel, diagnostics.CodeNoAction,
			"gave no answer (the model said nothing)")
		return
	}
	switch fault, err := f.fault(); {
	case err != nil:
		f.finish(fail(runtime.CategoryConfig, "expr.failed", err))
	case fault == "":
		f.accept()
	case s.Repairs >= f.repairs():
		f.finish(fail(runtime.CategoryModel, "answer.invalid",
			fmt.Errorf("model %q gave no valid answer in %d turns: %s", f.loop.Model, s.Repairs+1, fault)))
	default:
		f.due = true
		f.record(Event{Kind: ModelBegan, More: &More{Repair: true}, Messages: []runtime.Message{{Role: runtime.User,
			Text: Again(fault, f.loop.Schema)}}})
	}
}

// Again asks for another answer in place of one that cannot be used. A nil schema is none.
func Again(fault string, schema json.RawMessage) string {
	text := "That answer cannot be used: " + fault + "\nAnswer again"
	if schema == nil {
		return text + "."
	}
	return text + ", with nothing but JSON that matches this schema:\n" + string(schema)
}

// fault says what is wrong with the last answer; "": nothing is. The error says that nobody can tell.
func (f *frame) fault() (fault string, err error) {
	var data any
	if f.loop.Schema != nil {
		data, fault = f.parse()
	}
	if x := f.execution; fault == "" && f == x.root && x.terms.Check != nil {
		res := x.Result()
		res.Data, res.StopReason = data, agentloop.StopAnswer
		return x.terms.Check(res)
	}
	return fault, nil
}

// repairs is how many turns there are to mend an answer.
func (f *frame) repairs() int {
	if x := f.execution; f == x.root && x.terms.Repairs != nil {
		return *x.terms.Repairs
	}
	return DefaultRepairs
}

// accept ends the loop with its answer, unless somebody had a word meanwhile and there are steps left.
func (f *frame) accept() {
	if f.state().left() <= 0 || !f.told() {
		f.ends = agentloop.StopAnswer
	}
}

// parse reads the last answer by the schema. fault says what is wrong with it; "" is good.
func (f *frame) parse() (data any, fault string) {
	want, err := schema.Compile(f.loop.Schema)
	if err != nil { // Validate has seen to it
		return nil, err.Error()
	}
	return want.Answer(f.state().Text)
}

// succeed ends the loop without an error: what others keep of it is written first. A failing save fails
// the loop; what is saved is the part of the conversation that the loop added, the system prompt never.
func (f *frame) succeed() {
	s := f.state()
	own := s.Messages[s.Own:]
	remembers := f.memory.Thread != "" && f.execution.offer.Memory
	switch {
	case s.Saved || f.item == 4:
		f.record(Event{Kind: Ended, More: &More{Stop: f.ends}})
	case f.item == 0:
		names := []any{}
		for _, c := range s.Calls {
			names = append(names, c.Name)
		}
		f.emitAbout(trace.AgentItem, func() any { return Planned(s) }, "item", "plan", "steps", s.Steps, "tools", names)
		f.emitAbout(trace.AgentItem, func() any { return map[string]any{"text": s.Text} },
			"item", "response", "bytes", len(s.Text))
		if f.item, f.layer = 1, 0; !remembers && len(f.layers) == 0 {
			f.item = 4
		}
	case f.item == 1:
		if f.item = 3; remembers {
			f.want(&Job{Op: SaveMemory, Key: f.execution.terms.RunID + "/" + f.path,
				Messages: s.Remembered()}, func(r Reply) {
				if r.Err != nil {
					f.failed(runtime.CategoryMemory, "memory.save", r.Err)
				}
			})
		}
	case f.layer > 0 && f.execution.cut != nil:
		f.finish(f.execution.stopped)
	case f.layer < len(f.layers): // after the memory: no layer has what was not saved
		y := f.layers[f.layer]
		if f.layer++; y.Store != nil {
			f.wantLayer(&Job{Op: StoreLayer, Messages: lasting(own)}, y, func(Reply) {})
		}
	default:
		f.item = 4
		f.record(Event{Kind: MemorySaved})
		f.emit(trace.MemorySave, "messages", len(s.Remembered()))
	}
}
