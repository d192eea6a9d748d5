package workflow_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

const asked = runtest.Head + `inputs: {topic: string}
defaults: {model: fast}
steps:
  ask:
    uses: model
    with: {system: Be brief., prompt: "About ${{ inputs.topic }}", temperature: 0, max_tokens: 100}
output: ${{ steps.ask.output.text }}
`

func TestModelStep(t *testing.T) {
	fast := runtimetest.Texts("short")
	out, err := runtest.Load(t, []byte(asked)).Run(t.Context(), map[string]any{"topic": "Go"}, &runtime.Runtime{
		Models: map[string]runtime.Model{"fast": fast}, NewRunID: func() string { return "run-1" }})
	if err != nil || out.Output != "short" || out.RunID != "run-1" {
		t.Fatalf("got %v, %v, run %q", out.Output, err, out.RunID)
	}
	zero := 0.0
	want := []runtime.Request{{
		Run: "run-1", Step: "ask", Call: 1, StepCall: 1, Model: "fast", Temperature: &zero, MaxTokens: 100,
		Messages: []runtime.Message{{Role: runtime.System, Text: "Be brief."}, {Role: runtime.User, Text: "About Go"}},
	}}
	if diff := cmp.Diff(want, fast.Requests()); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

func TestStructuredAnswer(t *testing.T) {
	tests := []struct {
		name    string
		answers []string
		want    any
		fails   string // in the error
	}{
		{"plain", []string{`{"kind": "bug"}`}, "bug", ""},
		{"in a fence", []string{"Here it is:\n```json\n{\"kind\": \"idea\"}\n```\nAnything else?"}, "idea", ""},
		{"mended", []string{"a bug, I think", `{"kind": "bug"}`}, "bug", ""},
		{"mended at last", []string{`{"kind": "other"}`, `{"kind": "bug", "sure": true}`, `{"kind": "bug"}`}, "bug", ""},
		{"never right", []string{"no", "no", `{"kind": 1}`}, nil, `model "fast" gave no valid answer in 3 turns: it does not match the schema: /kind:`},
		{"two fences are no answer", []string{"```\n{}\n```\n```\n{}\n```", "x", "x"}, nil, "it is not JSON"},
		{"trust 3.2: text after the JSON", []string{`{"kind": "bug"} and so on`}, "bug", ""},
		{"trust 3.2: thoughts before the JSON", []string{`<think>{"kind": "idea"}?</think>{"kind": "bug"}`}, "bug", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fast := runtimetest.Texts(tt.answers...)
			out, err := runtest.Load(t, []byte(runtest.Structured)).Run(t.Context(), nil, &runtime.Runtime{Models: map[string]runtime.Model{"fast": fast}})
			if tt.fails == "" && (err != nil || out.Output != tt.want) {
				t.Fatalf("got %v, %v", out.Output, err)
			}
			if tt.fails != "" {
				if e := out.Failure(); e == nil || e.Code != "answer.invalid" || e.Category != runtime.CategoryModel || !strings.Contains(e.Error(), tt.fails) {
					t.Fatalf("got error %v", err)
				}
			}
			requests := fast.Requests()
			if len(requests) != len(tt.answers) {
				t.Fatalf("%d calls, want %d", len(requests), len(tt.answers))
			}
			calls := 0
			for _, e := range out.Trace {
				if e.Kind == trace.AdapterCall {
					calls++
				}
			}
			if calls != len(tt.answers) {
				t.Errorf("%d adapter.call events, want %d", calls, len(tt.answers))
			}
			for i, r := range requests {
				if r.StepCall != i+1 || r.Call != i+1 || len(r.Messages) != 1+2*i || r.Tools != nil {
					t.Errorf("call %d: %+v", i+1, r)
				}
			}
		})
	}
}

