package temporal

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/braise-run/braise/adapters/retriever"
	"github.com/braise-run/braise/adapters/script"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/internal/wire"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	flow "github.com/braise-run/braise/workflow"
)

const canary = "canary-0123456789"

// effects is what tools did, by text.
type effects struct {
	mu    sync.Mutex
	count map[string]int
}

func (e *effects) note(format string, args ...any) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.count == nil {
		e.count = map[string]int{}
	}
	text := fmt.Sprintf(format, args...)
	e.count[text]++
	return e.count[text]
}

// down is a model that is not there.
type down struct{}

func (down) Generate(context.Context, *runtime.Request) (*runtime.Response, error) {
	return nil, &retry.Failure{Reason: retry.ServerError, Status: 503, Err: errors.New("the service is down")}
}

// effectOfFile is the effect of demo.file: a call without a text only reads.
func effectOfFile(args json.RawMessage) runtime.Effect {
	if bytes.Contains(args, []byte(`"text"`)) {
		return runtime.External
	}
	return runtime.ReadOnly
}

// demoRuntime is a runtime for the recipes in testdata, whose models begin anew.
func demoRuntime(t testing.TB, done *effects) *runtime.Runtime {
	t.Helper()
	scripted := func(name, turns string) runtime.Model {
		m, err := script.Parse(name, []byte(turns))
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	type work struct{ N, Ms int }
	type charge struct {
		Amount int
		Token  string
	}
	type named struct{ ID, Name, Ticket string }
	tool := func(name string, effect runtime.Effect, f func(context.Context, json.RawMessage) (any, error)) runtime.Tool {
		return runtime.NewTool(runtime.ToolSpec{Name: name, Effect: effect},
			func(ctx context.Context, in map[string]any) (any, error) {
				text, _ := json.Marshal(in)
				return f(ctx, text)
			})
	}
	return &runtime.Runtime{
		Models: map[string]runtime.Model{
			"fast": scripted("fast.yaml", `matches:
  - {contains: Which kind, json: {kind: billing, urgent: true}}
  - {contains: Draft, text: We are sorry.}
`),
			"agent": scripted("agent.yaml", `turns:
  - tool_calls: [{name: demo.lookup, args: {ticket: T-1}}, {name: demo.work, args: {n: 3}}]
  - tool_calls: [{name: demo.work, args: {n: 7, ms: 5}}]
  - text: The square is 49.
`),
			"clerk": scripted("clerk.yaml", `turns:
  - tool_calls: [{name: desk.find, args: {ticket: T-1}}]
  - text: It was charged twice.
  - tool_calls: [{name: desk.find, args: {ticket: T-2}}]
  - text: The same.
`),
			"front": scripted("front.yaml", `turns:
  - tool_calls: [{name: demo.file, args: {name: orders}}]
  - tool_calls: [{name: handoff_back}]
  - text: It left yesterday.
`),
			"back": scripted("back.yaml", `turns:
  - tool_calls: [{name: demo.file, args: {name: note, text: asked}}]
  - tool_calls: [{name: handoff_front}]
`),
			"down": down{},
		},
		Fallbacks: map[string][]string{"down": {"fast"}},
		Searchers: map[string]runtime.Searcher{"desk": retriever.SQLite(filepath.Join(t.TempDir(), "desk.db"), retriever.DatabaseOptions{})},
		Secrets:   runtime.SecretMap{"PAY_TOKEN": canary},
		Resume:    resume.PassThrough{},
		Tools: []runtime.Tool{
			tool("demo.lookup", runtime.ReadOnly, func(_ context.Context, in json.RawMessage) (any, error) {
				var n named
				_ = json.Unmarshal(in, &n)
				return map[string]any{"text": "I was charged twice! " + n.Ticket, "orders": 3, "rate": 1.5}, nil
			}),
			tool("demo.work", runtime.Idempotent, func(ctx context.Context, in json.RawMessage) (any, error) {
				var w work
				_ = json.Unmarshal(in, &w)
				done.note("work %d", w.N)
				select {
				case <-time.After(time.Duration(w.Ms) * time.Millisecond):
				case <-ctx.Done():
					return nil, ctx.Err()
				}
				return map[string]any{"square": w.N * w.N}, nil
			}),
			tool("demo.flaky", runtime.Idempotent, func(ctx context.Context, _ json.RawMessage) (any, error) {
				if done.note("flaky %s", resume.IdempotencyKey(ctx)) < 3 {
					return nil, &retry.Failure{Reason: retry.ServerError, Status: 503, Sent: true,
						Err: errors.New("the service is busy")}
				}
				return map[string]any{"ok": true}, nil
			}),
			tool("demo.hang", runtime.ReadOnly, func(ctx context.Context, _ json.RawMessage) (any, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}),
			tool("demo.charge", runtime.External, func(ctx context.Context, in json.RawMessage) (any, error) {
				var c charge
				_ = json.Unmarshal(in, &c)
				if c.Token != canary {
					return nil, fmt.Errorf("wrong token %q", c.Token)
				}
				done.note("charge %d", c.Amount)
				return map[string]any{"id": fmt.Sprintf("c%d", c.Amount), "echo": "token " + c.Token}, nil
			}),
			tool("demo.refund", runtime.Idempotent, func(_ context.Context, in json.RawMessage) (any, error) {
				var n named
				_ = json.Unmarshal(in, &n)
				done.note("refund %s", n.ID)
				return nil, nil
			}),
			runtime.NewTool(runtime.ToolSpec{Name: "demo.file", Effect: runtime.External, EffectOf: effectOfFile},
				func(_ context.Context, in map[string]any) (any, error) {
					done.note("file %v", in)
					return in["name"], nil
				}),
			tool("demo.fails", runtime.ReadOnly, func(context.Context, json.RawMessage) (any, error) {
				return nil, &runtime.Error{Category: runtime.CategoryTool, Code: "demo.broken",
					Err: fmt.Errorf("it broke: %w", os.ErrNotExist)}
			}),
			tool("demo.panics", runtime.ReadOnly, func(context.Context, json.RawMessage) (any, error) {
				panic("boo " + canary)
			}),
		},
	}
}

// said is an answer or a value that a run gets when it waits for somebody.
func answerTo(pause string, v any) said   { return said{Pause: pause, Value: wire.Value{V: v}} }
func valueFor(channel string, v any) said { return said{Channel: channel, Value: wire.Value{V: v}} }
func object(pairs ...any) map[string]any {
	m := map[string]any{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	return m
}

// compiled is a recipe of testdata, or the text of one.
func compiled(t testing.TB, name string) *flow.Workflow {
	t.Helper()
	text := []byte(name)
	if !bytes.Contains(text, []byte("\n")) {
		var err error
		if text, err = os.ReadFile("testdata/" + name + ".yaml"); err != nil {
			t.Fatal(err)
		}
	}
	r, err := recipe.Parse("recipe.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	wf, err := flow.Compile(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return wf
}

// onOneMachine runs a workflow here, and tells it what is said when it waits for somebody.
func onOneMachine(t testing.TB, wf *flow.Workflow, in any, rt *runtime.Runtime, say ...said) *flow.Outcome {
	t.Helper()
	here := *rt
	here.Store = &checkpoint.Memory{}
	here.NewRunID = func() string { return "R1" }
	out, _ := wf.Run(t.Context(), in, &here)
	for out.Status == flow.StatusPaused {
		due := out.Pauses[0].RetryAt
		for _, p := range out.Pauses {
			if due.IsZero() || !p.RetryAt.IsZero() && p.RetryAt.Before(due) {
				due = p.RetryAt
			}
		}
		switch {
		case !due.IsZero():
			<-time.After(time.Until(due) + time.Millisecond)
			out, _ = flow.Recover(t.Context(), "R1", &here, nil)
		case len(say) == 0:
			return out
		default:
			s := say[0]
			if say = say[1:]; s.Channel != "" {
				out, _ = flow.Send(t.Context(), "R1", s.Channel, s.Value.V, &here, nil)
			} else {
				out, _ = flow.Answer(t.Context(), "R1", s.Pause, s.Value.V, &here, nil)
			}
		}
	}
	return out
}

// cluster is a run in Temporal's test environment.
type cluster struct {
	*testsuite.TestWorkflowEnvironment
	t        testing.TB
	payloads *sniffer
}

// newCluster makes an environment with a worker.
func newCluster(t testing.TB, rt *runtime.Runtime) *cluster {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(quiet{})
	c := &cluster{suite.NewTestWorkflowEnvironment(), t, &sniffer{DataConverter: converter.GetDefaultDataConverter()}}
	c.SetDataConverter(c.payloads)
	c.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: "R1"})
	c.SetTestTimeout(20 * time.Second)
	c.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: 10 * time.Second}) // as NewWorker has it
	newWorker(rt).register(c, false)
	return c
}

