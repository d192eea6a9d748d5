package execution_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/memory"
	"github.com/braise-run/braise/adapters/script"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// agentHost runs a scene in this process, in a world of its own.
type agentHost struct {
	scene  agentScene
	kept   checkpoint.Memory
	reach  func(point string) // told before each call and each write; nil: nobody
	rt     *runtime.Runtime
	last   bool // of several pauses the last is answered first
	memory *memory.Memory

	mutex sync.Mutex
	log   []effect
	taken []string
}

func newAgentHost(t *testing.T, scene string) *agentHost {
	t.Helper()
	h := &agentHost{scene: agentScenes[scene]}
	model, err := script.Parse("script.yaml", []byte(h.scene.script))
	if err != nil {
		t.Fatal(err)
	}
	h.memory = memory.New(&checkpoint.Memory{})
	h.rt = &runtime.Runtime{
		Store: reachingStore{&h.kept, h}, Resume: resume.PassThrough{}, Reporter: &runtest.Quiet{}, NewRunID: func() string { return "r1" },
		Models: map[string]runtime.Model{"m": reachingModel{model, h}},
		Tools:  []runtime.Tool{h.tool("read", runtime.ReadOnly), h.tool("idempotent", runtime.Idempotent), h.tool("external", ""), gateTool{h.tool("external", "")}},
		Memory: h.memory, Env: agentEnv{}, Inbox: h, Skills: agentSkills{}, Retriever: shelfOfOne,
	}
	return h
}

func (h *agentHost) reached(point string) {
	if h.reach != nil {
		h.reach(point)
	}
}

func (h *agentHost) tool(what string, effects runtime.Effect) runtime.Tool {
	return agentTool{runtime.ToolSpec{Name: "fx." + what, Effect: effects}, what, h}
}

// agentTool notes what it does.
type agentTool struct {
	spec runtime.ToolSpec
	what string
	host *agentHost
}

func (t agentTool) Spec() runtime.ToolSpec { return t.spec }

func (t agentTool) Call(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
	var a struct{ As string }
	if err := json.Unmarshal(args, &a); err != nil {
		return nil, err
	}
	t.host.mutex.Lock()
	t.host.log = append(t.host.log, effect{t.what, a.As, resume.IdempotencyKey(ctx)})
	t.host.mutex.Unlock()
	t.host.reached("tool")
	return json.Marshal(map[string]any{"did": a.As})
}

type reachingModel struct {
	runtime.Model
	host *agentHost
}

func (m reachingModel) Generate(ctx context.Context, req *runtime.Request) (*runtime.Response, error) {
	resp, err := m.Model.Generate(ctx, req)
	m.host.reached("model")
	return resp, err
}

type reachingStore struct {
	checkpoint.Store
	host *agentHost
}

func (s reachingStore) Append(ctx context.Context, l checkpoint.Lease, after int64, recs ...checkpoint.Record) error {
	s.host.reached("write")
	return s.Store.Append(ctx, l, after, recs...)
}

// Waiting has a word for the agent in the step work, which it may take once.
func (h *agentHost) Waiting(_ context.Context, _, step string) ([]runtime.Note, error) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if step != "work" || slices.Contains(h.taken, "n1") {
		return nil, nil
	}
	return []runtime.Note{{ID: "n1", Text: "Hurry."}}, nil
}

func (h *agentHost) Taken(_ context.Context, _, _ string, ids ...string) error {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.taken = append(h.taken, ids...)
	return nil
}

// drive answers the pauses of a run until it ends; told sees each execution.
func (h *agentHost) drive(t *testing.T, out *workflow.Outcome, told func(*workflow.Outcome)) *workflow.Outcome {
	t.Helper()
	for n := 0; ; n++ {
		if told != nil {
			told(out)
		}
		if out.Status != workflow.StatusPaused {
			return out
		}
		if n == 50 {
			t.Fatal("it does not end")
		}
		p := out.Pauses[0]
		if h.last {
			p = out.Pauses[len(out.Pauses)-1]
		}
		out, _ = workflow.Resume(t.Context(), p.Token, agentAnswer(p, h.log), h.rt, nil)
	}
}

// cameTo returns what the run has come to.
func (h *agentHost) cameTo(t *testing.T, out *workflow.Outcome) agentRun {
	t.Helper()
	_, recs, err := h.kept.Load(t.Context(), "r1", 0)
	if err != nil {
		t.Fatal(err)
	}
	messages, err := h.memory.Load(t.Context(), runtime.Conversation{Thread: "main"})
	if err != nil {
		t.Fatal(err)
	}
	return agentRunOf(t, "r1", out, recs, h.log, messages)
}

