package call_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/call"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/expr"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/trace"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "s3cr3t-value"

// steps are a recipe's, which calls test.it with a secret.
const steps = `apiVersion: braise/v1
name: test
steps:
  it: {uses: test.it, with: {key: "${{ secrets.KEY }}"}}
`

// plain are steps without secrets.
const plain = "apiVersion: braise/v1\nname: test\nsteps: {it: {uses: test.it}}\n"

// fixture is a Caller with the program that it serves.
type fixture struct {
	*call.Caller
	program *program.Program
}

func bind(t *testing.T, text string, rt *runtime.Runtime) fixture {
	t.Helper()
	r, err := recipe.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	p, err := program.Compile(r, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if rt.Secrets == nil && len(p.Secrets) > 0 {
		rt.Secrets = runtime.SecretMap{"KEY": secret}
	}
	c, err := call.Bind(t.Context(), p, rt)
	if err != nil {
		t.Fatal(err)
	}
	c.RunID = "r1"
	return fixture{c, p}
}

// tool is an attempt of the first call of the recipe.
func (f fixture) tool() *engine.Call {
	site := f.program.Calls[0]
	c := &engine.Call{Kind: site.Kind, Name: site.Name, Path: "it", Pos: site.Pos, Opens: site.Secrets, Context: engine.Context{Generation: 1, Ordinal: 1, Attempt: 1}}
	if site.Secrets {
		c.Input = map[string]any{"key": expr.Sealed{Parts: []expr.SealedPart{{Secret: "KEY"}}}}
	}
	return c
}

// job is an attempt of a call of an agent.
func (f fixture) job(kind program.CallKind, j *agents.Job) *engine.Call {
	j.Path = "ask"
	args, _ := value.Decode(j.Arguments)
	return &engine.Call{Kind: kind, Name: j.Name, Path: "ask", Pos: f.program.Calls[0].Pos, Job: j, Input: args,
		Request: j.Request, Context: engine.Context{Generation: 1, Attempt: 1}}
}

// do prepares and makes an attempt.
func (f fixture) do(t *testing.T, c *engine.Call) engine.Result {
	t.Helper()
	if err := f.Prepare(c); err != nil {
		t.Fatal(err)
	}
	return f.Make(t.Context(), c)
}

func withTool(f func(context.Context, json.RawMessage) (any, error)) *runtime.Runtime {
	return &runtime.Runtime{Tools: []runtime.Tool{runtimetest.NewTool("test.it", f)}}
}

// valued is a ValueTool.
type valued func(context.Context, map[string]any) (any, error)

func (valued) Spec() runtime.ToolSpec {
	return runtime.ToolSpec{Name: "test.it", Effect: runtime.ReadOnly}
}

func (v valued) Call(context.Context, json.RawMessage) (json.RawMessage, error) {
	return nil, errors.New("it takes values")
}

func (v valued) CallValue(ctx context.Context, args map[string]any) (any, error) { return v(ctx, args) }

// raw is a tool that returns a text for JSON.
type raw string

func (raw) Spec() runtime.ToolSpec { return runtime.ToolSpec{Name: "test.it"} }

func (r raw) Call(context.Context, json.RawMessage) (json.RawMessage, error) {
	return json.RawMessage(r), nil
}

// depends is a tool whose effect its arguments say.
type depends struct{ *runtimetest.Tool }

func (d depends) Spec() runtime.ToolSpec {
	spec := d.Tool.Spec()
	spec.EffectOf = func(args json.RawMessage) runtime.Effect {
		var in struct{ Effect string }
		if _ = json.Unmarshal(args, &in); in.Effect == "panic" {
			panic("no idea about " + string(args))
		}
		return runtime.Effect(in.Effect)
	}
	return spec
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// What comes out of a tool has no secrets in it, whichever way it comes.
func TestSecretsStayInside(t *testing.T) {
	for _, tt := range []struct {
		name   string
		f      func(context.Context, json.RawMessage) (any, error)
		output any
		err    string
	}{
		{"output", func(_ context.Context, args json.RawMessage) (any, error) { return args, nil }, map[string]any{"key": "***"}, ""},
		{"error", func(context.Context, json.RawMessage) (any, error) {
			return nil, fmt.Errorf("no %s: %w", secret, io.EOF)
		}, nil, "no ***: EOF"},
		{"panic", func(context.Context, json.RawMessage) (any, error) { panic("boo " + secret) }, nil, `panic in tool "test.it": boo ***`},
		{"an error that panics", func(context.Context, json.RawMessage) (any, error) { return nil, &runtime.Error{} }, nil,
			`panic in tool "test.it": runtime error: invalid memory address or nil pointer dereference`},
		{"pause", func(context.Context, json.RawMessage) (any, error) {
			return nil, fmt.Errorf("wait: %w", resume.Suspend(resume.Pause{Kind: resume.Human, Prompt: secret + "?", Reason: secret,
				Show: map[string]any{"a": secret}, Decisions: []string{secret}}))
		}, nil, "the call pauses its step (human)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := bind(t, steps, withTool(tt.f))
			res := f.do(t, f.tool())
			if diff := cmp.Diff(tt.output, res.Output); diff != "" || text(res.Err) != tt.err || res.Bad != nil || res.Extent != (value.Extent{}) {
				t.Errorf("%v, %v, output (-want +got)\n%s", res.Err, res.Bad, diff)
			}
			_, panicked := errors.AsType[*engine.PanicError](res.Err)
			if panicked != strings.HasPrefix(tt.err, "panic") {
				t.Errorf("a %T", res.Err)
			}
			if tt.name == "error" && !errors.Is(res.Err, io.EOF) {
				t.Error("the cause is lost")
			}
			if s, ok := errors.AsType[*resume.Suspension](res.Err); ok {
				want := resume.Pause{Kind: resume.Human, Prompt: "***?", Reason: "***", Show: map[string]any{"a": "***"}, Decisions: []string{"***"}}
				if diff := cmp.Diff(want, s.Pause); diff != "" {
					t.Errorf("pause (-want +got)\n%s", diff)
				}
			}
		})
	}
}

// The stack of a panic is that of the adapter alone.
func TestStacks(t *testing.T) {
	for _, how := range []string{"panics", "panics apart", "ends the goroutine", "ends its own"} {
		t.Run(how, func(t *testing.T) {
			f := bind(t, plain, withTool(func(context.Context, json.RawMessage) (any, error) {
				if strings.HasPrefix(how, "panics") {
					panic("boom")
				}
				goruntime.Goexit()
				return nil, nil
			}))
			c := f.tool()
			if how == "panics apart" || how == "ends its own" {
				c.Timeout = time.Second
			}
			if err := f.Prepare(c); err != nil {
				t.Fatal(err)
			}
			done := make(chan engine.Result)
			go func() {
				res, returned := engine.Result{}, false
				defer func() {
					if !returned {
						res = f.Ended(c)
					}
					done <- res
				}()
				res = f.Make(t.Context(), c)
				returned = true
			}()
			want := `panic in tool "test.it": boom`
			if strings.HasPrefix(how, "ends") {
				want = `tool "test.it" ended its goroutine`
			}
			res := <-done
			p, ok := errors.AsType[*engine.PanicError](res.Err)
			if !ok || p.Text != want {
				t.Fatalf("%T %v", res.Err, res.Err)
			}
			var frames []string
			for line := range strings.Lines(p.Stack) {
				if !strings.HasPrefix(line, "\t") {
					frames = append(frames, strings.TrimPrefix(strings.TrimSpace(line), "github.com/braise-run/braise/"))
				}
			}
			if diff := cmp.Diff([]string{"internal/call_test.TestStacks.func1.1", "runtime/runtimetest.(*Tool).Call"}, frames); diff != "" {
				t.Errorf("frames (-want +got)\n%s", diff)
			}
		})
	}
}

// Prepare opens secrets, checks arguments and says what the call does.
func TestPrepare(t *testing.T) {
	spec := runtime.ToolSpec{Name: "test.it", Parameters: json.RawMessage(`{"type":"object","properties":{"key":{"type":"string"},"effect":{"type":"string"}}}`)}
	tool := depends{&runtimetest.Tool{ToolSpec: spec}}
	idempotent := &runtimetest.Tool{ToolSpec: runtime.ToolSpec{Name: "test.it", Effect: runtime.Idempotent}}
	for _, tt := range []struct {
		name  string
		rt    *runtime.Runtime
		input any
		want  engine.Ready
		shown any // the arguments, of one that is ready
		err   string
	}{
		{"nothing", &runtime.Runtime{Tools: []runtime.Tool{tool}}, nil, engine.Ready{Effect: runtime.External}, map[string]any{}, ""},
		{"a secret", &runtime.Runtime{Tools: []runtime.Tool{tool}}, map[string]any{"key": expr.Sealed{Parts: []expr.SealedPart{{Text: "a "}, {Secret: "KEY"}}}},
			engine.Ready{Effect: runtime.External}, map[string]any{"key": "a ***"}, ""},
		{"no secret", &runtime.Runtime{Tools: []runtime.Tool{tool}, Secrets: runtime.SecretMap{}}, map[string]any{"key": expr.Sealed{Parts: []expr.SealedPart{{Secret: "KEY"}}}},
			engine.Ready{}, nil, `test.yaml:4:14: no secret named "KEY" is configured`},
		{"a secret with a reason", &runtime.Runtime{Tools: []runtime.Tool{tool}, Secrets: lost{}}, map[string]any{"key": expr.Sealed{Parts: []expr.SealedPart{{Secret: "KEY"}}}},
			engine.Ready{}, nil, "test.yaml:4:14: no secret named \"KEY\" is configured: it is lost\n  hint: look for it"},
		{"the arguments say", &runtime.Runtime{Tools: []runtime.Tool{tool}}, map[string]any{"effect": "read_only"},
			engine.Ready{Effect: runtime.ReadOnly}, map[string]any{"effect": "read_only"}, ""},
		{"the spec says", &runtime.Runtime{Tools: []runtime.Tool{idempotent}}, nil, engine.Ready{Effect: runtime.Idempotent}, map[string]any{}, ""},
		{"a panic", &runtime.Runtime{Tools: []runtime.Tool{tool}}, map[string]any{"effect": "panic", "key": secret},
			engine.Ready{}, nil, `panic in tool "test.it": panic in its EffectOf: no idea about {"effect":"panic","key":"***"}`},
		{"values", &runtime.Runtime{Tools: []runtime.Tool{valued(nil)}}, nil, engine.Ready{Effect: runtime.ReadOnly, Quick: true}, map[string]any{}, ""},
		{"a list", &runtime.Runtime{Tools: []runtime.Tool{tool}}, []any{}, engine.Ready{}, nil, `test.yaml:4:14: the arguments of "test.it" must be an object, not a list`},
		{"not as the schema says", &runtime.Runtime{Tools: []runtime.Tool{tool}}, map[string]any{"key": int64(1)}, engine.Ready{}, nil,
			`test.yaml:4:14: arguments of "test.it": /key: must be a string, not a number`},
		{"no tool", &runtime.Runtime{}, nil, engine.Ready{}, nil, `test.yaml:4:14: no tool named "test.it" is configured`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := bind(t, steps, tt.rt)
			c := f.tool()
			c.Input = tt.input
			err := f.Prepare(c)
			if diff := cmp.Diff(tt.want, c.Ready); diff != "" || text(err) != tt.err {
				t.Errorf("%v, ready (-want +got)\n%s", err, diff)
			}
			if held := fmt.Sprintf("%+v", *c); tt.name == "a secret" && strings.Contains(held, secret) {
				t.Errorf("the call has the secret: %s", held)
			}
			if diff := cmp.Diff(tt.shown, f.Shown(c)); diff != "" && err == nil {
				t.Errorf("shown (-want +got)\n%s", diff)
			}
			if _, panicked := errors.AsType[*engine.PanicError](err); panicked != (tt.name == "a panic") {
				t.Errorf("a %T", err)
			}
		})
	}
}

