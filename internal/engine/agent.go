package engine

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/past"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// agent is the state of an agent step that has not ended. It is a composite, as a loop is: its calls are calls of the
// run, of which it is the [caller].
//
// It may open several pauses. Each answer resumes it with the answers so far; the other pauses stay pending.
type agent struct {
	events  [][]agents.Event           // in order
	answers []agents.Answer            // that it has not read yet
	began   int                        // in which generation; 0: the present one
	owner   string                     // the process that it was in last; "": not known
	failed  *machine.Failure           // a pause expired while it was at work
	calls   map[string]int             // of models so far, by the path of the agent or child
	tries   map[string]int             // failed attempts of calls that paused, by placeOf
	batched map[string]journal.Batched // of calls that wait in batches, likewise
	told    []any                      // the calls of tools in events, once an expression has read them; nil: not yet
	atWork
}

// atWork is the part of an [agent] that no event records.
type atWork struct {
	call      *pending // of the step; nil: the agent is not at work
	loop      *agentloop.Loop
	terms     agents.Terms
	state     agents.State
	execution *agents.Execution
	unknown   map[PauseKey]int    // calls to ask about first, and how often
	unsaid    map[string]*drawing // by the path of the agent or child
	jobs      []*pending          // calls in progress
	inner     []*agents.Job       // tools of the recipe whose steps have not ended
	came      []replied           // results of calls, not yet passed on to execution
	saving    bool                // it waits for the store
	inside    bool                // a method of execution is running
	begins    bool                // it has recorded the start of a call, which comes next
	kept      agents.Action       // postponed because the run is held
}

// drawing are calls of models that are not recorded yet.
type drawing struct {
	calls []journal.Drawn
	used  journal.Amount
}

// replied is a call of an agent that has ended.
type replied struct {
	job   *agents.Job
	reply agents.Reply
}

// agentsOf are the agents of tasks that have not ended.
type agentsOf map[*machine.Task]*agent

// of returns the agent of a task.
func (s *agentsOf) of(t *machine.Task) *agent {
	a := (*s)[t]
	if a == nil {
		a = &agent{calls: map[string]int{}, tries: map[string]int{}, batched: map[string]journal.Batched{}}
		if *s == nil {
			*s = agentsOf{}
		}
		(*s)[t] = a
	}
	return a
}

// working returns the agents at work, in the order in which they began.
func (s agentsOf) working() []*agent {
	list := slices.DeleteFunc(slices.Collect(maps.Values(s)),
		func(a *agent) bool { return a.call == nil || a.execution == nil })
	slices.SortFunc(list, func(a, b *agent) int { return cmp.Compare(a.call.ID, b.call.ID) })
	return list
}

// callsSoFar returns the calls of tools that the agent has made, as expressions see them.
func (a *agent) callsSoFar() []any {
	if a.told == nil {
		a.told = callsIn(a.events)
	}
	return a.told
}

// callsIn returns the calls of tools by an agent with these events, as expressions see them.
func callsIn(events [][]agents.Event) []any {
	state, _ := agents.Fold(slices.Concat(events...)) // an illegal event has ended the step, see agent.begin
	return agents.Told(state.Calls)
}

