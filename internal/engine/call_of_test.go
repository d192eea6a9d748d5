package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// served notes whom each port of a run is told that it serves.
type served struct {
	mu   sync.Mutex
	seen map[string]bool
}

func (s *served) note(ctx context.Context, port string) {
	info, ok := runtime.CallOf(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen[strings.Join(strings.Fields(fmt.Sprintf("%s: %v %s %s %s %s %s", port, ok, info.By, info.Run, info.Step+"/"+info.Agent, info.Thread, info.Resource)), " ")] = true
}

func (s *served) Load(ctx context.Context, _ runtime.Conversation) ([]runtime.Message, error) {
	s.note(ctx, "memory.load")
	return nil, nil
}

func (s *served) Save(ctx context.Context, _ runtime.Conversation, _ string, _ []runtime.Message) error {
	s.note(ctx, "memory.save")
	return nil
}

func (s *served) Retrieve(ctx context.Context, _ string, _ int) ([]runtime.Document, error) {
	s.note(ctx, "retriever")
	return nil, nil
}

func (s *served) Instructions(ctx context.Context) (string, error) {
	s.note(ctx, "env")
	return "", nil
}

func (s *served) Tools() []runtime.Tool { return nil }

func (s *served) Approve(ctx context.Context, _ runtime.ApprovalRequest) (runtime.ApprovalDecision, error) {
	s.note(ctx, "approver")
	return runtime.ApprovalDecision{Allow: true}, nil
}

func (s *served) Waiting(ctx context.Context, _, _ string) ([]runtime.Note, error) {
	s.note(ctx, "inbox")
	return nil, nil
}

func (s *served) Taken(context.Context, string, string, ...string) error { return nil }

func (s *served) Generate(ctx context.Context, req *runtime.Request) (*runtime.Response, error) {
	s.note(ctx, "model")
	if len(req.Tools) > 0 && req.StepCall == 1 {
		return &runtime.Response{ToolCalls: asksFor("test.tool", 1)}, nil
	}
	return &runtime.Response{Text: "done"}, nil
}

func (s *served) Spec() runtime.ToolSpec {
	return runtime.ToolSpec{Name: "test.tool", Effect: runtime.ReadOnly, Approval: "always"}
}

func (s *served) Call(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
	s.note(ctx, "tool")
	return json.RawMessage(`1`), nil
}

type skillsFor struct{ *served }

func (s skillsFor) Load(ctx context.Context, _ []string) ([]runtime.Skill, error) {
	s.note(ctx, "skills")
	return nil, nil
}

// trust 8.18: every port, and every hook, is told which run, step, agent, thread, resource and person it serves.
func TestPortsKnowWhomTheyServe(t *testing.T) {
	s := &served{seen: map[string]bool{}}
	rt := &runtime.Runtime{By: "ann", Models: map[string]runtime.Model{"m": s}, Tools: []runtime.Tool{s}, Memory: s, Retriever: s, Env: s, Approver: s,
		Inbox: s, Skills: skillsFor{s}, NewRunID: func() string { return "r1" }, Plugins: []runtime.Plugin{{Key: "p", Hooks: runtime.Hooks{}}}}
	for _, point := range []runtime.Point{runtime.RunInit, runtime.StepBefore, runtime.ModelBefore, runtime.ModelAfter, runtime.ToolBefore, runtime.ToolAfter, runtime.StepAfter, runtime.RunFinish} {
		rt.Plugins[0].Hooks[point] = func(ctx context.Context, m runtime.Moment) error {
			s.note(ctx, string(point))
			return nil
		}
	}
	layer := func(ctx context.Context, _, _ string) (string, error) {
		s.note(ctx, "layer")
		return "", nil
	}
	r, err := recipe.Parse("recipe.yaml", []byte(runtest.Head+"steps:\n  a: {uses: agent, with: {agent: one, prompt: go}}\n  b: {uses: model, with: {model: m, prompt: go}}\n"+
		"  c: {uses: retrieve, with: {query: x}}\n  d: {uses: test.tool}\n"))
	if err != nil {
		t.Fatal(err)
	}
	wf, err := workflow.Compile(r, &workflow.Options{Agents: map[string]*agentloop.Loop{
		"one": {Name: "one", Model: "m", Tools: []string{"test.tool"}, TopK: 1, Skills: []string{"x"}, MaxSubagents: -1,
			Memory: runtime.Conversation{Thread: "t1", Resource: "u1"}, Layers: []agentloop.Layer{{ID: "l", Scope: "thread", Recall: layer}}}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := wf.Run(t.Context(), nil, rt); err != nil {
		t.Fatal(err)
	}
	want := []string{"run.init: true ann r1 /", "run.finish: true ann r1 /"}
	for _, port := range []string{"memory.load", "memory.save", "retriever", "env", "approver", "inbox", "skills", "layer", "model", "tool",
		"model.before", "model.after", "tool.before", "tool.after"} {
		want = append(want, port+": true ann r1 a/one t1 u1")
	}
	want = append(want, "model: true ann r1 b/", "model.before: true ann r1 b/", "model.after: true ann r1 b/", "retriever: true ann r1 c/",
		"tool: true ann r1 d/", "tool.before: true ann r1 d/", "tool.after: true ann r1 d/")
	for _, step := range []string{"a", "b", "c", "d"} {
		want = append(want, "step.before: true ann r1 "+step+"/", "step.after: true ann r1 "+step+"/")
	}
	for _, line := range want {
		if !s.seen[line] {
			t.Errorf("nobody was told %q", line)
		}
		delete(s.seen, line)
	}
	for line := range s.seen {
		t.Errorf("somebody was told %q", line)
	}
}

// trust 8.18: what is called after an answer serves who gave it, in whatever process, until somebody else answers.
func TestPortsServeWhoAnswered(t *testing.T) {
	s := &served{seen: map[string]bool{}}
	wf := runtest.Load(t, []byte(runtest.Head+"steps:\n  a: {uses: model, with: {model: m, prompt: go}}\n  b: {uses: human, needs: [a], with: {prompt: Sure?}}\n"+
		"  c: {uses: model, needs: [b], with: {model: m, prompt: go}}\n  d: {uses: human, needs: [c], with: {prompt: Sure?}}\n"+
		"  e: {uses: test.tool, needs: [d]}\n  f: {uses: human, needs: [e], with: {prompt: Sure?}}\n  g: {uses: test.tool, needs: [f]}\n"))
	rt := &runtime.Runtime{By: "ann", Models: map[string]runtime.Model{"m": s}, Tools: []runtime.Tool{s}, Store: &checkpoint.Memory{},
		Resume: resume.PassThrough{}, NewRunID: func() string { return "r1" }, Plugins: []runtime.Plugin{runtest.Hook("p", runtime.StepBefore, func(ctx context.Context, _ runtime.Moment) error {
			s.note(ctx, "step.before")
			return nil
		})}}
	out, err := wf.Run(t.Context(), nil, rt)
	for _, by := range []string{"bob", "", "cid"} { // who gave the second answer is not known
		if err != nil || out.Status != workflow.StatusPaused {
			t.Fatalf("%s: %v", out.Status, err)
		}
		host := *rt
		host.By = ""
		out, err = workflow.Resume(t.Context(), out.Token, map[string]any{"decision": "approve"}, &host, &workflow.ResumeOptions{By: by})
	}
	if err != nil || out.Status != workflow.StatusOK {
		t.Fatalf("%s: %v", out.Status, err)
	}
	for _, line := range []string{"model: true ann r1 a/", "model: true bob r1 c/", "tool: true bob r1 e/", "tool: true cid r1 g/",
		"step.before: true ann r1 b/", "step.before: true bob r1 d/", "step.before: true bob r1 e/", "step.before: true cid r1 g/"} {
		if !s.seen[line] {
			t.Errorf("nobody was told %q: %v", line, s.seen)
		}
	}
}
