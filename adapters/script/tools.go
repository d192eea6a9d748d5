package script

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/internal/yamlnode"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// Tools are tools that answer from a script, by name:
//
//	crm.lookup:
//	  turns:                       # the n-th call of this tool
//	    - json: {name: Ada}
//	    - error: {status: 503}
//	  steps:                       # the n-th call of this tool by that step
//	    again: [{json: {name: Bo}}]
//	  matches:                     # by arguments; the first that fits, again and again
//	    - args: {id: T-2}
//	      json: null
//
// docs/scripts.md has every key. Tools are immutable; what counts the calls are the tools that Over makes of them.
type Tools map[string]scriptedTool

// scriptedTool is what the file says of one tool.
type scriptedTool struct {
	file    string
	spec    runtime.ToolSpec // of a tool that the runtime does not have; what is zero is not given
	turns   []toolTurn
	steps   map[string][]toolTurn
	matches []toolMatch
	named   map[string]diagnostics.Position // steps, with a place of each
}

// toolTurn is the answer to one call.
type toolTurn struct {
	pos     diagnostics.Position
	expect  any // what the arguments must have; nil: anything
	delay   time.Duration
	failure *retry.Failure
	result  []byte // JSON
}

// toolMatch is a turn for every call that it fits.
type toolMatch struct {
	args any    // what the arguments must have; nil: anything
	step string // "": any
	turn toolTurn
}

// Steps returns the paths of the steps that the scripts name, each with a place of it.
func (t Tools) Steps() map[string]diagnostics.Position {
	all := map[string]diagnostics.Position{}
	for _, name := range slices.Sorted(maps.Keys(t)) {
		maps.Copy(all, t[name].named)
	}
	return all
}

// ParseTools reads a script for tools. filename is for messages only. The error is a *diagnostics.Error that holds
// everything that is wrong, sorted by position.
func ParseTools(filename string, data []byte) (Tools, error) {
	root, found := yamlnode.Parse(filename, data, nil)
	r := reader{yamlnode.Reader{Diagnostics: found}}
	tools := Tools{}
	for _, f := range r.Map(root) {
		if !strings.Contains(f.Key, ".") {
			r.Errorf(f.Pos, diagnostics.CodeInvalidValue, "the name of a tool contains a dot", "%q is no tool", f.Key)
		}
		t := r.tool(f.Value)
		t.file, t.spec.Name = filename, f.Key
		tools[f.Key] = t
	}
	r.Diagnostics.Sort()
	if err := r.Diagnostics.Err(); err != nil {
		return nil, err
	}
	return tools, nil
}

func (r *reader) tool(n *yamlnode.Node) (t scriptedTool) {
	fields := r.Object(n, []string{"description", "parameters", "effect", "turns", "steps", "matches"}, nil)
	if fields == nil {
		return t
	}
	if fields["turns"] == nil && fields["steps"] == nil && fields["matches"] == nil {
		r.Errorf(n.Pos, diagnostics.CodeMissingKey, "", "a tool has turns, steps or matches")
	}
	t.spec.Description = r.String(fields["description"])
	t.spec.Effect = runtime.Effect(r.OneOf(fields["effect"],
		string(runtime.ReadOnly), string(runtime.Idempotent), string(runtime.External)))
	if p := fields["parameters"]; p != nil {
		r.Map(p) // for its message
		t.spec.Parameters = r.json(p)
	}
	t.turns, t.steps = r.toolTurns(fields["turns"]), map[string][]toolTurn{}
	t.named = named(fields)
	for _, f := range r.Map(fields["steps"]) {
		t.steps[f.Key] = r.toolTurns(f.Value)
	}
	for _, item := range r.List(fields["matches"]) {
		keys := r.Object(item, append([]string{"args", "step"}, toolTurnKeys...), toolSynonyms)
		if keys != nil && keys["args"] == nil && keys["step"] == nil {
			r.Errorf(item.Pos, diagnostics.CodeMissingKey, "", `a match needs "args", "step" or both`)
		}
		t.matches = append(t.matches,
			toolMatch{args: r.args(keys["args"]), step: r.Text(keys["step"]), turn: r.toolTurn(item, keys)})
	}
	return t
}

var (
	toolTurnKeys = []string{"expect", "delay", "json", "error"}
	toolSynonyms = map[string]string{"result": "json", "output": "json", "text": "json", "arguments": "args"}
)

func (r *reader) toolTurns(n *yamlnode.Node) []toolTurn {
	var turns []toolTurn
	for _, item := range r.List(n) {
		turns = append(turns, r.toolTurn(item, r.Object(item, toolTurnKeys, toolSynonyms)))
	}
	return turns
}