// prepare selects the agent of a call, and makes its loop from the step's input. earlier is that of
// [program.Program.Earlier]. report is what is to be reported.
func (s *agentsOf) prepare(
	p *pending, o *Options, b *budget, before *Answers, earlier bool,
) (report diagnostics.List, err error) {
	set := p.site.Agents
	fields, _ := p.Input.(map[string]any)
	id, found := "", diagnostics.List(nil)
	if !set.InPlace {
		asked := set.Asked
		if set.Given {
			asked, _ = fields["agent"].(string)
		}
		id, found = agents.Select(set.IDs, asked)
	}
	if len(found) > 0 {
		if set.Given { // else it was found when the recipe was compiled
			shown := found[0]
			shown.Position, shown.Step, shown.Message = p.site.Pos, p.Path, o.Redact.Text(shown.Message)
			report = diagnostics.List{shown}
		}
		return report, program.ConfigError(found[0].Code, "%s: %s", p.site.Pos, found[0].Message)
	}
	prompt, err := textOf(p, fields, "prompt")
	if err != nil {
		return nil, err
	}
	context, err := textOf(p, fields, "context")
	if err != nil {
		return nil, err
	}
	told, err := toldBefore(p, fields)
	if err != nil {
		return nil, err
	}
	images, err := imagesOf(p, fields)
	if err != nil {
		return nil, err
	}
	loop, err := loopOf(p, id, fields)
	if err != nil {
		return nil, err
	}
	if len(told) > 0 && loop.Memory.Thread != "" {
		return nil, badArgument(p, "messages", fmt.Errorf("exclude the memory of agent %q", loop.Name))
	}
	if p.accounts, err = b.priced(p.task, p.site.Pos, o.withFallbacks(loop.Models()...)...); err != nil {
		return nil, err
	}
	a := s.of(p.task)
	a.atWork = atWork{call: p, loop: loop, unknown: before.UnknownIn(p.Path), unsaid: map[string]*drawing{},
		terms: agents.Terms{Before: told, Prompt: prompt, Files: images, Context: context,
			RunID: o.ID, Path: p.Path, Tools: p.site.Agents.Own(), Earlier: earlier,
			Answers: slices.Clone(a.answers), Content: o.Wants.Content, Repairs: &p.site.Repairs,
			Check: func(res *agents.Result) (string, error) { return p.task.Broken(answerOf(p.site, res)) }}}
	p.agent, p.reports = a, loop.ReportIndeterminate
	return nil, nil
}

// begin starts or resumes an agent.
func (a *agent) begin(r *Run) {
	p := a.call
	p.stage = working
	p.Generation = cmp.Or(a.began, r.calls.generation)
	var err error
	if a.state, err = agents.Fold(slices.Concat(a.events...)); err == nil {
		past.OpenCalls(&a.state, p.Path, func(path, tool string, _ int, args any) { // it asks by itself
			a.unknown[unknownKey(path, past.AboutCall(tool, args))]--
		})
		var offer *agents.Offer
		if offer, err = r.o.Adapters.Offer(); err == nil {
			a.execution, err = agents.Begin(a.loop, &a.state, a.terms, offer)
		}
	} else {
		err = &runtime.Error{Category: runtime.CategoryInfra, Code: "journal.corrupt", Step: p.Path, Err: err}
	}
	if err != nil {
		a.call = nil
		p.fail(r, nil, err)
		return
	}
	if r.ending.cut != nil {
		a.execution.Stop(r.ending.cut, r.ending.cause)
	}
	a.pump(r)
}

// pump carries out the actions of an agent, until it waits for something or is over.
func (a *agent) pump(r *Run) {
	if a.inside {
		return
	}
	a.inside = true
	for a.call != nil && !a.saving && !a.stays() {
		a.execution.Now, a.execution.Grants, a.execution.Notes = r.now, r.grants, r.unsaved.notes.of(a.call.Path)
		a.execution.Changed = r.tools.changed
		switch act := a.execution.Next(); {
		case r.todo.hold && a.canStay(act):
			a.kept = act
		case act.Over:
			a.over(r)
		case act.Record != nil:
			a.record(r, act.Record)
		case act.Tell != nil:
			r.trace.show(*act.Tell, act.Content)
		case act.Job != nil:
			a.make(r, act.Job)
		case len(a.came) > 0:
			next := a.came[0]
			a.came = slices.Delete(a.came, 0, 1) // which keeps the room
			a.execution.Done(next.job, next.reply)
		default:
			a.inside = false
			return
		}
	}
	a.inside = false
}

