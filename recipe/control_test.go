package recipe_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/recipe"
)

// rejectedControl is like rejected. All but the marked ones are refused by the schema too.
var rejectedControl = []struct {
	text   string
	want   string
	unseen bool // by the schema
}{
	// loop.
	{text: "steps:\n  a: {uses: loop}\n  b: {uses: loop, with: {ref: f, first: 1}}\n  c: {uses: loop, with: 3}\n",
		want: "4:3 recipe.missingKey\n5:25 recipe.missingKey\n6:25 recipe.wrongType"},
	{text: "steps:\n  a: {uses: loop, with: {max_iterations: 3}}\n  b: {uses: loop, with: {ref: f, steps: {s: {uses: a.b}}, max_iterations: 3}}\n",
		want: "4:25 recipe.missingKey\n5:41 recipe.invalid"},
	{text: "steps:\n  a: {uses: loop, with: {ref: f, max_iterations: 0}}\n  b: {uses: loop, with: {ref: f, max_iterations: 1001}}\n  c: {uses: loop, with: {ref: f, max_iterations: inputs.n}}\n",
		want: "4:50 recipe.invalid\n5:50 recipe.invalid\n6:50 recipe.wrongType | write ${{ inputs.n }}"},
	{text: "steps:\n  a: {uses: loop, with: {steps: {}, max_iterations: 3}}\n", want: "4:33 recipe.invalid"},
	{text: "steps:\n  a: {uses: loop, with: {steps: {s: {uses: a.b}}, max_iterations: 3, next: {}, inputs: {}}}\n",
		want: "4:76 recipe.invalid | steps in place read last\n4:88 recipe.invalid | steps in place see the names around them"},
	{text: "steps:\n  a: {uses: loop, with: {ref: f, max_iterations: 3, next: 1, output: 1, on_error: collect, on_limit: ok, until: \"${{ last }}\"}}\n",
		want: "4:59 recipe.wrongType\n4:70 recipe.invalid | the file has its own output\n4:83 recipe.invalid | allowed: fail, continue\n" +
			"4:102 recipe.invalid | allowed: fail\n4:113 recipe.invalid | leave ${{ and }} out"},
	{text: "steps:\n  a: {uses: loop, with: {ref: f, max_iterations: 3, on_limit: fail}}\n", want: "4:63 recipe.invalid | say with until when the loop is done, or leave it out"},
	{text: "steps:\n  a: {uses: loop, with: {body: {steps: {}}, while: x, times: 3}}\n",
		want: "4:25 recipe.missingKey\n4:25 recipe.missingKey\n4:26 recipe.unknownKey | write its keys here: ref and inputs, or steps and output\n" +
			"4:45 recipe.unknownKey | say with until when the loop is done\n" + `4:55 recipe.unknownKey | did you mean "max_iterations"?`},
	{text: "steps:\n  a: {uses: loop, with: {max_iterations: 3, steps: {a: {uses: a.b}, c: {uses: a.b, foreach: {in: [], as: last}}}}}\n",
		want: "4:53 recipe.duplicateName\n4:106 recipe.duplicateName | choose another name", unseen: true},
	{text: "steps:\n  a:\n    uses: recipe\n    foreach: {in: [], as: cost}\n    with: {steps: {b: {uses: loop, with: {ref: f, max_iterations: 3}}, c: {uses: loop, with: {ref: f, max_iterations: 3}}}}\n",
		want: "6:27 recipe.duplicateName | choose another name", unseen: true},
	{text: "steps:\n  a: {uses: loop, with: {ref: f, max_iterations: 3}, retry: {}, idempotency_key: k}\n",
		want: "4:61 recipe.invalid | give it to the steps inside, or to all in defaults\n4:82 recipe.invalid | give it to the steps inside"},

	// fork.
	{text: "steps:\n  a: {uses: fork, with: {}}\n  b: {uses: fork, with: {branches: {}}}\n  c: {uses: fork, with: {branches: [{ref: f}]}}\n",
		want: "4:25 recipe.missingKey\n5:36 recipe.invalid\n6:36 recipe.wrongType"},
	{text: "steps:\n  a: {uses: fork, with: {mode: any, max_parallel: 0, branches: {Left: {ref: f}, right: f, b: {}, c: {steps: {a: {uses: a.b}}}}}}\n",
		want: "4:32 recipe.invalid | allowed: all, race, settle\n4:51 recipe.invalid\n4:65 recipe.invalid | " + idHint + "\n4:88 recipe.wrongType\n4:94 recipe.missingKey\n4:110 recipe.duplicateName"},
	{text: "steps:\n  a: {uses: fork, with: {parallel: {b: {ref: f}}, concurrency: 2, branches: {b: {ref: f, max_parallel: 2}}}}\n",
		want: `4:26 recipe.unknownKey | did you mean "branches"?` + "\n" + `4:51 recipe.unknownKey | did you mean "max_parallel"?` + "\n4:90 recipe.unknownKey | known here: inputs, output, ref, steps"},

	// switch.
	{text: "steps:\n  a: {uses: switch, with: {}}\n  b: {uses: switch, with: {cases: []}}\n  c: {uses: switch, with: {cases: {x: {ref: f}}}}\n  d: {uses: switch, with: {cases: [x]}}\n",
		want: "4:27 recipe.missingKey\n5:35 recipe.invalid\n6:35 recipe.wrongType\n7:36 recipe.wrongType"},
	{text: "steps:\n  a: {uses: switch, with: {cases: [{ref: f}, {name: x, if: true, ref: f}, {name: y, when: \"\", steps: {}, inputs: {}}], else: {ref: f}}}\n",
		want: "4:36 recipe.missingKey\n4:36 recipe.missingKey\n4:46 recipe.missingKey\n" + `4:56 recipe.unknownKey | did you mean "when"?` +
			"\n4:91 recipe.invalid | write an expression, or leave the key out\n4:114 recipe.invalid | steps in place see the names around them\n" + `4:120 recipe.unknownKey | did you mean "default"?`},
	{text: "steps:\n  a: {uses: switch, with: {cases: [{name: x, when: true, ref: f}, {name: x, when: true, ref: f}]}}\n",
		want: "4:74 recipe.duplicateName", unseen: true},
	{text: "steps:\n  a: {uses: switch, with: {cases: [{name: default, when: true, ref: f}, {name: No, when: true, ref: f}], default: {name: x}}}\n",
		want: "4:43 recipe.duplicateName | write default beside cases, or choose another name\n4:80 recipe.invalid | " + idHint +
			"\n4:115 recipe.missingKey\n4:116 recipe.unknownKey | known here: inputs, output, ref, steps"},

	// Channels.
	{text: "channels: {a: lifo, b c: queue}\nsteps: {a: {uses: send, with: {channel: a, value: 1}}}\n",
		want: "3:15 recipe.invalid | allowed: value, queue, topic\n3:21 recipe.invalid | " + wordHint},
	{text: "channels: [a]\nsteps: {a: {uses: send, with: {channel: a, value: 1}}}\n",
		want: "3:11 recipe.wrongType\n4:41 recipe.unknownName | declare it at the top of the file: channels: {a: queue}"},
	{text: "channels: {orders: queue}\nsteps:\n  a: {uses: send, with: {channel: order, value: 1}}\n  b: {uses: receive, with: {channel: mail}}\n",
		want: `5:35 recipe.unknownName | did you mean "orders"?` + "\n6:38 recipe.unknownName | known here: orders", unseen: true},
	{text: "channels: {a: queue}\nsteps:\n  a: {uses: send}\n  b: {uses: send, with: {to: a, message: 1}}\n  c: {uses: send, with: {channel: \"${{ x }}\", value: 1}}\n  d: {uses: send, with: {channel: a, value: 1}, retry: {}, limits: {tokens: 1}}\n",
		want: "5:3 recipe.missingKey\n6:25 recipe.missingKey\n6:25 recipe.missingKey\n" + `6:26 recipe.unknownKey | did you mean "channel"?` + "\n" + `6:33 recipe.unknownKey | did you mean "value"?` +
			"\n7:35 recipe.invalid\n8:56 recipe.invalid | only calls of models and tools are tried again\n8:68 recipe.invalid | they are for steps that call a model or a tool, or have a body"},
	{text: "channels: {a: queue}\nsteps:\n  s: {uses: send, with: {channel: a, value: null}}\n  a: {uses: receive, with: {channel: a, timeout: 0s, on_empty: stop}}\n  b: {uses: receive, with: {channel: a, timeout: 1s, on_empty: fail}}\n  c: {uses: receive, with: {channel: a, timeout: 1s, on_empty: {set: null}}}\n  d: {uses: receive, with: {channel: a, default: 1}, timeout: 1s}\n",
		want: "6:50 recipe.invalid | leave it out for no limit\n6:64 recipe.invalid | allowed: wait, fail\n7:50 recipe.invalid | leave one of them out\n8:50 recipe.invalid | leave one of them out\n" +
			"9:41 recipe.unknownKey | write on_empty: {set: value}\n9:63 recipe.invalid | give timeout inside with"},

	// limits.
	{text: "limits: {tokens: 0, cost_usd: 0, wall_time: 0s, on_exceeded: stop}\nsteps: {a: {uses: a.b}}\n",
		want: "3:18 recipe.invalid\n3:31 recipe.invalid | leave it out for no limit\n3:45 recipe.invalid | leave it out for no limit\n3:62 recipe.invalid | allowed: fail, pause"},
	{text: "limits: {max_parallel: 2, on_exceeded: pause}\nsteps: {a: {uses: a.b, limits: {on_exceeded: fail}}}\n",
		want: "3:40 recipe.invalid | give wall_time, tokens, cost_usd or tool_calls, or leave it out\n4:46 recipe.invalid | give wall_time, tokens, cost_usd or tool_calls, or leave it out", unseen: true},
	{text: "steps:\n  a: {uses: a.b, limits: {max_parallel: 2, max_tokens: 5, cost: 1}}\n  b: {uses: a.b, limits: {cost_usd: -1.5, tokens: many}}\n  c: {uses: a.b, limits: 5}\n",
		want: "4:27 recipe.unknownKey | known here: cost_usd, on_exceeded, tokens, tool_calls, wall_time\n" + `4:44 recipe.unknownKey | did you mean "tokens"?` + "\n" + `4:59 recipe.unknownKey | did you mean "cost_usd"?` +
			"\n5:37 recipe.invalid | leave it out for no limit\n5:51 recipe.wrongType\n6:26 recipe.wrongType"},
	{text: "steps:\n  a: {uses: set, with: 1, limits: {tokens: 1}}\n", want: "4:35 recipe.invalid | they are for steps that call a model or a tool, or have a body"},

	// retrieve.
	{text: "steps:\n  a: {uses: retrieve, with: {text: x, limit: 3}}\n  b: {uses: retrieve, with: {query: [x], top_k: 101}}\n  c: {uses: retrieve, with: {query: x, top_k: 0}, idempotency_key: k}\n",
		want: "4:29 recipe.missingKey\n" + `4:30 recipe.unknownKey | did you mean "query"?` + "\n" + `4:39 recipe.unknownKey | did you mean "top_k"?` +
			"\n5:37 recipe.wrongType\n5:49 recipe.invalid\n6:47 recipe.invalid\n6:68 recipe.invalid | it is for steps that call a tool"},
	{text: "steps:\n  a: {uses: retrieve, with: {query: \"\"}}\n", want: "4:37 recipe.invalid", unseen: true},
}

