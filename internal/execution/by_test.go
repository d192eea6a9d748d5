package execution_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// Trust 2.4: who starts, answers, sends, forks, changes and cancels is recorded, in the host's words.
func TestActsHaveNames(t *testing.T) {
	wf := runtest.Load(t, []byte("apiVersion: braise/v1\nname: who\nchannels: {mail: queue}\nsteps:\n"+
		"  ask: {uses: human, with: {prompt: \"Go?\"}}\n  again: {uses: human, needs: [ask], with: {prompt: \"Sure?\"}}\n"))
	store := &checkpoint.Memory{}
	id := "r1"
	rt := &runtime.Runtime{Store: store, Resume: resume.PassThrough{}, By: "ada", NewRunID: func() string { return id },
		Origin: map[string]string{"folder": "/home/ada"}}
	if out, err := wf.Run(t.Context(), nil, rt); out.Status != workflow.StatusPaused {
		t.Fatal(err)
	} else if text, _ := json.Marshal(out); strings.Contains(string(text), "/home/ada") {
		t.Error("the outcome has where the run began")
	}
	approve := map[string]any{"decision": "approve"}
	by := func(who string) *workflow.ResumeOptions { return &workflow.ResumeOptions{Workflow: wf, By: who} }
	if out, err := workflow.Send(t.Context(), "r1", "mail", 1, rt, by("sam")); err != nil {
		t.Fatal(out.Status, err)
	}
	if out, err := workflow.Answer(t.Context(), "r1", "ask", approve, rt, by("bob")); err != nil {
		t.Fatal(out.Status, err)
	}
	id = "r2"
	if out, err := workflow.Fork(t.Context(), "r1", "again", workflow.Edits{}, rt, by("fay\xff")); err != nil {
		t.Fatal(out.Status, err)
	}
	if out, _ := workflow.Cancel(t.Context(), "r1", "no need", rt, by("cem")); out.Status != workflow.StatusCancelled {
		t.Fatal(out.Status)
	}
	got := map[string][]string{}
	for _, run := range []string{"r1", "r2"} {
		h, err := history.Load(t.Context(), store, run)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range h.Acts {
			got[run] = append(got[run], strings.Join([]string{a.What, a.By, a.Pause, a.Decision, a.Channel, a.Reason}, "|"))
		}
	}
	want := map[string][]string{
		"r1": {"start|ada||||", "send|sam|||mail|", "answer|bob|ask|approve||", "cancel|cem||||no need"},
		"r2": {"start|fay\uFFFD||||", "send||||mail|"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("acts (-want +got):\n%s", diff)
	}
	origin, err := history.Origin(t.Context(), store, "r1")
	if diff := cmp.Diff(rt.Origin, origin); err != nil || diff != "" {
		t.Errorf("origin %v (-want +got):\n%s", err, diff)
	}
}

// Trust 2.3: a tool that the host does not allow counts as missing: the run is left as it is, and the token usable.
func TestToolsThatAreOffCountAsMissing(t *testing.T) {
	wf := runtest.Load(t, []byte("apiVersion: braise/v1\nname: off\nsteps:\n"+
		"  ask: {uses: human, with: {prompt: \"Go?\"}}\n  send: {uses: crm.send, needs: [ask]}\n"))
	store := &checkpoint.Memory{}
	on := &runtime.Runtime{Store: store, Resume: resume.PassThrough{}, Tools: []runtime.Tool{sender("")}}
	off := *on
	off.Tools = []runtime.Tool{sender("allow it in the config")}
	out, _ := wf.Run(t.Context(), nil, on)
	before := len(runtest.RecordsIn(t.Context(), store, out.RunID))
	approve := map[string]any{"decision": "approve"}
	opts := &workflow.ResumeOptions{Complete: true}
	refused, _ := workflow.Resume(t.Context(), out.Token, approve, &off, opts)
	if e := refused.Failure(); e == nil || e.Code != "tool.missing" || !strings.Contains(e.Error(), "allow it in the config") {
		t.Errorf("with the tool off: %v", refused.Err)
	}
	if n := len(runtest.RecordsIn(t.Context(), store, out.RunID)); n != before {
		t.Errorf("%d records were added", n-before)
	}
	if done, err := workflow.Resume(t.Context(), out.Token, approve, on, opts); err != nil {
		t.Errorf("the token is %v: %v", done.Status, err)
	}
	if fresh, _ := wf.Run(t.Context(), nil, &off); fresh.Status != workflow.StatusPaused || len(fresh.Diagnostics) > 0 {
		t.Errorf("a run that may never call it: %v %v", fresh.Err, fresh.Diagnostics)
	}
}

// sender is a tool that a host may not allow.
func sender(off string) runtime.Tool {
	return runtime.NewTool(runtime.ToolSpec{Name: "crm.send", Off: off},
		func(context.Context, struct{}) (string, error) { return "sent", nil })
}
