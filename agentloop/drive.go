package agentloop

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// Run executes the loop until it ends or pauses. in.Journal may hold an earlier leg: then Run goes on
// there, and what has a result is not done again. The result is never nil; for a loop that has ended
// already it is the stored one, and nothing is written.
//
// The error is a [*PauseError], or a *runtime.Error: a failure that the journal keeps; one of the world
// around (a missing model, the journal itself), after which Run can be called again; or of category
// cancelled, the same.
func (l *Loop) Run(ctx context.Context, in Input, rt *runtime.Runtime) (*Result, error) {
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
	state, err := Fold(in.Journal.Events())
	if err != nil {
		return refuse(runtime.CategoryInfra, "journal.corrupt", err)
	}
	d := &driver{in: &in, rt: rt, offers: rt.Resolve(), limits: rt.Limits.WithDefaults(), state: &state, skills: map[string][]runtime.Tool{}, done: make(chan made, 1)}
	terms := Terms{Prompt: in.Prompt, Context: in.Context, RunID: in.RunID, Path: in.Path, Vouched: in.Vouched, Answers: in.Answers, Content: in.Content}
	if d.leg, err = l.Begin(&state, terms, d.offer()); err != nil {
		return &Result{StopReason: StopError}, err
	}
	defer d.crew.dismiss()
	d.drive(ctx)
	return d.leg.Result(), d.leg.Err()
}

// driver carries out what a leg wants. It owns the goroutines, the clock and the adapters.
type driver struct {
	in     *Input
	rt     *runtime.Runtime
	offers *runtime.Resolution
	limits runtime.Limits
	crew   crew
	state  *State
	env    []runtime.Tool
	skills map[string][]runtime.Tool // by frame

	mu   sync.Mutex // for leg, while calls are made
	leg  *Leg
	live sync.Mutex // for Input.Emit
	done chan made  // what came of calls that overlap
}

// made is a call with what came of it.
type made struct {
	job   *Job
	reply Reply
}

// drive does what the leg wants until it is over. A call that nothing overlaps with is made here.
func (d *driver) drive(ctx context.Context) {
	past := context.WithoutCancel(ctx)       // what has happened is recorded, also when the run is being cancelled
	apart, cancel := context.WithCancel(ctx) // so that guard keeps adapters out of the goroutines here
	defer cancel()
	var wanted []*Job
	flying := 0
	for {
		a := d.next(ctx)
		switch {
		case a.Over:
			return
		case a.Record != nil:
			d.record(past, a.Record)
		case a.Tell != nil:
			d.send(*a.Tell, a.Content)
		case a.Job != nil:
			wanted = append(wanted, a.Job)
		case len(wanted) == 1 && flying == 0:
			j := wanted[0]
			wanted = wanted[:0]
			d.ended(ctx, made{j, d.make(ctx, j)})
		default:
			for _, j := range wanted {
				flying++
				go func() { d.done <- made{j, d.make(apart, j)} }()
			}
			wanted = wanted[:0]
			d.ended(ctx, <-d.done)
			flying--
		}
	}
}

// next asks the leg what it wants, and tells it the time and whether the run is being cancelled.
func (d *driver) next(ctx context.Context) Action {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.look(ctx)
	return d.leg.Next()
}

func (d *driver) look(ctx context.Context) {
	if d.leg.Now = time.Now().UTC(); ctx.Err() != nil {
		d.leg.Stop(ctx.Err(), context.Cause(ctx))
	}
}

func (d *driver) ended(ctx context.Context, m made) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.look(ctx)
	d.leg.Done(m.job, m.reply)
}

// record reduces and persists an event.
func (d *driver) record(ctx context.Context, e *Event) {
	err := d.state.Apply(e)
	if err != nil {
		err = &runtime.Error{Category: runtime.CategoryInfra, Code: "journal.illegal", Step: d.in.Path, Err: err}
	} else {
		err = d.in.Journal.Append(ctx, *e)
	}
	switch {
	case err != nil:
		d.mu.Lock()
		defer d.mu.Unlock()
		d.leg.Broken(err)
	case d.in.watch != nil:
		d.in.watch(d.state)
	}
}

func (d *driver) send(e trace.Event, content any) {
	if d.in.Emit != nil {
		d.live.Lock()
		defer d.live.Unlock()
		d.in.Emit(e, content)
	}
}

// told takes what is told from inside a call.
func (d *driver) told(j *Job) func(trace.Event) {
	return func(e trace.Event) {
		d.mu.Lock()
		open := d.leg.Told(j, e)
		d.mu.Unlock()
		if open {
			d.send(e, nil)
		}
	}
}

