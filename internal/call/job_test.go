package call_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/call"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
)

// world is all ports of agents in one, whose texts name what they were asked.
type world struct{ panics bool }

func (w world) say(text string) string {
	if w.panics {
		panic("boo " + secret)
	}
	return text
}

func (w world) Load(_ context.Context, c runtime.Conversation) ([]runtime.Message, error) {
	return []runtime.Message{{Role: runtime.User, Text: w.say(c.Thread + " " + secret)}}, nil
}

func (w world) Save(_ context.Context, _ runtime.Conversation, turn string, _ []runtime.Message) error {
	return errors.New(w.say("not " + turn))
}

func (w world) Retrieve(_ context.Context, query string, _ int) ([]runtime.Document, error) {
	return []runtime.Document{{ID: w.say(query), Text: secret}}, nil
}

func (w world) Instructions(context.Context) (string, error) { return w.say("be nice"), nil }

func (world) Tools() []runtime.Tool { return []runtime.Tool{runtimetest.NewTool("env.it", nil)} }

func (w world) Waiting(_ context.Context, run, step string) ([]runtime.Note, error) {
	return []runtime.Note{{ID: "1", Text: w.say(run + " " + step)}}, nil
}

func (w world) Taken(_ context.Context, run, step string, ids ...string) error {
	return errors.New(w.say(run + " " + step + " " + ids[0]))
}

func (w world) Put(_ context.Context, name, text string) error {
	return errors.New(w.say(name + " " + text))
}

func (w world) Get(_ context.Context, name string) (string, bool, error) {
	return w.say("text of " + name), true, nil
}

func (w world) Approve(_ context.Context, r runtime.ApprovalRequest) (runtime.ApprovalDecision, error) {
	return runtime.ApprovalDecision{Reason: w.say(r.Tool)}, nil
}

// loader is the SkillLoader of a world.
type loader struct{ world }

func (l loader) Load(context.Context, []string) ([]runtime.Skill, error) {
	return []runtime.Skill{{Name: l.say("b"), Tools: []runtime.Tool{runtimetest.NewTool("skill.it", nil)}}, {Name: "a"}}, nil
}

func (w world) runtime() *runtime.Runtime {
	return &runtime.Runtime{Memory: w, Retriever: w, Skills: loader{w}, Env: w, Inbox: w, Approver: w}
}

func (w world) loop() *agentloop.Loop {
	return &agentloop.Loop{Tools: agentloop.AllTools, Layers: []agentloop.Layer{{ID: "y",
		Init:   func(_ context.Context, key string) error { return errors.New(w.say("init " + key)) },
		Recall: func(_ context.Context, key, task string) (string, error) { return w.say(key + " " + task), nil },
		Store: func(_ context.Context, key string, _ []runtime.Message) error {
			return errors.New(w.say("store " + key))
		},
		Dispose: func(_ context.Context, key string) error { return errors.New(w.say("dispose " + key)) }}}}
}

