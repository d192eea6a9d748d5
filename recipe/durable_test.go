package recipe_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/recipe"
)

const wordHint = "use up to 64 letters, digits and _ . -, beginning with a letter"

// rejectedDurable is like rejected. All but the marked ones are refused by the schema too.
var rejectedDurable = []struct {
	text   string
	want   string
	unseen bool // by the schema
}{
	// retry.
	{text: "steps:\n  a: {uses: a.b, retry: {max_attempts: 0, backoff: 1, max_backoff: 1 day, jitter: ful, mode: sleep, timeout: -1s}}\n",
		want: "4:40 recipe.invalid\n4:52 recipe.wrongType | give it a unit: 1s\n4:68 recipe.invalid | durations look like 500ms, 30s, 5m, 2h, 1d\n" +
			`4:83 recipe.invalid | did you mean "full"?` + "\n4:94 recipe.invalid | allowed: wait, pause\n4:110 recipe.invalid"},
	{text: "steps:\n  a: {uses: a.b, retry: {retry_on: timeout}}\n  b: {uses: a.b, retry: {retry_on: [timeouts, 429, 503]}}\n  c: {uses: a.b, retry: 3}\n",
		want: "4:36 recipe.wrongType | write [timeout]\n" + `5:37 recipe.invalid | did you mean "timeout"?` + "\n5:47 recipe.invalid | write rate_limit for 429, and 5xx for 500 to 599\n5:52 recipe.invalid | write rate_limit for 429, and 5xx for 500 to 599\n6:25 recipe.wrongType | write retry: {max_attempts: 3}"},
	{text: "steps:\n  a: {uses: a.b, retry: {max_attempts: 0, when: [a]}}\n",
		want: "4:40 recipe.invalid\n4:49 recipe.wrongType"},
	{text: "steps:\n  a: {uses: a.b, retry: {max_retries: 2, attempts: 2, delay: 1s, on: [timeout], max_atempts: 2}}\n",
		want: "4:26 recipe.unknownKey | write max_attempts, which counts the first call too\n" + `4:42 recipe.unknownKey | did you mean "max_attempts"?` + "\n" +
			`4:55 recipe.unknownKey | did you mean "backoff"?` + "\n" + `4:66 recipe.unknownKey | did you mean "retry_on"?` + "\n" + `4:81 recipe.unknownKey | did you mean "max_attempts"?`},
	{text: "steps:\n  a: {uses: a.b, retries: 3}\n", want: `4:18 recipe.unknownKey | did you mean "retry"?`},
	{text: "defaults: {retry: {models: {}, tool: {max_attempts: 0}, memory: 1}}\nsteps: {a: {uses: a.b}}\n",
		want: `3:20 recipe.unknownKey | did you mean "model"?` + "\n3:53 recipe.invalid\n3:65 recipe.wrongType"},
	{text: "defaults: {retry: {max_attempts: 2}}\nsteps: {a: {uses: a.b}}\n", want: "3:20 recipe.unknownKey | say for which calls: model, tool, retriever or memory"},

	// Keys that mean nothing for a kind.
	{text: "steps:\n  a: {uses: set, with: 1, retry: {}, idempotency_key: k}\n  b: {uses: model, with: {prompt: x}, idempotency_key: k}\n",
		want: "4:34 recipe.invalid | only calls of models and tools are tried again\n4:55 recipe.invalid | it is for steps that call a tool\n5:56 recipe.invalid | it is for steps that call a tool"},
	{text: "steps:\n  a: {uses: recipe, with: {steps: {b: {uses: a.b}}}, retry: {}, idempotency_key: k}\n",
		want: "4:61 recipe.invalid | give it to the steps inside, or to all in defaults\n4:82 recipe.invalid | give it to the steps inside"},
	{text: "steps:\n  a: {uses: fail, rollback: {uses: a.b}}\n", want: "4:29 recipe.invalid | a step that fails is not undone"},
	{text: "steps:\n  a: {uses: human, with: {prompt: x}, timeout: 1h}\n  b: {uses: wait, with: {event: x}, timeout: 1h}\n",
		want: "4:48 recipe.invalid | give expires inside with\n5:46 recipe.invalid | for an event, give timeout inside with"},

	// rollback and idempotency_key.
	{text: "steps:\n  a: {uses: a.b, rollback: a.c}\n  b: {uses: a.b, rollback: {tool: a.c}}\n  c: {uses: a.b, rollback: {uses: set, with: 1}}\n",
		want: "4:28 recipe.wrongType\n5:28 recipe.missingKey\n" + `5:29 recipe.unknownKey | did you mean "uses"?` +
			"\n6:35 recipe.invalid | the name of a tool contains a dot\n6:46 recipe.wrongType"},
	{text: "steps:\n  a: {uses: a.b, rollback: {uses: undo}}\n  b: {uses: a.b, rollback: {uses: a. b}}\n  c: {uses: a.b, undo: {}}\n",
		want: "4:35 recipe.invalid | the name of a tool contains a dot\n5:35 recipe.invalid | the name of a tool contains a dot\n" + `6:18 recipe.unknownKey | did you mean "rollback"?`},
	{text: "steps:\n  a: {uses: a.b, rollback: {uses: \"${{ x }}\"}}\n", want: "4:35 recipe.invalid", unseen: true},
	{text: "steps:\n  a: {uses: a.b, idempotency_key: 1}\n  b: {uses: a.b, idempotency_key: {a: 1}}\n", want: "4:35 recipe.wrongType | quote it\n5:35 recipe.wrongType"},
	{text: "steps:\n  a: {uses: a.b, idempotency_key: \"\"}\n", want: "4:35 recipe.invalid", unseen: true},

	// human.
	{text: "steps:\n  a: {uses: human}\n  b: {uses: human, with: {}}\n  c: {uses: human, with: x}\n  d: {uses: human, prompt: x}\n",
		want: "4:3 recipe.missingKey\n5:26 recipe.missingKey\n6:26 recipe.wrongType\n7:3 recipe.missingKey\n7:20 recipe.unknownKey | put prompt inside with"},
	{text: "steps:\n  a: {uses: human, with: {prompt: 1}}\n  b: {uses: human, with: {prompt: {fil: x}}}\n",
		want: "4:35 recipe.wrongType | quote it\n5:35 recipe.missingKey\n" + `5:36 recipe.unknownKey | did you mean "file"?`},
	{text: "steps:\n  a: {uses: human, with: {prompt: \"\"}}\n", want: "4:35 recipe.invalid", unseen: true},
	{text: "steps:\n  a: {uses: human, with: {question: x, options: [a], timeout: 1h}}\n",
		want: "4:26 recipe.missingKey\n" + `4:27 recipe.unknownKey | did you mean "prompt"?` + "\n" + `4:40 recipe.unknownKey | did you mean "decisions"?` + "\n" + `4:54 recipe.unknownKey | did you mean "expires"?`},
	{text: "steps:\n  a: {uses: human, with: {prompt: x, decisions: []}}\n  b: {uses: human, with: {prompt: x, decisions: yes}}\n  c: {uses: human, with: {prompt: x, decisions: [a, b, a, c d, 1]}}\n",
		want: "4:49 recipe.invalid\n5:49 recipe.wrongType | write [yes]\n6:56 recipe.duplicateName\n6:59 recipe.invalid | " + wordHint + "\n6:64 recipe.wrongType | quote it"},
	{text: "steps:\n  a: {uses: human, with: {prompt: x, form: string}}\n  b: {uses: human, with: {prompt: x, form: {properties: {}}}}\n  c: {uses: human, with: {prompt: x, form: {type: array}}}\n",
		want: "4:44 recipe.wrongType\n5:44 recipe.badSchema | write type: object, and the fields under properties\n6:51 recipe.badSchema | write type: object, and the fields under properties"},
	{text: "steps:\n  a: {uses: human, with: {prompt: x, form: {type: object, properties: {n: {type: int}}}}}\n", want: "4:82 recipe.badSchema", unseen: true},
	{text: "steps:\n  a: {uses: human, with: {prompt: x, expires: 72, on_expire: rejct}}\n",
		want: "4:47 recipe.wrongType | give it a unit: 72s\n" + `4:62 recipe.invalid | did you mean "reject"?`},
	{text: "steps:\n  a: {uses: human, with: {prompt: x, on_expire: fail}}\n", want: "4:49 recipe.invalid | say when with expires, or leave it out"},
	{text: "steps:\n  a: {uses: human, with: {prompt: x, expires: 0s, on_expire: {sett: 1}}}\n",
		want: "4:47 recipe.invalid | leave it out for no limit\n4:62 recipe.missingKey\n" + `4:63 recipe.unknownKey | did you mean "set"?`},
	{text: "steps:\n  a: {uses: human, with: {prompt: x, decisions: [yes, no], expires: 1h, on_expire: reject}}\n",
		want: "4:84 recipe.unknownName | add it to decisions, or write {set: value}", unseen: true},
	{text: "steps:\n  a: {uses: human, with: {prompt: x, to: support, four_eyes: yes}}\n  b: {uses: human, with: {prompt: x, to: []}}\n  c: {uses: human, with: {prompt: x, to: [a, b, a, 1]}}\n",
		want: "4:42 recipe.wrongType | write [support]\n4:62 recipe.wrongType\n5:42 recipe.invalid | leave it out if anybody may answer\n6:49 recipe.duplicateName\n6:52 recipe.wrongType | quote it"},
	{text: "steps:\n  a: {uses: human, with: {prompt: x, to: [\"\"], assignees: [a]}}\n",
		want: "4:43 recipe.invalid\n" + `4:48 recipe.unknownKey | did you mean "to"?`},
	{text: "steps: {a: {uses: set, with: 1}}\nagents: {a: {model: m, approval_to: support}, b: {model: m, approvers: [a]}}\n",
		want: "4:37 recipe.wrongType | write [support]\n" + `4:61 recipe.unknownKey | did you mean "approval_to"?`},
	{text: "steps:\n  a: {uses: human, with: {prompt: x, answer: string}}\n  b: {uses: human, with: {prompt: x, answer: {type: int}}}\n  c: {uses: human, with: {prompt: x, answer: word}}\n  d: {uses: human, with: {prompt: x, answer: \"${{ inputs.x }}\"}}\n",
		want: "5:53 recipe.badSchema\n6:46 recipe.invalid\n7:46 recipe.invalid"},
	{text: "steps:\n  a: {uses: human, with: {prompt: x, answer: {type: string}, decisions: [a]}}\n", want: "4:73 recipe.invalid | put what is asked for into the schema of answer, or leave answer out"},
	{text: "steps:\n  a: {uses: human, with: {prompt: x, answer: {type: string}, expires: 1h, on_expire: reject}}\n", want: "4:86 recipe.invalid | write fail or {set: value}"},

	// wait.
	{text: "steps:\n  a: {uses: wait}\n  b: {uses: wait, with: {}}\n  c: {uses: wait, with: 30s}\n",
		want: "4:3 recipe.missingKey\n5:25 recipe.missingKey\n6:25 recipe.wrongType"},
	{text: "steps:\n  a: {uses: wait, with: {event: x, at: \"2026-01-31T09:00:00Z\", duration: 1s}}\n",
		want: "4:40 recipe.invalid | use a step for each\n4:74 recipe.invalid | use a step for each"},
	{text: "steps:\n  a: {uses: wait, with: {duration: 30}}\n  b: {uses: wait, with: {duration: soon}}\n  c: {uses: wait, with: {duration: 1s, timeout: 1s}}\n",
		want: "4:36 recipe.wrongType | give it a unit: 30s\n5:36 recipe.invalid | durations look like 500ms, 30s, 5m, 2h, 1d\n6:49 recipe.invalid | leave it out"},
	{text: "steps:\n  a: {uses: wait, with: {at: 2026-01-31}}\n  b: {uses: wait, with: {at: 2026-01-31T09:00:00}}\n  c: {uses: wait, with: {at: 9}}\n",
		want: "4:30 recipe.invalid | times look like 2026-01-31T09:00:00Z\n5:30 recipe.invalid | times look like 2026-01-31T09:00:00Z\n6:30 recipe.wrongType | quote it"},
	{text: "steps:\n  a: {uses: wait, with: {at: 2026-02-30T09:00:00Z}}\n", want: "4:30 recipe.invalid | times look like 2026-01-31T09:00:00Z", unseen: true},
	{text: "steps:\n  a: {uses: wait, with: {event: order paid, timeout: 0s}}\n", want: "4:33 recipe.invalid | " + wordHint + "\n4:54 recipe.invalid | leave it out for no limit"},
	{text: "steps:\n  a: {uses: wait, with: {event: \"${{ inputs.e }}\"}}\n", want: "4:33 recipe.invalid"},
	{text: "steps:\n  a: {uses: wait, with: {seconds: 3, until: x, signal: y}}\n",
		want: "4:25 recipe.missingKey\n4:26 recipe.unknownKey | write duration, with a unit: 30s\n" + `4:38 recipe.unknownKey | did you mean "at"?` + "\n" + `4:48 recipe.unknownKey | did you mean "event"?`},
}