// What cannot be taken is bad, and not tried again.
func TestOutputs(t *testing.T) {
	for _, tt := range []struct {
		name string
		tool runtime.Tool
		want engine.Result
		bad  string
	}{
		{"JSON", raw(`{"a":1}`), engine.Result{Output: map[string]any{"a": int64(1)}}, ""},
		{"nothing", raw(""), engine.Result{}, ""},
		{"not JSON", raw("{"), engine.Result{},
			`tool "test.it" returned what is not JSON: line 1, column 2: the JSON text ends where a member's name in quotes should be`},
		{"too large", raw(strings.Repeat(" ", 101)), engine.Result{}, "the output has 101 bytes, the limit is 100"},
		{"a value", valued(func(context.Context, map[string]any) (any, error) { return []int{1}, nil }), engine.Result{Output: []any{int64(1)}, Extent: value.Extent{Bytes: 3, Weight: 72}}, ""},
		{"no JSON value", valued(func(context.Context, map[string]any) (any, error) { return make(chan int), nil }), engine.Result{},
			`tool "test.it" returned what is not JSON: chan int is not JSON: json: unsupported type: chan int`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := bind(t, plain, &runtime.Runtime{Tools: []runtime.Tool{tt.tool}, Limits: runtime.Limits{MaxOutputBytes: 100}})
			res := f.do(t, f.tool())
			if bad := text(res.Bad); bad != tt.bad {
				t.Errorf("bad: %s", bad)
			}
			res.Bad = nil
			if diff := cmp.Diff(tt.want, res); diff != "" {
				t.Errorf("result (-want +got)\n%s", diff)
			}
		})
	}
}

