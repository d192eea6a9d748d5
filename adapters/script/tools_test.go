package script_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/builtin"
	"github.com/braise-run/braise/adapters/script"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/seedtest"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// Every mistake in a script for tools has its place and says what to write.
func TestParseToolsMistakes(t *testing.T) {
	const text = `tools:
  lookup: [{result: 1}]
  crm.b: [{}, {result: 1, error: {status: 500}}, {json: 1}]
  crm.c: {turns: [], effect: none, answers: []}
  crm.d: [{error: {}}, {result: 1, expect: {arguments: {}}}, {result: 1, delay: 5}]
  crm.e: 1
matches: [{result: 1}, {args: [1], result: 1}, {tool: x, result: 1}, {step: a, error: {code: 0}}, {step: a, error: {code: 2, status: 500}}]
steps: {a: {result: 1}}
real: [lookup, crm.c, 1]
crm.a: {turns: []}
`
	_, err := script.ParseTools("tools.yaml", []byte(text))
	var wrong *diagnostics.Error
	if !errors.As(err, &wrong) {
		t.Fatal(err)
	}
	var got []string
	for _, d := range wrong.List {
		_, place, _ := strings.Cut(d.String(), ":")
		got = append(got, place)
	}
	want := []string{
		"2:3: \"lookup\" is not a tool [recipe.invalid]\n  hint: the name of a tool contains a dot",
		"3:11: an answer of a tool has either \"result\" or \"error\" [recipe.invalid]\n  hint: a tool that gives nothing has result: null",
		"3:15: an answer of a tool has either \"result\" or \"error\" [recipe.invalid]\n  hint: a tool that gives nothing has result: null",
		"3:50: an answer of a tool has either \"result\" or \"error\" [recipe.invalid]\n  hint: a tool that gives nothing has result: null",
		"3:51: unknown key \"json\" [recipe.unknownKey]\n  hint: did you mean \"result\"?",
		"4:30: \"effect\" may not be \"none\" [recipe.invalid]\n  hint: allowed: read_only, idempotent, external",
		"4:36: unknown key \"answers\" [recipe.unknownKey]\n  hint: known here: description, effect, parameters, turns",
		`5:19: an error needs "status", "message" or "reason" [recipe.missingKey]`,
		"5:45: unknown key \"arguments\" [recipe.unknownKey]\n  hint: did you mean \"args\"?",
		"5:81: \"delay\" must be a duration, not an integer [recipe.wrongType]\n  hint: give it a unit: 5s",
		`6:10: "crm.e" must be a list of answers or a mapping, not an integer [recipe.wrongType]`,
		`7:11: a match needs "tool", "step" or "args" [recipe.missingKey]`,
		`7:31: "args" must be a mapping, not a list [recipe.wrongType]`,
		"7:55: \"x\" is not a tool [recipe.invalid]\n  hint: the name of a tool contains a dot",
		`7:94: "code" must be between 1 and 255 [recipe.invalid]`,
		"7:126: unknown key \"status\" [recipe.unknownKey]\n  hint: known here: code, message",
		`8:12: "a" must be a list, not a mapping [recipe.wrongType]`,
		"9:8: \"lookup\" is not a tool [recipe.invalid]\n  hint: the name of a tool contains a dot",
		"9:8: \"lookup\" is real, and has answers under tools [recipe.invalid]\n  hint: leave one of them out",
		"9:16: \"crm.c\" is real, and has answers under tools [recipe.invalid]\n  hint: leave one of them out",
		"9:23: this must be a string, not an integer [recipe.wrongType]\n  hint: quote it",
		"10:1: unknown key \"crm.a\" [recipe.unknownKey]\n  hint: write tools: {crm.a: […]}",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// Whatever the file holds, there is a script or a list of mistakes.
func FuzzParseTools(target *testing.F) {
	f := seedtest.Fuzz(target)
	for _, text := range []string{"", "[]", "{", "tools: {a.b: null}", "tools: {a.b: [{result: 1}]}\nreal: [c.d]\n",
		"matches: [{tool: a.b, args: {x: '*'}, error: {code: 3}}]\nsteps: {a: [{result: {x: [1]}, delay: 1s}]}\n", "a.b: {turns: []}"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		tools, err := script.ParseTools("tools.yaml", []byte(text))
		if _, wrong := errors.AsType[*diagnostics.Error](err); (tools == nil) != wrong || err != nil && !wrong {
			t.Errorf("%v, %v", tools, err)
		}
		if tools != nil {
			p := tools.Play()
			ctx, cancel := context.WithCancel(t.Context())
			cancel() // no answer is waited for
			for _, tool := range p.Over(nil, nil) {
				_, _ = tool.Call(ctx, json.RawMessage(`{"x": "y"}`))
			}
			_, _ = p.Unanswered(), p.Left()
		}
	})
}

func played(t *testing.T, text string) *script.Played {
	t.Helper()
	tools, err := script.ParseTools("tools.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return tools.Play()
}

// A tool that a script answers for keeps what the other one says of itself, unless the script says otherwise.
func TestToolsOver(t *testing.T) {
	p := played(t, `
matches: [{tool: file.read, args: {path: a}, result: {content: A}}]
tools:
  exec.run: {effect: read_only, description: Runs., turns: [{error: {status: 429, message: slow}}]}
  crm.b: [{result: 1}]
real: [file.list]
`)
	before := builtin.Tools(builtin.Options{})
	after := p.Over(before, []string{"crm.c", "crm.*", "file.list"})
	var names []string
	byName := map[string]runtime.Tool{}
	for _, tool := range after {
		names = append(names, tool.Spec().Name)
		byName[tool.Spec().Name] = tool
	}
	if got := names[len(names)-2:]; len(names) != len(before)+2 || got[0] != "crm.b" || got[1] != "crm.c" {
		t.Errorf("tools %q", names)
	}
	read, exec, write := byName["file.read"].Spec(), byName["exec.run"].Spec(), byName["file.write"].Spec()
	if read.Off != "" || read.Missing != "" || read.Parameters == nil || read.Effect != runtime.ReadOnly {
		t.Errorf("file.read: %+v", read)
	}
	if exec.Description != "Runs." || exec.EffectFor(nil) != runtime.ReadOnly {
		t.Errorf("exec.run: %+v", exec)
	}
	if write.Off == "" {
		t.Error("the host allows file.write")
	}
	out, err := byName["file.read"].Call(t.Context(), json.RawMessage(`{"path": "a", "other": 1}`))
	if string(out) != `{"content":"A"}` || err != nil {
		t.Error(string(out), err)
	}
	if _, err = byName["file.read"].Call(t.Context(), json.RawMessage(`{"path": "b"}`)); err == nil || err.Error() != p.Unanswered() ||
		!strings.Contains(err.Error(), `no answer for call 2 of tool "file.read"`) || !strings.Contains(err.Error(), `hint: the match of tools.yaml:2:11 wants the arguments {"path":"a"}`) {
		t.Errorf("%v, %s", err, p.Unanswered())
	}
	_, err = byName["exec.run"].Call(t.Context(), json.RawMessage(`{}`))
	if f := (*retry.Failure)(nil); !errors.As(err, &f) || f.Reason != retry.RateLimit {
		t.Error(err)
	}
	if want := `tools.yaml:5:11: answer 1 of 1 of tools.crm.b is left over`; p.Left() != want {
		t.Errorf("left over: %s", p.Left())
	}
}

// What a match wants of arguments: a part of them, and * for anything.
func TestMatchedArguments(t *testing.T) {
	const args = `{"url": "https://crm.example.com/a\nb", "n": 7, "list": ["a", {"b": 1, "c": 2}], "none": null}`
	for want, fits := range map[string]bool{
		`{}`: true, `{url: "https://crm.example.com/*"}`: true, `{url: "*example*"}`: true, `{url: "https://crm.example.com"}`: false,
		`{url: "crm.*"}`: false, `{n: "*"}`: true, `{n: 7}`: true, `{n: "7*"}`: false, `{n: 8}`: false, `{list: ["*", {b: 1}]}`: true,
		`{list: [a]}`: false, `{list: [b, {b: 1}]}`: false, `{none: null}`: true, `{none: "*"}`: true, `{gone: null}`: false, `{gone: "*"}`: false,
	} {
		p := played(t, "matches: [{tool: a.b, args: "+want+", result: 1}]")
		_, err := p.Over(nil, nil)[0].Call(t.Context(), json.RawMessage(args))
		if (err == nil) != fits {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// A tool that nobody has is a slip of the pen.
func TestToolsThatNobodyHas(t *testing.T) {
	p := played(t, "matches: [{tool: http.reqest, result: 1}, {tool: crm.any, result: 1}, {tool: http.request, result: 1}]\nreal: [fil.read]\ntools: {own.tool: []}\n")
	p.Over(builtin.Tools(builtin.Options{}), []string{"crm.*"})
	want := `tools.yaml:2:8: there is no tool "fil.read"
  hint: did you mean "file.read"?
tools.yaml:1:18: there is no tool "http.reqest"
  hint: did you mean "http.request"?`
	if p.Left() != want {
		t.Error(p.Left())
	}
}
