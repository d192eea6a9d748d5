package workflow

import (
	"cmp"
	"context"
	"encoding/json"
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
	"github.com/braise-run/braise/retry"
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
	in.agent = &agentRun{in: in, log: log, loop: loop, prompt: text[0], context: text[1], earlier: slices.Concat(log.events...), answers: log.answers,
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
			Err: fmt.Errorf("%s: agent %q stopped (%s) without an answer that matches output.schema", in.call.Pos, a.loop.Name, res.StopReason)}
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
		if d.Code != diagnostics.CodeMissingTool && d.Code != diagnostics.CodeMissingCapability { // found before the first step
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
	if t := in.task; t.Status() != machine.Waiting && t.Failure() != nil && !r.cancelled { // it was told to stop meanwhile
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
			log.answers = slices.DeleteFunc(log.answers, func(a agentloop.Answer) bool { return a.Pause == e.Answer.Pause })
		case agentloop.ModelEnded: // the next call has all its attempts
			delete(log.tries, placeOf(engine.FramePath(path, e.Frame), 0))
		}
	}
	for _, c := range kept.Calls {
		log.calls[c.Step]++
	}
}

// inner is the invocation of one call inside the agent. emit tells of what happens in it.
func (a *agentRun) inner(ctx context.Context, c *program.Call, path string, emit func(trace.Event)) *invocation {
	c.Step, c.Pos = a.in.call.Step, a.in.call.Pos
	return &invocation{run: a.in.run, task: a.in.task, call: c, path: path, ctx: ctx, tell: emit, accounts: a.in.accounts}
}

// ask calls a model for the loop, as often as policies say, within the budgets.
func (a *agentRun) ask(ctx context.Context, c *agentloop.ModelCall) (*runtime.Response, error) {
	path := c.Request.Step
	in := a.inner(ctx, &program.Call{Kind: program.ModelCall, Name: c.Request.Model, Retry: a.in.call.Retry}, path, c.Emit)
	req := *c.Request
	in.model, in.req, in.ordinal = c.Model, &req, c.Request.Call
	about, _ := c.Model.(runtime.Described)
	in.resolve(about)
	a.mu.Lock()
	in.Calls, in.Attempts = a.log.calls[path], a.log.tries[placeOf(path, 0)]
	a.mu.Unlock()
	leave, err := in.enter()
	defer leave()
	defer in.panicking()
	in.reachedCall(beforeTool, beforeModel)
	defer func() { // also of a call that panics
		in.release(journal.Amount{})
		in.reachedCall(afterTool, afterModel)
		a.keep(in)
	}()
	if err == nil {
		err = in.reserve()
	}
	var resp *runtime.Response
	if err == nil {
		in.draw()
		resp, err = in.respond()
	}
	return resp, a.paused(in, placeOf(path, 0), err)
}

// keep keeps what a call of a model used, for the next event of its path.
func (a *agentRun) keep(in *invocation) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.pending[in.path]
	if p == nil {
		p = &pending{}
		a.pending[in.path] = p
	}
	for _, n := range in.draws {
		p.calls = append(p.calls, journal.Drawn{Model: in.drawnFrom, N: n, Step: in.path})
	}
	p.used = p.used.Plus(in.used)
	a.log.calls[in.path] = in.Calls
}

// panicking takes the secrets out of what an adapter panics with, before the loop catches it.
func (in *invocation) panicking() {
	if p := recover(); p != nil {
		panic(in.run.prepared.redact.Text(fmt.Sprint(p)))
	}
}

// paused keeps how often a call has failed that pauses, and makes the pause that it asks for the error.
func (a *agentRun) paused(in *invocation, place string, err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.log.tries, place)
	if in.pause == nil || err == nil {
		return err
	}
	if in.Attempts > 0 {
		a.log.tries[place] = in.Attempts
	}
	return resume.Suspend(*in.pause)
}

