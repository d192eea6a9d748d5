package engine

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/past"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// Pause is a pending pause.
type Pause struct {
	resume.Pause
	task    *machine.Task
	inAgent string          // the name that the agent gave to it; "": it is the step's own
	again   bool            // in an agent: a call that failed waits for its next attempt
	batched journal.Batched // of the call that waits
	strays  bool            // in an agent: such a call, and the process died before it was known for which request
	key     PauseKey
	timer   int64 // for what is due while the run continues; 0: nothing
	Minted  bool  // it has a token
}

// waits is what tasks wait for, and what they have waited for.
type waits struct {
	pauses   []*Pause          // pending
	byID     map[string]*Pause // these; nil: not needed since there was a change
	opened   map[string]int    // pauses so far, by path
	answers  map[*machine.Task]resume.Reply
	progress map[*machine.Task]journal.Progress // of calls that paused and are not finished
	files    map[*machine.Task][]journal.File   // of calls that have looked at them and are not finished
}

// add adds a pending pause.
func (w *waits) add(p *Pause) {
	if w.pauses = append(w.pauses, p); w.byID != nil {
		w.byID[p.ID] = p
	}
}

// drop forgets a pause that is over.
func (w *waits) drop(p *Pause) {
	w.pauses = slices.DeleteFunc(w.pauses, func(q *Pause) bool { return q == p })
	delete(w.byID, p.ID)
}

// dropAll forgets the pauses that are over.
func (w *waits) dropAll(over func(*Pause) bool) {
	w.pauses, w.byID = slices.DeleteFunc(w.pauses, over), nil
}

// Pauses returns the pending pauses, and puts them in the order of their steps; those of an agent in the order of its
// calls. They no longer offer to retry a call whose result is of no use any more.
func (r *Run) Pauses() []*Pause {
	place := map[*machine.Task]int{}
	r.m.Walk(func(t *machine.Task) { place[t] = len(place) }, func(*machine.Task) {})
	slices.SortStableFunc(r.waits.pauses, func(a, b *Pause) int {
		return cmp.Or(cmp.Compare(place[a.task], place[b.task]), slices.Compare(a.callsInAgent(), b.callsInAgent()))
	})
	for _, p := range r.waits.pauses {
		if p.Reason == journal.Indeterminate && !r.ending.mayRetry(p.task) {
			p.Decisions = slices.DeleteFunc(slices.Clone(p.Decisions), func(d string) bool { return d == "retry" })
		}
	}
	return r.waits.pauses
}

// Refuses returns the error if an answer to a pending pause is no longer useful; nil: it is.
func (v View) Refuses(p *Pause, answer any) error {
	if p.Reason != journal.Indeterminate || past.Decision(answer) != "retry" || v.ending.mayRetry(p.task) {
		return nil
	}
	return misfit(p, fmt.Errorf("\"retry\" is not possible, as the run does not continue\n  hint: it is "+
		"\"result\" or \"fail\""))
}

// misfit is the error for an answer that a pause does not take.
func misfit(p *Pause, why error) error {
	return &runtime.Error{Category: runtime.CategoryConfig, Code: "answer.unfit", Step: p.Step,
		Err: fmt.Errorf("the answer to %s: %w", &p.Pause, why)}
}

// Pause returns a pending pause; nil: none has that id.
func (v View) Pause(id string) *Pause { return v.waits.pause(id) }

// pause returns a pending pause; nil: none has that id.
func (w *waits) pause(id string) *Pause {
	if w.byID == nil {
		w.byID = make(map[string]*Pause, len(w.pauses))
		for _, p := range w.pauses {
			w.byID[p.ID] = p
		}
	}
	return w.byID[id]
}

// callsInAgent returns the numbers of the calls that contain a pause in an agent, outermost first: those of the
// children, then its own, which a pause of the model has not. They put pauses in the order of the calls.
func (p *Pause) callsInAgent() (list []int) {
	for _, part := range inCalls.FindAllStringSubmatch(strings.TrimPrefix(p.inAgent, p.task.Path()), -1) {
		n, _ := strconv.Atoi(part[1])
		list = append(list, n)
	}
	return list
}

