package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// Input is what [Run] takes beside a loop and a Runtime. Only Prompt is needed.
type Input struct {
	Prompt, Context, Path, RunID string
	Before                       []Message
	Files                        []runtime.File
	Journal                      Journal // nil: events are not kept
	Answers                      []Answer
	Archive                      agentloop.Archive
	Tools                        []runtime.Tool // of this run
	Allow, Deny                  []string
	Emit                         func(trace.Event, any)
	Deltas, Content, Vouched     bool

	// Ask and Call are called in place of the adapters. nil: the adapter itself.
	Ask    func(context.Context, *ModelCall) (*runtime.Response, error)
	Call   func(context.Context, *ToolCall) (json.RawMessage, error)
	Permit func(context.Context, string, json.RawMessage) error
	Watch  func(*State) // gets the state after every event

	// These are the Runtime's.
	Memory    runtime.Memory
	Retriever runtime.Retriever
	Skills    runtime.SkillLoader
	Env       runtime.Env
	Approver  runtime.Approver
	Inbox     runtime.Inbox
}

// Journal is where the events of a loop and its children go.
type Journal interface {
	// Events returns what earlier executions of the loop appended, in order; nil: nothing.
	Events() []Event
	// Append records events, in order: all of them or, with an error, none.
	Append(ctx context.Context, events ...Event) error
}

// ModelCall is a call of a model that is to be made.
type ModelCall struct {
	Model   runtime.Model
	Request *runtime.Request
	Emit    func(trace.Event)
}

// ToolCall is a call of a tool that is to be made.
type ToolCall struct {
	Tool      runtime.Tool
	Arguments json.RawMessage
	Path      string
	Number    int
	Emit      func(trace.Event)
}

// Ran is how far a loop came.
type Ran struct {
	*Result
	Snapshot snapshot
}

// Ran returns the result of the Execution, with the snapshot.
func (g *Execution) Ran() *Ran { return &Ran{g.Result(), g.root.snapshot()} }

// Run drives an Execution of the loop until that is over. Each call has a goroutine.
func Run(ctx context.Context, l *agentloop.Loop, in Input, rt *runtime.Runtime) (*Ran, error) {
	d := &driver{in: &in, skills: map[string][]runtime.Tool{}, done: make(chan func())}
	if rt != nil {
		d.rt = *rt
	}
	d.rt.Memory, d.rt.Retriever, d.rt.Skills = in.Memory, in.Retriever, in.Skills
	d.rt.Env, d.rt.Approver, d.rt.Inbox = in.Env, in.Approver, in.Inbox
	d.offers = d.rt.Resolve()
	var err error
	if in.Journal != nil {
		if d.state, err = Fold(in.Journal.Events()); err != nil {
			return nil, err
		}
	}
	terms := Terms{Prompt: in.Prompt, Files: in.Files, Before: in.Before, Context: in.Context, RunID: in.RunID, Path: in.Path, Answers: in.Answers,
		Content: in.Content, Vouched: in.Vouched}
	if d.execution, err = Begin(l, &d.state, terms, d.offer()); err != nil {
		return &Ran{Result: &Result{StopReason: agentloop.StopError}}, err
	}
	d.drive(ctx)
	return d.execution.Ran(), d.execution.Err()
}

// driver carries out what an Execution wants.
type driver struct {
	in     *Input
	rt     runtime.Runtime
	offers *runtime.Resolution
	state  State
	env    []runtime.Tool
	done   chan func() // has what came of each call

	mu        sync.Mutex // for execution, skills and Input.Emit, while calls are made
	execution *Execution
	skills    map[string][]runtime.Tool // by frame
}

func (d *driver) drive(ctx context.Context) {
	flying := 0
	for {
		switch a := d.next(ctx); {
		case a.Over && flying > 0:
			panic("the Execution is over, and calls are under way")
		case a.Over:
			return
		case a.Record != nil:
			d.record(context.WithoutCancel(ctx), a.Record)
		case a.Tell != nil:
			d.mu.Lock()
			d.send(*a.Tell, a.Content)
			d.mu.Unlock()
		case a.Job != nil:
			flying++
			go func() {
				r := d.make(ctx, a.Job)
				d.done <- func() { d.execution.Done(a.Job, r) }
			}()
		default:
			ended := <-d.done
			flying--
			d.mu.Lock()
			d.look(ctx)
			ended()
			d.mu.Unlock()
		}
	}
}

func (d *driver) next(ctx context.Context) Action {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.look(ctx)
	return d.execution.Next()
}

// look tells the Execution the time, and whether the run is being cancelled.
func (d *driver) look(ctx context.Context) {
	if d.execution.Now = time.Now().UTC(); ctx.Err() != nil {
		d.execution.Stop(ctx.Err(), context.Cause(ctx))
	}
}

