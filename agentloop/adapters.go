package agentloop

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// make makes a call.
func (d *driver) make(ctx context.Context, j *Job) Reply {
	switch j.Op {
	case CallModel:
		return d.makeModel(ctx, j)
	case CallTool:
		return d.makeTool(ctx, j)
	}
	what, name := called[j.Op], ""
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

// called is what messages call that which is called, apart from models, tools and layers.
var called = map[Op]string{
	LoadMemory: "the memory", SaveMemory: "the memory", Retrieve: "the retriever", LoadSkills: "the skill loader",
	LoadInstructions: "the environment", ReadInbox: "the inbox", ClearInbox: "the inbox",
	PutArchive: "the archive", GetArchive: "the archive", AskApprover: "the approver", AskPolicy: "the policy",
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
				d.send(trace.Event{At: time.Now().UTC(), Kind: trace.ModelDelta, Step: j.Path,
					Data: trace.Data{{Key: "text", Value: p.Text}}}, nil)
			}
		})
	})
	return r
}

func (d *driver) makeTool(ctx context.Context, j *Job) (r Reply) {
	cctx := &resume.CallContext{Context: ctx, RunID: d.in.RunID,
		Generation: cmp.Or(d.in.Generation, 1), Path: j.Path, Ordinal: j.Call}
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
		r.Messages, err = again(ctx, d, j, retry.Memory, func(ctx context.Context) ([]runtime.Message, error) {
			return d.rt.Memory.Load(ctx, j.Conversation)
		})
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
func again[T any](ctx context.Context, d *driver, j *Job, kind retry.Kind,
	call func(context.Context) (T, error)) (v T, err error) {
	if d.in.Port == nil {
		return call(ctx)
	}
	got, err := d.in.Port(ctx, &PortCall{Kind: kind, Path: j.Path, Emit: d.told(j),
		Call: func(ctx context.Context) (any, error) { return call(ctx) }})
	v, _ = got.(T)
	return v, err
}
