package script

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/yamlnode"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// Tools is a script that answers tools:
//
//	matches:                       # by tool, step or arguments; the first that fits, again and again
//	  - {tool: http.request, args: {url: "https://crm.example.com/*"}, result: {status: 200}}
//	steps:                         # the n-th call by that step, whatever its tool
//	  pay: [{error: {status: 503}}, {result: {id: 7}}]
//	tools:                         # the n-th call of that tool
//	  crm.lookup: [{result: {name: Ada}}]
//	real: [file.read]              # is called; no other tool is
//
// docs/scripts.md has every key. Tools are immutable; what counts the calls is a [Played] of them.
type Tools struct {
	file    string
	specs   map[string]runtime.ToolSpec // by name, of tools; what is zero is not given
	turns   map[string][]toolTurn       // by tool
	steps   map[string][]toolTurn
	matches []toolMatch
	named   map[string]diagnostics.Position // steps, with a place of each
	tools   map[string]diagnostics.Position // likewise
	real    map[string]bool
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
	tool, step string // "": any
	args       any    // what the arguments must have; nil: anything
	turn       toolTurn
}

// Steps returns the paths of the steps that the script names, each with a place of it.
func (t *Tools) Steps() map[string]diagnostics.Position { return maps.Clone(t.named) }

// RealServer reports whether a tool of an MCP server is really called.
func (t *Tools) RealServer(server string) bool {
	for name := range t.real {
		if strings.HasPrefix(name, "mcp."+server+".") {
			return true
		}
	}
	return false
}

// spec is what a tool says of itself but for what the script says.
func (t *Tools) spec(spec runtime.ToolSpec) runtime.ToolSpec {
	own := t.specs[spec.Name]
	spec.Description = cmp.Or(own.Description, spec.Description)
	if own.Parameters != nil {
		spec.Parameters = own.Parameters
	}
	if own.Effect != "" {
		spec.Effect, spec.EffectOf = own.Effect, nil
	}
	return spec
}

// ParseTools reads a script for tools. filename is for messages only. The error is a *diagnostics.Error that holds
// everything that is wrong, sorted by position.
func ParseTools(filename string, data []byte) (*Tools, error) {
	root, found := yamlnode.Parse(filename, data, nil)
	r := reader{yamlnode.Reader{Diagnostics: found}}
	t := &Tools{file: filename, specs: map[string]runtime.ToolSpec{}, turns: map[string][]toolTurn{},
		steps: map[string][]toolTurn{}, tools: map[string]diagnostics.Position{}, real: map[string]bool{}}
	hints := map[string]string{}
	if root != nil {
		for _, f := range root.Fields { // the name of a tool, which stands under tools
			if strings.Contains(f.Key, ".") {
				hints[f.Key] = "write tools: {" + f.Key + ": […]}"
			}
		}
	}
	fields := r.Object(root, []string{"matches", "steps", "tools", "real"}, hints)
	t.named = named(fields)
	for _, f := range r.Map(fields["tools"]) {
		t.name(&r, f.Key, f.Pos)
		t.specs[f.Key], t.turns[f.Key] = r.tool(f.Value)
	}
	for _, f := range r.Map(fields["steps"]) {
		t.steps[f.Key] = r.toolTurns(f.Value)
	}
	for _, item := range r.List(fields["matches"]) {
		t.matches = append(t.matches, t.match(&r, item))
	}
	for _, item := range r.List(fields["real"]) {
		if name := r.Text(item); name != "" {
			t.name(&r, name, item.Pos)
			if t.real[name] = true; t.turns[name] != nil {
				r.Errorf(item.Pos, diagnostics.CodeInvalidValue, "leave one of them out",
					"%q is real, and has answers under tools", name)
			}
		}
	}
	r.Diagnostics.Sort()
	if err := r.Diagnostics.Err(); err != nil {
		return nil, err
	}
	return t, nil
}

// name notes that the script names a tool.
func (t *Tools) name(r *reader, name string, at diagnostics.Position) {
	if !strings.Contains(name, ".") {
		r.Errorf(at, diagnostics.CodeInvalidValue, "the name of a tool contains a dot", "%q is not a tool", name)
		return
	}
	if _, known := t.tools[name]; !known {
		t.tools[name] = at
	}
}

// tool reads what is said of one tool: its answers, or those and what it says of itself.
func (r *reader) tool(n *yamlnode.Node) (spec runtime.ToolSpec, turns []toolTurn) {
	switch n.Kind {
	case yamlnode.List:
		return spec, r.toolTurns(n)
	case yamlnode.Map, yamlnode.Invalid:
	default:
		r.WrongType(n, "a list of answers or a mapping")
		return spec, nil
	}
	fields := r.Object(n, []string{"description", "parameters", "effect", "turns"}, nil)
	if fields == nil {
		return spec, nil
	}
	spec.Description = r.String(fields["description"])
	spec.Effect = runtime.Effect(r.OneOf(fields["effect"],
		string(runtime.ReadOnly), string(runtime.Idempotent), string(runtime.External)))
	if p := fields["parameters"]; p != nil {
		r.Map(p) // for its message
		spec.Parameters = r.json(p)
	}
	return spec, r.toolTurns(fields["turns"])
}

func (t *Tools) match(r *reader, item *yamlnode.Node) toolMatch {
	keys := r.Object(item, append([]string{"tool", "args", "step"}, toolTurnKeys...), toolSynonyms)
	if keys != nil && keys["tool"] == nil && keys["args"] == nil && keys["step"] == nil {
		r.Errorf(item.Pos, diagnostics.CodeMissingKey, "", `a match needs "tool", "step" or "args"`)
	}
	m := toolMatch{tool: r.Text(keys["tool"]), step: r.Text(keys["step"]), args: r.args(keys["args"]),
		turn: r.toolTurn(item, keys)}
	if m.tool != "" {
		t.name(r, m.tool, keys["tool"].Pos)
	}
	return m
}

var (
	toolTurnKeys = []string{"expect", "delay", "result", "error"}
	toolSynonyms = map[string]string{"json": "result", "output": "result", "text": "result", "arguments": "args"}
)

func (r *reader) toolTurns(n *yamlnode.Node) []toolTurn {
	turns := []toolTurn{}
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
	if (fields["result"] == nil) == (fields["error"] == nil) {
		r.Errorf(n.Pos, diagnostics.CodeInvalidValue, "a tool that gives nothing has result: null",
			`an answer of a tool has either "result" or "error"`)
	}
	expect := r.Object(fields["expect"], []string{"args"}, toolSynonyms)
	t := toolTurn{pos: n.Pos, delay: r.Duration(fields["delay"]), failure: r.toolFailure(fields["error"]),
		expect: r.args(expect["args"])}
	if result := fields["result"]; result != nil {
		t.result = r.json(result)
	}
	return t
}

// toolFailure reads why a tool fails: that of any call, or the exit code of a program.
func (r *reader) toolFailure(n *yamlnode.Node) *retry.Failure {
	code := n.Child("code")
	if code == nil {
		return r.failure(n)
	}
	fields := r.Object(n, []string{"code", "message"}, nil)
	f := &retry.Failure{Status: r.Int(code, 1, 255), Sent: true}
	f.Err = errors.New(cmp.Or(r.Text(fields["message"]), fmt.Sprintf("exit code %d", f.Status)))
	return f
}

// args reads what arguments must have.
func (r *reader) args(n *yamlnode.Node) any {
	if n == nil {
		return nil
	}
	r.Map(n) // for its message
	return n.Decoded()
}