func (d *driver) record(ctx context.Context, e *Event) {
	err := d.state.Apply(e)
	if err == nil && d.in.Journal != nil {
		err = d.in.Journal.Append(ctx, *e)
	}
	if err != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.execution.Broken(err)
	} else if d.in.Watch != nil {
		d.in.Watch(&d.state)
	}
}

func (d *driver) send(e trace.Event, content any) {
	if d.in.Emit != nil {
		d.in.Emit(e, content)
	}
}

// told takes what is told from inside a call.
func (d *driver) told(j *Job) func(trace.Event) {
	return func(e trace.Event) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.execution.Told(j, e) {
			d.send(e, nil)
		}
	}
}

// offer is what there is, in the form that an Execution takes.
func (d *driver) offer() *Offer {
	o := &Offer{Models: map[string]ModelOffer{}, Run: describeAll(d.in.Tools), Host: describeAll(d.offers.Tools),
		Agents: runtime.AgentLimits{Tools: d.in.Allow}, Deny: d.in.Deny, Limits: d.rt.Limits.WithDefaults(),
		Memory: d.rt.Memory != nil, Retriever: d.rt.Retriever != nil, Skills: d.rt.Skills != nil,
		Instructions: d.rt.Env != nil, Inbox: d.rt.Inbox != nil, Archive: d.in.Archive != nil,
		Approver: d.rt.Approver != nil, Policy: d.in.Permit != nil, Describe: describe,
		Ask: func(what string, by func(agentloop.Progress) (bool, error), p agentloop.Progress) (bool, error) {
			return guard(context.Background(), d, what, func(context.Context) (bool, error) { return by(p) })
		}}
	o.Listed = map[string]bool{}
	for _, t := range d.offers.Tools {
		_, o.Listed[t.Spec().Name] = t.(runtime.PortTool)
	}
	for name, m := range d.offers.Models {
		about, ok := m.(runtime.Described)
		if o.Models[name] = (ModelOffer{}); ok {
			o.Models[name] = ModelOffer{about.Metadata().Provider, about.Metadata().Model, about.Metadata().Options}
		}
	}
	if d.rt.Env != nil {
		d.env = d.rt.Env.Tools()
		o.Env = describeAll(d.env)
	}
	return o
}

func describeAll(tools []runtime.Tool) (list []runtime.ToolSpec) {
	for _, t := range tools {
		list = append(list, describe(t))
	}
	return list
}

func describe(t runtime.Tool) runtime.ToolSpec { return t.Spec() }

// called is what messages call that which is called, apart from models, tools and layers.
var called = map[Op]string{
	LoadMemory: "the memory", SaveMemory: "the memory", Retrieve: "the retriever", LoadSkills: "the skill loader",
	LoadInstructions: "the environment", ReadInbox: "the inbox", ClearInbox: "the inbox",
	PutArchive: "the archive", GetArchive: "the archive", AskApprover: "the approver", AskPolicy: "the policy",
}

// make makes a call.
func (d *driver) make(ctx context.Context, j *Job) Reply {
	call := d.port
	switch j.Op {
	case CallModel, AskSummary:
		call = d.model
	case CallTool:
		call = d.tool
	case DisposeLayer:
		ctx = context.WithoutCancel(ctx)
	}
	what := cmp.Or(called[j.Op], fmt.Sprintf("%s %q", j.Op, j.Name))
	if j.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, j.Timeout,
			fmt.Errorf("%s took longer than %v: %w", what, j.Timeout, context.DeadlineExceeded))
		defer cancel()
	}
	r, err := guard(ctx, d, what, func(ctx context.Context) (Reply, error) { return call(ctx, j) })
	r.Err = err
	return r
}

// guard makes a call so that it always returns: a panic is an error, and a call that ignores its context is left
// behind after the grace.
func guard[T any](ctx context.Context, d *driver, what string, call func(context.Context) (T, error)) (T, error) {
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	go func() {
		var r result
		defer func() {
			if p := recover(); p != nil {
				r = result{err: &PanicError{fmt.Sprintf("panic in %s: %v", what, p)}}
			}
			done <- r
		}()
		if r.v, r.err = call(ctx); r.err != nil {
			_ = r.err.Error() // one that panics does so here
		}
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
	}
	late := time.NewTimer(d.rt.Limits.WithDefaults().Grace)
	defer late.Stop()
	select {
	case r := <-done:
		if errors.Is(r.err, context.DeadlineExceeded) {
			r.err = context.Cause(ctx)
		}
		return r.v, r.err
	case <-late.C:
		var none T
		return none, context.Cause(ctx)
	}
}

