package call

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
)

// callPort calls what only agents call, and the memory and the retriever for them, with secrets redacted.
func (a *attempt) callPort() engine.Result {
	resp := a.try()
	res := engine.Result{Reply: resp.reply, Err: a.shown(resp.err),
		Spent: resp.used}
	if r := res.Reply; resp.err == nil && a.Redact != nil {
		var bad [2]error
		r.Messages, bad[0] = withoutSecrets(a.Redact, r.Messages)
		r.Documents, bad[1] = withoutSecrets(a.Redact, r.Documents)
		res.Bad = a.shown(cmp.Or(bad[:]...))
	}
	return res
}

// withoutSecrets returns plain data with its secrets redacted.
func withoutSecrets[T any](redact *value.Redactor, list []T) (clean []T, err error) {
	if list == nil {
		return nil, nil
	}
	text, err := json.Marshal(list)
	if err != nil {
		return nil, err
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

// port makes the call of an agent's job, other than to a model or a tool.
func (a *attempt) port() (r agents.Reply, err error) {
	ctx, j, rt := a.ctx, a.call.Job, a.rt
	switch j.Op {
	case agents.LoadMemory:
		r.Messages, err = rt.Memory.Load(ctx, j.Conversation)
	case agents.SaveMemory:
		err = rt.Memory.Save(ctx, j.Conversation, j.Key, j.Messages)
	case agents.LoadSkills:
		r, err = a.loadSkills()
	case agents.LoadInstructions:
		r.Text, err = rt.Env.Instructions(ctx)
	case agents.ReadInbox:
		r.Notes, err = rt.Inbox.Waiting(ctx, a.RunID, j.Path)
	case agents.ClearInbox:
		err = rt.Inbox.Taken(ctx, a.RunID, j.Path, j.Names...)
	case agents.PutArchive:
		err = a.Archive.Put(ctx, j.Name, j.Text)
	case agents.GetArchive:
		r.Text, r.Found, err = a.Archive.Get(ctx, j.Name)
	case agents.AskApprover:
		r.Decision, err = rt.Approver.Approve(ctx, *j.Approval)
		if text := string(r.Decision.Arguments); err == nil && a.Redact.Text(text) != text {
			err = errors.New("the arguments that were approved hold a secret")
		}
	case agents.AskPolicy, agents.TellPolicy:
		m := runtime.Moment{Point: runtime.ToolBefore, Name: j.Name}
		v, _ := value.Decode(j.Arguments)
		m.Args, _ = v.(map[string]any)
		if j.Op == agents.TellPolicy {
			if m.Point, m.Output = runtime.ToolAfter, j.Text; j.Code != "" {
				m.Output, m.Err = nil, errors.New(strings.TrimPrefix(j.Text, "error: "))
			}
		}
		err = a.fire(m)
	default:
		r.Text, err = callLayer(ctx, a.loop(j.Path), j)
	}
	return r, err
}

// loadSkills calls the loader, and keeps the tools of the skills.
func (a *attempt) loadSkills() (r agents.Reply, err error) {
	skills, err := a.rt.Skills.Load(a.ctx, a.call.Job.Names)
	if err != nil {
		return r, err
	}
	r.Skills, r.Flaws = agents.CheckSkills(skills)
	var tools []runtime.Tool
	for _, k := range r.Skills {
		tools = append(tools, k.Tools...)
	}
	r.Tools = a.describeAll(tools)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.skills == nil {
		a.skills = map[string][]runtime.Tool{}
	}
	a.skills[a.call.Job.Path] = tools
	return r, nil
}

// callLayer calls a function of a layer of the loop; nil: the loop runs in another process.
func callLayer(ctx context.Context, l *agentloop.Loop, j *agents.Job) (string, error) {
	if l == nil {
		return "", fmt.Errorf("layer %q belongs to an agent in another process", j.Name)
	}
	y := &l.Layers[slices.IndexFunc(l.Layers, func(y agentloop.Layer) bool { return y.ID == j.Name })]
	switch j.Op {
	case agents.InitLayer:
		return "", y.Init(ctx, j.Key)
	case agents.RecallLayer:
		return y.Recall(ctx, j.Key, j.Text)
	case agents.StoreLayer:
		return "", y.Store(ctx, j.Key, j.Messages)
	case agents.DisposeLayer:
		return "", y.Dispose(ctx, j.Key)
	}
	return "", fmt.Errorf("unknown call %q", cmp.Or(j.Op, "none"))
}