// record records an event of an agent at work.
func (a *agent) record(r *Run, recorded *agents.Event) {
	p, what := a.call, journal.AgentEvents{Events: []agents.Event{*recorded}}
	e := &what.Events[0]
	err := r.budget.refuses(e, r.m.Room())
	if r.ending.broken {
		err = errors.New("the run is over")
	}
	if err != nil {
		a.execution.Broken(err)
		return
	}
	if err := a.state.Apply(e); err != nil {
		a.execution.Broken(&runtime.Error{Category: runtime.CategoryInfra, Code: "journal.illegal",
			Step: past.FramePath(p.Path, e.Frame), Err: err})
		return
	}
	a.begins = beginsCall(e.Kind)
	a.say(&what, past.FramePath(p.Path, e.Frame))
	r.record(p.task, p.Path, what)
	if e.ForRun() {
		r.answerGranted()
	}
	if e.Kind == agents.Steered {
		r.unsaved.notes.taken(e.Rest().Notes)
	}
	if e.Barrier() && r.unsaved.durable {
		a.saving = true
		r.todo.ask(Command{Op: Save})
	}
}

// resumeAgents resumes agents that waited for the store; a non-nil err means that the store accepts no more writes.
func (r *Run) resumeAgents(err error) {
	for _, a := range r.agents.working() {
		if a.saving {
			a.saving = false
			if err != nil {
				a.execution.Broken(err)
			}
			a.pump(r)
		}
	}
}

// stop tells an agent, and its calls, to stop.
func (a *agent) stop(r *Run, err, cause error) {
	if a.call == nil || a.execution == nil {
		return
	}
	a.execution.Stop(err, cause)
	a.goOn(cause)
	for _, p := range slices.Clone(a.jobs) {
		if !p.outlives() {
			p.stop(r, cause)
		}
	}
	a.pump(r)
}

// over takes over the result of an agent that has ended or pauses.
func (a *agent) over(r *Run) {
	p := a.call
	res, err := a.execution.Result(), a.execution.Err()
	var rest journal.AgentEvents
	for _, path := range value.SortedKeys(a.unsaid) {
		a.say(&rest, path)
	}
	if r.ending.cancelled { // the call that this cut off is repeated, as if it had never been made
		rest.Calls = nil
	}
	slices.SortStableFunc(rest.Calls, func(a, b journal.Drawn) int { return strings.Compare(a.Step, b.Step) })
	if rest.Calls != nil || rest.Used != (journal.Amount{}) {
		r.record(p.task, p.Path, rest)
	}
	a.call = nil
	r.trace.grow(len(res.Trace))
	for _, e := range res.Trace {
		*r.trace.keep(p.task) = e
	}
	for _, d := range res.Diagnostics {
		// reported before the first step
		if d.Code != diagnostics.CodeMissingTool && d.Code != diagnostics.CodeMissingCapability {
			r.Report(d)
		}
	}
	var output any
	if err == nil {
		p.finish = res.Finish
		output, err = answered(p, a.loop, res)
	}
	switch waits, ok := errors.AsType[*agents.PauseError](err); {
	case ok:
		a.suspend(r, p, waits.Pauses)
	case err != nil:
		p.fail(r, nil, err)
	default:
		step{}.succeeded(r, p, output, value.Extent{})
	}
}

// suspend opens the pauses that an agent waits for, except those that are open already.
func (a *agent) suspend(r *Run, p *pending, pauses []agents.Pause) {
	t := p.task
	if !r.m.CanWait(t) { // it was told to stop meanwhile
		step{}.finish(r, p, outcome{failure: notDone("cancelled before it ended")})
		return
	}
	for i := range pauses {
		q := &pauses[i]
		if slices.ContainsFunc(r.waits.pauses, func(o *Pause) bool { return o.task == t && o.inAgent == q.ID }) {
			continue
		}
		what := a.opens(p, q, &r.o, &r.before, r.calls.generation)
		what.Pause.CreatedAt = r.now
		if err := r.openPause(t, what.Pause.Step, r.ending.decided(r.m), what); err != nil {
			step{}.finish(r, p, outcome{
				failure: &machine.Failure{Category: string(runtime.CategoryTool), Code: "pause.invalid", Err: err}})
			return
		}
	}
	p.stage = over
	p.leave(r)
	if t.Driver = nil; len(pauses) > 0 { // else it waits for steps inside
		r.record(t, p.Path, journal.AgentEvents{Waits: true})
	}
}