// The context of a call has its key and its answer.
func TestContexts(t *testing.T) {
	var key string
	var answer any
	look := func(ctx context.Context, _ json.RawMessage) (any, error) {
		key = resume.IdempotencyKey(ctx)
		answer, _ = resume.Answer(ctx)
		return nil, nil
	}
	f := bind(t, plain, withTool(look))
	c := f.tool()
	c.Generation, c.Ordinal, c.Key, c.Replies, c.Answered = 2, 3, "own", []resume.Reply{{Answer: "yes"}}, true
	if f.do(t, c); key != resume.Key("r1", 2, "it", 3, "own") || answer != "yes" {
		t.Errorf("step: %s, %v", key, answer)
	}
	c = f.job(program.ToolCall, &agents.Job{Op: agents.CallTool, Name: "test.it", Scope: agents.OfHost, Call: 7, Arguments: json.RawMessage(`{}`)})
	if f.do(t, c); key != resume.Key("r1", 1, "ask", 7, "") || answer != nil {
		t.Errorf("agent: %s, %v", key, answer)
	}
	model := &runtimetest.Model{Func: func(ctx context.Context, _ *runtime.Request) (*runtime.Response, error) {
		answer, _ = resume.Answer(ctx)
		return &runtime.Response{}, nil
	}}
	f = bind(t, plain, &runtime.Runtime{Models: map[string]runtime.Model{"m": model}})
	c = f.job(program.ModelCall, &agents.Job{Op: agents.CallModel, Request: &runtime.Request{Model: "m"}})
	c.Replies, c.Answered = []resume.Reply{{Answer: "go"}}, true
	f.do(t, c)
	if answer != "go" {
		t.Errorf("model: %v", answer)
	}
}

