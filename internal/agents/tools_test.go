package agents_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/trace"
)

// offered lists the tools of a request.
func offered(r runtime.Request) string {
	var names []string
	for _, s := range r.Tools {
		names = append(names, s.Name)
	}
	return strings.Join(names, " ")
}

// hooked is an Env with tools.
type hooked []runtime.Tool

func (hooked) Instructions(context.Context) (string, error) { return "", nil }
func (h hooked) Tools() []runtime.Tool                      { return h }

func TestTools(t *testing.T) {
	t.Run("3.1 scopes", func(t *testing.T) {
		scope := func(from string, names ...string) (list []runtime.Tool) {
			for _, n := range names {
				list = append(list, tool(n, runtime.ReadOnly, "shadowed"), tool(n, runtime.ReadOnly, from))
			}
			return list
		}
		l, in := simple(), input{}
		l.Skills = []string{"k"}
		l.Own = scope("agent", "t.a", "t.b")
		in.Skills = skills{{Name: "k", Path: "k", SHA256: sum("k"), Tools: scope("skill", "t.c", "t.d")}}
		in.Env = hooked(scope("env", "t.d", "t.e"))
		m := model(says("", "t.a", "t.b", "t.c", "t.d", "t.e"), says("done"))
		res := must(t, l, in, host(m, scope("host", "t.b", "t.c")...))
		same(t, "results", results(res), []string{"agent", "agent", "host", "skill", "env"})
		same(t, "diagnostics", codes(res), []string{"tool.shadowed", "tool.shadowed", "tool.shadowed"})
		same(t, "offered", offered(m.Requests()[0]), "t.a t.b t.c t.d t.e")
	})
	t.Run("3.1 reserved names", func(t *testing.T) {
		m := model(says("", "agent.x", "human.ask", "delegate_x"), says("done"))
		res := must(t, simple(), input{}, host(m, tool("agent.x", "", 1), tool("human.ask", "", 1)))
		same(t, "offered", offered(m.Requests()[0]), "")
		same(t, "codes", []string{res.Calls[0].Code, res.Calls[1].Code, res.Calls[2].Code}, []string{"tool.unknown", "tool.unknown", "tool.unknown"})
		l := simple()
		l.Own = []runtime.Tool{tool("agent.x", "", 1)}
		if err := l.Validate(); err == nil || !strings.Contains(err.Error(), `the name of tool "agent.x" is reserved`) {
			t.Error(err)
		}
	})
	t.Run("3.2 lists", func(t *testing.T) {
		for _, tt := range []struct {
			name                string
			global, deny        []string
			own, ownDeny        []string
			want, codes, result string
		}{
			{"trust 8.4 no list", nil, nil, nil, nil, "", "", ""},
			{"trust 8.4 all", nil, nil, agentloop.AllTools, nil, "t.a t.b t.c", "", ""},
			{"an empty global list", []string{" ", ""}, nil, agentloop.AllTools, nil, "t.a t.b t.c", "", ""},
			{"a global list", []string{" t.b ", "t.a", "t.b"}, nil, agentloop.AllTools, nil, "t.a t.b", "", ""},
			{"an agent's list", nil, nil, []string{"t.c ", "t.a"}, nil, "t.a t.c", "", ""},
			{"both", []string{"t.a", "t.b"}, nil, []string{"t.b", "t.c"}, nil, "t.b", "", ""},
			{"an empty list", nil, nil, []string{}, nil, "", "", ""},
			{"deny wins", []string{"t.a"}, []string{"t.a"}, nil, nil, "", "", ""},
			{"the agent denies", nil, nil, []string{"t.a", "t.b"}, []string{"t.b"}, "t.a", "", ""},
			{"one that is not configured", nil, nil, []string{"t.a", "file.read"}, nil, "t.a", "tool.missing", ""},
		} {
			l := simple()
			l.Tools, l.Deny = tt.own, tt.ownDeny
			m := model(says("", "t.c"), says("done"))
			c := tool("t.c", runtime.ReadOnly, "C")
			res := must(t, l, input{Allow: tt.global, Deny: tt.deny}, host(m, tool("t.a", "", 1), tool("t.b", "", 1), c))
			same(t, tt.name, offered(m.Requests()[0]), tt.want)
			same(t, tt.name, strings.Join(codes(res), " "), tt.codes)
			if allowed := strings.Contains(tt.want, "t.c"); allowed != (len(c.Calls()) == 1) || allowed != (res.Calls[0].Code == "") {
				t.Errorf("%s: %s, called %d times", tt.name, res.Calls[0].Result, len(c.Calls()))
			}
		}
	})
	t.Run("trust 8.4 its own tools count always", func(t *testing.T) {
		for _, tools := range [][]string{nil, {}, {"t.a"}, agentloop.AllTools} {
			l := simple()
			l.Tools, l.Own, l.MaxSubagents = tools, []runtime.Tool{tool("own.it", "", 1)}, -1
			m := model(says("done"))
			must(t, l, input{}, host(m, tool("t.a", "", 1)))
			want := "own.it"
			if len(tools) > 0 {
				want = "own.it t.a"
			}
			same(t, "offered", offered(m.Requests()[0]), want)
		}
	})
	t.Run("trust 8.4 an unknown name", func(t *testing.T) {
		l := simple()
		l.Tools = []string{"t.a", "t.x"}
		_, err := run(t, l, input{}, host(model(says("done")), tool("t.a", "", 1)))
		if err == nil || !strings.Contains(err.Error(), "tools of agent \"simple\" names \"t.x\", which is not a tool\n  hint: did you mean \"t.a\"?") {
			t.Error(err)
		}
	})
	t.Run("3.3 results", func(t *testing.T) {
		raw := func(text string) runtime.Tool { return rawTool(text) }
		strict := tool("t.strict", runtime.External, 1)
		strict.ToolSpec.Parameters = json.RawMessage(`{"type":"object","additionalProperties":false,"required":["n"],"properties":{"n":{"type":"integer"}}}`)
		for _, tt := range []struct {
			call string
			tool runtime.Tool
			want string
			code string
		}{
			{"t.x", raw(""), "(no output)", ""}, // trust 8.20, and the next two
			{"t.x", raw("null"), "(no output)", ""},
			{"t.x", raw(`""`), "(no output)", ""},
			{"t.x", raw(`"as it <is>"`), "as it <is>", ""},
			{"t.x", raw("{\"b\": [1, 2.0], \n\"a\": true}"), `{"a":true,"b":[1,2]}`, ""},
			{"t.x", raw(`{"type": "image", "mimeType": "image/webp", "data": "aGVsbG8="}`), "[image/webp, 5 bytes]", ""},
			{"t.x", raw(`["Before.", {"data": "` + strings.Repeat("QUJD", 20<<10) + `", "mimeType": "image/jpeg", "type": "image"}, "Behind."]`), `["Before.","[image/jpeg, 60 KiB]","Behind."]`, ""},
			{"t.x", raw(`[{"data":"` + strings.Repeat("QUJD", 1<<19) + `","mimeType":"audio/wav","type":"audio"},7]`), `["[audio/wav, 1.5 MiB]",7]`, ""},
			{"t.x", raw(`{"resource":{"blob":"QUI=","mimeType":"application/pdf","uri":"file:///bill.pdf"},"type":"resource"}`), "[file:///bill.pdf, application/pdf, 2 bytes]", ""},
			{"t.x", raw(`[{"type": "audio", "data": "QUJD"}, {"type": "resource", "resource": {"blob": ""}}]`), `["[audio, 3 bytes]","[resource, data, 0 bytes]"]`, ""},
			{"t.x", raw(`{"resource":{"text":"Pay now.","uri":"file:///bill.txt"},"type":"resource"}`), `{"resource":{"text":"Pay now.","uri":"file:///bill.txt"},"type":"resource"}`, ""},
			{"t.x", raw(`{"of":{"data":"QUJD","mimeType":"image/png","type":"image"},"type":"image"}`), `{"of":{"data":"QUJD","mimeType":"image/png","type":"image"},"type":"image"}`, ""},
			{"t.x", raw("{"), `error: tool "t.x" returned what is not JSON: `, "tool.failed"},
			{"t.none", raw("1"), `error: there is no tool "t.none".`, "tool.unknown"},
			{"t.strict {}", strict, `error: arguments of "t.strict": `, "tool.arguments"},
			{`t.strict {"n": "1"}`, strict, `error: arguments of "t.strict": /n: must be an integer`, "tool.arguments"},
			{`t.strict {"n": 1`, strict, `error: arguments of "t.strict": they are not JSON: line 1, column 8: the JSON text ends where "," or "}" should be`, "tool.arguments"},
			{`t.strict "{}"`, strict, `error: arguments of "t.strict": they must be a JSON object, not a string`, "tool.arguments"},
			{`t.strict [1]`, strict, `error: arguments of "t.strict": they must be a JSON object, not a list`, "tool.arguments"},
			{"t.x", runtimetest.NewTool("t.x", func(context.Context, json.RawMessage) (any, error) { return nil, errors.New("no such id") }), "error: no such id", "tool.failed"},
			{"t.x", runtimetest.NewTool("t.x", func(context.Context, json.RawMessage) (any, error) { panic("boo") }), `error: panic: boo`, "tool.panic"},
		} {
			sibling := tool("t.sibling", runtime.ReadOnly, "fine")
			m := model(says("", tt.call, "t.sibling"), says("done"))
			res := must(t, simple(), input{}, host(m, tt.tool, sibling))
			if c := res.Calls[0]; !strings.HasPrefix(c.Result, tt.want) || tt.code == "" && c.Result != tt.want || c.Code != tt.code {
				t.Errorf("%s: %q %q, want %q %q", tt.call, c.Result, c.Code, tt.want, tt.code)
			}
			same(t, "the sibling", res.Calls[1].Result, "fine")
			same(t, "the next request", m.Requests()[1].Messages[2].Text, res.Calls[0].Result)
		}
		same(t, "executed with invented arguments", len(strict.Calls()), 0)
	})
	t.Run("3.3 results that are cut", func(t *testing.T) {
		l := simple()
		l.MaxResultBytes = 5
		res := must(t, l, input{}, host(model(says("", "t.x", "t.y"), says("done")), rawTool(`"äöüäöü"`), tool("t.y", "", "12345")))
		same(t, "results", results(res), []string{"äö\n[cut: the first 4 of 12 bytes]", "12345"})

		l.MaxResultBytes = 12
		bad := runtimetest.NewTool("t.x", func(context.Context, json.RawMessage) (any, error) { return nil, errors.New("too much to say") })
		res = must(t, l, input{}, host(model(says("", "t.x"), says("done")), bad))
		same(t, "results", results(res), []string{"error: too m\n[cut: the first 12 of 22 bytes]"})
		i := slices.IndexFunc(res.Trace, func(e trace.Event) bool { return e.Kind == trace.AgentError })
		same(t, "the trace", res.Trace[i].Data.Get("message"), "too m\n[cut: the first 12 of 22 bytes]")
	})
	t.Run("3.4 gates in order", func(t *testing.T) {
		var order []string
		in := input{Permit: func(tool string, args json.RawMessage) error {
			order = append(order, "policy "+tool+" "+string(args))
			if tool == "t.denied" {
				return errors.New("the house says no")
			}
			return nil
		}}
		in.Approver = approver(func(w runtime.ApprovalRequest) (runtime.ApprovalDecision, error) {
			order = append(order, "approval "+w.Tool+" "+string(w.Arguments))
			return runtime.ApprovalDecision{Allow: true}, nil
		})
		j := after(t, nil)
		j.fail = func(e agents.Event) error {
			if e.Kind == agents.ToolBegan {
				order = append(order, "record")
			}
			return nil
		}
		in.Journal = j
		ok := runtimetest.NewTool("t.ok", func(_ context.Context, args json.RawMessage) (any, error) {
			order = append(order, "call "+string(args))
			return nil, nil
		})
		l := simple()
		l.Approval = map[string]agentloop.Approval{"*": agentloop.ApproveAlways}
		must(t, l, in, host(model(says("", "t.none", "t.ok 1", "t.denied", `t.ok {"n": 1}`), says("done")), ok, tool("t.denied", "", 1)))
		same(t, "order", order, []string{"policy t.denied {}", `policy t.ok {"n":1}`, `approval t.ok {"n":1}`, "record", `call {"n":1}`})
	})
}

