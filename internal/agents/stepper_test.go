package agents_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// input is what a test runs a loop with, beside its models and tools. The zero value is enough.
type input struct {
	Prompt, Context string // Prompt defaults to "do it"
	Before          []agents.Message
	Files           []runtime.File
	Answers         []agents.Answer
	Journal         *journal // nil: a new one
	Allow, Deny     []string
	Content         bool
	Emit            func(trace.Event, any)

	Call func(*agents.Execution, *agents.Job) error // is called before each call; an error is the result of the call
	Pick func(jobs int) int                         // says which of the calls under way ends next; nil: the first

	Memory    runtime.Memory
	Retriever runtime.Retriever
	Skills    runtime.SkillLoader
	Env       runtime.Env
	Approver  runtime.Approver
	Inbox     runtime.Inbox
	Archive   agentloop.Archive
	Permit    func(tool string, args json.RawMessage) error
}

// stepper drives an Execution by hand: it makes one call after the other, each when it is to end.
type stepper struct {
	input
	*agents.Execution
	host   *runtime.Resolution
	skills map[string][]runtime.Tool // by frame
}

// run drives a loop from where its journal ends until it pauses or is over.
func (s *stepper) run(ctx context.Context, t testing.TB, l *agentloop.Loop, rt *runtime.Runtime) (*agents.Ran, error) {
	state, err := agents.Fold(s.Journal.earlier)
	if err != nil {
		t.Fatal(err)
	}
	s.host, s.skills = rt.Resolve(), map[string][]runtime.Tool{}
	s.Execution, err = agents.Begin(l, &state, agents.Terms{Before: s.Before, Prompt: s.Prompt, Context: s.Context, Files: s.Files,
		RunID: "run1", Path: "step", Answers: s.Answers, Content: s.Content}, s.offer(rt))
	if err != nil {
		return &agents.Ran{Result: &agents.Result{StopReason: agentloop.StopError}}, err
	}
	var jobs []*agents.Job
	for {
		s.look(ctx)
		switch a := s.Next(); {
		case a.Over && len(jobs) == 0:
			return s.Ran(), s.Err()
		case a.Record != nil:
			if err = state.Apply(a.Record); err == nil {
				err = s.Journal.append(a.Record, &state)
			}
			if err != nil {
				s.Broken(err)
			}
		case a.Tell != nil && s.Emit != nil:
			s.Emit(*a.Tell, a.Content)
		case a.Tell != nil:
		case a.Job != nil:
			jobs = append(jobs, a.Job)
		case a.Over || len(jobs) == 0:
			t.Fatalf("over: %t, with %d calls under way", a.Over, len(jobs))
		default:
			i := 0
			if s.Pick != nil {
				i = s.Pick(len(jobs))
			}
			j := jobs[i]
			jobs = slices.Delete(jobs, i, i+1)
			r := s.reply(ctx, j)
			s.look(ctx)
			s.Done(j, r)
		}
	}
}

// look tells the Execution the time, and whether the run is being cancelled.
func (s *stepper) look(ctx context.Context) {
	if s.Now = time.Now().UTC(); ctx.Err() != nil {
		s.Stop(ctx.Err(), context.Cause(ctx))
	}
}

// reply makes a call. A panic is an error of it.
func (s *stepper) reply(ctx context.Context, j *agents.Job) (r agents.Reply) {
	defer func() {
		if p := recover(); p != nil {
			r.Err = &agents.PanicError{Text: fmt.Sprint("panic: ", p)}
		}
	}()
	if s.Call != nil {
		if r.Err = s.Call(s.Execution, j); r.Err != nil {
			return r
		}
	}
	r.Err = calls[j.Op](s, ctx, j, &r)
	return r
}