func TestControlRejects(t *testing.T) {
	s, err := schema.Compile(recipe.Schema())
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range rejectedControl {
		r, err := recipe.Parse("f", []byte(head+tt.text))
		if diff := cmp.Diff(strings.Split(tt.want, "\n"), findings(t, err)); diff != "" {
			t.Errorf("Parse(%s) (-want +got):\n%s%v", tt.text, diff, err)
		}
		if _, err := r.Definition(); err == nil {
			t.Errorf("%s has a definition", tt.text)
		}
		if seen := s.Check(decoded(t, head+tt.text)) != nil; seen == tt.unseen {
			t.Errorf("%s: the schema refuses it: %v", tt.text, seen)
		}
	}
}

const control = `apiVersion: braise/v1
name: x
limits: {tokens: 200000, cost_usd: 2.5, wall_time: 30m, max_parallel: 8, on_exceeded: pause}
channels: {mail: queue, state: value, news: topic}
steps:
  draft:
    uses: loop
    limits: {tokens: 5, cost_usd: 1, wall_time: 1m, on_exceeded: fail}
    with:
      ref: g
      inputs: {a: 1}
      next: {a: "${{ last }}"}
      until: last > 3
      max_iterations: 5
      on_error: continue
      on_limit: fail
  poll:
    uses: loop
    with: {steps: {look: {uses: a.look}}, output: 7, max_iterations: 1000, wait: 5m}
  both:
    uses: fork
    with:
      mode: settle
      max_parallel: 2
      branches:
        left: {steps: {ask: {uses: a.left}}, output: 8}
        right: {steps: {ask: {uses: a.right}}}
        none: {steps: {}, output: 9}
  bare: {uses: fork, with: {branches: {only: {ref: g}}}}
  route:
    uses: switch
    with:
      cases:
        - {name: small, when: inputs.n < 3, steps: {q: {uses: a.q}}}
        - {name: large, when: true, ref: g, inputs: {a: 2}}
      default: {steps: {}, output: 10}
  out: {uses: send, with: {channel: mail, value: [1]}}
  in: {uses: receive, with: {channel: mail, timeout: 5m}}
  try: {uses: receive, with: {channel: state, on_empty: {set: null}}}
  now: {uses: receive, with: {channel: state, on_empty: fail}}
  docs: {uses: retrieve, with: {query: "${{ inputs.q }}", top_k: 3}}
  few: {uses: retrieve, with: {query: why}}
`

