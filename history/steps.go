package history

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// Step is what the journal has of a step.
type Step struct {
	Step   string `json:"step"`   // its path
	Status string `json:"status"` // running, waiting, succeeded, failed
	Error  string `json:"error,omitempty"`
	Agent  *Agent `json:"agent,omitempty"` // nil: not an agent, or not begun
}

// Agent is the progress of an agent.
type Agent struct {
	Step  int           `json:"step"`            // of its loop
	Calls []Call        `json:"calls,omitempty"` // calls without a result, children's after their parent's
	Usage runtime.Usage `json:"usage"`           // children's included
}

// Call is a call by an agent that has no result yet.
type Call struct {
	Path string `json:"path"`           // of the loop that makes it
	Call int    `json:"call,omitempty"` // its number; 0: the call of the model
	Tool string `json:"tool,omitempty"`
}

// reader reads a journal, a record at a time.
type reader struct {
	events []trace.Event
	steps  []Step // that the journal names, in the order in which they began
	acts   []Act
	pauses map[string]resume.Pause // that were opened, without tokens

	about  []any          // of run.start, names and values
	recipe *recipe.Recipe // nil: not available
	load   func(digest string) *recipe.Recipe
	index  map[string]int       // of steps
	began  map[string]time.Time // calls, by path
	open   []resume.Pause
	paused bool
	failed []any             // of run.error: the step that failed last
	agents map[string]*agent // by path
	said   journal.Settlements
}

// add reads the next record. It skips what it cannot read because it is damaged or of a later version.
func (r *reader) add(rec checkpoint.Record) {
	e, err := journal.Decode(rec)
	if err != nil {
		return
	}
	r.act(&e)
	settled := r.said.Next(&e)
	if r.paused {
		kind := "recover"
		if what, ok := e.What.(journal.PauseAnswered); ok && what.Next == resume.Answered {
			kind = "resume"
		}
		r.paused = false
		r.emitOf(rec, "", trace.RunStart, attrs(append(slices.Clip(r.about), kind, true)))
	}
	switch what := e.What.(type) {
	case journal.Created:
		r.recipe = r.load(what.Digest)
		r.about = []any{"digest", what.Digest, "recipe", what.Recipe}
		r.emit(rec, trace.RunStart, r.about...)
	case journal.CallBegun:
		r.call(rec, "")
	case journal.AgentEvents:
		r.agent(rec, &what)
	case journal.CallEnded:
		if r.began[rec.Path].IsZero() {
			r.call(rec, what.Models.Model)
		}
		var why *failure
		if f := what.Failure; f != nil {
			why = &failure{f.Code, f.Err.Error()}
		}
		r.end(rec, why)
	case journal.Told:
		for _, c := range what.Events {
			e := trace.Told{At: c.At, Name: c.Name, Data: c.Data}.Event(rec.Path)
			e.Seq = int64(len(r.events) + 1)
			r.events = append(r.events, e)
		}
	case journal.WaitOver:
		r.begin(rec)
		r.end(rec, nil)
	case journal.PauseOpened:
		r.opened(rec, &what)
	case journal.PauseAnswered:
		r.answered(rec, what.Pause, what.Next)
		r.settle(rec, settled)
	case journal.Paused:
		for _, o := range r.open {
			r.emitOf(rec, "", trace.RunPaused, attrs([]any{"pauseKind", string(o.Kind), "step", o.Step}))
		}
		r.emit(rec, trace.RunOutput, "type", "artefact")
		r.emit(rec, trace.RunEnd, "status", "paused")
		r.paused = true
	case journal.Ended:
		switch what.Status {
		case checkpoint.OK:
			r.emit(rec, trace.RunSuccess)
		case checkpoint.Cancelled:
			r.emit(rec, trace.RunCancelled)
		default:
			r.emit(rec, trace.RunError, r.failed...)
		}
		r.emit(rec, trace.RunEnd, "status", string(what.Status))
	}
}

// opened notes that a step, or an agent in it, waits.
func (r *reader) opened(rec checkpoint.Record, what *journal.PauseOpened) {
	of := rec
	if what.Agent != nil { // it may be a child of the step's agent that waits
		of.Path = what.Agent.Step
	}
	r.begin(of)
	r.steps[r.index[of.Path]].Status = "waiting"
	r.emit(rec, trace.StepWaiting, "pauseKind", string(what.Pause.Kind))
	r.pauses[what.Pause.ID] = what.Pause
	r.open = append(r.open, what.Pause)
}

// emit adds an event of the record's step; data are names and values, in any order.
func (r *reader) emit(rec checkpoint.Record, kind trace.Kind, data ...any) {
	r.emitOf(rec, rec.Path, kind, attrs(data))
}

func (r *reader) emitOf(rec checkpoint.Record, step string, kind trace.Kind, data trace.Data) {
	seq := int64(len(r.events) + 1)
	r.events = append(r.events, trace.Event{Seq: seq, At: rec.At, Kind: kind, Step: step, Data: data})
}

