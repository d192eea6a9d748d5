package script

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
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

// ParseTools reads a script for tools. filename is for messages only. The error is a *diagnostics.Error that holds
// everything that is wrong, sorted by position.
func ParseTools(filename string, data []byte) (*Tools, error) {
	root, found := yamlnode.Parse(filename, data, nil)
	r := reader{yamlnode.Reader{Diagnostics: found}}
	t := &Tools{file: filename, specs: map[string]runtime.ToolSpec{}, turns: map[string][]toolTurn{},
		steps: map[string][]toolTurn{}, tools: map[string]diagnostics.Position{}, real: map[string]bool{}}
	hints := map[string]string{}
	for _, f := range root.Fields { // what this file had instead of tools
		if strings.Contains(f.Key, ".") {
			hints[f.Key] = "write tools: {" + f.Key + ": […]}"
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
		r.Errorf(at, diagnostics.CodeInvalidValue, "the name of a tool contains a dot", "%q is no tool", name)
		return
	}
	if _, known := t.tools[name]; !known {
		t.tools[name] = at
	}
}

// tool reads what is said of one tool: its answers, or those and what it says of itself.
func (r *reader) tool(n *yamlnode.Node) (spec runtime.ToolSpec, turns []toolTurn) {
	if n != nil && n.Kind == yamlnode.List {
		return spec, r.toolTurns(n)
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
	m := toolMatch{tool: r.Text(keys["tool"]), step: r.Text(keys["step"]), args: r.args(keys["args"]), turn: r.toolTurn(item, keys)}
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
	code := child(n, "code")
	if code == nil {
		return r.failure(n)
	}
	fields := r.Object(n, []string{"code", "message"}, nil)
	f := &retry.Failure{Status: r.Int(code, 1, 255), Sent: true}
	f.Err = errors.New(cmp.Or(r.Text(fields["message"]), fmt.Sprintf("exit code %d", f.Status)))
	return f
}

// child returns the value of a key; nil: there is none.
func child(n *yamlnode.Node, key string) *yamlnode.Node {
	if n == nil {
		return nil
	}
	for _, f := range n.Fields {
		if f.Key == key {
			return f.Value
		}
	}
	return nil
}

// args reads what arguments must have.
func (r *reader) args(n *yamlnode.Node) any {
	if n == nil {
		return nil
	}
	r.Map(n) // for its message
	return n.Decoded()
}

// Played counts the calls of one run that a script answers.
type Played struct {
	script *Tools

	mu       sync.Mutex
	calls    map[string]int // by tool
	byStep   map[string]int
	used     map[diagnostics.Position]bool // places of answers
	problems []string
	known    []string // tools of the host, and those that the recipe needs; sorted
}

// Play returns the script for one run.
func (t *Tools) Play() *Played {
	return &Played{script: t, calls: map[string]int{}, byStep: map[string]int{}, used: map[diagnostics.Position]bool{}}
}

// Specs returns the specifications of tools as the script changes them, and behind them those of the other ones that it
// names, sorted.
func (t *Tools) Specs(specs []runtime.ToolSpec) []runtime.ToolSpec {
	list := make([]runtime.ToolSpec, 0, len(specs)+len(t.tools))
	known := map[string]bool{}
	for _, spec := range specs {
		known[spec.Name] = true
		list = append(list, t.spec(spec))
	}
	for _, name := range slices.Sorted(maps.Keys(t.tools)) {
		if !known[name] && !t.real[name] {
			list = append(list, t.spec(runtime.ToolSpec{Name: name}))
		}
	}
	return list
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

// Over returns tools in whose place the script answers, but for those that are real, and behind them the other ones
// that it names or the recipe needs, sorted. A tool that the host does not allow stays so unless it is one of these.
func (p *Played) Over(tools []runtime.Tool, needed []string) []runtime.Tool {
	t := p.script
	missing, known := map[string]bool{}, slices.Clone(needed)
	for _, name := range slices.Concat(needed, slices.Collect(maps.Keys(t.tools))) {
		missing[name] = !t.real[name] && !strings.HasSuffix(name, "*")
	}
	list := make([]runtime.Tool, 0, len(tools)+len(missing))
	for _, tool := range tools {
		spec := tool.Spec()
		if !t.real[spec.Name] {
			spec = t.spec(spec)
			if missing[spec.Name] {
				spec.Missing, spec.Off = "", ""
			}
			tool = &actor{p, spec}
		}
		delete(missing, spec.Name)
		known = append(known, spec.Name)
		list = append(list, tool)
	}
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		if missing[name] {
			list = append(list, &actor{p, t.spec(runtime.ToolSpec{Name: name})})
		}
	}
	p.known = slices.Sorted(slices.Values(known))
	return list
}

// Unanswered says which calls had no answer; "": none.
func (p *Played) Unanswered() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.problems, "\n")
}

