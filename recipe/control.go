package recipe

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/yamlnode"
)

// defaultCase is the name of the case of a switch that runs when no other matches.
const defaultCase = "default"

// maxSuggestions limits the number of channels that are compared with an unknown name.
const maxSuggestions = 100

// Bodies yields the bodies of a step of any kind in the order of the file, each with its name: that
// of a branch or a case, default for the default of a switch, "" for the body of a recipe or a loop.
func (s *Step) Bodies() iter.Seq2[string, *Body] {
	return func(yield func(string, *Body) bool) {
		each := func(name string, b *Body) bool { return b == nil || yield(name, b) }
		if !each("", s.Body) || s.Loop != nil && !each("", s.Loop.Body) {
			return
		}
		if s.Fork != nil {
			for _, b := range s.Fork.Branches {
				if !each(b.Name, b.Body) {
					return
				}
			}
		}
		if s.Switch != nil {
			for _, c := range s.Switch.Cases {
				if !each(c.Name.Text, c.Body) {
					return
				}
			}
			each(defaultCase, s.Switch.Default)
		}
	}
}

// WaitID is the id of the wait between two rounds of a loop, poll#1/.wait after the first one. No step that a recipe
// declares has it.
const WaitID = ".wait"

// loop reads a body and how often it runs.
func (w *walker) loop(n *yamlnode.Node, s *scope) *Loop {
	fields := w.object(n, loopObject)
	if fields == nil {
		return nil
	}
	for outer := s; outer != nil; outer = outer.outer {
		if slices.Contains(loopNames, outer.item.Text) {
			w.Errorf(outer.item.Pos, diagnostics.CodeDuplicateName, "choose another name",
				"%q already has a meaning in the loop inside", outer.item.Text)
		}
	}
	over, most := fields["over"], fields["max_iterations"]
	l := &Loop{
		Pos:         n.Pos,
		Body:        w.body(n, fields, &scope{outer: s, loop: true}, false),
		Over:        w.itemsOf(over),
		First:       w.value(fields["first"]),
		Until:       w.condition(fields["until"]),
		Wait:        w.value(fields["wait"]),
		Next:        w.mapping(fields["next"]),
		Continue:    w.word(fields, loopObject, "on_error") == "continue",
		FailAtLimit: w.word(fields, loopObject, "on_limit") == "fail" || over == nil && most == nil,
	}
	l.MaxIterations, l.MaxExpression = w.rounds(most)
	switch as := fields["as"]; {
	case over != nil:
		l.As = w.loopAs(as, over)
	case as != nil:
		w.Errorf(as.Pos, diagnostics.CodeInvalidValue, "give over, a list to go through, or leave it out",
			"%q means nothing without %q", "as", "over")
	}
	if over == nil && most == nil && fields["until"] == nil {
		w.Errorf(n.Pos, diagnostics.CodeMissingKey, "",
			"the key %q is missing, or %q or %q", "max_iterations", "until", "over")
	}
	if wait := fields["wait"]; wait != nil && wait.Kind != yamlnode.String { // a text is checked when it is compiled
		w.Duration(wait)
	}
	if fields["ref"] == nil && fields["steps"] != nil {
		w.exclude(fields["next"], "steps in place read last")
	}
	on := fields["on_limit"]
	switch {
	case on == nil:
	case fields["until"] == nil:
		w.Errorf(on.Pos, diagnostics.CodeInvalidValue, "say with until when the loop is done, or leave it out",
			"%q means nothing without %q", "on_limit", "until")
	case most == nil && over != nil:
		w.Errorf(on.Pos, diagnostics.CodeInvalidValue, "give max_iterations, or leave it out",
			"%q means nothing without %q", "on_limit", "max_iterations")
	}
	return l
}

// rounds reads the most rounds of a loop: a number, or an expression that gives it.
func (w *walker) rounds(n *yamlnode.Node) (int, *Value) {
	switch {
	case n == nil || n.Kind != yamlnode.String:
		return w.Int(n, 1, 1000), nil
	case isTemplate(n):
		return 0, w.value(n)
	}
	w.Errorf(n.Pos, diagnostics.CodeWrongType, fmt.Sprintf("write ${{ %s }}", n.Value),
		"%q must be an integer or an expression in ${{ }}", n.Key)
	return 0, nil
}

// loopAs reads the name of a loop's item. It may hide the item of an outer foreach.
func (w *walker) loopAs(n, over *yamlnode.Node) Name {
	as := w.as(n, over)
	if slices.Contains(loopNames, as.Text) {
		w.Errorf(as.Pos, diagnostics.CodeDuplicateName, "choose another name",
			"%q already has a meaning in expressions of a loop", as.Text)
	}
	return as
}

func (w *walker) fork(n *yamlnode.Node, s *scope) *Fork {
	fields := w.object(n, forkObject)
	if fields == nil {
		return nil
	}
	f := &Fork{Pos: n.Pos, Mode: "all", MaxParallel: w.positive(fields["max_parallel"])}
	if mode := w.word(fields, forkObject, "mode"); mode != "" {
		f.Mode = mode
	}
	w.notEmpty(fields["branches"])
	for _, b := range w.Map(fields["branches"]) {
		w.bodyName(Name{Text: b.Key, Pos: b.Pos}, "branch")
		f.Branches = append(f.Branches, Branch{Name: b.Key, Pos: b.Pos,
			Body: w.body(b.Value, w.object(b.Value, branchObject), s, true)})
	}
	return f
}