func TestRequirements(t *testing.T) {
	const text = runtest.Head + `requires: {capabilities: [model, memory], tools: [crm.lookup], secrets: [TOKEN]}
steps:
  pure: {uses: set, with: 1}
  other: {uses: crm.lokup, with: {id: x}}
  ask: {uses: model, with: {model: smart, prompt: hi}}
`
	wf := runtest.Load(t, []byte(text))
	want := []string{
		"contract model.missing smart", "contract tool.missing crm.lokup", "requirement tool.missing crm.lookup",
		"requirement secret.missing TOKEN", "requirement capability.missing memory", "requirement capability.missing model",
	}
	gather := func(list diagnostics.List, level diagnostics.Level) []string {
		var got []string
		for _, d := range list {
			if d.Level == level {
				_, rest, _ := strings.Cut(d.Message, `"`)
				name, _, _ := strings.Cut(rest, `"`)
				got = append(got, fmt.Sprintf("%s %s %s", d.Kind, d.Code, name))
			}
		}
		return got
	}

	out, err := wf.Run(t.Context(), nil, &runtime.Runtime{})
	if diff := cmp.Diff(want, gather(out.Diagnostics, diagnostics.Warn)); diff != "" {
		t.Errorf("default: warnings (-want +got):\n%s", diff)
	}
	if e := out.Failure(); e == nil || e.Code != "tool.missing" || e.Step != "other" {
		t.Errorf("default: got %v; the step that needs it fails", err)
	}
	if out.Artefact["pure"] != int64(1) {
		t.Errorf("default: artefact %v; other steps run", out.Artefact)
	}

	strict := &runtime.Runtime{Diagnostics: diagnostics.Strict, Trace: []trace.Sink{&trace.Recorder{}}}
	out, err = wf.Run(t.Context(), nil, strict)
	if diff := cmp.Diff(want, gather(out.Diagnostics, diagnostics.ErrorLevel)); diff != "" {
		t.Errorf("strict: errors (-want +got):\n%s", diff)
	}
	if e := out.Failure(); e == nil || e.Code != "strict.failed" || !strings.HasPrefix(err.Error(), "strict diagnostics failure") {
		t.Errorf("strict: got %v", err)
	}
	var kinds []trace.Kind
	for _, e := range out.Trace {
		kinds = append(kinds, e.Kind)
	}
	if want := []trace.Kind{trace.RunStart, trace.RunError, trace.RunEnd}; !cmp.Equal(kinds, want) || out.Artefact != nil {
		t.Errorf("strict: events %v, artefact %v; nothing may run", kinds, out.Artefact)
	}

	list, err := wf.Check(t.Context(), &runtime.Runtime{Diagnostics: diagnostics.Strict})
	if err != nil || !cmp.Equal(gather(list, diagnostics.ErrorLevel), want) {
		t.Errorf("Check: %v, %v", gather(list, diagnostics.ErrorLevel), err)
	}
}

func TestStrictRaisesWarningsOfTheRecipe(t *testing.T) {
	wf := runtest.Load(t, []byte(runtest.Head+`inputs: {go: {type: boolean, default: true}}
steps:
  a: {uses: set, when: inputs.go, with: {x: 1}}
output: ${{ steps.a.output.x }}
`))
	if out, err := wf.Run(t.Context(), nil, nil); err != nil || out.Output != int64(1) || len(out.Diagnostics) != 1 {
		t.Errorf("default: %v, %v, %v", out.Output, err, out.Diagnostics)
	}
	if out, _ := wf.Run(t.Context(), nil, &runtime.Runtime{Diagnostics: diagnostics.Strict}); out.Status != workflow.StatusError || len(out.Artefact) > 0 {
		t.Errorf("strict: %s, %v", out.Status, out.Artefact)
	}
}