// rawTool returns a text, whatever it is.
type rawTool string

func (rawTool) Spec() runtime.ToolSpec { return runtime.ToolSpec{Name: "t.x"} }
func (r rawTool) Call(context.Context, json.RawMessage) (json.RawMessage, error) {
	return json.RawMessage(r), nil
}

// strict is a tool for whose calls the host wants an approval.
type strict struct {
	*runtimetest.Tool
	approval agentloop.Approval
}

func (s strict) Spec() runtime.ToolSpec {
	spec := s.Tool.Spec()
	spec.Approval = string(s.approval)
	return spec
}

func TestApproval(t *testing.T) {
	t.Run("3.5 only an explicit yes", func(t *testing.T) {
		yes := approver(func(runtime.ApprovalRequest) (runtime.ApprovalDecision, error) {
			return runtime.ApprovalDecision{Allow: true}, nil
		})
		for _, tt := range []struct {
			name     string
			approval map[string]agentloop.Approval
			approver runtime.Approver
			want     string
			calls    int
		}{
			{"nothing said", nil, nil, "sent", 1},
			{"never", map[string]agentloop.Approval{"*": agentloop.ApproveNever}, nil, "sent", 1},
			{"nobody to ask", map[string]agentloop.Approval{"*": agentloop.ApproveAlways}, nil, `error: tool "t.send" needs an approval: nobody can give it`, 0},
			{"yes", map[string]agentloop.Approval{"t.send": agentloop.ApproveAlways}, yes, "sent", 1},
			{"yes, in place of a pause", map[string]agentloop.Approval{"t.send": agentloop.ApprovePause}, yes, "sent", 1},
			{"another tool", map[string]agentloop.Approval{"human.ask": agentloop.ApproveAlways}, nil, "sent", 1},
			{"the tool before the rest", map[string]agentloop.Approval{"*": agentloop.ApproveAlways, "t.send": agentloop.ApproveNever}, nil, "sent", 1},
			{"no", map[string]agentloop.Approval{"*": agentloop.ApproveAlways},
				approver(func(runtime.ApprovalRequest) (runtime.ApprovalDecision, error) {
					return runtime.ApprovalDecision{Reason: "too late in the day"}, nil
				}),
				`error: tool "t.send" needs an approval: too late in the day`, 0},
			{"an error with a yes", map[string]agentloop.Approval{"*": agentloop.ApproveAlways},
				approver(func(runtime.ApprovalRequest) (runtime.ApprovalDecision, error) {
					return runtime.ApprovalDecision{Allow: true}, context.DeadlineExceeded
				}), `error: tool "t.send" needs an approval: context deadline exceeded`, 0},
			{"a panic", map[string]agentloop.Approval{"*": agentloop.ApproveAlways},
				approver(func(runtime.ApprovalRequest) (runtime.ApprovalDecision, error) { panic("boo") }), `error: tool "t.send" needs an approval: panic: boo`, 0},
		} {
			l, in, send := simple(), input{}, tool("t.send", runtime.External, "sent")
			l.Approval, in.Approver = tt.approval, tt.approver
			res := must(t, l, in, host(model(says("", "t.send"), says("done")), send))
			same(t, tt.name, []any{res.Calls[0].Result, len(send.Calls())}, []any{tt.want, tt.calls})
		}
	})
	t.Run("3.5 what the host wants of a tool, an agent cannot loosen", func(t *testing.T) {
		const always, pause, never = agentloop.ApproveAlways, agentloop.ApprovePause, agentloop.ApproveNever
		for _, tt := range []struct{ agent, tool, want agentloop.Approval }{
			{"", never, never}, {never, pause, pause}, {pause, never, pause}, {pause, always, always}, {always, pause, always}, {"", "sometimes", always},
		} {
			l, send := simple(), tool("t.send", runtime.External, "sent")
			l.Approval = map[string]agentloop.Approval{"t.send": tt.agent}
			wrapped := runtime.Wrap(strict{send, tt.tool}, // trust 1.3: a wrapper cannot loosen it either
				func(ctx context.Context, args json.RawMessage, next runtime.CallFunc) (json.RawMessage, error) {
					return next(ctx, args)
				})
			res, err := run(t, l, input{}, host(model(says("", "t.send"), says("done")), wrapped))
			got := never
			if errors.As(err, new(*agents.PauseError)) {
				got = pause
			} else if err != nil {
				t.Fatal(err)
			} else if res.Calls[0].Code != "" {
				got = always
			}
			same(t, fmt.Sprintf("%q and %q", tt.agent, tt.tool), got, tt.want)
		}
	})
	t.Run("3.5 a pause", func(t *testing.T) {
		for decision, want := range map[string]string{"approve": "sent", "reject": `error: tool "t.send" needs an approval: the call was refused`} {
			l, send := simple(), tool("t.send", runtime.External, "sent")
			l.Approval = map[string]agentloop.Approval{"*": agentloop.ApprovePause}
			j := after(t, nil)
			m := model(says("", `t.send {"to": "Ann"}`), says("done"))
			p := paused(t, l, input{Journal: j}, host(m, send))
			if len(p) != 1 || p[0].Kind != resume.Human || p[0].Step != "step" || p[0].ID != "step:call1" || len(send.Calls()) != 0 {
				t.Fatalf("%+v", p)
			}
			same(t, "decisions", p[0].Decisions, []string{"approve", "reject"})
			same(t, "show", p[0].Show, any(object{"tool": "t.send", "arguments": object{"to": "Ann"}, "keys": []any{"t.send"}}))

			// Nothing happens without an answer, or with a wrong one.
			n := len(j.events)
			for _, answers := range [][]agents.Answer{{{Pause: "step:call2", Value: object{"decision": "approve"}}}, {{Pause: "step:call1", Value: object{"decision": "yes"}}},
				{{Pause: "step:call1", Value: object{"decision": decision}}, {Pause: "step:call1", Value: object{"decision": decision}}}} {
				bad := after(t, j.events)
				_, err := run(t, l, input{Journal: bad, Answers: answers}, host(m, send))
				failed(t, err, runtime.CategoryConfirmation, "resume.notPending", "")
				same(t, "events", len(bad.events), n)
			}
			still := after(t, j.events)
			paused(t, l, input{Journal: still}, host(m, send))
			same(t, "events", len(still.events), n)

			done := after(t, j.events)
			res := must(t, l, input{Journal: done, Answers: []agents.Answer{{Pause: "step:call1", Value: object{"decision": decision}}}}, host(m, send))
			same(t, decision, results(res), []string{want})
			same(t, "requests", len(m.Requests()), 2)

			// The end: the stored result, nothing written.
			over := after(t, done.events)
			again := must(t, l, input{Journal: over}, host(model(), send))
			same(t, "stored", []any{again.Text, again.Steps, len(over.events), len(again.Trace)}, []any{res.Text, res.Steps, len(done.events), 0})
		}
	})
	t.Run("3.5 for the session", func(t *testing.T) {
		l, send := simple(), tool("t.send", runtime.External, "sent")
		l.Approval = map[string]agentloop.Approval{"*": agentloop.ApprovePause}
		rt := host(model(says("", `t.send {"n":1}`), says("", `t.send {"n":2}`), says("done")), send)
		j := after(t, nil)
		p := paused(t, l, input{Journal: j}, rt)
		res := must(t, l, input{Journal: after(t, j.events),
			Answers: []agents.Answer{{Pause: p[0].ID, Value: object{"decision": "approve", "form": object{"scope": "session"}}}}}, rt)
		same(t, "results", results(res), []string{"sent", "sent"})
		same(t, "keys", res.Snapshot.Approvals, []string{"t.send"})
	})
	t.Run("trust 8.3 what a yes for the run of exec.run covers", func(t *testing.T) {
		for _, tt := range []struct{ args, want string }{
			{`{"argv":["ls","-l"]}`, "ls"},
			{`{"argv":["ls"],"dir":"x","timeout":"1s"}`, "ls"},
			{`{"argv":["ls"],"env":{"ARG_X":"."}}`, "ls="},
			{`{"argv":["/bin/ls"]}`, "/bin/ls="},
			{`{"argv":["mine"]}`, "mine"},
			{`{"argv":["git","push"]}`, "git="},
			{`{"argv":["/usr/bin/git","push"]}`, "/usr/bin/git="},
			{`{"argv":["git"],"env":{"PATH":"."}}`, "git="},
			{`{"argv":["find",".","-name","x"]}`, "find="},
			{`{"argv":["sudo","git","push"]}`, "git sudo"},
			{`{"argv":["sh","-c","git pull; make | tee log"]}`, "git make sh tee"},
			{`{"argv":["python3","x.py"]}`, "python3"},
			{`{"argv":["timeout","5","git","pull"]}`, "git timeout"},
			{`{"argv":["find",".","-exec","rm","{}",";"]}`, "="},
			{`{"argv":["git","-c","alias.x=!rm","x"]}`, "="},
			{`{"argv":["python3","-c","x"]}`, "="},
			{`{"argv":["sudo","-u","git","rm"]}`, "="},
			{`{"argv":["./git"]}`, "="},
			{`{"argv":["sudo"]}`, "="},
			{`{"argv":[]}`, "="},
			{`{"argv":["git",1]}`, "="},
			{`{"argv":"git"}`, "="},
			{`{"argv":["git"],"ARGV":["rm"]}`, "="},
			{`{"argv":["git"],"argv":["rm"]}`, "="},
			{`{}`, "="},
		} {
			keys := strings.Join(agents.ApprovalKeys("exec.run", json.RawMessage(tt.args), []string{"mine"}), " ")
			got, sum, _ := strings.Cut(strings.TrimPrefix(strings.ReplaceAll(keys, "exec.run:", ""), "exec.run"), "=")
			if sum != "" {
				got += "="
			}
			if same(t, tt.args, got, tt.want); sum != "" && len(sum) != 32 {
				t.Errorf("%s: %s", tt.args, keys)
			}
		}
		covers := func(a, b string) bool {
			return slices.Equal(agents.ApprovalKeys("exec.run", json.RawMessage(a), nil), agents.ApprovalKeys("exec.run", json.RawMessage(b), nil))
		}
		const call = `{"argv":["git","pull"],"dir":"x","env":{"ARG_A":"1","ARG_B":"2"},"stdin":"in"}`
		for _, other := range []string{
			`{"argv":["git","push"],"dir":"x","env":{"ARG_A":"1","ARG_B":"2"},"stdin":"in"}`,
			`{"argv":["git","pull","-q"],"dir":"x","env":{"ARG_A":"1","ARG_B":"2"},"stdin":"in"}`,
			`{"argv":["/usr/bin/git","pull"],"dir":"x","env":{"ARG_A":"1","ARG_B":"2"},"stdin":"in"}`,
			`{"argv":["git","pull"],"dir":"y","env":{"ARG_A":"1","ARG_B":"2"},"stdin":"in"}`,
			`{"argv":["git","pull"],"dir":"x","env":{"ARG_A":"1","ARG_B":"3"},"stdin":"in"}`,
			`{"argv":["git","pull"],"dir":"x","env":{"ARG_A":"1"},"stdin":"in"}`,
			`{"argv":["git","pull"],"dir":"x","env":{"ARG_A":"1","ARG_B":"2"},"stdin":"out"}`,
			`{"argv":["git","pull"]}`,
		} {
			if covers(call, other) {
				t.Errorf("a yes to %s is one to %s", call, other)
			}
		}
		if other := `{"stdin":"in","env":{"ARG_B":"2","ARG_A":"1"},"argv":["git","pull"],"timeout":"5s","effect":"read_only","dir":"x"}`; !covers(call, other) {
			t.Errorf("a yes to %s is none to %s", call, other)
		}
		var asked []string
		l, in := simple(), input{}
		l.Approval = map[string]agentloop.Approval{"exec.run": agentloop.ApproveAlways}
		in.Approver = approver(func(w runtime.ApprovalRequest) (runtime.ApprovalDecision, error) {
			asked = append(asked, strings.Join(w.Keys, " "))
			return runtime.ApprovalDecision{Allow: true, Scope: runtime.ApproveSession}, nil
		})
		m := model(says("", `exec.run {"argv":["cat","a"]}`, `exec.run {"argv":["cat","b"]}`, `exec.run {"argv":["sudo","git"]}`, `exec.run {"argv":["sudo","git"]}`), says("done"))
		must(t, l, in, host(m, tool("exec.run", "", 1)))
		same(t, "asked", asked, []string{"exec.run:cat", "exec.run:git exec.run:sudo", "exec.run:git exec.run:sudo"})
	})
	t.Run("trust 6.8 a yes for what runs others is for one call", func(t *testing.T) {
		for _, tt := range []struct {
			argv string
			once bool
		}{
			{`["git","pull"]`, false}, {`["ls"]`, false}, {`["find",".","-name","x"]`, false}, {`["/usr/bin/git","pull"]`, false},
			{`["timeout","5","git","pull"]`, true}, {`["xargs","rm"]`, true}, {`["setsid","git"]`, true}, {`["env","git"]`, true},
			{`["nice","git"]`, true}, {`["nohup","git"]`, true}, {`["find",".","-exec","rm","{}",";"]`, true}, {`["git","-c","a=b","x"]`, true},
			{`["python3","x.py"]`, true}, {`["python3.12","-c","x"]`, true}, {`["perl","-e","x"]`, true}, {`["awk","x"]`, true},
			{`["sudo","ls"]`, true}, {`["ssh","host","ls"]`, true}, {`["make"]`, true}, {`["npm","ci"]`, true}, {`["npx","x"]`, true},
			{`["sh","-c","git pull"]`, true}, {`["/usr/bin/make"]`, true}, {`["./tool"]`, true}, {`["lua5.4","x"]`, true},
		} {
			l := simple()
			l.Approval = map[string]agentloop.Approval{"exec.run": agentloop.ApprovePause}
			newHost := func() *runtime.Runtime {
				call := `exec.run {"argv":` + tt.argv + `}`
				return host(model(says("", call, call), says("done")), tool("exec.run", "", 1))
			}
			p := paused(t, l, input{Journal: after(t, nil)}, newHost())
			want := []any{"once", "run", "session"}
			if tt.once {
				want = want[:1]
			}
			same(t, tt.argv+": scopes", p[0].Schema.(object)["properties"].(object)["scope"].(object)["enum"], any(want))
			same(t, tt.argv+": covered by a yes for the run", len(p[0].Approves()) > 0, !tt.once)

			asked := 0
			in := input{Approver: approver(func(runtime.ApprovalRequest) (runtime.ApprovalDecision, error) {
				asked++
				return runtime.ApprovalDecision{Allow: true, Scope: runtime.ApproveSession}, nil
			})}
			res := must(t, l, in, newHost())
			grants := 1
			if tt.once {
				grants = 0
			}
			same(t, tt.argv+": asked and granted", []int{asked, len(res.Snapshot.Approvals)}, []int{2 - grants, grants})
		}
	})
	t.Run("3.6 human.ask", func(t *testing.T) {
		m := model(says("", `human.ask {"question": "Which one?"}`), says("done"))
		l := simple()
		must(t, l, input{}, host(model(says("", `human.ask {"question":"?"}`), says("done")))) // not listed: not offered
		l.Tools = []string{"human.ask"}
		j := after(t, nil)
		p := paused(t, l, input{Journal: j}, host(m))
		want := resume.Pause{ID: "step:call1", Kind: resume.Human, Step: "step", Prompt: "Which one?", CreatedAt: p[0].CreatedAt,
			Schema: object{"type": "object", "additionalProperties": false, "required": []any{"answer"}, "properties": object{"answer": object{"type": "string"}}}}
		same(t, "pause", p[0].Pause, want)
		same(t, "requests", len(m.Requests()), 1)
		_, err := run(t, l, input{Journal: after(t, j.events), Answers: []agents.Answer{{Pause: p[0].ID, Value: object{"reply": 1}}}}, host(m))
		failed(t, err, runtime.CategoryConfirmation, "resume.notPending", "answer")
		res := must(t, l, input{Journal: after(t, j.events), Answers: []agents.Answer{{Pause: p[0].ID, Value: object{"answer": "the red one"}}}}, host(m))
		same(t, "result", results(res), []string{"the red one"})
		same(t, "requests", len(m.Requests()), 2)
		same(t, "trace", lines(res.Trace)[:3], []string{`agent.start step agent=simple depth=0 model=m resume=true usage={"input_tokens":10,"output_tokens":1}`, "human.response step call=1", "tool.end step call=1 tool=human.ask"})
	})
	t.Run("3.7 several pauses", func(t *testing.T) {
		for _, concurrency := range []int{1, 8} {
			l := simple()
			l.ToolConcurrency = concurrency
			l.Tools = []string{"human.ask", "t.free", "t.gated", "t.waits"}
			l.Approval = map[string]agentloop.Approval{"t.gated": agentloop.ApprovePause}
			free, gated := tool("t.free", "", "free"), tool("t.gated", "", "gated")
			waits := runtimetest.NewTool("t.waits", func(ctx context.Context, _ json.RawMessage) (any, error) {
				if a, ok := resume.Answer(ctx); ok {
					return a, nil
				}
				return nil, resume.Suspend(resume.Pause{Kind: resume.External, OnExpire: resume.Expiry{Answered: true, Value: int64(1)}})
			})
			m := model(says("", "t.gated", "t.free", `human.ask {"question":"?"}`, "t.waits"), says("done"))
			rt := host(m, free, gated, waits)
			j := after(t, nil)
			p := paused(t, l, input{Journal: j}, rt)
			var open []string
			for _, p := range p {
				open = append(open, p.ID+" "+p.For)
			}
			same(t, "open", open, []string{"step:call1 approval", "step:call3 human", "step:call4 tool"})
			same(t, "error", (&agents.PauseError{Pauses: p[:1]}).Error(), `the agent waits: human pause "step:call1" of step "step"`)
			same(t, "expiry", p[2].OnExpire, resume.Expiry{Answered: true, Value: int64(1)})
			same(t, "calls", []int{len(free.Calls()), len(gated.Calls())}, []int{1, 0})

			// One after the other, in another order.
			answers := []agents.Answer{{Pause: "step:call4", Value: object{"big": int64(1<<53 + 1)}}, {Pause: "step:call1", Value: object{"decision": "approve"}}, {Pause: "step:call3", Value: object{"answer": "42"}}}
			for i, a := range answers[:2] {
				j = after(t, j.events)
				p = paused(t, l, input{Journal: j, Answers: []agents.Answer{a}}, rt)
				same(t, "still open", len(p), 2-i)
			}
			if last := p[0]; last.ID != "step:call3" {
				t.Errorf("open: %v", last.ID)
			}
			same(t, "requests", len(m.Requests()), 1)
			res := must(t, l, input{Journal: after(t, j.events), Answers: answers[2:]}, rt)
			same(t, "results", results(res), []string{"gated", "free", "42", `{"big":9007199254740993}`})
			same(t, "calls", []int{len(free.Calls()), len(gated.Calls()), len(waits.Calls()), len(m.Requests())}, []int{1, 1, 2, 2})
		}
	})
	t.Run("3.7 a pause of the model's call", func(t *testing.T) {
		in, j := input{}, after(t, nil)
		in.Call = func(_ *agents.Execution, j *agents.Job) error {
			if len(j.Replies) > 0 {
				return nil
			}
			return resume.Suspend(resume.Pause{Kind: resume.System, Reason: "budget", Decisions: []string{"raise", "fail"}})
		}
		in.Journal = j
		rt := host(model(says("done")))
		p := paused(t, simple(), in, rt)
		same(t, "pause", []string{p[0].ID, p[0].For, p[0].Reason}, []string{"step:model1", "model", "budget"})
		in.Journal = after(t, j.events)
		paused(t, simple(), in, rt)
		in.Journal, in.Answers = after(t, j.events), []agents.Answer{{Pause: p[0].ID, Due: true}}
		p = paused(t, simple(), in, rt) // it was due, and asks again
		same(t, "pause", p[0].ID, "step:model2")
		in.Journal, in.Answers = after(t, in.Journal.events), []agents.Answer{{Pause: p[0].ID, Value: object{"decision": "raise"}}}
		res := must(t, simple(), in, rt)
		same(t, "result", fmt.Sprint(res.Text, res.Steps), "done1")
	})
}