// inCalls finds the numbers in an agent's names for its pauses, such as step/research#2:call3.
var inCalls = regexp.MustCompile(`(?:#|:call)(\d+)`)

// openWait opens the pause of a human or a wait step. For a short wait, and for any wait for a time in a
// run without a store, the run sleeps instead.
func (r *Run) openWait(c machine.Command) {
	t := c.Task
	if t.Status() != machine.Waiting {
		return // the task has ended meanwhile
	}
	if t.AtBreakpoint() {
		r.pause(t, journal.PauseOpened{Pause: pauseBefore(t, r.o.Redact)})
		return
	}
	if t.Node().Kind == machine.Receive {
		if p, near := pauseToReceive(t, r.now, r.o.Limits.InlineWait); near {
			r.m.Keep(t)
		} else {
			r.pause(t, journal.PauseOpened{Pause: p})
		}
		return
	}
	kind := t.Node().Adapter.(program.WaitKind)
	if kind == program.WaitSaid {
		what, err := saidBy(c.Input, r.o.Redact)
		if err != nil {
			r.refuseWait(t, badWait(err))
			return
		}
		r.trace.begun(t, r.now)
		r.unsaved.spoken = append(r.unsaved.spoken, spoken{t, what}) // recorded first, so that it is never shown twice
		if r.record(t, r.trace.path(t), what); r.unsaved.durable {
			r.todo.ask(Command{Op: Save})
		} else {
			r.trace.said(r.unsaved.takeSpoken(), r.now)
		}
		return
	}
	p, err := pauseOf(kind, c.Input, r.now)
	if err != nil {
		r.refuseWait(t, badWait(err))
		return
	}
	if left := p.RetryAt.Sub(r.now); !p.RetryAt.IsZero() && (left <= r.o.Limits.InlineWait || !r.o.Kept) {
		r.m.Keep(t)
		r.todo.arm(left, due{wait: t})
		return
	}
	r.pause(t, journal.PauseOpened{Pause: p})
}

// refuseWait ends the waiting of a task for which no pause can be opened.
func (r *Run) refuseWait(t *machine.Task, failure *machine.Failure) {
	if t.Node().Kind == machine.Call { // it waits already
		r.record(t, r.trace.path(t), journal.CallEnded{Failure: failure})
		return
	}
	r.trace.begun(t, r.now)
	r.record(t, r.trace.path(t), journal.WaitOver{Failure: failure})
}

// pause gives a pause its identity, records it and announces it.
func (r *Run) pause(t *machine.Task, what journal.PauseOpened) {
	path := r.trace.path(t)
	what.Pause.ID = r.waits.idOfNext(path)
	if err := r.openPause(t, path, r.m.Decided(), what); err != nil {
		r.refuseWait(t, &machine.Failure{Category: string(runtime.CategoryTool), Code: "pause.invalid", Err: err})
	}
}

// CleanPause returns a pause with its secrets redacted.
func CleanPause(redact *value.Redactor, p resume.Pause) resume.Pause {
	p.Prompt, p.Reason = redact.Text(p.Prompt), redact.Text(p.Reason)
	p.Show, p.Schema = redact.Value(p.Show), redact.Value(p.Schema)
	p.OnExpire.Value = redact.Value(p.OnExpire.Value)
	p.Decisions, p.To = slices.Clone(p.Decisions), slices.Clone(p.To)
	for _, words := range [][]string{p.Decisions, p.To} {
		for i := range words {
			words[i] = redact.Text(words[i])
		}
	}
	return p
}

// pauseID names the n-th pause of a step.
func pauseID(path string, n int) string {
	if n > 1 {
		return fmt.Sprintf("%s:%d", path, n)
	}
	return path
}

