package workflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// agentLog is what a run knows of an agent step that has not ended. Whoever has the turn owns it; calls and
// tries are its agent's while that is at work.
//
// An agent waits for the turn only to record its events, which go into the journal in their order.
// It may open several pauses. Each answer makes it go on, with what it has; what is still open stays so.
type agentLog struct {
	events  [][]agentloop.Event // as they came
	answers []agentloop.Answer  // that it has not taken in
	began   int                 // in which generation; 0: the present one
	failed  *machine.Failure    // nobody answered in time, while it was at work
	calls   map[string]int      // of models so far, by the path of the agent or child
	tries   map[string]int      // failed attempts of calls that paused, by placeOf
}

// agentRun is an agent step at work.
type agentRun struct {
	in              *invocation
	log             *agentLog
	loop            *agentloop.Loop
	prompt, context string
	earlier         []agentloop.Event
	answers         []agentloop.Answer

	pauses []agentloop.Pause // that it waits for
	result *agentloop.Result

	mu      sync.Mutex
	doubts  map[engine.PauseKey]int // calls that it is first to be asked about, and how often
	noted   []*agentBatch           // without a store
	pending map[string]*pending     // by the path of the agent or child
}

// pending are calls of models that no event in the journal covers yet.
type pending struct {
	calls []journal.Drawn
	used  journal.Amount
}

// agentBatch is what the journal is given at a time.
type agentBatch struct {
	journal.AgentEvents
}

func (r *run) logOf(t *machine.Task) *agentLog {
	log := r.agents[t]
	if log == nil {
		log = &agentLog{calls: map[string]int{}, tries: map[string]int{}}
		if r.agents == nil {
			r.agents = map[*machine.Task]*agentLog{}
		}
		r.agents[t] = log
	}
	return log
}

// placeOf names the call that a pause is of, whichever of its pauses it is; number is 0 for the model.
func placeOf(path string, number int) string { return path + ":" + strconv.Itoa(number) }

// callsInAgent are the numbers of the calls that a pause in an agent stands in, from the outermost: of the
// children, then its own, which the model's has not. So pauses are in the order of the calls.
func (p *openPause) callsInAgent() (list []int) {
	for _, part := range inCalls.FindAllStringSubmatch(strings.TrimPrefix(p.inAgent, p.task.Path()), -1) {
		n, _ := strconv.Atoi(part[1])
		list = append(list, n)
	}
	return list
}

// inCalls finds the numbers in what an agent calls its pauses, such as step/research#2:call3.
var inCalls = regexp.MustCompile(`(?:#|:call)(\d+)`)

// prepareAgent chooses the agent, and makes its loop of the step's input.
func (in *invocation) prepareAgent() error {
	set := in.call.Agents
	fields, _ := in.input.(map[string]any)
	id, found := "", diagnostics.List(nil)
	if !set.InPlace {
		asked := set.Asked
		if set.Given {
			asked, _ = fields["agent"].(string)
		}
		id, found = agentloop.Select(set.IDs, asked)
	}
	if len(found) > 0 {
		if set.Given { // else it was found when the recipe was compiled
			found[0].Position, found[0].Step = in.call.Pos, in.path
			in.run.found.add(found[0])
		}
		return program.ConfigError(found[0].Code, "%s: %s", in.call.Pos, found[0].Message)
	}
	var text [2]string
	for i, key := range []string{"prompt", "context"} {
		var err error
		if v := fields[key]; v != nil {
			if text[i], err = value.Text(v); err != nil {
				return program.ConfigError("agent.arguments", "%s: %s of an agent step: %w", in.call.Pos, key, err)
			}
		}
	}
	loop, err := set.LoopOf(id, program.EnvOf(in.task), in.call.AnswerJSON)
	if err != nil {
		return &runtime.Error{Category: runtime.CategoryConfig, Code: "expr.failed", Err: err}
	}
	if in.accounts, err = in.run.pricedAccounts(in.task, in.call.Pos, loop.Models()...); err != nil {
		return err
	}
	log := in.run.logOf(in.task)
	in.agent = &agentRun{in: in, log: log, loop: loop, prompt: text[0], context: text[1],
		earlier: slices.Concat(log.events...), answers: log.answers,
		doubts: in.run.before.DoubtsIn(in.path), pending: map[string]*pending{}}
	log.answers = nil
	return nil
}