// Left says which answers of steps and tools no call got, and which tools of matches and real nobody has; "": none.
func (p *Played) Left() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []string
	for _, part := range []struct {
		name  string
		turns map[string][]toolTurn
	}{{"steps", p.script.steps}, {"tools", p.script.turns}} {
		for _, name := range slices.Sorted(maps.Keys(part.turns)) {
			turns := part.turns[name]
			if i := slices.IndexFunc(turns, func(t toolTurn) bool { return !p.used[t.pos] }); i >= 0 {
				list = append(list, fmt.Sprintf("%s: answer %d of %d of %s.%s is left over",
					turns[i].pos, i+1, len(turns), part.name, name))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.script.tools)) {
		if _, described := p.script.turns[name]; !described && p.calls[name] == 0 && !p.has(name) {
			text := fmt.Sprintf("%s: there is no tool %q", p.script.tools[name], name)
			if hint := diagnostics.DidYouMean(name, p.known); hint != "" {
				text += "\n  hint: " + hint
			}
			list = append(list, text)
		}
	}
	return strings.Join(list, "\n")
}

// has reports whether the host has a tool, or the recipe needs it, also as one of crm.*.
func (p *Played) has(name string) bool {
	return slices.ContainsFunc(p.known, func(known string) bool {
		prefix, open := strings.CutSuffix(known, "*")
		return known == name || open && strings.HasPrefix(name, prefix)
	})
}

// actor is a tool for which the script answers.
type actor struct {
	*Played
	shown runtime.ToolSpec
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
	s, name, step := a.script, a.shown.Name, call.Step
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls[name]++
	a.byStep[step]++
	for i := range s.matches {
		m := &s.matches[i]
		if (m.tool == "" || m.tool == name) && (m.step == "" || m.step == step) && has(got, m.args) {
			return a.answer(&m.turn, step, got)
		}
	}
	turns, n := s.turns[name], a.calls[name]
	if own, ok := s.steps[step]; ok {
		turns, n = own, a.byStep[step]
	}
	if n <= len(turns) {
		return a.answer(&turns[n-1], step, got)
	}
	err = fmt.Errorf("%s: there is no answer for call %d of tool %q, call %d by step %q, with the arguments %s\n  hint: %s",
		s.file, a.calls[name], name, a.byStep[step], step, args, s.close(name, step, got))
	a.problems = append(a.problems, err.Error())
	return nil, err
}

// answer takes a turn, whose expectation has to fit.
func (p *Played) answer(t *toolTurn, step string, got any) (*toolTurn, error) {
	p.used[t.pos] = true
	if has(got, t.expect) {
		return t, nil
	}
	want, _ := value.JSON(t.expect)
	args, _ := value.JSON(got)
	return nil, fmt.Errorf("%s: the call of step %q has other arguments than %s: %s", t.pos, step, want, args)
}

// close says what comes close to an answer for a call.
func (t *Tools) close(name, step string, got any) string {
	if own, ok := t.steps[step]; ok {
		return fmt.Sprintf("steps.%s has %d answers", step, len(own))
	}
	if own, ok := t.turns[name]; ok && len(own) > 0 {
		return fmt.Sprintf("tools.%s has %d answers", name, len(own))
	}
	for i := range t.matches {
		if m := &t.matches[i]; m.tool == name || m.tool == "" && m.step == step {
			want, _ := value.JSON(m.args)
			text := fmt.Sprintf("the match of %s wants the arguments %s", m.turn.pos, want)
			if m.step != "" && m.step != step {
				text = fmt.Sprintf("the match of %s is for step %q", m.turn.pos, m.step)
			}
			return text
		}
	}
	if near := diagnostics.Suggest(step, slices.Collect(maps.Keys(t.steps))); near != "" {
		return fmt.Sprintf("steps has answers for %q", near)
	}
	return fmt.Sprintf("give it answers under steps or tools, or name it under real: [%s]", name)
}

// has reports whether a value has all that is wanted: an object may have more members, a text with * has anything in
// its place, anything else is equal. A nil want, and the text *, are anything.
func has(got, want any) bool {
	switch w := want.(type) {
	case nil:
		return true
	case string:
		text, ok := got.(string)
		return w == "*" || ok && (text == w || strings.Contains(w, "*") && wildcard(w).MatchString(text))
	case map[string]any:
		g, ok := got.(map[string]any)
		for key, v := range w {
			if _, given := g[key]; !given || !(v == nil && g[key] == nil || v != nil && has(g[key], v)) {
				return false
			}
		}
		return ok
	case []any:
		g, ok := got.([]any)
		for i := range w {
			if !ok || len(g) != len(w) || !(w[i] == nil && g[i] == nil || w[i] != nil && has(g[i], w[i])) {
				return false
			}
		}
		return ok && len(g) == len(w)
	}
	return value.Equal(got, want)
}

// wildcard is the pattern for a text in which * stands for anything.
func wildcard(text string) *regexp.Regexp {
	return regexp.MustCompile("(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(text), `\*`, ".*") + "$")
}