func loadControl(t *testing.T, text string) *recipe.Recipe {
	t.Helper()
	r, err := recipe.Load(files(map[string]string{"f": text, "g": "steps: {z: {uses: set, with: 1}}\ninputs: {a: integer}\n"}), "f")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestControl(t *testing.T) {
	r := loadControl(t, control)
	g := r.Steps[0].Loop.Body.Recipe
	if g == nil || g.Steps[0].ID != "z" {
		t.Fatalf("the body of draft is %+v", g)
	}
	scalar := func(line, column int, v any) *recipe.Value {
		offset := 0
		if s, ok := v.(string); ok && strings.HasPrefix(s, "${{") { // in quotes
			offset = 1
		}
		return &recipe.Value{Pos: at(line, column), Offset: offset, Scalar: v}
	}
	one := func(line, column int, key string, v *recipe.Value) *recipe.Value {
		return &recipe.Value{Pos: at(line, column), Offset: -1, IsMap: true, Map: []recipe.Field{{Key: key, Pos: at(line, column+1), Value: v}}}
	}
	name := func(line, column int, text string) recipe.Name { return recipe.Name{Text: text, Pos: at(line, column)} }
	tool := func(line, column int, id, uses string) []recipe.Step {
		return []recipe.Step{{ID: id, Pos: at(line, column), Uses: name(line, column+len(id)+9, uses)}}
	}
	want := []recipe.Step{{
		ID: "draft", Pos: at(6, 3), Uses: name(7, 11, "loop"),
		Limits: &recipe.Limits{Pos: at(8, 13), Tokens: 5, CostUSD: 1, WallTime: time.Minute},
		Loop: &recipe.Loop{
			Pos:   at(10, 7),
			Body:  &recipe.Body{Pos: at(10, 7), Ref: name(10, 12, "g"), Recipe: g, Inputs: one(11, 15, "a", scalar(11, 19, int64(1)))},
			Until: recipe.Condition{Text: "last > 3", Pos: at(13, 14)}, MaxIterations: 5,
			Next: one(12, 13, "a", scalar(12, 17, "${{ last }}")), Continue: true, FailAtLimit: true,
		},
	}, {
		ID: "poll", Pos: at(17, 3), Uses: name(18, 11, "loop"),
		Loop: &recipe.Loop{Pos: at(19, 11), Body: &recipe.Body{Pos: at(19, 11), Steps: tool(19, 20, "look", "a.look"), Output: scalar(19, 51, int64(7))}, Wait: scalar(19, 82, "5m"), MaxIterations: 1000},
	}, {
		ID: "both", Pos: at(20, 3), Uses: name(21, 11, "fork"),
		Fork: &recipe.Fork{Pos: at(23, 7), Mode: "settle", MaxParallel: 2, Branches: []recipe.Branch{
			{Name: "left", Pos: at(26, 9), Body: &recipe.Body{Pos: at(26, 15), Steps: tool(26, 24, "ask", "a.left"), Output: scalar(26, 54, int64(8))}},
			{Name: "right", Pos: at(27, 9), Body: &recipe.Body{Pos: at(27, 16), Steps: tool(27, 25, "ask", "a.right")}},
			{Name: "none", Pos: at(28, 9), Body: &recipe.Body{Pos: at(28, 15), Steps: []recipe.Step{}, Output: scalar(28, 35, int64(9))}},
		}},
	}, {
		ID: "bare", Pos: at(29, 3), Uses: name(29, 16, "fork"),
		Fork: &recipe.Fork{Pos: at(29, 28), Mode: "all", Branches: []recipe.Branch{
			{Name: "only", Pos: at(29, 40), Body: &recipe.Body{Pos: at(29, 46), Ref: name(29, 52, "g"), Recipe: g}},
		}},
	}, {
		ID: "route", Pos: at(30, 3), Uses: name(31, 11, "switch"),
		Switch: &recipe.Switch{
			Pos: at(33, 7),
			Cases: []recipe.Case{
				{Name: name(34, 18, "small"), When: recipe.Condition{Text: "inputs.n < 3", Pos: at(34, 31)},
					Body: &recipe.Body{Pos: at(34, 11), Steps: tool(34, 53, "q", "a.q")}},
				{Name: name(35, 18, "large"), When: recipe.Condition{Text: "true", Pos: at(35, 31)},
					Body: &recipe.Body{Pos: at(35, 11), Ref: name(35, 42, "g"), Recipe: g, Inputs: one(35, 53, "a", scalar(35, 57, int64(2)))}},
			},
			Default: &recipe.Body{Pos: at(36, 16), Steps: []recipe.Step{}, Output: scalar(36, 36, int64(10))},
		},
	}, {
		ID: "out", Pos: at(37, 3), Uses: name(37, 15, "send"),
		Send: &recipe.Send{Pos: at(37, 27), Channel: name(37, 37, "mail"), Value: &recipe.Value{Pos: at(37, 50), Offset: -1, IsList: true, List: []*recipe.Value{scalar(37, 51, int64(1))}}},
	}, {
		ID: "in", Pos: at(38, 3), Uses: name(38, 14, "receive"),
		Receive: &recipe.Receive{Pos: at(38, 29), Channel: name(38, 39, "mail"), Timeout: 5 * time.Minute},
	}, {
		ID: "try", Pos: at(39, 3), Uses: name(39, 15, "receive"),
		Receive: &recipe.Receive{Pos: at(39, 30), Channel: name(39, 40, "state"), OnEmpty: recipe.OnEmpty{Set: scalar(39, 63, nil)}},
	}, {
		ID: "now", Pos: at(40, 3), Uses: name(40, 15, "receive"),
		Receive: &recipe.Receive{Pos: at(40, 30), Channel: name(40, 40, "state"), OnEmpty: recipe.OnEmpty{Fail: true}},
	}, {
		ID: "docs", Pos: at(41, 3), Uses: name(41, 16, "retrieve"),
		Retrieve: &recipe.Retrieve{Pos: at(41, 32), Query: scalar(41, 40, "${{ inputs.q }}"), TopK: 3},
	}, {
		ID: "few", Pos: at(42, 3), Uses: name(42, 15, "retrieve"),
		Retrieve: &recipe.Retrieve{Pos: at(42, 31), Query: scalar(42, 39, "why"), TopK: 5},
	}}
	if diff := cmp.Diff(want, r.Steps, cmp.Comparer(func(a, b *recipe.Recipe) bool { return a == b })); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	wantTop := []any{
		recipe.Limits{Pos: at(3, 9), WallTime: 30 * time.Minute, MaxParallel: 8, Tokens: 200_000, CostUSD: 2.5, Pause: true},
		[]recipe.Channel{{Name: "mail", Pos: at(4, 12), Kind: "queue"}, {Name: "state", Pos: at(4, 25), Kind: "value"}, {Name: "news", Pos: at(4, 39), Kind: "topic"}},
	}
	if diff := cmp.Diff(wantTop, []any{r.Limits, r.Channels}); diff != "" {
		t.Errorf("top (-want +got):\n%s", diff)
	}
	var warnings []string
	for _, d := range r.Diagnostics {
		warnings = append(warnings, print(d)+": "+d.Message)
	}
	wantWarnings := []string{`4:25 recipe.invalid | the step waits until something outside the recipe sends to it: no step sends to channel "state", and one on line 39 receives from it`}
	if diff := cmp.Diff(wantWarnings, warnings); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
	s, err := schema.Compile(recipe.Schema())
	if err != nil {
		t.Fatal(err)
	}
	if problems := s.Check(decoded(t, control)); problems != nil {
		t.Errorf("the schema refuses it: %s", schema.Describe(problems))
	}
	d, err := r.Definition()
	if err != nil {
		t.Fatal(err)
	}
	again, err := recipe.FromDefinition(d)
	if err != nil {
		t.Fatal(err)
	}
	sameRecipe(t, r, again)
	text, err := recipe.Format("f", []byte(control))
	if err != nil || !strings.Contains(string(text), "limits: {wall_time: 1m, tokens: 5, cost_usd: 1, on_exceeded: fail}") {
		t.Errorf("Format: got %s, %v", text, err)
	}
	if formatted := loadControl(t, string(text)); formatted.Digest != r.Digest {
		t.Error("Format: got another digest")
	}
}

func TestBodies(t *testing.T) {
	var got []string
	steps := append(loadControl(t, control).Steps, recipe.Step{ID: "sub", Body: &recipe.Body{}})
	for i := range steps {
		for name, b := range steps[i].Bodies() {
			got = append(got, fmt.Sprintf("%s %s %d %s", steps[i].ID, name, len(b.Steps), b.Ref.Text))
		}
		for range steps[i].Bodies() {
			break
		}
	}
	want := []string{"draft  0 g", "poll  1 ", "both left 1 ", "both right 1 ", "both none 0 ", "bare only 0 g", "route small 1 ", "route large 0 g", "route default 0 ", "sub  0 "}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestControlDigests changes one thing at a time, each of which makes another digest.
func TestControlDigests(t *testing.T) {
	load := func(text string) (*recipe.Recipe, map[string]string) {
		t.Helper()
		r := loadControl(t, text)
		steps, err := r.StepDigests()
		if err != nil {
			t.Fatal(err)
		}
		return r, steps
	}
	base, baseSteps := load(control)
	for _, path := range []string{"draft/z", "poll/look", "both/left/ask", "both/right/ask", "bare/only/z", "route/small/q", "route/large/z"} {
		if baseSteps[path] == "" {
			t.Errorf("step %s has no digest", path)
		}
	}
	if len(baseSteps) != 11+7+1 {
		t.Errorf("got digests of %d steps, want 19", len(baseSteps))
	}
	for _, tt := range []struct{ from, to, steps string }{
		{"200000", "200001", ""},
		{"2.5", "2.25", ""},
		{"pause", "fail", ""},
		{"news: topic", "news: queue", ""},
		{"mail: queue", "mail: value", "in out"},
		{"tokens: 5", "tokens: 6", "draft"},
		{"cost_usd: 1,", "cost_usd: 1.5,", "draft"},
		{"on_exceeded: fail", "on_exceeded: pause", "draft"},
		{"{a: 1}", "{a: 2}", "draft"},
		{"${{ last }}", "${{ last + 1 }}", "draft"},
		{"last > 3", "last > 4", "draft"},
		{"max_iterations: 5", "max_iterations: 6", "draft"},
		{"on_error: continue", "on_error: fail", "draft"},
		{"      on_limit: fail\n", "", "draft"},
		{"output: 7", "output: 8", "poll"},
		{"wait: 5m", "wait: 6m", "poll/.wait"},
		{", wait: 5m", "", "poll poll/.wait"},
		{"a.look", "a.see", "poll/look"},
		{"settle", "all", "both"},
		{"max_parallel: 2", "max_parallel: 3", "both"},
		{"output: 8", "output: 9", "both"},
		{"a.left", "a.wrong", "both/left/ask"},
		{"{branches: {only", "{mode: race, branches: {only", "bare"},
		{"inputs.n < 3", "inputs.n < 4", "route"},
		{"{a: 2}", "{a: 3}", "route"},
		{"default: {steps: {}, output: 10}", "default: {steps: {}, output: 11}", "route"},
		{"      default: {steps: {}, output: 10}\n", "", "route"},
		{"value: [1]", "value: [2]", "out"},
		{"timeout: 5m", "timeout: 6m", "in"},
		{"{set: null}", "fail", "try"},
		{"on_empty: fail", "on_empty: wait", "now"},
		{"inputs.q", "inputs.p", "docs"},
		{"top_k: 3", "top_k: 4", "docs"},
	} {
		text := strings.Replace(control, tt.from, tt.to, 1)
		if text == control {
			t.Fatalf("%s: nothing to replace", tt.from)
		}
		r, steps := load(text)
		if r.Digest == base.Digest {
			t.Errorf("%s: got the same digest", tt.to)
		}
		var changed []string
		for path, digest := range baseSteps {
			if steps[path] != digest {
				changed = append(changed, path)
			}
		}
		slices.Sort(changed)
		if got := strings.Join(changed, " "); got != tt.steps {
			t.Errorf("%s: got changes of %q, want %q", tt.to, got, tt.steps)
		}
	}
	if same := strings.Replace(control, "query: why", "query: why, top_k: 5", 1); loadControl(t, same).Digest != base.Digest {
		t.Error("a default that is written: got another digest")
	}
}

func TestControlFollowsFiles(t *testing.T) {
	for _, with := range []string{
		"loop, with: {max_iterations: 2, ref: f}",
		"fork, with: {branches: {b: {ref: f}}}",
		"switch, with: {cases: [{name: c, when: true, steps: {}}], default: {ref: f}}",
		"switch, with: {cases: [{name: c, when: true, steps: {b: {uses: recipe, with: {ref: f}}}}]}",
	} {
		column := 20 + strings.Index(with, "f}")
		want := []string{fmt.Sprintf("g:3:%d recipe.recursion", column-1)}
		_, err := recipe.Load(files(map[string]string{
			"f": "steps: {a: {uses: recipe, with: {ref: g}}}\n",
			"g": "steps: {a: {uses: " + with + "}}\n",
		}), "f")
		if diff := cmp.Diff(want, findings(t, err)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", with, diff)
		}
	}
}

// TestControlNesting has the bodies that take the most mappings, as deep as allowed.
func TestControlNesting(t *testing.T) {
	nested := func(before, after string, levels int) string {
		text := head + "steps: "
		for i := range levels {
			text += fmt.Sprintf(before, i)
		}
		return text + "{s: {uses: set, with: 1}}" + strings.Repeat(after, levels) + "\n"
	}
	for _, tt := range []struct{ before, after string }{
		{"{s%d: {uses: loop, with: {max_iterations: 1, steps: ", "}}}"},
		{"{s%d: {uses: fork, with: {branches: {none: {steps: {}}, b: {steps: ", "}}}}}"},
		{"{s%d: {uses: switch, with: {cases: [{name: c, when: true, steps: ", "}]}}}"},
	} {
		if _, err := recipe.Parse("f", []byte(nested(tt.before, tt.after, 64))); err != nil {
			t.Errorf("%s: 64 levels: %v", tt.before, err)
		}
		_, err := recipe.Parse("f", []byte(nested(tt.before, tt.after, 65)))
		if got := findings(t, err); len(got) != 1 || !strings.HasSuffix(got[0], "recipe.recursion") {
			t.Errorf("%s: 65 levels: got %q", tt.before, got)
		}
	}
}

// TestChannelsOfFiles: a file has its own channels, and sends and receives anywhere in it count.
func TestChannelsOfFiles(t *testing.T) {
	_, err := recipe.Load(files(map[string]string{
		"f": "steps: {a: {uses: recipe, with: {ref: g}}}\nchannels: {c: queue}\n",
		"g": "steps: {a: {uses: send, with: {channel: c, value: 1}}}\n",
	}), "f")
	if diff := cmp.Diff([]string{"g:3:41 recipe.unknownName | declare it at the top of the file: channels: {c: queue}"}, findings(t, err)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	r, err := recipe.Parse("f", []byte(head+"channels: {c: queue}\nsteps:\n  r: {uses: receive, with: {channel: c}}\n  f: {uses: fork, with: {branches: {b: {steps: {s: {uses: send, with: {channel: c, value: 1}}}}}}}\n"))
	if err != nil || len(r.Diagnostics) > 0 {
		t.Errorf("got %v, %v, want no word", err, r.Diagnostics)
	}
}

// TestControlHostile: a test that does not end is how it fails.
func TestControlHostile(t *testing.T) {
	fill := func(format string) string {
		var b strings.Builder
		for i := 0; b.Len() < 1<<17; i++ {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for name, text := range map[string]string{
		"branches":          "steps: {a: {uses: fork, with: {branches: {" + fill("b%d: {steps: {}}, ") + "}}}}\n",
		"bad branches":      "steps: {a: {uses: fork, with: {branches: {" + fill("B%d: {}, ") + "}}}}\n",
		"cases of one name": "steps: {a: {uses: switch, with: {cases: [" + fill("{name: a, when: x == %d, steps: {}}, ") + "]}}}\n",
		"channels":          "channels: {" + fill("channel_%d: queue, ") + "}\nsteps: {" + fill("s%[1]d: {uses: send, with: {channel: channel_%[1]d, value: 1}}, ") + "}\n",
		"other channels":    "channels: {" + fill("channel_%d: queue, ") + "}\nsteps: {" + fill("s%[1]d: {uses: receive, with: {channel: x_channel_%[1]d}}, ") + "}\n",
		"silent channels":   "channels: {" + fill("c%d: queue, ") + "}\nsteps: {" + fill("s%[1]d: {uses: receive, with: {channel: c%[1]d}}, ") + "}\n",
		"loops":             "steps: {a: {uses: recipe, foreach: {in: [], as: last}, with: {steps: {" + fill("s%d: {uses: loop, with: {ref: f, max_iterations: 0}}, ") + "}}}}\n",
	} {
		t.Run(name, func(t *testing.T) {
			r, err := recipe.Parse("f", []byte(head+text))
			if got := len(findings(t, err)); got > 1000 {
				t.Errorf("got %d diagnostics", got)
			}
			if _, err := r.StepDigests(); err != nil {
				t.Error(err)
			}
		})
	}
}