// An attempt has its time, and is left behind soon after.
func TestTimeouts(t *testing.T) {
	for _, tt := range []struct {
		name   string
		f      func(context.Context, json.RawMessage) (any, error)
		want   string
		reason retry.Reason
		took   time.Duration
	}{
		{"heeds it", func(ctx context.Context, _ json.RawMessage) (any, error) { <-ctx.Done(); return nil, ctx.Err() },
			"attempt 2 timed out: its timeout is 1s: context deadline exceeded", retry.Timeout, time.Second},
		{"settles", func(ctx context.Context, _ json.RawMessage) (any, error) {
			<-time.After(1200 * time.Millisecond)
			return nil, &retry.Failure{Reason: retry.Network, Err: errors.New("no " + secret)}
		}, "attempt 2 timed out: its timeout is 1s: no ***", retry.Timeout, 1200 * time.Millisecond},
		{"was answered", func(ctx context.Context, _ json.RawMessage) (any, error) {
			<-time.After(1200 * time.Millisecond)
			return nil, &retry.Failure{Reason: retry.ServerError, Status: 500, Err: errors.New("no")}
		}, "no", retry.ServerError, 1200 * time.Millisecond},
		{"ignores it", func(context.Context, json.RawMessage) (any, error) { <-time.After(time.Hour); return "late", nil },
			"attempt 2 timed out: its timeout is 1s: the call ignored its context and was left behind", retry.Timeout, 1250 * time.Millisecond},
		{"is early", func(context.Context, json.RawMessage) (any, error) { return "early", nil }, "", "", 0},
		{"panics late", func(context.Context, json.RawMessage) (any, error) {
			<-time.After(1100 * time.Millisecond)
			panic(secret)
		},
			`panic in tool "test.it": ***`, retry.Unknown, 1100 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := bind(t, steps, withTool(tt.f))
				var warned []string
				f.Warn = func(text, path string) { warned = append(warned, path+": "+text) }
				c := f.tool()
				c.Timeout, c.Attempt = time.Second, 2
				begin := time.Now()
				res := f.do(t, c)
				if took := time.Since(begin); took != tt.took || text(res.Err) != tt.want || retry.ReasonOf(res.Err) != tt.reason {
					t.Errorf("after %v: %v", took, res.Err)
				}
				if left := tt.name == "ignores it"; left != (len(warned) == 1) || left && warned[0] != "it: a call ignored its context and was left behind" {
					t.Errorf("warnings %q", warned)
				}
				time.Sleep(time.Hour)
			})
		})
	}
}