// make makes a call.
func (d *driver) make(ctx context.Context, j *Job) Reply {
	switch j.Op {
	case CallModel:
		return d.makeModel(ctx, j)
	case CallTool:
		return d.makeTool(ctx, j)
	}
	what, name := map[Op]string{LoadMemory: "the memory", SaveMemory: "the memory", Retrieve: "the retriever", LoadSkills: "the skill loader",
		LoadInstructions: "the environment", ReadInbox: "the inbox", ClearInbox: "the inbox", PutArchive: "the archive", GetArchive: "the archive",
		AskApprover: "the approver", AskPolicy: "the policy"}[j.Op], ""
	if what == "" {
		what, name = string(j.Op), j.Name
	}
	if j.Op == DisposeLayer {
		ctx = context.WithoutCancel(ctx)
	}
	r, err := guard(ctx, d, 0, what, name, func(ctx context.Context) (Reply, error) { return d.port(ctx, j) })
	r.Err = err
	return r
}

func (d *driver) makeModel(ctx context.Context, j *Job) (r Reply) {
	if j.Reply != nil {
		ctx = resume.WithAnswer(ctx, *j.Reply)
	}
	call := &ModelCall{Model: d.offers.Models[j.Name], Request: j.Request, Emit: d.told(j)}
	r.Response, r.Err = guard(ctx, d, 0, "model", j.Name, func(ctx context.Context) (*runtime.Response, error) {
		if d.in.Ask != nil {
			return d.in.Ask(ctx, call)
		}
		streaming, ok := call.Model.(runtime.StreamingModel)
		if !ok || !d.in.Deltas {
			return call.Model.Generate(ctx, j.Request)
		}
		return streaming.Stream(ctx, j.Request, func(p runtime.Delta) {
			if p.Text != "" && ctx.Err() == nil {
				d.send(trace.Event{At: time.Now().UTC(), Kind: trace.ModelDelta, Step: j.Path, Data: trace.Data{{Key: "text", Value: p.Text}}}, nil)
			}
		})
	})
	return r
}

func (d *driver) makeTool(ctx context.Context, j *Job) (r Reply) {
	cctx := &resume.CallContext{Context: ctx, RunID: d.in.RunID, Generation: cmp.Or(d.in.Generation, 1), Path: j.Path, Ordinal: j.Call}
	if j.Reply != nil {
		cctx.Detail = &resume.CallDetail{Answer: *j.Reply, AnswerTo: j.ReplyTo, Answered: true}
	}
	call := &ToolCall{Tool: d.tool(j), Arguments: j.Arguments, Path: j.Path, Number: j.Call, Emit: d.told(j)}
	r.Output, r.Err = guard(cctx, d, j.Timeout, "tool", j.Name, func(ctx context.Context) (json.RawMessage, error) {
		if d.in.Call != nil {
			return d.in.Call(ctx, call)
		}
		return call.Tool.Call(ctx, call.Arguments)
	})
	return r
}

// port calls what is neither a model nor a tool.
func (d *driver) port(ctx context.Context, j *Job) (r Reply, err error) {
	switch j.Op {
	case LoadMemory:
		r.Messages, err = again(ctx, d, j, retry.Memory, func(ctx context.Context) ([]runtime.Message, error) { return d.rt.Memory.Load(ctx, j.Conversation) })
	case SaveMemory:
		_, err = again(ctx, d, j, retry.Memory, func(ctx context.Context) (any, error) {
			return nil, d.rt.Memory.Save(ctx, j.Conversation, j.Key, j.Messages)
		})
	case Retrieve:
		r.Documents, err = again(ctx, d, j, retry.Retriever, func(ctx context.Context) ([]runtime.Document, error) {
			return d.rt.Retriever.Retrieve(ctx, j.Text, j.Most)
		})
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
		r.Text, err = d.callLayer(ctx, j)
	}
	return r, err
}

// again calls the memory or the retriever, as Input.Port wants it.
func again[T any](ctx context.Context, d *driver, j *Job, kind retry.Kind, call func(context.Context) (T, error)) (v T, err error) {
	if d.in.Port == nil {
		return call(ctx)
	}
	got, err := d.in.Port(ctx, &PortCall{Kind: kind, Path: j.Path, Emit: d.told(j), Call: func(ctx context.Context) (any, error) { return call(ctx) }})
	v, _ = got.(T)
	return v, err
}