func TestDurableRejects(t *testing.T) {
	s, err := schema.Compile(recipe.Schema())
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range rejectedDurable {
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

const durable = `apiVersion: braise/v1
name: x
defaults: {retry: {tool: {retry_on: []}, model: {max_attempts: 3, backoff: 1s, max_backoff: 30s, jitter: full, retry_on: [rate_limit, 5xx]}}}
steps:
  send:
    uses: a.send
    retry: {backoff: 0s, mode: pause, timeout: 10s, jitter: none}
    rollback: {uses: a.retract, with: {id: "${{ steps.send.output.id }}"}}
    idempotency_key: ${{ inputs.order }}
  ask:
    uses: human
    rollback: {uses: a.forget}
    with:
      prompt: Send ${{ inputs.order }}?
      show: [1]
      decisions: [approve, reject, ask-again]
      form: {type: object}
      expires: 72h
      on_expire: reject
  bare: {uses: human, with: {prompt: {file: p.md}, expires: 1h, on_expire: {set: null}}}
  nap: {uses: wait, with: {duration: 0s}}
  later: {uses: wait, with: {at: "2026-01-31T09:00:00+01:00"}}
  then: {uses: wait, with: {duration: "${{ inputs.d }}"}}
  paid: {uses: wait, with: {event: order.paid, timeout: 24h}}
  sure: {uses: human, with: {prompt: Sure?, to: [support, "${{ inputs.boss }}"], four_eyes: true}}
  team: {uses: human, with: {prompt: Sure?, to: "${{ inputs.team }}"}}
  name: {uses: human, with: {prompt: Who?, answer: {type: string}}}
`

func TestDurable(t *testing.T) {
	fsys := files(map[string]string{"f": durable, "p.md": "Well?"})
	r, err := recipe.Load(fsys, "f")
	if err != nil {
		t.Fatal(err)
	}
	str := func(line, column, offset int, text string) *recipe.Value {
		return &recipe.Value{Pos: at(line, column), Offset: offset, Scalar: text}
	}
	name := func(line, column int, text string) recipe.Name { return recipe.Name{Text: text, Pos: at(line, column)} }
	tool := func(line, column int, text string) recipe.Name { return name(line, column, text) }
	wantDefaults := recipe.Defaults{Retry: map[string]*recipe.Retry{
		"tool":  {Pos: at(3, 26), RetryOn: []string{}},
		"model": {Pos: at(3, 49), MaxAttempts: 3, Backoff: new(time.Second), MaxBackoff: new(30 * time.Second), Jitter: "full", RetryOn: []string{"rate_limit", "5xx"}},
	}}
	if diff := cmp.Diff(wantDefaults, r.Defaults); diff != "" {
		t.Errorf("defaults (-want +got):\n%s", diff)
	}
	want := []recipe.Step{{
		ID: "send", Pos: at(5, 3), Uses: tool(6, 11, "a.send"),
		Retry: &recipe.Retry{Pos: at(7, 12), Backoff: new(time.Duration), Mode: "pause", Timeout: new(10 * time.Second), Jitter: "none"},
		Rollback: &recipe.Rollback{Pos: at(8, 15), Uses: tool(8, 22, "a.retract"), With: &recipe.Value{Pos: at(8, 39), Offset: -1, IsMap: true,
			Map: []recipe.Field{{Key: "id", Pos: at(8, 40), Value: str(8, 44, 1, "${{ steps.send.output.id }}")}}}},
		IdempotencyKey: str(9, 22, 0, "${{ inputs.order }}"),
	}, {
		ID: "ask", Pos: at(10, 3), Uses: name(11, 11, "human"),
		Rollback: &recipe.Rollback{Pos: at(12, 15), Uses: tool(12, 22, "a.forget")},
		Human: &recipe.Human{
			Pos: at(14, 7), Prompt: str(14, 15, 0, "Send ${{ inputs.order }}?"),
			Show:      &recipe.Value{Pos: at(15, 13), Offset: -1, IsList: true, List: []*recipe.Value{{Pos: at(15, 14), Scalar: int64(1)}}},
			Decisions: []recipe.Name{name(16, 19, "approve"), name(16, 28, "reject"), name(16, 36, "ask-again")},
			Form:      &recipe.Value{Pos: at(17, 13), Offset: -1, IsMap: true, Map: []recipe.Field{{Key: "type", Pos: at(17, 14), Value: str(17, 20, 0, "object")}}},
			FormJSON:  map[string]any{"type": "object"},
			Expires:   72 * time.Hour, OnExpire: recipe.OnExpire{Pos: at(19, 18), Reject: true},
		},
	}, {
		ID: "bare", Pos: at(20, 3), Uses: name(20, 16, "human"),
		Human: &recipe.Human{
			Pos: at(20, 29), Prompt: &recipe.Value{Pos: diagnostics.Position{File: "p.md", Line: 1, Column: 1}, Scalar: "Well?"},
			Expires: time.Hour, OnExpire: recipe.OnExpire{Pos: at(20, 76), Set: &recipe.Value{Pos: at(20, 82)}},
		},
	}, {
		ID: "nap", Pos: at(21, 3), Uses: name(21, 15, "wait"), Wait: &recipe.Wait{Pos: at(21, 27), Duration: str(21, 38, 0, "0s")},
	}, {
		ID: "later", Pos: at(22, 3), Uses: name(22, 17, "wait"), Wait: &recipe.Wait{Pos: at(22, 29), At: str(22, 34, 1, "2026-01-31T09:00:00+01:00")},
	}, {
		ID: "then", Pos: at(23, 3), Uses: name(23, 16, "wait"), Wait: &recipe.Wait{Pos: at(23, 28), Duration: str(23, 39, 1, "${{ inputs.d }}")},
	}, {
		ID: "paid", Pos: at(24, 3), Uses: name(24, 16, "wait"), Wait: &recipe.Wait{Pos: at(24, 28), Event: name(24, 36, "order.paid"), Timeout: 24 * time.Hour},
	}, {
		ID: "sure", Pos: at(25, 3), Uses: name(25, 16, "human"),
		Human: &recipe.Human{Pos: at(25, 29), Prompt: str(25, 38, 0, "Sure?"), FourEyes: true,
			To: &recipe.Value{Pos: at(25, 49), Offset: -1, IsList: true, List: []*recipe.Value{str(25, 50, 0, "support"), str(25, 59, 1, "${{ inputs.boss }}")}}},
	}, {
		ID: "team", Pos: at(26, 3), Uses: name(26, 16, "human"),
		Human: &recipe.Human{Pos: at(26, 29), Prompt: str(26, 38, 0, "Sure?"), To: str(26, 49, 1, "${{ inputs.team }}")},
	}, {
		ID: "name", Pos: at(27, 3), Uses: name(27, 16, "human"),
		Human: &recipe.Human{Pos: at(27, 29), Prompt: str(27, 38, 0, "Who?"), AnswerJSON: map[string]any{"type": "string"},
			Answer: &recipe.Value{Pos: at(27, 52), Offset: -1, IsMap: true, Map: []recipe.Field{{Key: "type", Pos: at(27, 53), Value: str(27, 59, 0, "string")}}}},
	}}
	if diff := cmp.Diff(want, r.Steps); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
	s, err := schema.Compile(recipe.Schema())
	if err != nil {
		t.Fatal(err)
	}
	if problems := s.Check(decoded(t, durable)); problems != nil {
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
	if text, err := recipe.Format("f", []byte(durable)); err != nil || !strings.Contains(string(text), "retry: {backoff: 0s, jitter: none, mode: pause, timeout: 10s}") {
		t.Errorf("Format: got %s, %v", text, err)
	}
}

// TestDurableDigests changes one thing at a time, each of which makes another digest.
func TestDurableDigests(t *testing.T) {
	load := func(text string) (*recipe.Recipe, map[string]string) {
		t.Helper()
		r, err := recipe.Load(files(map[string]string{"f": text, "p.md": "Well?"}), "f")
		if err != nil {
			t.Fatal(err)
		}
		steps, err := r.StepDigests()
		if err != nil {
			t.Fatal(err)
		}
		return r, steps
	}
	base, baseSteps := load(durable)
	for _, tt := range []struct{ from, to, step string }{
		{"retry_on: []", "max_attempts: 1", ""},
		{"max_attempts: 3", "max_attempts: 4", ""},
		{"backoff: 0s", "backoff: 1s", "send"},
		{"{backoff: 0s, mode: pause", "{mode: pause", "send"},
		{"timeout: 10s", "timeout: 11s", "send"},
		{"a.retract", "a.cancel", "send"},
		{"steps.send.output.id", "steps.send.output.key", "send"},
		{"${{ inputs.order }}\n", "${{ inputs.id }}\n", "send"},
		{"show: [1]", "show: [2]", "ask"},
		{", ask-again]", "]", "ask"},
		{"{type: object}", "{type: object, maxProperties: 0}", "ask"},
		{"72h", "71h", "ask"},
		{"on_expire: reject", "on_expire: fail", "ask"},
		{", on_expire: {set: null}", "", "bare"},
		{"{duration: 0s}", "{duration: 1s}", "nap"},
		{"09:00:00+01:00", "08:00:00Z", "later"},
		{"order.paid", "order.sent", "paid"},
		{"timeout: 24h", "timeout: 25h", "paid"},
		{"[support, ", "[", "sure"},
		{", four_eyes: true", "", "sure"},
		{", to: \"${{ inputs.team }}\"", "", "team"},
	} {
		text := strings.Replace(durable, tt.from, tt.to, 1)
		if text == durable {
			t.Fatalf("%s: nothing to replace", tt.from)
		}
		r, steps := load(text)
		if r.Digest == base.Digest {
			t.Errorf("%s: got the same digest", tt.to)
		}
		for path, digest := range baseSteps {
			if changed := steps[path] != digest; changed != (path == tt.step) {
				t.Errorf("%s: the digest of step %s changed: %v", tt.to, path, changed)
			}
		}
	}
}