// Stopped from outside, an attempt is waited for, and has not timed out.
func TestStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := bind(t, plain, withTool(func(ctx context.Context, _ json.RawMessage) (any, error) {
			time.Sleep(time.Minute)
			return nil, ctx.Err()
		}))
		c := f.tool()
		c.Timeout = 10 * time.Second
		if err := f.Prepare(c); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if res := f.Make(ctx, c); !errors.Is(res.Err, context.DeadlineExceeded) || text(res.Err) != "context deadline exceeded" {
			t.Errorf("%+v", res)
		}
	})
}

// diary is a plugin that writes down the moments of calls, and denies those of tools with a deny.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) runtime(rt *runtime.Runtime) *runtime.Runtime {
	p := runtime.Plugin{Key: "diary", Hooks: runtime.Hooks{}}
	for _, point := range []runtime.Point{runtime.ModelBefore, runtime.ModelAfter, runtime.ToolBefore, runtime.ToolAfter} {
		p.Hooks[point] = func(_ context.Context, m runtime.Moment) error {
			line := fmt.Sprint(m.Point, " ", m.Run, " ", m.Step, " ", m.Name, " ", m.Args, " ", m.Output, " ", m.Err)
			if m.Response != nil {
				line += " " + m.Response.Text
			}
			d.mu.Lock()
			defer d.mu.Unlock()
			if d.lines = append(d.lines, line); m.Args["deny"] != nil {
				return errors.New("no " + secret)
			}
			return nil
		}
	}
	rt.Plugins = append(rt.Plugins, p)
	return rt
}

// Hooks are told of each attempt: before it, and after.
func TestHooksOfTools(t *testing.T) {
	d := &diary{}
	n := 0
	f := bind(t, steps, d.runtime(withTool(func(context.Context, json.RawMessage) (any, error) {
		if n++; n == 1 {
			return nil, errors.New("no " + secret)
		}
		return secret, nil
	})))
	f.do(t, f.tool())
	f.do(t, f.tool())
	denied := f.tool()
	denied.Input = map[string]any{"deny": true}
	res := f.do(t, denied)
	e, ok := errors.AsType[*runtime.Error](res.Bad)
	if !ok || e.Category != runtime.CategoryConfirmation || e.Code != "hook.denied" || text(res.Bad) != `plugin "diary" denies the call of tool "test.it": no ***` || n != 2 {
		t.Errorf("denied: %v, %d calls", res.Bad, n)
	}
	want := []string{"tool.before r1 it test.it map[key:***] <nil> <nil>", "tool.after r1 it test.it map[key:***] <nil> no ***",
		"tool.before r1 it test.it map[key:***] <nil> <nil>", "tool.after r1 it test.it map[key:***] *** <nil>",
		"tool.before r1 it test.it map[deny:true] <nil> <nil>"}
	if diff := cmp.Diff(want, d.lines); diff != "" {
		t.Errorf("moments (-want +got)\n%s", diff)
	}
}