// openPause opens a pause, in the form that readers of the journal see.
func (r *Run) openPause(t *machine.Task, path string, n int64, what journal.PauseOpened) error {
	what.Interrupt = r.o.Interrupt
	rec, err := journal.Encode(journal.Event{At: r.now, Path: path, After: n, What: what})
	if err != nil {
		return err
	}
	e, err := journal.Decode(rec)
	if err != nil {
		return err
	}
	r.noteEvent(e)
	r.takeIn(t, &e)
	opened := r.waits.pauses[len(r.waits.pauses)-1]
	approves := r.agents.approves(opened)
	k, answered, changed := r.before.answerTo(opened, approves != nil)
	if changed {
		r.Report(questionChanged(opened.Step, k.Answer))
	}
	if answered {
		e := r.moment().ends(opened, k.Next, k.Answer)
		what := e.What.(journal.PauseAnswered)
		what.Kept = true
		e.What = what
		r.TakeNow([]journal.Event{e})
		return nil
	}
	if agents.Covered(approves, r.grants) {
		r.answerGranted()
		return nil
	}
	r.trace.emit(t, r.now, trace.StepWaiting, path, trace.Data{{Key: "pauseKind", Value: string(opened.Kind)}}, nil)
	r.todo.watch(opened, r.now)
	if !opened.batched.InBatch() { // which nobody can answer
		r.todo.ask(Command{Op: Announce, Detail: &Detail{Pause: opened}})
	}
	return nil
}

// goOn ends a pause because of the time, if it is due.
func (r *Run) goOn(p *Pause) {
	if r.waits.pause(p.ID) != p { // it is over
		return
	}
	next, answer := p.Due(r.now)
	if next == resume.Wait { // timers are not exact
		r.todo.watch(p, r.now)
		return
	}
	r.endPause(p, next, answer)
}

// endPause ends a pause to which nobody has to say anything more.
func (r *Run) endPause(p *Pause, next resume.Next, answer any) {
	r.TakeNow(r.waits.endOf(p, r.moment().ends(p, next, answer), r.undo.wasUndone, r.calls.generation))
}

// endOf are the events of the end of a pause. In a run that was rolled back the answer restarts the run.
func (w *waits) endOf(p *Pause, e journal.Event, undone bool, generation int) []journal.Event {
	if !undone {
		return []journal.Event{e}
	}
	return w.beginAgain(p, e, generation+1)
}

// moment is when something happens: after how many decisions of the machine.
type moment struct {
	at    time.Time
	after int64
}

// moment returns the present one.
func (r *Run) moment() moment { return moment{r.now, r.m.Decided()} }

// ends is the end of a pause.
func (m moment) ends(p *Pause, next resume.Next, answer any) journal.Event {
	what := journal.PauseAnswered{Pause: p.ID, Next: next}
	if next == resume.Answered {
		what.Answer = answer
	}
	return journal.Event{At: m.at, Path: p.Step, After: m.after, What: what}
}

// Answer returns the events of an answer to a pending pause. An approval for the run also ends the other pauses that
// it covers. Take applies the events, once they are in the store.
func (r *Run) Answer(p *Pause, answer any) []journal.Event {
	e := r.moment().ends(p, resume.Answered, answer)
	events := r.waits.endOf(p, e, r.undo.wasUndone, r.calls.generation)
	if !r.undo.wasUndone && agents.ApprovedForRun(answer) {
		grants := r.grants.with(r.agents.approves(p))
		events = append(events, grants.cover(r.Pauses(), p, r.agents, r.moment())...)
	}
	return r.unsaved.signs(events)
}

// signs adds to the events of an act who acted, and to the first one the signal that they carry out.
func (a actor) signs(events []journal.Event) []journal.Event {
	events[0].Signal = a.signal
	for i := range events {
		if _, closed := events[i].What.(journal.PauseClosed); !closed {
			events[i].By = a.by
		}
	}
	return events
}