// runAgent runs the loop until it ends or pauses.
func (in *invocation) runAgent() (any, error) {
	a, r := in.agent, in.run
	wants := r.events.sinks.Wants()
	emit := func(e trace.Event, content any) { r.events.sinks.Emit(e, r.prepared.redact.Value(content)) }
	input := agentloop.Input{
		Prompt: a.prompt, Context: a.context, RunID: r.id, Generation: cmp.Or(a.log.began, r.generation), Path: in.path,
		Journal: a, Vouched: true, Answers: a.answers, Emit: emit, Content: wants.Content, Deltas: wants.Deltas,
		Ask: a.ask, Call: a.call, Port: a.port,
	}
	if r.hooked() {
		input.Permit = a.permit
	}
	res, err := a.loop.Run(in.ctx, input, r.rt)
	a.result = res
	if pause, ok := errors.AsType[*agentloop.PauseError](err); ok {
		a.pauses = pause.Pauses
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if in.call.Answer == nil {
		output := map[string]any{"text": res.Text, "steps": int64(res.Steps), "stop_reason": string(res.StopReason)}
		return output, in.checkOutput(output, nil)
	}
	if res.Data == nil && in.call.Answer.Check(nil) != nil {
		return nil, &runtime.Error{Category: runtime.CategoryModel, Code: "answer.invalid",
			Err: fmt.Errorf("%s: agent %q stopped (%s) without an answer that matches output.schema",
				in.call.Pos, a.loop.Name, res.StopReason)}
	}
	return res.Data, in.checkOutput(res.Data, nil)
}

// Events returns what earlier legs recorded.
func (a *agentRun) Events() []agentloop.Event { return a.earlier }

// Append records events: it is the journal of the loop.
func (a *agentRun) Append(_ context.Context, events ...agentloop.Event) error {
	b := &agentBatch{AgentEvents: journal.AgentEvents{Events: slices.Clone(events)}} // the slice is the loop's
	barrier := false
	a.mu.Lock()
	for i := range events {
		b.take(a.pending, engine.FramePath(a.in.path, events[i].Frame))
		barrier = barrier || events[i].Barrier()
	}
	r := a.in.run
	if r.journal.store == nil {
		a.noted = append(a.noted, b)
	}
	a.mu.Unlock()
	if r.journal.store == nil {
		return nil
	}
	err := errors.New("the run is over")
	r.happened(func() { err = r.takeEvents(a.in, b, barrier) })
	return err
}

// take adds what is pending of a path.
func (b *agentBatch) take(all map[string]*pending, path string) {
	if p := all[path]; p != nil {
		b.Calls, b.Used = append(b.Calls, p.calls...), b.Used.Plus(p.used)
		delete(all, path)
	}
}

// takeEvents takes a batch of an agent at work; a barrier must be in the store before it goes on.
func (r *run) takeEvents(in *invocation, b *agentBatch, barrier bool) error {
	if !in.underWay() {
		return errors.New("the agent was left behind")
	}
	if r.record(in.task, in.path, b.AgentEvents); barrier {
		r.flush()
	}
	return r.journal.err
}

// closeAgent takes over what an agent leaves that ends or pauses.
func (r *run) closeAgent(in *invocation) {
	a := in.agent
	if a == nil {
		return
	}
	in.agent = nil
	a.mu.Lock()
	defer a.mu.Unlock()
	r.journal.entries = slices.Grow(r.journal.entries, len(a.noted))
	for _, b := range a.noted {
		r.record(in.task, in.path, b.AgentEvents)
	}
	var rest agentBatch
	for path := range a.pending {
		rest.take(a.pending, path)
	}
	if r.cancelled { // the call that this cut off is made again, as if it had never been
		rest.Calls = nil
	}
	slices.SortStableFunc(rest.Calls, func(a, b journal.Drawn) int { return strings.Compare(a.Step, b.Step) })
	if rest.Calls != nil || rest.Used != (journal.Amount{}) {
		r.record(in.task, in.path, rest.AgentEvents)
	}
	if a.result == nil {
		return
	}
	r.events.grow(len(a.result.Trace))
	for _, e := range a.result.Trace {
		*r.events.keep(in.task) = e
	}
	for _, d := range a.result.Diagnostics {
		// found before the first step
		if d.Code != diagnostics.CodeMissingTool && d.Code != diagnostics.CodeMissingCapability {
			r.found.add(d)
		}
	}
}

// suspendAgent opens the pauses that an agent waits for, those that are open already apart.
func (r *run) suspendAgent(in *invocation, pauses []agentloop.Pause) {
	log := r.logOf(in.task)
	for i := range pauses {
		p := &pauses[i]
		if slices.ContainsFunc(r.pauses, func(o *openPause) bool { return o.task == in.task && o.inAgent == p.ID }) {
			continue
		}
		if err := r.openInAgent(in, p, log.tries[placeOf(p.Step, p.Call)]); err != nil {
			in.failure = &machine.Failure{Category: string(runtime.CategoryTool), Code: "pause.invalid", Err: err}
			r.finish(in)
			return
		}
	}
	r.record(in.task, in.path, journal.AgentEvents{Waits: true})
	// it was told to stop meanwhile
	if t := in.task; t.Status() != machine.Waiting && t.Failure() != nil && !r.cancelled {
		r.noteAfter(r.decided(), in.path, journal.CallEnded{Failure: t.Failure()})
	}
}

// agentWaits makes the task of an agent wait, unless an answer is there already.
func (r *run) agentWaits(t *machine.Task) {
	log := r.logOf(t)
	r.m.Suspend(t)
	switch {
	case t.Status() != machine.Waiting:
	case log.failed != nil:
		r.answerTask(t, nil, log.failed)
	case len(log.answers) > 0:
		r.m.Again(t)
	}
}

// openInAgent opens a pause of an agent's. tries is how often the call has failed that it is of.
func (r *run) openInAgent(in *invocation, p *agentloop.Pause, tries int) error {
	shown := in.shownPause(p.Pause)
	if shown.ID = p.ID; r.generation > 1 {
		shown.ID = fmt.Sprintf("%s@%d", p.ID, r.generation)
	}
	shown.CreatedAt = r.events.now
	of := &journal.AgentPause{Step: in.path, Pause: p.ID, Place: placeOf(p.Step, p.Call), Tries: tries}
	return r.openPause(in.task, shown.Step, r.decided(), journal.PauseOpened{Pause: *shown, Agent: of})
}

// answerAgent goes on with an agent because one of its pauses is over.
func (r *run) answerAgent(p *openPause, next resume.Next, answer any) {
	log := r.logOf(p.task)
	fail := func(f *machine.Failure) {
		if p.task.Status() == machine.Waiting {
			r.answerTask(p.task, nil, f)
		} else {
			log.failed = f
		}
	}
	if next == resume.Failed {
		fail(nobodyAnswered(p))
		return
	}
	if next == resume.Answered && asksForMore(p) {
		if f := r.raise(p, answer); f != nil {
			fail(f)
			return
		}
	}
	due := next == resume.GoOn
	if p.again || asksForMore(p) { // no matter of the adapter's
		answer, due = nil, true
	}
	log.answers = append(log.answers, agentloop.Answer{Pause: p.inAgent, Value: answer, Due: due})
	r.m.Again(p.task) // if it waits
}

// shareAgent notes what happened in an agent of another run, or under another definition. What that used, is
// counted there.
func (r *run) shareAgent(t *machine.Task, path string, kept journal.AgentEvents, generation int) {
	shared := journal.AgentEvents{Events: kept.Events, Calls: kept.Calls}
	if generation > 0 {
		shared.Began = cmp.Or(kept.Began, generation)
	}
	r.record(t, path, shared)
}

// applyAgent takes in what happened in an agent. One of this leg has counted its calls, and taken its answers, itself.
func (r *run) applyAgent(t *machine.Task, kept journal.AgentEvents) {
	log := r.logOf(t)
	log.events, log.began = append(log.events, kept.Events), cmp.Or(kept.Began, log.began)
	if r.replaying {
		log.recall(t.Path(), &kept)
		for _, c := range kept.Calls {
			r.markDrawn(c.Model, c.N)
		}
		r.spent(t, kept.Used)
	}
	r.m.Spend(t, kept.Used.Micros)
	if kept.Waits {
		r.settled(t)
		r.agentWaits(t)
	}
}

// recall takes over what an agent had counted and taken in an earlier leg.
func (log *agentLog) recall(path string, kept *journal.AgentEvents) {
	for i := range kept.Events {
		switch e := &kept.Events[i]; e.Kind {
		case agentloop.Answered: // it has taken it in
			log.answers = slices.DeleteFunc(log.answers,
				func(a agentloop.Answer) bool { return a.Pause == e.Answer.Pause })
		case agentloop.ModelEnded: // the next call has all its attempts
			delete(log.tries, placeOf(engine.FramePath(path, e.Frame), 0))
		}
	}
	for _, c := range kept.Calls {
		log.calls[c.Step]++
	}
}