// Each job of an agent calls its port, and words a panic of it.
func TestJobs(t *testing.T) {
	for _, tt := range []struct {
		job   agents.Job
		kind  program.CallKind
		want  agents.Reply
		err   string
		named string
	}{
		{agents.Job{Op: agents.LoadMemory, Conversation: runtime.Conversation{Thread: "t"}}, program.MemoryCall,
			agents.Reply{Messages: []runtime.Message{{Role: runtime.User, Text: "t ***"}}}, "", "the memory"},
		{agents.Job{Op: agents.SaveMemory, Key: "k"}, program.MemoryCall, agents.Reply{}, "not k", "the memory"},
		{agents.Job{Op: agents.Retrieve, Text: "q", Most: 1}, program.RetrieverCall, agents.Reply{Documents: []runtime.Document{{ID: "q", Text: "***"}}}, "", "the retriever"},
		{agents.Job{Op: agents.LoadInstructions}, "", agents.Reply{Text: "be nice"}, "", "the environment"},
		{agents.Job{Op: agents.ReadInbox}, "", agents.Reply{Notes: []runtime.Note{{ID: "1", Text: "r1 ask"}}}, "", "the inbox"},
		{agents.Job{Op: agents.ClearInbox, Names: []string{"1"}}, "", agents.Reply{}, "r1 ask 1", "the inbox"},
		{agents.Job{Op: agents.PutArchive, Name: "n", Text: "x"}, "", agents.Reply{}, "n x", "the archive"},
		{agents.Job{Op: agents.GetArchive, Name: "n"}, "", agents.Reply{Text: "text of n", Found: true}, "", "the archive"},
		{agents.Job{Op: agents.AskApprover, Approval: &runtime.ApprovalRequest{Tool: "x.y"}}, "", agents.Reply{Decision: runtime.ApprovalDecision{Reason: "x.y"}}, "", "the approver"},
		{agents.Job{Op: agents.LoadSkills}, "", agents.Reply{Skills: []runtime.Skill{{Name: "a"}, {Name: "b"}},
			Flaws: []string{`skill "b" has no path`, `skill "a" has no path`}, Tools: []runtime.ToolSpec{{Name: "skill.it"}}}, "", "the skill loader"},
		{agents.Job{Op: agents.InitLayer, Name: "y", Key: "k"}, "", agents.Reply{}, "init k", `init of layer "y"`},
		{agents.Job{Op: agents.RecallLayer, Name: "y", Key: "k", Text: "task"}, "", agents.Reply{Text: "k task"}, "", `recall of layer "y"`},
		{agents.Job{Op: agents.StoreLayer, Name: "y", Key: "k"}, "", agents.Reply{}, "store k", `store of layer "y"`},
		{agents.Job{Op: agents.DisposeLayer, Name: "y", Key: "k"}, "", agents.Reply{}, "dispose k", `dispose of layer "y"`},
	} {
		t.Run(string(tt.job.Op), func(t *testing.T) {
			for _, w := range []world{{}, {panics: true}} {
				f := bind(t, steps, w.runtime())
				f.Archive = w
				job := tt.job
				c := f.job(tt.kind, &job)
				f.Runs("ask", w.loop())
				res := f.do(t, c)
				want, err := tt.want, tt.err
				if w.panics {
					want, err = agents.Reply{}, "panic in "+tt.named+": boo ***"
				}
				var got agents.Reply
				if res.Reply != nil {
					got = *res.Reply
				}
				if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(runtime.Skill{}, "Tools")); diff != "" || text(res.Err) != err || res.Bad != nil {
					t.Errorf("%v, %v, reply (-want +got)\n%s", res.Err, res.Bad, diff)
				}
			}
		})
	}
}

// A layer of a loop in Go cannot be called where the loop does not run.
func TestLayerOfAnotherProcess(t *testing.T) {
	f := bind(t, steps, world{}.runtime())
	res := f.do(t, f.job("", &agents.Job{Op: agents.InitLayer, Name: "y", Key: "k"}))
	if text(res.Err) != `layer "y" belongs to an agent in another process` {
		t.Error(res.Err)
	}
}