// The policy of an agent tells of the first attempt before it is made.
func TestHooksOfAgents(t *testing.T) {
	d := &diary{}
	f := bind(t, plain, d.runtime(withTool(nil)))
	wish := agents.Job{Op: agents.AskPolicy, Name: "test.it", Arguments: json.RawMessage(`{"a":1}`)}
	if res := f.do(t, f.job("", &wish)); res.Err != nil || res.Bad != nil {
		t.Errorf("%+v", res)
	}
	job := wish
	job.Op, job.Scope = agents.CallTool, agents.OfHost
	for n := 1; n <= 2; n++ {
		c := f.job(program.ToolCall, &job)
		c.Attempt = n
		if res := f.do(t, c); res.Err != nil || !cmp.Equal(res.Output, map[string]any{"a": int64(1)}) {
			t.Errorf("%+v", res)
		}
	}
	wish.Arguments = json.RawMessage(`{"deny":1}`)
	if res := f.do(t, f.job("", &wish)); text(res.Err) != `plugin "diary" denies the call of tool "test.it": no s3cr3t-value` { // it has no secrets
		t.Errorf("%v", res.Err)
	}
	want := []string{"tool.before r1 ask test.it map[a:1] <nil> <nil>", "tool.after r1 ask test.it map[a:1] map[a:1] <nil>",
		"tool.before r1 ask test.it map[a:1] <nil> <nil>", "tool.after r1 ask test.it map[a:1] map[a:1] <nil>", "tool.before r1 ask test.it map[deny:1] <nil> <nil>"}
	if diff := cmp.Diff(want, d.lines); diff != "" {
		t.Errorf("moments (-want +got)\n%s", diff)
	}
}

// A hook that fails after a call is a diagnostic of that call.
func TestHooksThatFail(t *testing.T) {
	rt := withTool(nil)
	rt.Plugins = []runtime.Plugin{{Key: "bad", Hooks: runtime.Hooks{runtime.ToolAfter: func(context.Context, runtime.Moment) error { panic("boo") }}}}
	f := bind(t, plain, rt)
	res := f.do(t, f.tool())
	if len(res.Found) != 1 || res.Found[0].Step != "it" || res.Found[0].Message != `hook "tool.after" of plugin "bad" failed: panic: boo` || res.Err != nil || res.Bad != nil {
		t.Errorf("%+v", res)
	}
}

// streaming is a model that answers in pieces.
type streaming struct {
	*runtimetest.Model
	pieces []runtime.Delta
}

func (s streaming) Stream(_ context.Context, _ *runtime.Request, emit func(runtime.Delta)) (*runtime.Response, error) {
	text := ""
	for _, p := range s.pieces {
		emit(p)
		if p.Kind == runtime.DeltaText {
			text += p.Text
		}
	}
	return &runtime.Response{Text: text}, nil
}