// call calls a tool for the loop, as often as policies say.
func (a *agentRun) call(ctx context.Context, c *agentloop.ToolCall) (json.RawMessage, error) {
	spec := c.Tool.Spec()
	in := a.inner(ctx, &program.Call{Kind: program.ToolCall, Name: spec.Name, Retry: a.in.call.Agents.Retries[program.ToolCall]}, c.Path, c.Emit)
	args, err := value.Decode(c.Arguments)
	if err != nil {
		return nil, err // the loop has checked it
	}
	in.args, _ = args.(map[string]any)
	in.tool, in.ordinal = &boundTool{tool: c.Tool, effect: spec.Effect}, c.Number
	in.tool.values, _ = c.Tool.(runtime.ValueTool)
	in.tool.about, _ = c.Tool.(runtime.Described)
	in.resolve(in.tool.about)
	if a.doubtful(in) { // the loop asks
		return nil, &retry.Failure{Reason: retry.Timeout, Sent: true, Err: errors.New("the run has begun again, and it is not known what became of the call before")}
	}
	place := placeOf(c.Path, c.Number)
	a.mu.Lock()
	in.Attempts = a.log.tries[place]
	a.mu.Unlock()
	leave, err := in.enter()
	defer leave()
	defer in.panicking()
	in.reachedCall(beforeTool, beforeModel)
	var output any
	if err == nil {
		err = in.reserve() // time, of a tool
	}
	if err == nil {
		output, err = in.toolResult(&runtime.Moment{Point: runtime.ToolBefore, Name: spec.Name})
	}
	in.reachedCall(afterTool, afterModel)
	if in.open && ctx.Err() != nil && !in.repeatable() {
		a.in.run.callUnknown(in.path, spec.Name, a.in.run.whyStopped(ctx))
	}
	if err = a.paused(in, place, err); err != nil || output == nil {
		return nil, err
	}
	return value.JSON(output)
}

// doubtful reports, once for each time, that it is first to be asked what became of a call in an earlier
// generation.
func (a *agentRun) doubtful(in *invocation) bool {
	if len(a.doubts) == 0 || in.repeatable() {
		return false
	}
	shown := in.run.prepared.redact.Value(map[string]any{"tool": in.call.Name, "arguments": in.args})
	key := engine.PauseKey{Step: in.path, Kind: resume.System, Reason: journal.Indeterminate, About: engine.AboutOf(&resume.Pause{Reason: journal.Indeterminate, Show: shown})}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.doubts[key]--
	return a.doubts[key] >= 0
}

// port calls the memory or the retriever for the loop, as often as policies say.
func (a *agentRun) port(ctx context.Context, c *agentloop.PortCall) (any, error) {
	kind := program.CallKind(c.Kind)
	in := a.inner(ctx, &program.Call{Kind: kind, Retry: a.in.call.Agents.Retries[kind]}, c.Path, c.Emit)
	in.port, in.ordinal = c.Call, 1
	var about runtime.Described
	if kind == program.MemoryCall {
		about, _ = in.run.rt.Memory.(runtime.Described)
	} else {
		about, _ = in.run.rt.Retriever.(runtime.Described)
	}
	in.resolve(about)
	leave, err := in.enter()
	defer leave()
	defer in.panicking()
	if err == nil {
		err = in.reserve()
	}
	if err != nil {
		return nil, err
	}
	resp, err := in.try()
	redact := in.run.prepared.redact
	if err != nil || redact == nil {
		return resp.value, redact.Error(err)
	}
	switch v := resp.value.(type) {
	case []runtime.Message:
		return withoutSecrets(redact, v)
	case []runtime.Document:
		return withoutSecrets(redact, v)
	}
	return resp.value, nil
}

// withoutSecrets returns plain data with the secrets out.
func withoutSecrets[T any](redact *value.Redactor, v T) (clean T, err error) {
	text, err := json.Marshal(v)
	if err != nil {
		return clean, err
	}
	data, err := value.Decode(text)
	if err == nil {
		text, err = value.JSON(redact.Value(data))
	}
	if err == nil {
		err = json.Unmarshal(text, &clean)
	}
	return clean, err
}

// permit asks the hooks before a tool is called.
func (a *agentRun) permit(ctx context.Context, tool string, args json.RawMessage) error {
	r := a.in.run
	m := runtime.Moment{Point: runtime.ToolBefore, Name: tool, Run: r.id, Step: a.in.path}
	v, _ := value.Decode(args)
	m.Args, _ = v.(map[string]any)
	return r.prepared.offers.Fire(ctx, m, r.found.add)
}
