package script_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/builtin"
	"github.com/braise-run/braise/adapters/script"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// Every mistake in a script for tools has its place and says what to write.
func TestParseToolsMistakes(t *testing.T) {
	const text = `lookup: {turns: [{json: 1}]}
crm.a: {}
crm.b: {turns: [{}, {json: 1, error: {status: 500}}, {result: 1}], effect: none}
crm.c: {matches: [{json: 1}, {args: [1], json: 1}], steps: [1]}
crm.d: {turns: [{error: {}}, {json: 1, expect: {arguments: {}}}, {json: 1, delay: 5}]}
crm.e: 1
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
		"1:1: \"lookup\" is no tool [recipe.invalid]\n  hint: the name of a tool contains a dot",
		"2:8: a tool has turns, steps or matches [recipe.missingKey]",
		"3:17: a turn of a tool has either \"json\" or \"error\" [recipe.invalid]\n  hint: a tool that gives nothing has json: null",
		"3:21: a turn of a tool has either \"json\" or \"error\" [recipe.invalid]\n  hint: a tool that gives nothing has json: null",
		"3:54: a turn of a tool has either \"json\" or \"error\" [recipe.invalid]\n  hint: a tool that gives nothing has json: null",
		"3:55: unknown key \"result\" [recipe.unknownKey]\n  hint: did you mean \"json\"?",
		"3:76: \"effect\" may not be \"none\" [recipe.invalid]\n  hint: allowed: read_only, idempotent, external",
		"4:19: a match needs \"args\", \"step\" or both [recipe.missingKey]",
		"4:37: \"args\" must be a mapping, not a list [recipe.wrongType]",
		"4:60: \"steps\" must be a mapping, not a list [recipe.wrongType]",
		"5:25: an error needs \"status\", \"message\" or \"reason\" [recipe.missingKey]",
		"5:49: unknown key \"arguments\" [recipe.unknownKey]\n  hint: did you mean \"args\"?",
		"5:83: \"delay\" must be a duration, not an integer [recipe.wrongType]\n  hint: give it a unit: 5s",
		"6:8: \"crm.e\" must be a mapping, not an integer [recipe.wrongType]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// A tool that a script answers for keeps what the other one says of itself, unless the script says otherwise.
func TestToolsOver(t *testing.T) {
	tools, err := script.ParseTools("tools.yaml", []byte(`
file.read: {matches: [{args: {path: a}, json: {content: A}}]}
exec.run: {effect: read_only, description: Runs., turns: [{error: {status: 429, message: slow}}]}
crm.b: {turns: [{json: 1}]}
crm.a: {turns: [{json: 1}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	before := builtin.Tools(builtin.Options{})
	after := tools.Over(before)
	var names []string
	byName := map[string]runtime.Tool{}
	for _, tool := range after {
		names = append(names, tool.Spec().Name)
		byName[tool.Spec().Name] = tool
	}
	if got := names[len(names)-2:]; len(names) != len(before)+2 || got[0] != "crm.a" || got[1] != "crm.b" {
		t.Errorf("tools %q", names)
	}
	read, exec := byName["file.read"].Spec(), byName["exec.run"].Spec()
	if read.Off != "" || read.Missing != "" || read.Parameters == nil || read.Effect != runtime.ReadOnly {
		t.Errorf("file.read: %+v", read)
	}
	if exec.Description != "Runs." || exec.EffectFor(nil) != runtime.ReadOnly {
		t.Errorf("exec.run: %+v", exec)
	}
	out, err := byName["file.read"].Call(t.Context(), json.RawMessage(`{"path": "a", "other": 1}`))
	if string(out) != `{"content":"A"}` || err != nil {
		t.Error(string(out), err)
	}
	if _, err = byName["file.read"].Call(t.Context(), json.RawMessage(`{"path": "b"}`)); err == nil ||
		!strings.Contains(err.Error(), `no turn left for call 2 of tool "file.read"`) {
		t.Error(err)
	}
	_, err = byName["exec.run"].Call(t.Context(), json.RawMessage(`{}`))
	if f := (*retry.Failure)(nil); !errors.As(err, &f) || f.Reason != retry.RateLimit {
		t.Error(err)
	}
}