// choice reads a switch.
func (w *walker) choice(n *yamlnode.Node, s *scope) *Switch {
	fields := w.object(n, switchObject)
	if fields == nil {
		return nil
	}
	c := &Switch{Pos: n.Pos}
	w.notEmpty(fields["cases"])
	seen := map[string]bool{}
	for _, item := range w.List(fields["cases"]) {
		keys := w.object(item, caseObject)
		if keys == nil {
			continue
		}
		one := Case{When: w.condition(keys["when"]), Body: w.body(item, keys, s, true)}
		if text := w.Text(keys["name"]); text != "" {
			one.Name = Name{Text: text, Pos: keys["name"].Pos}
			w.bodyName(one.Name, "case")
			if seen[text] {
				w.Errorf(one.Name.Pos, diagnostics.CodeDuplicateName, "", "there are two cases with the name %q", text)
			}
			seen[text] = true
		}
		c.Cases = append(c.Cases, one)
	}
	if other := fields[defaultCase]; other != nil {
		c.Default = w.body(other, w.object(other, branchObject), s, true)
	}
	return c
}

// bodyName checks the name of a branch or a case, which becomes part of paths.
func (w *walker) bodyName(name Name, what string) {
	switch {
	case !stepID.MatchString(name.Text):
		w.Errorf(name.Pos, diagnostics.CodeInvalidValue, idHint, "%q cannot be the name of a %s", name.Text, what)
	case what == "case" && name.Text == defaultCase:
		w.Errorf(name.Pos, diagnostics.CodeDuplicateName, "write default beside cases, or choose another name",
			"%q is what runs when no case matches", name.Text)
	}
}

// channels reads the declarations of channels.
func (w *walker) channels(n *yamlnode.Node) []Channel {
	var channels []Channel
	for _, f := range w.Map(n) {
		if !wordPattern.MatchString(f.Key) {
			w.Errorf(f.Pos, diagnostics.CodeInvalidValue, wordHint, "%q cannot be the name of a channel", f.Key)
			continue
		}
		c := Channel{Name: f.Key, Pos: f.Pos}
		c.Kind = w.OneOf(f.Value, channelKinds...)
		channels = append(channels, c)
	}
	return channels
}

// checkChannels compares the channels that are declared with those that steps use.
func (w *walker) checkChannels() {
	declared := map[string]diagnostics.Position{}
	sent := map[string]bool{}
	var names []string
	for i, c := range w.recipe.Channels {
		declared[c.Name] = c.Pos
		if i < maxSuggestions {
			names = append(names, c.Name)
		}
	}
	for i, name := range slices.Concat(w.sends, w.receives) {
		pos, ok := declared[name.Text]
		switch {
		case !ok && !w.Full():
			hint := cmp.Or(diagnostics.DidYouMean(name.Text, names),
				"declare it at the top of the file: channels: {"+name.Text+": queue}")
			w.Errorf(name.Pos, diagnostics.CodeUnknownName, hint, "there is no channel %q", name.Text)
		case i < len(w.sends):
			sent[name.Text] = true
		case ok && !sent[name.Text]:
			sent[name.Text] = true // reported once
			w.Mildf(pos, diagnostics.CodeInvalidValue, "the step waits until something outside the recipe sends to it",
				"no step sends to channel %q, and one on line %d receives from it", name.Text, name.Pos.Line)
		}
	}
}

// channel reads the name of a channel.
func (w *walker) channel(n *yamlnode.Node, used *[]Name) Name {
	name := w.plain(n)
	if name.Text != "" {
		*used = append(*used, name)
	}
	return name
}

// channel is the channel that the step uses; "" for none.
func (s *Step) channel() string {
	switch {
	case s.Send != nil:
		return s.Send.Channel.Text
	case s.Receive != nil:
		return s.Receive.Channel.Text
	}
	return ""
}

func (w *walker) send(n *yamlnode.Node) *Send {
	fields := w.object(n, sendObject)
	if fields == nil {
		return nil
	}
	return &Send{Pos: n.Pos, Channel: w.channel(fields["channel"], &w.sends), Value: w.value(fields["value"])}
}

func (w *walker) receive(n *yamlnode.Node) *Receive {
	fields := w.object(n, receiveObject)
	if fields == nil {
		return nil
	}
	r := &Receive{Pos: n.Pos, Channel: w.channel(fields["channel"], &w.receives), Timeout: w.timeout(fields["timeout"])}
	if on := fields["on_empty"]; on != nil {
		word, set := w.wordOrSet(on, onEmptyObject, typeOnEmpty, "wait", "fail")
		r.OnEmpty = OnEmpty{Fail: word == "fail", Set: set}
	}
	if f := fields["timeout"]; f != nil && (r.OnEmpty.Fail || r.OnEmpty.Set != nil) {
		w.Errorf(f.Pos, diagnostics.CodeInvalidValue, "leave one of them out",
			"%q is for a step that waits, and with this %q it does not", "timeout", "on_empty")
	}
	return r
}

// finally reads the steps that run at the end of the file's others, which they see.
func (w *walker) finally(n *yamlnode.Node) []Step {
	if n == nil {
		return nil
	}
	before := &scope{final: true, ids: map[string]diagnostics.Position{}}
	for i := range w.recipe.Steps {
		before.ids[w.recipe.Steps[i].ID] = w.recipe.Steps[i].Pos
	}
	return w.steps(n, before)
}