func TestModels(t *testing.T) {
	usage := runtime.Usage{OutputTokens: 3}
	answers := func(resp *runtime.Response, err error) runtime.Model {
		return &runtimetest.Model{Func: func(context.Context, *runtime.Request) (*runtime.Response, error) { return resp, err }}
	}
	for _, tt := range []struct {
		name     string
		model    runtime.Model
		resp     *runtime.Response
		err, bad string
		after    string // what the hook is told
	}{
		{"an answer", answers(&runtime.Response{Text: "it is " + secret, Usage: usage, ToolCalls: []runtime.ToolCall{{Name: "a" + secret, Arguments: json.RawMessage(`{"a":"` + secret + `"}`)}}}, nil),
			&runtime.Response{Text: "it is ***", Usage: usage, ToolCalls: []runtime.ToolCall{{Name: "a***", Arguments: json.RawMessage(`{"a":"***"}`)}}}, "", "", "<nil> <nil> it is ***"},
		{"trust 3.5: parts", answers(&runtime.Response{Parts: []runtime.Part{{Of: "m", Name: "thought", Data: json.RawMessage(`{"b": ["` + secret + `"]}`)}},
			ToolCalls: []runtime.ToolCall{{Parts: []runtime.Part{{Name: "sign", Data: json.RawMessage(`"of ` + secret + `"`)}, {Name: "no JSON", Data: json.RawMessage(secret)}}}}}, nil),
			&runtime.Response{Parts: []runtime.Part{{Of: "m", Name: "thought", Data: json.RawMessage(`{"b":["***"]}`)}},
				ToolCalls: []runtime.ToolCall{{Arguments: json.RawMessage{}, Parts: []runtime.Part{{Name: "sign", Data: json.RawMessage(`"of ***"`)}}}}}, "", "", "<nil> <nil> "},
		{"parts that are too large", answers(&runtime.Response{Text: "x", Parts: []runtime.Part{{Data: json.RawMessage(`"` + strings.Repeat("x", 98) + `"`)}}}, nil),
			&runtime.Response{Text: "x", Parts: []runtime.Part{{Data: json.RawMessage(`"` + strings.Repeat("x", 98) + `"`)}}}, "",
			"the output has 101 bytes, the limit is 100", "<nil> the output has 101 bytes, the limit is 100"},
		{"an error", answers(nil, errors.New(secret)), nil, "***", "", "<nil> ***"},
		{"neither", answers(nil, nil), nil, "", `model "m" returned neither an answer nor an error`, `<nil> model "m" returned neither an answer nor an error`},
		{"too large", answers(&runtime.Response{Text: strings.Repeat("x", 101), Usage: usage}, nil), &runtime.Response{Text: strings.Repeat("x", 101), Usage: usage}, "",
			"the output has 101 bytes, the limit is 100", "<nil> the output has 101 bytes, the limit is 100"},
		{"an error with usage", answers(&runtime.Response{Usage: usage}, errors.New("cut off")), &runtime.Response{Usage: usage}, "cut off", "", "<nil> cut off"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := &diary{}
			f := bind(t, steps, d.runtime(&runtime.Runtime{Models: map[string]runtime.Model{"m": tt.model}, Limits: runtime.Limits{MaxOutputBytes: 100}}))
			res := f.do(t, &engine.Call{Kind: program.ModelCall, Path: "it", Pos: f.program.Calls[0].Pos, Request: &runtime.Request{Model: "m"}})
			if diff := cmp.Diff(tt.resp, res.Response); diff != "" || text(res.Err) != tt.err || text(res.Bad) != tt.bad {
				t.Errorf("%v, %v, response (-want +got)\n%s", res.Err, res.Bad, diff)
			}
			want := []string{"model.before r1 it m map[] <nil> <nil>", "model.after r1 it m map[] " + tt.after}
			if diff := cmp.Diff(want, d.lines); diff != "" {
				t.Errorf("moments (-want +got)\n%s", diff)
			}
		})
	}
}

// The pieces of an answer are shown, secrets out, to whoever wants them.
func TestStreams(t *testing.T) {
	text := func(s string) runtime.Delta { return runtime.Delta{Text: s} }
	thinks := func(s string) runtime.Delta { return runtime.Delta{Kind: runtime.DeltaThinking, Text: s} }
	model := streaming{runtimetest.Texts("whole"), []runtime.Delta{
		thinks("s3cr3t-val"), thinks("ue? s3cr"), text("It is s3cr"), thinks("3t-value"), text("3t-val"),
		{Kind: runtime.DeltaToolCall, Text: "a" + secret}, text("ue, a secret that is long enough to be told apart from the rest of the text."),
	}}
	f := bind(t, steps, &runtime.Runtime{Models: map[string]runtime.Model{"m": model}})
	told := map[string]string{}
	f.Delta = func(e trace.Event) {
		if e.Kind != trace.ModelDelta || e.Step != "it" || e.At.IsZero() {
			t.Errorf("%+v", e)
		}
		told[e.Data[0].Key] += e.Data[0].Value.(string)
	}
	c := &engine.Call{Kind: program.ModelCall, Path: "it", Pos: f.program.Calls[0].Pos, Request: &runtime.Request{Model: "m"}, Ask: engine.Ask{Stream: true}}
	const want = "It is ***, a secret that is long enough to be told apart from the rest of the text."
	if res := f.do(t, c); res.Response == nil || res.Response.Text != want {
		t.Errorf("%+v", res)
	}
	pieces := map[string]string{"text": want, "thinking": "***? s3cr\n\n3t-value", "tool": "a***"}
	if diff := cmp.Diff(pieces, told); diff != "" {
		t.Errorf("pieces (-want +got)\n%s", diff)
	}
	if c.Stream = false; f.do(t, c).Response.Text != "whole" {
		t.Error("it was streamed")
	}
	if m, ok := f.Model("m"); !ok || !m.Streams || m.Described {
		t.Errorf("%+v", m)
	}
	if _, ok := f.Model("other"); ok {
		t.Error("there is no other model")
	}
}