// A run with agents is cancelled at every call and every write of its first execution, by its context. Resumed, it
// comes to what one does that was not.
func TestAgentsCancelledAnywhere(t *testing.T) {
	for _, scene := range []string{"one", "eight", "bodies"} {
		t.Run(scene, func(t *testing.T) {
			whole := newAgentHost(t, scene)
			points := 0
			var counting sync.Mutex
			whole.reach = func(string) {
				counting.Lock()
				defer counting.Unlock()
				points++
			}
			wf := whole.scene.load(t)
			out, _ := wf.Run(t.Context(), nil, whole.rt)
			whole.reach = nil
			want := whole.cameTo(t, whole.drive(t, out, nil))
			if want.Status != workflow.StatusOK || points < 8 {
				t.Fatalf("%s, %d points", want.Status, points)
			}
			for n := 1; n <= points; n++ {
				h := newAgentHost(t, scene)
				h.last = n%2 == 0
				ctx, cancel := context.WithCancel(t.Context())
				reached, at := 0, ""
				var mutex sync.Mutex
				h.reach = func(point string) {
					mutex.Lock()
					defer mutex.Unlock()
					if reached++; reached == n {
						at = fmt.Sprint(point, " ", n)
						cancel()
					}
				}
				first, _ := wf.Run(ctx, nil, h.rt)
				cancel()
				h.reach = nil
				if first.Status != workflow.StatusCancelled && first.Status != workflow.StatusPaused {
					t.Errorf("cancelled at %s: %s, %v", at, first.Status, first.Err)
				}
				again, _ := workflow.Recover(t.Context(), "r1", h.rt, nil)
				if diff := cmp.Diff(want, h.cameTo(t, h.drive(t, again, nil))); diff != "" {
					t.Errorf("cancelled at %s (-want +got)\n%s", at, diff)
				}
				if t.Failed() {
					return
				}
			}
		})
	}
}

// What an agent does while its run is being cancelled is in the journal at the place where the cancelling found
// the run: what was decided later is decided anew.
func TestAgentThatGoesOnWhileCancelled(t *testing.T) {
	for _, tt := range []struct{ name, answer string }{{"with a result", ""}, {"with a pause", "approve"}} {
		t.Run(tt.name, func(t *testing.T) {
			wf := runtest.Load(t, []byte(runtest.Head+`agents:
  slow: {model: m, tools: [t.slow], subagents: false}
  quick: {model: m, tools: [t.quick], subagents: false}
steps:
  a: {uses: agent, with: {agent: quick, prompt: a}}
  b: {uses: agent, with: {agent: slow, prompt: b}}
  c: {uses: set, needs: [a], trigger: all_done, with: 1}
output: ["${{ steps.a.output.text }}", "${{ steps.b.output.text }}"]
`))
			model, err := script.Parse("script.yaml", []byte(`steps:
  a: [{tool_calls: [{name: t.quick}]}, {text: A}]
  b: [{tool_calls: [{name: t.slow}]}, {text: B}]
`))
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			decided, entered, again, slow := make(chan bool), make(chan bool), false, 0
			quick := &runtimetest.Tool{ToolSpec: runtime.ToolSpec{Name: "t.quick", Effect: runtime.ReadOnly}, Func: func(ctx context.Context, _ json.RawMessage) (any, error) {
				if again {
					return "q", nil
				}
				<-entered
				cancel()
				return nil, ctx.Err()
			}}
			late := runtimetest.NewTool("t.slow", func(ctx context.Context, _ json.RawMessage) (any, error) {
				if _, ok := resume.Answer(ctx); ok {
					return "s", nil
				}
				slow++
				close(entered)
				<-decided // deaf to its context
				if tt.answer != "" {
					return nil, resume.Suspend(resume.Pause{Kind: resume.Human, Prompt: "Go on?", Decisions: []string{tt.answer}})
				}
				return "s", nil
			})
			watch := sinkFunc(func(e trace.Event) {
				if e.Kind == trace.StepEnd && e.Step == "a" && !again { // next, c is decided
					close(decided)
				}
			})
			rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Models: map[string]runtime.Model{"m": model}, Tools: []runtime.Tool{quick, late},
				Trace: []trace.Sink{watch}, Resume: resume.PassThrough{}, Reporter: &runtest.Quiet{}, NewRunID: func() string { return "r1" }}
			out, err := wf.Run(ctx, nil, rt)
			if out.Status != workflow.StatusCancelled {
				t.Fatalf("%s, %v", out.Status, err)
			}
			again = true
			out, err = workflow.Recover(t.Context(), "r1", rt, nil)
			if tt.answer != "" && out.Status == workflow.StatusPaused {
				out, err = workflow.Resume(t.Context(), out.Token, map[string]any{"decision": tt.answer}, rt, nil)
			}
			if diff := cmp.Diff([]any{"A", "B"}, out.Output); diff != "" || err != nil || slow != 1 {
				t.Errorf("%s, %v, %d slow calls, output (-want +got)\n%s", out.Status, err, slow, diff)
			}
		})
	}
}

type sinkFunc func(trace.Event)

func (f sinkFunc) Emit(e trace.Event) { f(e) }
