package execution_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/braise-run/braise/adapters/memory"
	"github.com/braise-run/braise/adapters/script"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/jsonl"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/failpoint"
	"github.com/braise-run/braise/internal/ledger"
	"github.com/braise-run/braise/internal/local"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// agentCrashVar has an agentJob in JSON.
const agentCrashVar = "BRAISE_CRASH_AGENT"

// agentJob is what a child is told that runs agents.
type agentJob struct {
	crashJob
	Scene string
	Split bool // each record has a write of its own, after which it may die
	Last  bool // of several open pauses the last is answered first
}

// agentResult is what that child prints.
type agentResult struct {
	crashResult
	Snapshots map[string]string // of loops that ended in this process, by path
	Memory    []runtime.Message // of the thread main
}

func TestAgentCrashChild(t *testing.T) {
	text := os.Getenv(agentCrashVar)
	if text == "" {
		t.Skip("this is what the other tests of crashes start")
	}
	var job agentJob
	if err := json.Unmarshal([]byte(text), &job); err != nil {
		t.Fatal(err)
	}
	store, err := openWorld(job.Store, job.Place)
	if err != nil {
		t.Fatal(err)
	}
	c := &agentChild{crashChild{job: job.crashJob, at: os.Getenv(failpointVar), do: os.Getenv(failActVar), store: store}, job}
	ledger.LeaseTime, local.RecordTime = usualLease, time.Hour
	failpoint.Hook = c.reached
	result := c.run(t.Context(), t)
	failpoint.Hook = nil
	line, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(string(line))
	os.Exit(0)
}

type agentChild struct {
	crashChild
	job agentJob
}

// run does what is left to do.
func (c *agentChild) run(ctx context.Context, t *testing.T) (result agentResult) {
	scene := agentScenes[c.job.Scene]
	model, err := script.Parse("script.yaml", []byte(scene.script))
	if err != nil {
		t.Fatal(err)
	}
	docs, err := jsonl.Open(filepath.Join(c.job.Dir, "memory")) // of this run alone
	if err != nil {
		t.Fatal(err)
	}
	defer docs.Close()
	mem := memory.New(docs)
	c.rt = &runtime.Runtime{
		Store: c.store, Resume: resume.PassThrough{}, Reporter: &runtest.Quiet{}, NewRunID: func() string { return c.job.Run },
		Models: map[string]runtime.Model{"m": loggedModel{model, &c.crashChild}},
		Tools:  []runtime.Tool{c.tool("read", runtime.ReadOnly), c.tool("idempotent", runtime.Idempotent), c.tool("external", ""), gateTool{c.tool("external", "")}},
		Memory: mem, Env: agentEnv{}, Inbox: inbox{c}, Skills: agentSkills{},
		Retriever: shelfOfOne,
	}
	if c.job.Split {
		c.rt.Store = splitStore{c.store, c}
	}
	result.Snapshots = map[string]string{}
	seen := func(out *workflow.Outcome) *workflow.Outcome {
		maps.Copy(result.Snapshots, endSnapshots(out))
		return out
	}
	out, _ := workflow.Recover(ctx, c.job.Run, c.rt, nil)
	for runtest.ErrorCode(out) == "run.busy" {
		<-time.After(5 * time.Millisecond)
		out, _ = workflow.Recover(ctx, c.job.Run, c.rt, nil)
	}
	if runtest.ErrorCode(out) == "run.notFound" {
		out, _ = scene.load(t).Run(ctx, nil, c.rt)
	}
	for seen(out); out.Status == workflow.StatusPaused; seen(out) {
		p := out.Pauses[0]
		if c.job.Last {
			p = out.Pauses[len(out.Pauses)-1]
		}
		out, _ = workflow.Resume(ctx, p.Token, agentAnswer(p, effectsIn(c.job.Dir)), c.rt, nil)
	}
	if result.Memory, err = mem.Load(ctx, runtime.Conversation{Thread: "main"}); err != nil {
		t.Fatal(err)
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	result.Status, result.Code, result.Output, result.Artefact, result.Hits = out.Status, runtest.ErrorCode(out), out.Output, out.Artefact, c.hits
	if out.Err != nil {
		fmt.Fprintln(os.Stderr, out.Err)
	}
	return result
}

// splitStore writes one record after the other: a process may die after each.
type splitStore struct {
	checkpoint.Store
	child *agentChild
}

func (s splitStore) Append(ctx context.Context, l checkpoint.Lease, after int64, recs ...checkpoint.Record) error {
	for i, rec := range recs {
		if err := s.Store.Append(ctx, l, after+int64(i), rec); err != nil {
			return err
		}
		for _, e := range agentEvents(rec) {
			s.child.reached(eventPoint(e.Kind))
		}
	}
	return nil
}

func eventPoint(kind agents.Kind) string { return "agent " + string(kind) }

// inbox has a word for the agent in the step work, which it may take once.
type inbox struct{ child *agentChild }

func (b inbox) taken() []string { return readLines[string](filepath.Join(b.child.job.Dir, "taken")) }

func (b inbox) Waiting(_ context.Context, _, step string) ([]runtime.Note, error) {
	if step != "work" || slices.Contains(b.taken(), "n1") {
		return nil, nil
	}
	return []runtime.Note{{ID: "n1", Text: "Hurry."}}, nil
}

func (b inbox) Taken(_ context.Context, _, _ string, ids ...string) error {
	for _, id := range ids {
		b.child.add("taken", id)
	}
	return nil
}
