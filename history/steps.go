package history

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/past"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// Step is how far a step, an item of a foreach or a step in a body has come.
type Step struct {
	// Step is its path: send, draft#2/score. In a foreach, and in a body that has not begun, it is the path in the
	// plan, which has no numbers.
	Step   string `json:"step"`
	Uses   string `json:"uses,omitempty"`   // "": the recipe is not known
	Status string `json:"status"`           // pending, running, waiting, succeeded, failed, skipped or cancelled
	Reason string `json:"reason,omitempty"` // of a skipped one: when_false, upstream or not_taken
	// Error is the code and the message of its failure; zero: it did not fail.
	Error checkpoint.Failure `json:"error,omitzero"`
	// StartedAt is when it began, and EndedAt when it ended, each for the last time. Zero: it has not, or not yet.
	StartedAt time.Time `json:"startedAt,omitzero"`
	EndedAt   time.Time `json:"endedAt,omitzero"`
	Attempts  int       `json:"attempts,omitempty"` // of its call; 0: one, or not known
	// RolledBack says that it was rolled back, and RollbackError why a rollback failed; "": none did.
	RolledBack    bool   `json:"rolledBack,omitempty"`
	RollbackError string `json:"rollbackError,omitempty"`
	// Items counts, by status, the items of a foreach, or how often a step in one is there; nil: it is neither.
	Items map[string]int    `json:"items,omitempty"`
	Usage *checkpoint.Usage `json:"usage,omitempty"` // of models; nil: none
	Agent *Agent            `json:"agent,omitempty"` // nil: not an agent, or not begun
}

// Agent is the progress of an agent.
type Agent struct {
	Step  int           `json:"step"`            // of its loop
	Calls []Call        `json:"calls,omitempty"` // calls without a result, children's after their parent's
	Usage runtime.Usage `json:"usage"`           // children's included
	// Stop is why it stopped, as an agentloop.StopReason; "": it has not.
	Stop string `json:"stop,omitempty"`
}

// Call is a call by an agent that has no result yet.
type Call struct {
	Path string `json:"path"`           // of the loop that makes it
	Call int    `json:"call,omitempty"` // its number; 0: the call of the model
	Tool string `json:"tool,omitempty"`
}

// journalLog reads a journal, a record at a time.
type journalLog struct {
	events []trace.Event
	past   []journal.Event // that were read
	faulty error           // why a record was not read; nil: all were
	steps  []Step          // that the journal names, in the order in which they began
	acts   []Act
	pauses map[string]resume.Pause // that were opened, without tokens

	about  []any             // of run.start, names and values
	recipe *recipe.Recipe    // nil: not available
	kinds  map[string]string // of its steps, by path; nil: not looked at yet
	load   func(digest string) *recipe.Recipe
	index  map[string]int       // of steps
	began  map[string]time.Time // calls, by path
	open   []resume.Pause
	failed []any             // of run.error: the step that failed last
	agents map[string]*agent // by path
	ends   past.Ends
	executions
	content bool // as of Reader
}

// add reads the next record. It skips what it cannot read because it is damaged or of a later version.
func (r *journalLog) add(rec checkpoint.Record) {
	e, err := journal.Decode(rec)
	if err != nil {
		r.faulty = cmp.Or(r.faulty, err)
		return
	}
	r.past = append(r.past, e)
	r.act(&e)
	end, _ := r.ends.Next(&e)
	r.execution(rec, &e)
	switch what := e.What.(type) {
	case journal.Created:
		r.recipe, r.kinds = r.load(what.Digest), nil
		r.about = []any{"digest", what.Digest, "recipe", what.Recipe}
		if !what.Queued {
			r.emit(rec, trace.RunStart, r.about...)
		}
	case journal.CallBegun:
		r.call(rec, "")
	case journal.CallOpen:
		r.inProgress(rec, &what)
	case journal.AgentEvents:
		r.agent(rec, &what)
	case journal.CallEnded:
		r.callEnded(rec, &what)
	case journal.Told:
		for _, c := range what.Events {
			r.told(rec.Path, trace.Told{At: c.At, Name: c.Name, Data: c.Data})
		}
	case journal.Said:
		r.begin(rec)
		r.emit(rec, trace.StepSaid, what.About()...)
		r.end(rec, nil, what.Output())
	case journal.StepDenied:
		r.begin(rec)
		r.end(rec, whyOf(what.Failure), nil)
	case journal.WaitOver:
		r.begin(rec)
		r.end(rec, whyOf(what.Failure), what.Output)
	case journal.PauseOpened:
		r.opened(rec, &what)
	case journal.PauseAnswered:
		r.answered(rec, &what)
		r.settle(rec, end.Settled)
	case journal.RollbackEnded:
		data := []any{"ok", what.Error == ""}
		if what.Error != "" {
			data = append(data, "message", what.Error)
		}
		r.emit(rec, trace.StepRollback, data...)
		r.rolledBack(rec, &what)
	case journal.FinallyBegun: // no question of before is open any more
		r.open = nil
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
			r.emit(rec, trace.RunError, r.why(&what.Error)...)
		}
		r.emit(rec, trace.RunEnd, "status", string(what.Status))
	case nil: // of a later version
		r.told(rec.Path, trace.Told{At: rec.At, Name: "journal.unknown",
			Data: map[string]any{"kind": string(rec.Kind)}})
	}
}