func TestInputs(t *testing.T) {
	wf := runtest.Load(t, []byte(runtest.Head+`inputs:
  name: {type: string, minLength: 2}
  count: {type: integer, default: 3}
  tags: {type: array, items: {type: string}, default: [a]}
steps:
  all: {uses: set, with: "${{ inputs }}"}
output: ${{ steps.all.output }}
`))
	type given struct {
		Name  string `json:"name"`
		Count int    `json:"count"`
	}
	for _, tt := range []struct {
		input any
		want  any
		fails []string // messages of the diagnostics
	}{
		{input: map[string]any{"name": "ab"}, want: map[string]any{"name": "ab", "count": int64(3), "tags": []any{"a"}}},
		{input: given{"abc", 7}, want: map[string]any{"name": "abc", "count": int64(7), "tags": []any{"a"}}},
		{input: nil, fails: []string{`input "name" is missing`}},
		{input: map[string]any{"nam": "x", "count": "many"}, fails: []string{`unknown input "nam"`, `input "name" is missing`, `input "count" does not match its schema: must be an integer, not a string`}},
		{input: "text", fails: []string{"the input must be a map from input names to values, not a string"}},
		{input: map[string]any{"name": func() {}}, fails: []string{"the input is not JSON: /name: func() is not JSON: json: unsupported type: func()"}},
	} {
		out, err := wf.Run(t.Context(), tt.input, nil)
		if tt.fails == nil {
			if diff := cmp.Diff(tt.want, out.Output); err != nil || diff != "" {
				t.Errorf("%v: %v (-want +got):\n%s", tt.input, err, diff)
			}
			continue
		}
		messages := []string{}
		for _, d := range out.Diagnostics {
			messages = append(messages, d.Message)
		}
		if e := out.Failure(); e == nil || e.Code != "input.invalid" || e.Category != runtime.CategoryConfig || !cmp.Equal(tt.fails, messages) {
			t.Errorf("%v: %v, diagnostics %q", tt.input, err, messages)
		}
	}
}

// Inputs above limits.max_run_bytes, as JSON or in memory, are refused before they are copied: a copy of one that holds
// itself 2^64 times would never end.
func TestLargeInputsAreNotCopied(t *testing.T) {
	doubled := any("x")
	for range 64 {
		doubled = []any{doubled, doubled}
	}
	wf := runtest.Load(t, []byte(runtest.Head+"inputs: {text: string, list: {type: array, default: []}}\nsteps:\n  a: {uses: set, with: 1}\n"))
	for _, tt := range []struct {
		most  int // 0: the default
		input map[string]any
		fits  bool
	}{
		{1000, map[string]any{"text": strings.Repeat("x", 60)}, true},
		{1000, map[string]any{"text": strings.Repeat("x", 1000)}, false},
		{2000, map[string]any{"text": "x", "list": make([]any, 100)}, false}, // 500 bytes of JSON
		{0, map[string]any{"text": strings.Repeat("x", 1<<20)}, true},
		{0, map[string]any{"text": strings.Repeat("x", runtime.DefaultMaxRunBytes)}, false},
		{0, map[string]any{"text": "x", "list": doubled}, false},
	} {
		out, err := wf.Run(t.Context(), tt.input, &runtime.Runtime{Limits: runtime.Limits{MaxRunBytes: tt.most}})
		if tt.fits {
			if err != nil {
				t.Errorf("%d: %v", tt.most, err)
			}
			continue
		}
		want := fmt.Sprintf("the inputs take more than the %d bytes of limits.max_run_bytes: give the path of a file instead, and let a step read it",
			runtime.Limits{MaxRunBytes: tt.most}.WithDefaults().MaxRunBytes)
		if e := out.Failure(); e == nil || e.Code != "input.invalid" || e.Error() != want || len(out.Diagnostics) != 1 || out.Diagnostics[0].Message != want {
			t.Errorf("%d: %v", tt.most, err)
		}
	}
}