// calls says how each call is made.
var calls = map[agents.Op]func(s *stepper, ctx context.Context, j *agents.Job, r *agents.Reply) error{
	agents.CallModel:  (*stepper).model,
	agents.AskSummary: (*stepper).model,
	agents.CallTool:   (*stepper).tool,
	agents.LoadMemory: func(s *stepper, ctx context.Context, j *agents.Job, r *agents.Reply) (err error) {
		r.Messages, err = s.Memory.Load(ctx, j.Conversation)
		return err
	},
	agents.SaveMemory: func(s *stepper, ctx context.Context, j *agents.Job, _ *agents.Reply) error {
		return s.Memory.Save(ctx, j.Conversation, j.Key, j.Messages)
	},
	agents.Retrieve: func(s *stepper, ctx context.Context, j *agents.Job, r *agents.Reply) (err error) {
		r.Documents, err = s.Retriever.Retrieve(ctx, j.Text, j.Most)
		return err
	},
	agents.LoadSkills: func(s *stepper, ctx context.Context, j *agents.Job, r *agents.Reply) error {
		loaded, err := s.input.Skills.Load(ctx, j.Names)
		r.Skills, r.Flaws = agents.CheckSkills(loaded)
		s.skills[j.Frame] = nil
		for _, k := range r.Skills {
			s.skills[j.Frame] = append(s.skills[j.Frame], k.Tools...)
		}
		r.Tools = specs(s.skills[j.Frame])
		return err
	},
	agents.LoadInstructions: func(s *stepper, ctx context.Context, _ *agents.Job, r *agents.Reply) (err error) {
		r.Text, err = s.Env.Instructions(ctx)
		return err
	},
	agents.ReadInbox: func(s *stepper, ctx context.Context, j *agents.Job, r *agents.Reply) (err error) {
		r.Notes, err = s.Inbox.Waiting(ctx, "run1", j.Path)
		return err
	},
	agents.ClearInbox: func(s *stepper, ctx context.Context, j *agents.Job, _ *agents.Reply) error {
		return s.Inbox.Taken(ctx, "run1", j.Path, j.Names...)
	},
	agents.PutArchive: func(s *stepper, ctx context.Context, j *agents.Job, _ *agents.Reply) error {
		return s.Archive.Put(ctx, j.Name, j.Text)
	},
	agents.GetArchive: func(s *stepper, ctx context.Context, j *agents.Job, r *agents.Reply) (err error) {
		r.Text, r.Found, err = s.Archive.Get(ctx, j.Name)
		return err
	},
	agents.AskApprover: func(s *stepper, ctx context.Context, j *agents.Job, r *agents.Reply) (err error) {
		r.Decision, err = s.Approver.Approve(ctx, *j.Approval)
		return err
	},
	agents.AskPolicy: func(s *stepper, _ context.Context, j *agents.Job, _ *agents.Reply) error {
		return s.Permit(j.Name, j.Arguments)
	},
	agents.TellPolicy: func(*stepper, context.Context, *agents.Job, *agents.Reply) error { return nil },
	agents.InitLayer: func(s *stepper, ctx context.Context, j *agents.Job, _ *agents.Reply) error {
		return s.layer(j).Init(ctx, j.Key)
	},
	agents.RecallLayer: func(s *stepper, ctx context.Context, j *agents.Job, r *agents.Reply) (err error) {
		r.Text, err = s.layer(j).Recall(ctx, j.Key, j.Text)
		return err
	},
	agents.StoreLayer: func(s *stepper, ctx context.Context, j *agents.Job, _ *agents.Reply) error {
		return s.layer(j).Store(ctx, j.Key, j.Messages)
	},
	agents.DisposeLayer: func(s *stepper, ctx context.Context, j *agents.Job, _ *agents.Reply) error {
		return s.layer(j).Dispose(context.WithoutCancel(ctx), j.Key)
	},
}

func (s *stepper) model(ctx context.Context, j *agents.Job, r *agents.Reply) (err error) {
	r.Response, err = s.host.Models[j.Name].Generate(ctx, j.Request)
	return err
}

func (s *stepper) tool(ctx context.Context, j *agents.Job, r *agents.Reply) (err error) {
	in := &resume.CallContext{Context: ctx, RunID: "run1", Generation: 1, Path: j.Path, Ordinal: j.Call}
	if j.Replies != nil {
		in.Detail = &resume.CallDetail{Replies: j.Replies, Answered: true}
	}
	tools := map[agents.Scope][]runtime.Tool{agents.OfAgent: s.Definition(j.Frame).Own,
		agents.OfHost: s.host.Tools, agents.OfSkill: s.skills[j.Frame]}[j.Scope]
	if j.Scope == agents.OfEnv {
		tools = s.Env.Tools()
	}
	for _, t := range slices.Backward(tools) {
		if t.Spec().Name == j.Name {
			r.Output, err = t.Call(in, j.Arguments)
			return err
		}
	}
	return errors.New("no such tool")
}

// layer is the one that a call is of.
func (s *stepper) layer(j *agents.Job) *agentloop.Layer {
	layers := s.Definition(j.Frame).Layers
	return &layers[slices.IndexFunc(layers, func(y agentloop.Layer) bool { return y.ID == j.Name })]
}

// offer describes what there is.
func (s *stepper) offer(rt *runtime.Runtime) *agents.Offer {
	o := &agents.Offer{Models: map[string]agents.ModelOffer{}, Host: specs(s.host.Tools), Listed: map[string]bool{},
		Agents: runtime.AgentLimits{Tools: s.Allow}, Deny: s.Deny, Limits: rt.Limits.WithDefaults(),
		Memory: s.Memory != nil, Retriever: s.Retriever != nil, Skills: s.input.Skills != nil,
		Instructions: s.Env != nil, Inbox: s.Inbox != nil, Archive: s.Archive != nil, Approver: s.Approver != nil,
		Policy: s.Permit != nil, Describe: func(t runtime.Tool) runtime.ToolSpec { return t.Spec() }}
	for name, m := range s.host.Models {
		o.Models[name] = agents.ModelOffer{}
		if about, ok := m.(runtime.Described); ok {
			o.Models[name] = agents.ModelOffer{Provider: about.Metadata().Provider, Model: about.Metadata().Model,
				Options: about.Metadata().Options}
		}
	}
	for _, t := range s.host.Tools {
		_, o.Listed[t.Spec().Name] = t.(runtime.PortTool)
	}
	if s.Env != nil {
		o.Env = specs(s.Env.Tools())
	}
	return o
}

func specs(tools []runtime.Tool) (list []runtime.ToolSpec) {
	for _, t := range tools {
		list = append(list, t.Spec())
	}
	return list
}