// why is the data of run.error.
func (r *journalLog) why(f *checkpoint.Failure) []any {
	if f.Code == "" {
		return r.failed
	}
	data := []any{"code", f.Code, "message", f.Message}
	if f.Step != "" {
		data = append(data, "step", f.Step)
	}
	return data
}

// told adds an event that the trace has of its own.
func (r *journalLog) told(path string, what trace.Told) {
	e := what.Event(path)
	e.Seq = int64(len(r.events) + 1)
	r.events = append(r.events, e)
}

// opened notes that a step, or an agent in it, waits.
func (r *journalLog) opened(rec checkpoint.Record, what *journal.PauseOpened) {
	of := rec
	if what.Agent != nil { // it may be a child of the step's agent that waits
		of.Path = what.Agent.Step
	}
	if past.AtBreakpoint(&what.Pause) {
		r.place(of)
	} else if r.begin(of); r.onlyWaits(of.Path) && r.began[of.Path].IsZero() {
		r.began[of.Path] = rec.At
	}
	r.steps[r.index[of.Path]].Status = "waiting"
	r.emit(rec, trace.StepWaiting, "pauseKind", string(what.Pause.Kind))
	r.pauses[what.Pause.ID] = what.Pause
	r.open = append(r.open, what.Pause)
}

// emit adds an event of the record's step; data are names and values, in any order.
func (r *journalLog) emit(rec checkpoint.Record, kind trace.Kind, data ...any) {
	r.emitOf(rec, rec.Path, kind, attrs(data))
}

func (r *journalLog) emitOf(rec checkpoint.Record, step string, kind trace.Kind, data trace.Data) {
	seq := int64(len(r.events) + 1)
	r.events = append(r.events, trace.Event{Seq: seq, At: rec.At, Kind: kind, Step: step, Data: data})
}

// place returns the step of a record, whose Status is "" if it has not begun.
func (r *journalLog) place(rec checkpoint.Record) *Step {
	if _, known := r.index[rec.Path]; !known {
		r.index[rec.Path] = len(r.steps)
		r.steps = append(r.steps, Step{Step: rec.Path, Uses: r.uses(rec.Path)})
	}
	return &r.steps[r.index[rec.Path]]
}

// begin notes that a step runs.
func (r *journalLog) begin(rec checkpoint.Record) {
	s := r.place(rec)
	if s.Status == "" {
		r.emit(rec, trace.StepStart)
	}
	if !s.EndedAt.IsZero() || s.StartedAt.IsZero() {
		s.StartedAt, s.EndedAt, s.Attempts = rec.At, time.Time{}, 0
	}
	s.Status, s.Error, s.RolledBack, s.RollbackError = "running", checkpoint.Failure{}, false, ""
}

// rolledBack notes the end of the rollback of a step.
func (r *journalLog) rolledBack(rec checkpoint.Record, what *journal.RollbackEnded) {
	if i, known := r.index[strings.TrimSuffix(rec.Path, "!rollback")]; known {
		s := &r.steps[i]
		s.RolledBack, s.RollbackError = what.Error == "", what.Error
	}
}

// inProgress notes that the call of a step has begun before.
func (r *journalLog) inProgress(rec checkpoint.Record, what *journal.CallOpen) {
	began := rec
	began.At = rec.At.Add(-what.For)
	if _, known := r.index[rec.Path]; known && r.agents[rec.Path] != nil {
		return // of an agent that is at work
	}
	name := ""
	if what.Kind == "model" {
		name = what.Name
	}
	r.call(began, name)
}

// callEnded notes the end of the call of a step.
func (r *journalLog) callEnded(rec checkpoint.Record, what *journal.CallEnded) {
	models := what.Models.All()
	if r.began[rec.Path].IsZero() {
		began := rec
		began.At = rec.At.Add(-what.Took)
		r.call(began, models.First())
	}
	for i, tried := range models.Tried {
		if next := models.After(i); next != "" {
			r.emit(rec, trace.AdapterFallback, "from", tried.Model, "to", next)
			r.emit(rec, trace.AdapterCall, "kind", r.uses(rec.Path), "name", next)
		}
	}
	if what.Took > 0 { // before its own record, which waits for the store
		r.began[rec.Path] = rec.At.Add(-what.Took)
	}
	r.steps[r.index[rec.Path]].Attempts = what.Attempts
	r.end(rec, whyOf(what.Failure), what.Output)
}