// opens is a pause in an agent, for people.
func (a *agent) opens(p *pending, q *agents.Pause, o *Options, before *Answers, generation int) journal.PauseOpened {
	shown := CleanPause(o.Redact, q.Pause)
	if shown.ID = q.ID; generation > 1 {
		shown.ID = fmt.Sprintf("%s@%d", q.ID, generation)
	}
	if q.For == agents.Indeterminate {
		show, _ := q.Show.(map[string]any)
		about := o.aboutCallIn(a, generation, q.Step, q.Tool, q.Call, show["arguments"])
		before.knownAbout(&shown, &about)
	}
	of := &journal.AgentPause{Step: p.Path, Pause: q.ID, Place: placeOf(q.Step, q.Call)}
	of.Tries = a.tries[of.Place]
	if q.Reason == resume.BatchReason {
		of.Batched = a.batched[of.Place]
	}
	return journal.PauseOpened{Pause: shown, Agent: of}
}

// apply applies events of the agent of a task.
func (a *agent) apply(r *Run, t *machine.Task, kept journal.AgentEvents) {
	a.began, a.owner = cmp.Or(kept.Began, a.began), r.past.owner
	a.events, a.told = append(a.events, kept.Events), nil
	r.budget.keep(kept.Events)
	for i := range kept.Events {
		switch e := &kept.Events[i]; e.Kind {
		case agents.ToolBegan:
			openInside(r.m, t, e)
		case agents.Answered: // it has read the answer
			a.answers = slices.DeleteFunc(a.answers,
				func(answer agents.Answer) bool { return answer.Pause == e.Rest().Answer.Pause })
		case agents.Permission:
			if e.ForRun() {
				r.grants = r.grants.with(e.Rest().Keys)
			}
		case agents.ModelEnded, agents.Compacted: // the next call has all its attempts
			place := placeOf(past.FramePath(t.Path(), e.Frame), 0)
			r.budget.unhold(t, a.batched[place].ID)
			delete(a.tries, place)
			delete(a.batched, place)
		}
	}
	for _, c := range kept.Calls {
		a.calls[c.Step]++
		r.drawn.mark(c.Model, c.N)
	}
	r.budget.spent(t, kept.Model(), kept.Used, len(kept.Calls))
	r.budget.countTools(t, kept)
	r.m.Spend(t, kept.Used.Micros)
	if kept.Waits {
		r.past.settled(t)
		r.m.Suspend(t)
		switch { // unless it has an answer already
		case t.Status() != machine.Waiting:
		case a.failed != nil:
			r.answerTask(t, nil, a.failed)
		case len(a.answers) > 0:
			r.m.Again(t)
		}
	}
}

// answer gives an agent the end of one of its pauses; refused is why the limit that it asked about was not raised, nil
// if it was or it asked something else. continues: it does so, if it waits. Else the failure is that of its task; nil:
// it is at work, and finds out.
func (a *agent) answer(
	p *Pause, next resume.Next, answer any, refused *machine.Failure,
) (failure *machine.Failure, continues bool) {
	if failure = refused; next == resume.Failed {
		failure = expired(p.task, &p.Pause)
	}
	switch {
	case failure == nil:
	case p.task.Status() == machine.Waiting:
		return failure, false
	default:
		a.failed = failure
		return nil, false
	}
	due := next == resume.GoOn
	if p.again || asksForMore(p) { // the adapter is not concerned
		answer, due = nil, true
	}
	a.answers = append(a.answers, agents.Answer{Pause: p.inAgent, Value: answer, Due: due})
	return nil, true
}