func TestParseInputs(t *testing.T) {
	wf := runtest.Load(t, []byte(runtest.Head+"inputs: {text: string, n: integer, on: boolean, list: array}\nsteps:\n  a: {uses: set, with: 1}\n"))
	got, err := wf.ParseInputs([]string{"text=1=2", "n=5", "on=true", `list=[1, "x"]`})
	want := map[string]any{"text": "1=2", "n": int64(5), "on": true, "list": []any{int64(1), "x"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for pairs, want := range map[string]string{
		"text":                                  `input "text" is not name=value`,
		"text=a text=b":                         `input "text" is given twice`,
		"txt=a":                                 "unknown input \"txt\" [input.invalid]\n  hint: did you mean \"text\"?",
		"n=many":                                `input "n": `,
		"list=[" + strings.Repeat("{},", 1<<20): `input "list": takes more than 67108864 bytes of memory`,
	} {
		if _, err := wf.ParseInputs(strings.Fields(pairs)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: got %v, want %s", pairs, err, want)
		}
	}
}

func TestSecretsStayInside(t *testing.T) {
	const secret = `s3cret/"value"`
	wf := runtest.Load(t, []byte(runtest.Head+`steps:
  call:
    uses: test.leak
    with: {header: "Bearer ${{ secrets.TOKEN }}", nested: [{key: "${{ secrets.TOKEN }}"}]}
  fail:
    uses: test.fail
    needs: [call]
    on_error: continue
    with: {key: "${{ secrets.TOKEN }}"}
  ask: {uses: model, needs: [call], with: {model: leaky, prompt: hi}}
  explode:
    uses: test.panic
    needs: [fail]
    on_error: continue
    with: {key: "${{ secrets.TOKEN }}"}
output: {error: "${{ steps.fail.error.message }}", text: "${{ steps.ask.output.text }}"}
`))
	var seen []string
	leak := runtime.NewTool(runtime.ToolSpec{Name: "test.leak"}, func(_ context.Context, in struct {
		Header string              `json:"header"`
		Nested []map[string]string `json:"nested"`
	}) (map[string]any, error) {
		seen = append(seen, in.Header, in.Nested[0]["key"])
		return map[string]any{
			"raw": in.Header, "base64": base64.StdEncoding.EncodeToString([]byte(secret)), secret: 1,
			"url": "https://example.com/?key=s3cret%2F%22value%22",
		}, nil
	})
	cause := errors.New("refused")
	fail := runtest.Tool("test.fail", func(_ context.Context, args map[string]any) (any, error) {
		return nil, fmt.Errorf("key %v: %w", args["key"], cause)
	})
	explode := runtest.Tool("test.panic", func(_ context.Context, args map[string]any) (any, error) { panic(args["key"]) })
	leaky := &runtimetest.Model{Func: func(context.Context, *runtime.Request) (*runtime.Response, error) {
		return &runtime.Response{Text: "the key is " + secret}, nil
	}}
	events := &trace.Recorder{}
	rt := &runtime.Runtime{
		Tools: []runtime.Tool{leak, fail, explode}, Models: map[string]runtime.Model{"leaky": leaky},
		Secrets: runtime.SecretMap{"TOKEN": secret}, Trace: []trace.Sink{events},
	}
	out, err := wf.Run(t.Context(), nil, rt)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"Bearer " + secret, secret}; !cmp.Equal(seen, want) {
		t.Errorf("the tool saw %q, want %q", seen, want)
	}
	whole, _ := json.Marshal(out)
	live, _ := json.Marshal(events.Events())
	for _, form := range []string{"s3cret", base64.StdEncoding.EncodeToString([]byte(secret))} {
		if strings.Contains(string(whole)+string(live), form) {
			t.Errorf("%q is in the outcome or the trace:\n%s\n%s", form, whole, live)
		}
	}
	if want := map[string]any{"error": "key ***: refused", "text": "the key is ***"}; !cmp.Equal(out.Output, want) {
		t.Errorf("output %v, want %v", out.Output, want)
	}
}

func TestSecretsAreChecked(t *testing.T) {
	wf := runtest.Load(t, []byte(runtest.Head+"steps:\n  a: {uses: test.echo, with: {key: \"${{ secrets.TOKEN }}\"}}\n"))
	counting := &runtimetest.Tool{ToolSpec: runtime.ToolSpec{Name: "test.echo"}}
	for _, tt := range []struct {
		secrets runtime.Secrets
		code    string
	}{
		{nil, "secret.missing"},
		{runtime.SecretMap{}, "secret.missing"},
		{runtime.SecretMap{"TOKEN": "short"}, "secret.tooShort"},
		{runtest.FailingSecrets{}, "secret.failed"},
	} {
		out, err := wf.Run(t.Context(), nil, &runtime.Runtime{Tools: []runtime.Tool{counting}, Secrets: tt.secrets})
		if e := out.Failure(); e == nil || e.Code != tt.code {
			t.Errorf("%v: got %v, want %s", tt.secrets, err, tt.code)
		}
	}
	if n := len(counting.Calls()); n != 0 {
		t.Errorf("the tool was called %d times", n)
	}
}

func TestFaultyRuntimeRunsNothing(t *testing.T) {
	wf := runtest.Load(t, []byte(runtest.Head+"steps:\n  a: {uses: set, with: 1}\n"))
	out, err := wf.Run(t.Context(), nil, &runtime.Runtime{Tools: []runtime.Tool{nil}})
	if e := out.Failure(); e == nil || e.Code != "runtime.invalid" || out.RunID == "" || len(out.Artefact) > 0 {
		t.Errorf("got %v, %+v", err, out)
	}
}

func TestToolArgumentsAndResults(t *testing.T) {
	raw := func(text string) runtime.Tool { return runtest.RawTool(text) }
	for _, tt := range []struct {
		name string
		tool runtime.Tool
		with string
		want any
		code string
	}{
		{name: "null", tool: raw("null"), with: "{}"},
		{name: "nothing", tool: raw(""), with: "{}"},
		{name: "a big integer", tool: raw("9007199254740993"), with: "{}", want: int64(9007199254740993)},
		{name: "not JSON", tool: raw("{"), with: "{}", code: "tool.failed"},
		{name: "two values", tool: raw("1 2"), with: "{}", code: "tool.failed"},
		{name: "too many bytes", tool: raw(`"` + strings.Repeat("x", 2000) + `"`), with: "{}", code: "output.tooLarge"},
		{name: "a value that is too large", tool: runtest.Tool("test.it", func(context.Context, map[string]any) (any, error) { return strings.Repeat("x", 2000), nil }), with: "{}", code: "output.tooLarge"},
		{name: "what is no JSON value", tool: runtest.Tool("test.it", func(context.Context, map[string]any) (any, error) { return make(chan int), nil }), with: "{}", code: "tool.failed"},
		{name: "Go integers", tool: runtest.Tool("test.it", func(context.Context, map[string]any) (any, error) { return []int{1, 2}, nil }), with: "{}", want: []any{int64(1), int64(2)}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wf := runtest.Load(t, []byte(runtest.Head+"steps:\n  a: {uses: test.it, with: "+tt.with+"}\noutput: ${{ steps.a.output }}\n"))
			out, err := wf.Run(t.Context(), nil, &runtime.Runtime{Tools: []runtime.Tool{tt.tool}, Limits: runtime.Limits{MaxOutputBytes: 1000}})
			code := ""
			if e := out.Failure(); e != nil {
				code = e.Code
			}
			if code != tt.code || !cmp.Equal(tt.want, out.Output) {
				t.Errorf("got %v, %v; want %v, %q", out.Output, err, tt.want, tt.code)
			}
		})
	}
}

// A chain of steps that each double what they read is a few bytes of memory, and more JSON than
// there are atoms.
func TestDoublingEndsSoon(t *testing.T) {
	for _, with := range []string{`{x: "${{ steps.s%d.output }}", y: "${{ steps.s%[2]d.output }}"}`, `"${{ [steps.s%d.output, steps.s%[2]d.output] }}"`} {
		text := runtest.Head + "steps:\n  s0: {uses: set, with: [1]}\n"
		for i := 1; i < 100; i++ {
			text += fmt.Sprintf("  s%d: {uses: set, with: "+with+"}\n", i, i-1)
		}
		out, err := runtest.Load(t, []byte(text)).Run(t.Context(), nil, nil)
		if e := out.Failure(); e == nil || e.Category != runtime.CategoryLimit && e.Category != runtime.CategoryConfig {
			t.Errorf("got %v", err)
		}
	}
}