// whyOf is the failure in an event; nil: it has none.
func whyOf(f *journal.Failure) *failure {
	if f == nil {
		return nil
	}
	return &failure{f.Code, f.Err.Error()}
}

// call notes that a step calls its adapter.
func (r *journalLog) call(rec checkpoint.Record, model string) {
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
func (r *journalLog) end(rec checkpoint.Record, why *failure, output any) {
	s := &r.steps[r.index[rec.Path]]
	s.Status, s.EndedAt = "succeeded", rec.At
	var data []any
	if why != nil {
		s.Status, s.Error = "failed", checkpoint.Failure{Code: why.code, Message: why.message}
		data = []any{"code", why.code, "message", why.message}
		r.failed = append(slices.Clip(data), "step", rec.Path)
	}
	data = append(data, "status", s.Status)
	if at := r.began[rec.Path]; !at.IsZero() && !at.Equal(rec.At) {
		data = append(data, "durationMs", rec.At.Sub(at).Milliseconds())
	}
	if r.content && output != nil {
		data = append(data, "content", output)
	}
	delete(r.began, rec.Path)
	r.emit(rec, trace.StepEnd, data...)
}

// agent notes what happened in an agent.
func (r *journalLog) agent(rec checkpoint.Record, what *journal.AgentEvents) {
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
			of = &agent{path: rec.Path, content: r.content}
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
	s.Agent = &Agent{Step: of.state.Steps, Calls: openCalls(&of.state, of.path), Usage: of.state.Total(),
		Stop: string(of.state.Stop)}
}

// answered notes that a pause is over. A step that did nothing but wait is over too.
func (r *journalLog) answered(rec checkpoint.Record, what *journal.PauseAnswered) {
	r.open = slices.DeleteFunc(r.open, func(o resume.Pause) bool { return o.ID == what.Pause })
	if _, known := r.index[rec.Path]; !known {
		return
	}
	step := &r.steps[r.index[rec.Path]]
	step.Status = "running"
	switch p := r.pauses[what.Pause]; {
	case past.AtBreakpoint(&p): // it has not begun
		step.Status = ""
	case what.Next == resume.Failed:
		r.end(rec, &failure{"pause.expired", "nobody answered in time"}, nil)
	case r.onlyWaits(rec.Path):
		r.end(rec, nil, what.Answer)
	}
}

// onlyWaits reports whether a step does nothing but wait.
func (r *journalLog) onlyWaits(path string) bool {
	uses := r.uses(path)
	return uses == "human" || uses == "wait" || uses == "receive"
}

// uses is what a step of the recipe uses, by its path; "" when it is not known.
func (r *journalLog) uses(path string) string {
	if r.kinds == nil {
		r.kinds = map[string]string{}
		if r.recipe != nil {
			addKinds(r.kinds, r.recipe.All(), "")
		}
	}
	return r.kinds[resume.DefinitionPath(path)]
}

// addKinds adds what steps use, and what is in their bodies, by path.
func addKinds(kinds map[string]string, steps []recipe.Step, prefix string) {
	for i := range steps {
		path := prefix + steps[i].ID
		kinds[path] = steps[i].Uses.Text
		for name, b := range steps[i].Bodies() {
			inside := path + "/"
			if name != "" { // a branch or a case
				inside += name + "/"
			}
			if len(kinds) < program.MaxSteps {
				addKinds(kinds, b.All(), inside)
			}
		}
	}
}

// settle ends a step whose call a person decided; how is nil for other answers.
func (r *journalLog) settle(rec checkpoint.Record, how *past.Settlement) {
	if _, known := r.index[rec.Path]; !known || how == nil {
		return
	}
	if answer, _ := how.Answer.(map[string]any); answer["decision"] == "result" {
		r.end(rec, nil, answer["form"])
		return
	}
	r.end(rec, &failure{"call.indeterminate",
		"it is not known whether the call had its effect, and it was decided that it counts as failed"}, nil)
}

// failure is why a step failed.
type failure struct{ code, message string }

// newLog returns a log that has read nothing. load returns the recipe of a digest; nil: it is not known.
func newLog(load func(digest string) *recipe.Recipe) *journalLog {
	return &journalLog{events: []trace.Event{}, steps: []Step{}, acts: []Act{}, pauses: map[string]resume.Pause{},
		executions: executions{list: []Execution{}}, index: map[string]int{}, began: map[string]time.Time{},
		agents: map[string]*agent{}, load: load}
}