// toolTurn reads the keys that turns and matches share; n is where they stand.
func (r *reader) toolTurn(n *yamlnode.Node, fields map[string]*yamlnode.Node) toolTurn {
	if fields == nil {
		return toolTurn{}
	}
	if (fields["json"] == nil) == (fields["error"] == nil) {
		r.Errorf(n.Pos, diagnostics.CodeInvalidValue, "a tool that gives nothing has json: null",
			`a turn of a tool has either "json" or "error"`)
	}
	expect := r.Object(fields["expect"], []string{"args"}, toolSynonyms)
	t := toolTurn{pos: n.Pos, delay: r.Duration(fields["delay"]), failure: r.failure(fields["error"]),
		expect: r.args(expect["args"])}
	if result := fields["json"]; result != nil {
		t.result = r.json(result)
	}
	return t
}

// args reads what arguments must have.
func (r *reader) args(n *yamlnode.Node) any {
	if n == nil {
		return nil
	}
	r.Map(n) // for its message
	return n.Decoded()
}

// Over returns tools with those of the script in the place of the same names, or behind the others, sorted. One that
// takes the place of another keeps its specification but for what the script says. The tools that Over returns count
// their calls, so they are for one run.
func (s Tools) Over(tools []runtime.Tool) []runtime.Tool {
	list := make([]runtime.Tool, 0, len(tools)+len(s))
	known := map[string]bool{}
	for _, t := range tools {
		spec := t.Spec()
		if own, ok := s[spec.Name]; ok {
			known[spec.Name] = true
			spec.Missing, spec.Off = "", ""
			spec.Description = cmp.Or(own.spec.Description, spec.Description)
			if own.spec.Parameters != nil {
				spec.Parameters = own.spec.Parameters
			}
			if own.spec.Effect != "" {
				spec.Effect, spec.EffectOf = own.spec.Effect, nil
			}
			t = &actor{scriptedTool: own, shown: spec}
		}
		list = append(list, t)
	}
	for _, name := range slices.Sorted(maps.Keys(s)) {
		if !known[name] {
			list = append(list, &actor{scriptedTool: s[name], shown: s[name].spec})
		}
	}
	return list
}

// actor is a scripted tool of one run.
type actor struct {
	scriptedTool
	shown runtime.ToolSpec

	mu     sync.Mutex
	calls  int
	byStep map[string]int // calls
}

func (a *actor) Spec() runtime.ToolSpec { return a.shown }

// Call answers with the turn that the arguments or the number of the call select.
func (a *actor) Call(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
	t, err := a.turn(ctx, args)
	if err != nil {
		return nil, &retry.Failure{Err: err}
	}
	if err := wait(ctx, t.delay); err != nil {
		return nil, err
	}
	if t.failure != nil {
		f := *t.failure
		return nil, &f
	}
	return slices.Clone(t.result), nil
}

func (a *actor) turn(ctx context.Context, args json.RawMessage) (*toolTurn, error) {
	got, err := value.Decode(args)
	if err != nil {
		return nil, err
	}
	call, _ := runtime.CallOf(ctx)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.byStep == nil {
		a.byStep = map[string]int{}
	}
	a.calls++
	a.byStep[call.Step]++
	for i := range a.matches {
		m := &a.matches[i]
		if (m.step == "" || m.step == call.Step) && has(got, m.args) {
			return &m.turn, m.turn.check(call.Step, got)
		}
	}
	turns, n, part := a.turns, a.calls, "turns"
	if own, ok := a.steps[call.Step]; ok {
		turns, n, part = own, a.byStep[call.Step], "steps."+call.Step
	}
	if n > len(turns) {
		return nil, fmt.Errorf("%s: no turn left for call %d of tool %q, call %d by step %q: %s%s has %d; "+
			"the arguments are %s", a.file, a.calls, a.shown.Name, a.byStep[call.Step], call.Step,
			passedOver(len(a.matches), a.steps, call.Step), part, len(turns), args)
	}
	return &turns[n-1], turns[n-1].check(call.Step, got)
}

// check compares the arguments with what the turn expects.
func (t *toolTurn) check(step string, got any) error {
	if has(got, t.expect) {
		return nil
	}
	want, _ := value.JSON(t.expect)
	args, _ := value.JSON(got)
	return fmt.Errorf("%s: the call of step %q has other arguments than %s: %s", t.pos, step, want, args)
}

// has reports whether a value has all that is wanted: an object may have more members, anything else is equal. A nil
// want is anything.
func has(got, want any) bool {
	w, ok := want.(map[string]any)
	if !ok {
		return want == nil || value.Equal(got, want)
	}
	g, ok := got.(map[string]any)
	for key, v := range w {
		if _, given := g[key]; !given || !(v == nil && g[key] == nil || v != nil && has(g[key], v)) {
			return false
		}
	}
	return ok
}