// answer resumes a task whose pause is over.
func (r *Run) answer(p *Pause, next resume.Next, answer any) {
	r.waits.drop(p)
	r.todo.disarm(p.timer)
	t := p.task
	switch {
	case p.inAgent != "" && r.ending.forGood != nil: // the agent does not continue
	case p.inAgent != "":
		a, refused := r.agents.of(t), (*machine.Failure)(nil)
		if next == resume.Answered && asksForMore(p) {
			refused = r.budget.raise(p, answer)
		}
		switch f, continues := a.answer(p, next, answer, refused); {
		case continues:
			r.m.Again(t)
		case f != nil:
			r.answerTask(t, nil, f)
		}
	case t.AtBreakpoint():
		r.m.Continue(t)
		delete(r.past.known, t.Path()) // it has not begun
	case next == resume.Failed:
		r.answerTask(t, nil, expired(t, &p.Pause))
	case t.Node().Kind == machine.Wait, t.Node().Kind == machine.Receive:
		r.answerTask(t, answer, nil)
	case p.Reason == journal.Indeterminate:
		output, failure, over := settledBy(t.Node().Adapter.(*program.Call), answer)
		if !over {
			r.m.Again(t)
			return
		}
		r.budget.countTools(t, &journal.CallEnded{Failure: failure}) // it was made
		r.answerTask(t, output, failure)
	case next == resume.Answered && asksForMore(p):
		if f := r.budget.raise(p, answer); f != nil {
			r.answerTask(t, nil, f)
			return
		}
		r.m.Again(t)
	default:
		if next == resume.Answered {
			r.waits.reply(t, resume.Reply{To: p.Reason, Answer: answer})
		}
		r.m.Again(t)
	}
}

// expired is the failure of a task whose pause nobody has answered in time.
func expired(t *machine.Task, p *resume.Pause) *machine.Failure {
	if t.Node().Kind == machine.Receive {
		return t.ReceiveTimeout()
	}
	return &machine.Failure{Category: string(runtime.CategoryConfirmation), Code: "pause.expired",
		Err: fmt.Errorf("nobody answered %s in time", p)}
}

// closePauses drops the pauses of a task that has ended without an answer: one, or several of an agent.
func (r *Run) closePauses(t *machine.Task) {
	r.budget.unholdAll(t)
	if kept := r.waits.progress[t]; kept.Batched.InBatch() { // it did not go on any more
		delete(r.waits.progress, t)
		r.batches.leave(r, kept.Batched.ID)
	}
	for i := 0; i < len(r.waits.pauses); {
		p := r.waits.pauses[i]
		if p.task != t {
			i++
			continue
		}
		r.waits.drop(p)
		r.todo.disarm(p.timer)
		r.Report(r.o.unasked(p)...)
		if !r.past.replaying && !r.ending.cancelled {
			r.Note(p.Step, journal.PauseClosed{Pause: p.ID})
			r.batches.leave(r, p.batched.ID)
		}
	}
}

// answerTask ends the waiting of a task.
func (r *Run) answerTask(t *machine.Task, output any, failure *machine.Failure) {
	if !r.past.replaying {
		r.trace.begun(t, r.now)
	}
	r.m.Answer(t, output, failure)
}

// keep keeps the progress of a call that pauses.
func (w *waits) keep(t *machine.Task, p journal.Progress) {
	delete(w.progress, t)
	if p.Any() {
		if w.progress == nil {
			w.progress = map[*machine.Task]journal.Progress{}
		}
		w.progress[t] = p
	}
}

// count counts a pause that opens at a path.
func (w *waits) count(path string) {
	if w.opened == nil {
		w.opened = map[string]int{}
	}
	w.opened[path]++
}

// idOfNext is the id of the next pause at a path.
func (w *waits) idOfNext(path string) string { return pauseID(path, w.opened[path]+1) }

// byTask returns a pending pause of a task; nil: it has none.
func (w *waits) byTask(t *machine.Task) *Pause {
	if i := slices.IndexFunc(w.pauses, func(p *Pause) bool { return p.task == t }); i >= 0 {
		return w.pauses[i]
	}
	return nil
}