// An agent's tool is found in the scope that its job names.
func TestToolsOfAgents(t *testing.T) {
	w := world{}
	rt := w.runtime()
	rt.Tools = []runtime.Tool{runtimetest.NewTool("host.it", nil), valued(func(_ context.Context, args map[string]any) (any, error) { return args["a"], nil })}
	f := bind(t, plain, rt)
	own := &agentloop.Loop{Tools: agentloop.AllTools, Own: []runtime.Tool{nil, runtimetest.NewTool("own.it", nil)}}
	call := func(name string, scope agents.Scope) (any, error) {
		c := f.job(program.ToolCall, &agents.Job{Op: agents.CallTool, Name: name, Scope: scope, Arguments: json.RawMessage(`{"a":1}`)})
		f.Runs("ask", own)
		if err := f.Prepare(c); err != nil {
			return nil, err
		}
		res := f.Make(t.Context(), c)
		if res.Text != nil {
			return string(res.Text), res.Err
		}
		return res.Output, res.Err
	}
	if _, err := call("skill.it", agents.OfSkill); text(err) != `test.yaml:3:20: no tool named "skill.it" is configured` {
		t.Errorf("before the skills are loaded: %v", err)
	}
	f.do(t, f.job("", &agents.Job{Op: agents.LoadSkills}))
	for name, scope := range map[string]agents.Scope{"host.it": agents.OfHost, "own.it": agents.OfAgent, "skill.it": agents.OfSkill, "env.it": agents.OfEnv} {
		for range 2 { // the second time it has been found before
			if output, err := call(name, scope); err != nil || output != `{"a":1}` {
				t.Errorf("%s: %v, %v", name, output, err)
			}
		}
	}
	if output, err := call("test.it", agents.OfHost); err != nil || output != int64(1) {
		t.Errorf("a tool that takes values: %v, %v", output, err)
	}
}

// says is a tool that returns a text.
type says []byte

func (says) Spec() runtime.ToolSpec { return runtime.ToolSpec{Name: "test.it"} }

func (s says) Call(context.Context, json.RawMessage) (json.RawMessage, error) {
	return json.RawMessage(s), nil
}

// What a tool of an agent returns stays text where nobody looks into it: else it is a value.
func TestOutputOfAnAgentsToolStaysText(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		secrets    bool
		hooked     bool
		want       any // of Output; nil: it is text
	}{
		{name: "an object", text: `{"a":1,"b":[true]}`},
		{name: "a list", text: `[1,2]`},
		{name: "with white space", text: `{"a": 1}`, want: map[string]any{"a": int64(1)}},
		{name: "out of order", text: `{"b":1,"a":2}`, want: map[string]any{"a": int64(2), "b": int64(1)}},
		{name: "a text", text: `"a"`, want: "a"},
		{name: "with secrets", text: `{"a":"s3cr3t-value"}`, secrets: true, want: map[string]any{"a": "***"}},
		{name: "with hooks", text: `{"a":1}`, hooked: true, want: map[string]any{"a": int64(1)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text := []byte(tt.text)
			rt := &runtime.Runtime{Tools: []runtime.Tool{says(text)}}
			definition := plain
			if tt.secrets {
				definition, rt.Secrets = steps, runtime.SecretMap{"KEY": secret}
			}
			if tt.hooked {
				rt.Plugins = append(rt.Plugins, runtime.Plugin{Key: "watch", Hooks: runtime.Hooks{}})
			}
			f := bind(t, definition, rt)
			c := f.job(program.ToolCall, &agents.Job{Op: agents.CallTool, Name: "test.it", Scope: agents.OfHost, Arguments: json.RawMessage(`{"a":1}`)})
			res := f.do(t, c)
			copy(text, "xxxx") // the result is nobody else's
			if tt.want == nil && string(res.Text) != tt.text || tt.want != nil && res.Text != nil || !cmp.Equal(tt.want, res.Output) || res.Bad != nil || res.Err != nil {
				t.Errorf("%s, %v, %v, %v", res.Text, res.Output, res.Err, res.Bad)
			}
		})
	}
}