// tell tells the run something after a time.
func (c *cluster) tell(after time.Duration, s said, want error) {
	c.RegisterDelayedCallback(func() {
		name := answerUpdate
		if s.Channel != "" {
			name = sendUpdate
		}
		c.UpdateWorkflow(name, fmt.Sprint(after, s.Pause, s.Channel), &heard{c.t, s, want}, s)
	}, after)
}

// start begins the run, and drives it as far as it goes.
func (c *cluster) start(wf *flow.Workflow, in any, o *Options) {
	c.t.Helper()
	begin, err := inputOf(wf, in, o)
	if err != nil {
		c.t.Fatal(err)
	}
	c.ExecuteWorkflow(runWorkflow, begin)
}

// next is the environment of the execution that continues. start begins it.
func (c *cluster) next(rt *runtime.Runtime) (next *cluster, start func(), about *workflow.ContinueAsNewError) {
	c.t.Helper()
	if !errors.As(c.GetWorkflowError(), &about) {
		c.t.Fatal(c.GetWorkflowError())
	}
	var in input
	var packed []byte
	if err := converter.GetDefaultDataConverter().FromPayloads(about.Input, &in, &packed); err != nil {
		c.t.Fatal(err)
	}
	next = newCluster(c.t, rt)
	return next, func() { next.ExecuteWorkflow(runWorkflow, in, packed) }, about
}