// begin notes that a step runs, unless it is known.
func (r *reader) begin(rec checkpoint.Record) {
	if _, known := r.index[rec.Path]; !known {
		r.index[rec.Path] = len(r.steps)
		r.steps = append(r.steps, Step{Step: rec.Path})
		r.emit(rec, trace.StepStart)
	}
	s := &r.steps[r.index[rec.Path]]
	s.Status, s.Error = "running", ""
}

// call notes that a step calls its adapter.
func (r *reader) call(rec checkpoint.Record, model string) {
	r.begin(rec)
	r.began[rec.Path] = rec.At
	uses := r.uses(rec.Path)
	switch {
	case strings.Contains(uses, "."):
		r.emit(rec, trace.AdapterCall, "kind", "tool", "name", uses)
	case uses != "" && model != "":
		r.emit(rec, trace.AdapterCall, "kind", uses, "name", model)
	case uses != "":
		r.emit(rec, trace.AdapterCall, "kind", uses)
	}
}

// end notes that a step is over; why is nil when it succeeded.
func (r *reader) end(rec checkpoint.Record, why *failure) {
	s := &r.steps[r.index[rec.Path]]
	s.Status = "succeeded"
	var data []any
	if why != nil {
		s.Status, s.Error = "failed", why.message
		data = []any{"code", why.code, "message", why.message}
		r.failed = append(slices.Clip(data), "step", rec.Path)
	}
	data = append(data, "status", s.Status)
	if at := r.began[rec.Path]; !at.IsZero() && at != rec.At {
		data = append(data, "durationMs", rec.At.Sub(at).Milliseconds())
	}
	delete(r.began, rec.Path)
	r.emit(rec, trace.StepEnd, data...)
}

// agent notes what happened in an agent.
func (r *reader) agent(rec checkpoint.Record, what *journal.AgentEvents) {
	r.begin(rec)
	if r.began[rec.Path].IsZero() {
		r.began[rec.Path] = rec.At
	}
	of := r.agents[rec.Path]
	add := func(events []trace.Event) {
		for _, e := range events {
			r.emitOf(rec, e.Step, e.Kind, e.Data)
		}
	}
	for _, e := range what.Events {
		if of == nil || e.Kind == agents.Started && e.Frame == "" { // again, with an interrupt that restarts
			of = &agent{path: rec.Path}
			r.agents[rec.Path] = of
		}
		events, err := of.add(e)
		if add(events); err != nil {
			return // of another version
		}
	}
	if of == nil {
		return
	}
	s := &r.steps[r.index[rec.Path]]
	if what.Waits {
		add(of.wait())
		s.Status = "waiting"
	}
	s.Agent = &Agent{Step: of.state.Steps, Calls: openCalls(&of.state, of.path), Usage: of.state.Total()}
}

// answered notes that a pause is over. A step that did nothing but wait is over too.
func (r *reader) answered(rec checkpoint.Record, id string, next resume.Next) {
	r.open = slices.DeleteFunc(r.open, func(o resume.Pause) bool { return o.ID == id })
	if _, known := r.index[rec.Path]; !known {
		return
	}
	r.steps[r.index[rec.Path]].Status = "running"
	uses := r.uses(rec.Path)
	switch {
	case next == resume.Failed:
		r.end(rec, &failure{"pause.expired", "nobody answered in time"})
	case uses == "human" || uses == "wait" || uses == "receive":
		r.end(rec, nil)
	}
}

// uses is what a step of the recipe uses, by its path; "" when it is not known.
func (r *reader) uses(path string) string {
	if r.recipe == nil {
		return ""
	}
	steps, uses := r.recipe.Steps, ""
	bodies := map[string]*recipe.Body{} // that the next name may be one of
	for id := range strings.SplitSeq(resume.DefinitionPath(path), "/") {
		if b, ok := bodies[id]; ok && b != nil { // a branch or a case
			steps, bodies = b.All(), nil
			continue
		}
		i := slices.IndexFunc(steps, func(s recipe.Step) bool { return s.ID == id })
		if i < 0 {
			return ""
		}
		uses = steps[i].Uses.Text
		bodies = maps.Collect(steps[i].Bodies())
		steps = bodies[""].All()
	}
	return uses
}

// settle ends a step whose call a person decided; how is nil for other answers.
func (r *reader) settle(rec checkpoint.Record, how *journal.Settlement) {
	if _, known := r.index[rec.Path]; !known || how == nil {
		return
	}
	if answer, _ := how.Answer.(map[string]any); answer["decision"] == "result" {
		r.end(rec, nil)
		return
	}
	r.end(rec, &failure{"call.indeterminate",
		"it is not known whether the call had its effect, and it was decided that it counts as failed"})
}

// failure is why a step failed.
type failure struct{ code, message string }