func TestOffer(t *testing.T) {
	rt := world{}.runtime()
	rt.Models = map[string]runtime.Model{"m": runtimetest.Texts(), "none": nil}
	rt.Tools = []runtime.Tool{depends{runtimetest.NewTool("test.it", nil)}}
	f := bind(t, plain, rt)
	o, err := f.Offer()
	if again, _ := f.Offer(); err != nil || o != again {
		t.Fatal(err)
	}
	if !o.Memory || !o.Retriever || !o.Skills || !o.Instructions || !o.Inbox || !o.Approver || o.Policy || o.Archive || len(o.Models) != 1 || len(o.Env) != 1 {
		t.Errorf("%+v", o)
	}
	i := slices.IndexFunc(o.Host, func(s runtime.ToolSpec) bool { return s.Name == "test.it" })
	if e := o.Host[i].EffectOf(json.RawMessage(`{"effect":"panic"}`)); e != runtime.External {
		t.Errorf("effect %q", e)
	}
	_, err = o.Ask("the policy of compaction", func(agentloop.Progress) (bool, error) { panic("boo") }, agentloop.Progress{})
	if text(err) != "panic in the policy of compaction: boo" {
		t.Error(err)
	}
	if ok, err := o.Ask("until", func(agentloop.Progress) (bool, error) { return true, nil }, agentloop.Progress{}); !ok || err != nil {
		t.Error(ok, err)
	}
}

// Bind says what is missing, and an error leaves the diagnostics.
func TestBind(t *testing.T) {
	r, err := recipe.Parse("test.yaml", []byte(`apiVersion: braise/v1
name: test
limits: {cost_usd: 1}
requires: {tools: [test.other], capabilities: [memory]}
steps:
  it: {uses: test.it, with: {key: "${{ secrets.KEY }}", n: x}}
  ask: {uses: model, with: {model: m, prompt: go}}
  find: {uses: retrieve, with: {query: q}}
`))
	if err != nil {
		t.Fatal(err)
	}
	p, err := program.Compile(r, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	codes := func(c *call.Caller) (list []diagnostics.Code) {
		for _, d := range c.Diagnostics {
			list = append(list, d.Code)
		}
		return list
	}
	tool := &runtimetest.Tool{ToolSpec: runtime.ToolSpec{Name: "test.it", Parameters: json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)}}
	for _, tt := range []struct {
		name string
		rt   *runtime.Runtime
		want []diagnostics.Code
		err  string
	}{
		{"nothing is there", &runtime.Runtime{}, []diagnostics.Code{diagnostics.CodeMissingModel, diagnostics.CodeMissingRetriever, diagnostics.CodeMissingTool,
			diagnostics.CodeMissingTool, diagnostics.CodeMissingSecret, diagnostics.CodeMissingCapability}, ""},
		{"a short secret", &runtime.Runtime{Secrets: runtime.SecretMap{"KEY": "short"}, Memory: world{}, Retriever: world{},
			Models: map[string]runtime.Model{"m": runtimetest.Texts()}, Tools: []runtime.Tool{tool, tool}},
			[]diagnostics.Code{diagnostics.CodeMissingPrice, diagnostics.CodeShadowedTool, diagnostics.CodeArguments, diagnostics.CodeMissingTool},
			`secret "KEY" has under 8 bytes, too few to keep it out of results`},
	} {
		c, err := call.Bind(t.Context(), p, tt.rt)
		if diff := cmp.Diff(tt.want, codes(c)); diff != "" || text(err) != tt.err {
			t.Errorf("%s: %v, diagnostics (-want +got)\n%s", tt.name, err, diff)
		}
	}
}

// moody is a tool that panics when it is asked about itself, once it is told to.
type moody struct {
	*runtimetest.Tool
	panics bool
}

func (m *moody) Spec() runtime.ToolSpec {
	if m.panics {
		panic("oh")
	}
	return m.Tool.Spec()
}

// A tool that panics when an agent is told what there is fails the agent's step, not the run.
func TestOfferOfAToolThatPanics(t *testing.T) {
	tool := &moody{Tool: runtimetest.NewTool("test.it", nil)}
	f := bind(t, plain, &runtime.Runtime{Tools: []runtime.Tool{tool}})
	tool.panics = true
	if _, err := f.Offer(); text(err) != "panic in a tool that was asked about itself: oh" {
		t.Errorf("error %v", err)
	}
}