// shelf is a Retriever.
type shelf []runtime.Document

func (s shelf) Retrieve(context.Context, string, int) ([]runtime.Document, error) { return s, nil }

func (shelf) Metadata() runtime.Metadata {
	return runtime.Metadata{Retry: &retry.Metadata{Policy: retry.Policy{MaxAttempts: 3}}}
}

func TestRetrievers(t *testing.T) {
	const text = "apiVersion: braise/v1\nname: test\nsteps: {it: {uses: retrieve, with: {query: q}}}\n"
	input := map[string]any{"query": "q", "top_k": int64(1)}
	f := bind(t, text, &runtime.Runtime{Retriever: shelf{{ID: "1", Text: "a", Source: "s", Score: 0.5}, {ID: "2"}}})
	c := f.tool()
	c.Input = input
	res := f.do(t, c)
	want := engine.Result{Output: map[string]any{"documents": []any{map[string]any{"id": "1", "text": "a", "source": "s", "score": 0.5}}}}
	want.Extent.Bytes, want.Extent.Weight = 62, value.Weight(want.Output, 1<<20)
	if diff := cmp.Diff(want, res); diff != "" {
		t.Errorf("result (-want +got)\n%s", diff)
	}
	if m := f.Caller.Retry(c); m == nil || m.Policy.MaxAttempts != 3 {
		t.Errorf("%+v", m)
	}
	f = bind(t, text, &runtime.Runtime{Retriever: shelf{{ID: "1", Metadata: map[string]any{"a": make(chan int)}}}})
	if res := f.do(t, c); res.Err != nil || res.Bad == nil || !strings.HasPrefix(res.Bad.Error(), "the retriever returned what is not JSON: /documents/0/metadata/a: ") {
		t.Errorf("%+v", res)
	}
}

// described is a model, a tool and a memory that say something about themselves.
type described struct {
	*runtimetest.Model
	world
}

func (described) Spec() runtime.ToolSpec { return runtime.ToolSpec{Name: "test.it"} }

func (described) Call(context.Context, json.RawMessage) (json.RawMessage, error) { return nil, nil }

func (described) Metadata() runtime.Metadata {
	return runtime.Metadata{Provider: "p", Model: "m1", Requires: []runtime.Requirement{{Kind: runtime.RequireModel, Name: "x"}},
		Retry: &retry.Metadata{Policy: retry.Policy{MaxAttempts: 5}}}
}

// What adapters say about themselves, and require, is passed on.
func TestDescribedAdapters(t *testing.T) {
	var d described
	f := bind(t, plain, &runtime.Runtime{Models: map[string]runtime.Model{"m": d}, Tools: []runtime.Tool{d}, Memory: d})
	for kind, want := range map[program.CallKind]int{program.ToolCall: 5, program.MemoryCall: 5, program.RetrieverCall: 0, "": 0} {
		c := f.tool()
		c.Kind = kind
		if m := f.Caller.Retry(c); (m == nil) != (want == 0) || m != nil && m.Policy.MaxAttempts != want {
			t.Errorf("%s: %+v", kind, m)
		}
	}
	m, ok := f.Model("m")
	if !ok || !m.Described || m.Provider != "p" || m.ModelOffer.Model != "m1" || m.Retry.Policy.MaxAttempts != 5 || m.Streams {
		t.Errorf("%+v", m)
	}
	if len(f.Diagnostics) != 1 || f.Diagnostics[0].Message != `tool "test.it" requires model "x", which is not configured` {
		t.Errorf("%v", f.Diagnostics)
	}
}

// lost are secrets that are missing for a reason.
type lost struct{}

func (lost) Secret(_ context.Context, name string) (string, error) {
	return "", fmt.Errorf("%q: %w: it is lost\n  hint: look for it", name, runtime.ErrNoSecret)
}