func (d *driver) model(ctx context.Context, j *Job) (r Reply, err error) {
	if n := len(j.Replies); n > 0 {
		ctx = resume.WithAnswer(ctx, j.Replies[n-1].Answer)
	}
	call := &ModelCall{Model: d.offers.Models[j.Name], Request: j.Request, Emit: d.told(j)}
	streaming, ok := call.Model.(runtime.StreamingModel)
	switch {
	case d.in.Ask != nil:
		r.Response, err = d.in.Ask(ctx, call)
	case !ok || !d.in.Deltas:
		r.Response, err = call.Model.Generate(ctx, j.Request)
	default:
		r.Response, err = streaming.Stream(ctx, j.Request, func(p runtime.Delta) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.send(trace.Event{At: time.Now().UTC(), Kind: trace.ModelDelta, Step: j.Path,
				Data: trace.Data{{Key: "text", Value: p.Text}}}, nil)
		})
	}
	return r, err
}

func (d *driver) tool(ctx context.Context, j *Job) (r Reply, err error) {
	in := &resume.CallContext{Context: ctx, RunID: d.in.RunID, Generation: 1, Path: j.Path, Ordinal: j.Call}
	if j.Replies != nil {
		in.Detail = &resume.CallDetail{Replies: j.Replies, Answered: true}
	}
	call := &ToolCall{Tool: d.find(j), Arguments: j.Arguments, Path: j.Path, Number: j.Call, Emit: d.told(j)}
	if d.in.Call != nil {
		r.Output, err = d.in.Call(in, call)
	} else {
		r.Output, err = call.Tool.Call(in, call.Arguments)
	}
	return r, err
}

// find finds the tool that a call is of.
func (d *driver) find(j *Job) runtime.Tool {
	d.mu.Lock()
	defer d.mu.Unlock()
	tools := map[Scope][]runtime.Tool{OfRun: d.in.Tools, OfAgent: d.execution.Definition(j.Frame).Own,
		OfHost: d.offers.Tools, OfSkill: d.skills[j.Frame], OfEnv: d.env}[j.Scope]
	for _, t := range slices.Backward(tools) {
		if t.Spec().Name == j.Name {
			return t
		}
	}
	return nil
}

// port calls what is neither a model nor a tool.
func (d *driver) port(ctx context.Context, j *Job) (r Reply, err error) {
	switch j.Op {
	case LoadMemory:
		r.Messages, err = d.rt.Memory.Load(ctx, j.Conversation)
	case SaveMemory:
		err = d.rt.Memory.Save(ctx, j.Conversation, j.Key, j.Messages)
	case Retrieve:
		r.Documents, err = d.rt.Retriever.Retrieve(ctx, j.Text, j.Most)
	case LoadSkills:
		r, err = d.loadSkills(ctx, j)
	case LoadInstructions:
		r.Text, err = d.rt.Env.Instructions(ctx)
	case ReadInbox:
		r.Notes, err = d.rt.Inbox.Waiting(ctx, d.in.RunID, j.Path)
	case ClearInbox:
		err = d.rt.Inbox.Taken(ctx, d.in.RunID, j.Path, j.Names...)
	case PutArchive:
		err = d.in.Archive.Put(ctx, j.Name, j.Text)
	case GetArchive:
		r.Text, r.Found, err = d.in.Archive.Get(ctx, j.Name)
	case AskApprover:
		r.Decision, err = d.rt.Approver.Approve(ctx, *j.Approval)
	case AskPolicy:
		err = d.in.Permit(ctx, j.Name, j.Arguments)
	default:
		r.Text, err = d.layer(ctx, j)
	}
	return r, err
}

// loadSkills asks the loader, and keeps the tools that skills bring.
func (d *driver) loadSkills(ctx context.Context, j *Job) (r Reply, err error) {
	loaded, err := d.rt.Skills.Load(ctx, j.Names)
	r.Skills, r.Flaws = CheckSkills(loaded)
	var tools []runtime.Tool
	for _, k := range r.Skills {
		tools = append(tools, k.Tools...)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.skills[j.Frame] = tools
	r.Tools = describeAll(tools)
	return r, err
}

// layer calls a function of a layer.
func (d *driver) layer(ctx context.Context, j *Job) (string, error) {
	d.mu.Lock()
	layers := d.execution.Definition(j.Frame).Layers
	d.mu.Unlock()
	y := &layers[slices.IndexFunc(layers, func(y agentloop.Layer) bool { return y.ID == j.Name })]
	switch j.Op {
	case InitLayer:
		return "", y.Init(ctx, j.Key)
	case RecallLayer:
		return y.Recall(ctx, j.Key, j.Text)
	case StoreLayer:
		return "", y.Store(ctx, j.Key, j.Messages)
	}
	return "", y.Dispose(ctx, j.Key)
}