// outcome is how the run ended.
func (c *cluster) outcome() *flow.Outcome {
	c.t.Helper()
	var e ended
	err := c.GetWorkflowResult(&e)
	o, err := outcomeIn(&e, err)
	if err != nil {
		c.t.Fatal(err)
	}
	if o == nil { // it is too large for one payload
		var text []byte
		for len(text) < e.Size {
			var p piece
			v, err := c.QueryWorkflow(outcomeQuery, len(text))
			if err == nil {
				err = v.Get(&p)
			}
			if err != nil || p.Text == "" {
				c.t.Fatal(len(text), err)
			}
			text = append(text, p.Text...)
		}
		o = new(outcome)
		if err := json.Unmarshal(text, o); err != nil {
			c.t.Fatal(err)
		}
	}
	out, _ := (&Engine{}).outcome(o)
	return out
}

// onCluster runs a workflow in the test environment. What is said comes every 100 hours.
func onCluster(t testing.TB, wf *flow.Workflow, in any, rt *runtime.Runtime, o *Options, say ...said) *flow.Outcome {
	t.Helper()
	c := newCluster(t, rt)
	for i, s := range say {
		c.tell(time.Duration(i+1)*100*time.Hour, s, nil)
	}
	c.start(wf, in, o)
	return c.outcome()
}

// heard fails the test if an update does not come to what it should.
type heard struct {
	t    testing.TB
	s    said
	want error
}

func (u *heard) Accept() {}
func (u *heard) Reject(err error) {
	if u.want == nil || !strings.Contains(err.Error(), u.want.Error()) {
		u.t.Errorf("%+v was rejected: %v", u.s, err)
	}
}
func (u *heard) Complete(_ any, err error) {
	if (err == nil) != (u.want == nil) || err != nil && !strings.Contains(err.Error(), u.want.Error()) {
		u.t.Errorf("%+v: error %v, want %v", u.s, err, u.want)
	}
}

// sniffer keeps what is sent.
type sniffer struct {
	converter.DataConverter
	mu   sync.Mutex
	data []byte
}

func (p *sniffer) ToPayloads(values ...any) (*commonpb.Payloads, error) {
	list, err := p.DataConverter.ToPayloads(values...)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range list.GetPayloads() {
		p.data = append(p.data, one.Data...)
	}
	return list, err
}

type quiet struct{}

func (quiet) Debug(string, ...any) {}
func (quiet) Info(string, ...any)  {}
func (quiet) Warn(string, ...any)  {}
func (quiet) Error(string, ...any) {}

var _ log.Logger = quiet{}

// plain is the JSON of an outcome without what differs between any two runs.
func plain(t testing.TB, out *flow.Outcome) string {
	t.Helper()
	text, err := json.Marshal(out)
	if err != nil {
		t.Fatal(err)
	}
	v, err := value.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	text, _ = value.JSON(blanked(v))
	var b bytes.Buffer
	_ = json.Indent(&b, text, "", " ")
	return b.String()
}

var varies = regexp.MustCompile(`^(runId|at|startedAt|endedAt|createdAt|retryAt|expiresAt|durationMs|token|owner)$`)

func blanked(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = blanked(v[i])
		}
	case map[string]any:
		for k := range v {
			if v[k] = blanked(v[k]); varies.MatchString(k) {
				v[k] = ""
			}
		}
	}
	return v
}

var key64 = regexp.MustCompile(`"[0-9a-f]{64}"`)

// keyless is the text of an outcome without idempotency keys, which have the run's id in them.
func keyless(text string) string { return key64.ReplaceAllString(text, `"KEY"`) }

// decodedText has the data of all payloads of a history.
func decodedText(h *historypb.History) string {
	var b bytes.Buffer
	var walk func(m protoreflect.Message)
	walk = func(m protoreflect.Message) {
		if p, ok := m.Interface().(*commonpb.Payload); ok {
			b.Write(p.Data)
		}
		m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			switch {
			case f.IsMap() && f.MapValue().Message() != nil:
				v.Map().Range(func(_ protoreflect.MapKey, v protoreflect.Value) bool { walk(v.Message()); return true })
			case f.IsList() && f.Message() != nil:
				for i := range v.List().Len() {
					walk(v.List().Get(i).Message())
				}
			case f.Message() != nil && !f.IsMap() && !f.IsList():
				walk(v.Message())
			}
			return true
		})
	}
	walk(h.ProtoReflect())
	return b.String()
}
