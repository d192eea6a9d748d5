package script

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// Played counts the calls of one run that a script answers. It may be used by several goroutines.
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

// Over returns tools in whose place the script answers, but for those that are real, and behind them the other ones
// that it names or that are needed, sorted. A tool that the host does not allow stays so unless it is one of these.
// needed are the tools that a plan requires, names or prefixes such as crm.*; nil: none. Those of state are what the
// store of the run makes them, unless the script names them.
func (p *Played) Over(tools []runtime.Tool, needed []string) []runtime.Tool {
	t := p.script
	missing, known := map[string]bool{}, slices.Clone(needed)
	for _, name := range slices.Concat(needed, slices.Collect(maps.Keys(t.tools))) {
		_, named := t.tools[name]
		missing[name] = !t.real[name] && !strings.HasSuffix(name, "*") && (named || !runtime.IsState(name))
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

// Answer answers a call of a tool with the turn that the arguments or the number of the call select; false: there is
// none.
func (p *Played) Answer(
	ctx context.Context, tool string, args json.RawMessage,
) (result json.RawMessage, ok bool, err error) {
	t, err := p.turn(ctx, tool, args)
	switch {
	case err != nil:
		return nil, true, &retry.Failure{Err: err}
	case t == nil:
		return nil, false, nil
	}
	if err := wait(ctx, t.delay); err != nil {
		return nil, true, err
	}
	if t.failure != nil {
		f := *t.failure
		return nil, true, &f
	}
	return slices.Clone(t.result), true, nil
}

// turn is the answer to a call; nil: there is none.
func (p *Played) turn(ctx context.Context, name string, args json.RawMessage) (*toolTurn, error) {
	got, err := value.Decode(args)
	if err != nil {
		return nil, err
	}
	call, _ := runtime.CallOf(ctx)
	s, step := p.script, call.Step
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls[name]++
	p.byStep[step]++
	for i := range s.matches {
		m := &s.matches[i]
		if (m.tool == "" || m.tool == name) && (m.step == "" || m.step == step) && has(got, m.args) {
			return p.answer(&m.turn, step, got)
		}
	}
	turns, n := s.turns[name], p.calls[name]
	if own, ok := s.steps[step]; ok {
		turns, n = own, p.byStep[step]
	}
	if n > len(turns) {
		return nil, nil
	}
	return p.answer(&turns[n-1], step, got)
}

// missing is the error for a call without an answer.
func (p *Played) missing(ctx context.Context, name string, args json.RawMessage) error {
	call, _ := runtime.CallOf(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	err := fmt.Errorf("%s: there is no answer for call %d of tool %q, call %d by step %q, with the arguments %s"+
		"\n  hint: %s", p.script.file, p.calls[name], name, p.byStep[call.Step], call.Step, args,
		p.script.close(name, call.Step))
	p.problems = append(p.problems, err.Error())
	return &retry.Failure{Err: err}
}

// actor is a tool for which the script answers.
type actor struct {
	*Played
	shown runtime.ToolSpec
}

func (a *actor) Spec() runtime.ToolSpec { return a.shown }

// Call answers as the script does.
func (a *actor) Call(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
	result, ok, err := a.Answer(ctx, a.shown.Name, args)
	if !ok {
		return nil, a.missing(ctx, a.shown.Name, args)
	}
	return result, err
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
func (t *Tools) close(name, step string) string {
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

// has reports whether arguments have all that is wanted; nil: that is nothing.
func has(args, want any) bool { return want == nil || fits(args, want) }

// fits reports whether a value has all that is wanted: an object may have more members, a text with * has anything in
// its place, and the text * is any value. Anything else is equal.
func fits(got, want any) bool {
	switch w := want.(type) {
	case string:
		text, ok := got.(string)
		return w == "*" || ok && (text == w || strings.Contains(w, "*") && wildcard(w).MatchString(text))
	case map[string]any:
		g, ok := got.(map[string]any)
		for key, v := range w {
			if member, given := g[key]; !given || !fits(member, v) {
				return false
			}
		}
		return ok
	case []any:
		g, ok := got.([]any)
		return ok && slices.EqualFunc(g, w, fits)
	}
	return value.Equal(got, want)
}

// wildcard is the pattern for a text in which * stands for anything.
func wildcard(text string) *regexp.Regexp {
	return regexp.MustCompile("(?s)^" + strings.ReplaceAll(regexp.QuoteMeta(text), `\*`, ".*") + "$")
}
