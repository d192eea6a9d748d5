package recipe

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/yamlnode"
)

// scope is what is visible where a step stands: the ids of the steps beside and around it, the
// names of the items of foreach, and those that a loop gives.
type scope struct {
	outer *scope
	ids   map[string]diagnostics.Position
	item  Name // of a foreach; such a scope has no ids
	loop  bool // of a loop; such a scope has no ids
	final bool // of steps that run at the end
}

// loopNames are what expressions of a loop and inside of it know.
var loopNames = []string{"iteration", "last", "history", "elapsed", "cost"}

// id returns where the step of that id stands.
func (s *scope) id(id string) (diagnostics.Position, bool) {
	for ; s != nil; s = s.outer {
		if pos, ok := s.ids[id]; ok {
			return pos, true
		}
	}
	return diagnostics.Position{}, false
}

// names reports whether an item of an outer foreach has the name.
func (s *scope) names(name string) bool {
	for ; s != nil; s = s.outer {
		if s.item.Text == name && name != "" {
			return true
		}
	}
	return false
}

// inLoop reports whether a loop is around.
func (s *scope) inLoop() bool {
	for ; s != nil; s = s.outer {
		if s.loop {
			return true
		}
	}
	return false
}

// inFinally reports whether the steps run at the end.
func (s *scope) inFinally() bool {
	for ; s != nil; s = s.outer {
		if s.final {
			return true
		}
	}
	return false
}

// steps reads a mapping of ids to steps.
func (w *walker) steps(n *yamlnode.Node, outer *scope) []Step {
	fields := w.Map(n)
	inner := &scope{outer: outer, ids: make(map[string]diagnostics.Position, len(fields))}
	for _, f := range fields {
		w.stepID(f, outer)
		inner.ids[f.Key] = f.Pos
	}
	steps := make([]Step, 0, len(fields))
	for _, f := range fields {
		steps = append(steps, w.step(f, inner))
	}
	return steps
}

func (w *walker) stepID(f yamlnode.Field, outer *scope) {
	if !stepID.MatchString(f.Key) {
		w.Errorf(f.Pos, diagnostics.CodeInvalidValue, idHint, "%q cannot be the id of a step", f.Key)
	}
	if pos, ok := outer.id(f.Key); ok {
		w.Errorf(f.Pos, diagnostics.CodeDuplicateName, "",
			"a step around this one has the id %q too, on line %d", f.Key, pos.Line)
	}
}

func (w *walker) step(f yamlnode.Field, s *scope) Step {
	fields := w.fields(f.Value, stepObject, misplaced(f.Value))
	step := Step{
		ID:          f.Key,
		Pos:         f.Pos,
		Description: w.String(fields["description"]),
		Tags:        w.strings(fields["tags"]),
		Needs:       w.names(fields["needs"]),
		When:        w.condition(fields["when"]),
		Trigger:     Trigger(w.word(fields, stepObject, "trigger")),
		Foreach:     w.foreach(fields["foreach"], s),
		Timeout:     w.timeout(fields["timeout"]),
		Output:      w.output(fields["output"]),
		OnError:     w.onError(fields["on_error"]),
		Priority:    w.Int(fields["priority"], math.MinInt32, math.MaxInt32),
		Limits:      w.bounds(fields["limits"], stepLimitsObject),

		Retry:          w.retry(fields["retry"]),
		Rollback:       w.rollback(fields["rollback"]),
		IdempotencyKey: w.key(fields["idempotency_key"]),

		OnIndeterminate: OnIndeterminate(w.word(fields, stepObject, "on_indeterminate")),
	}
	if n := fields["timeout"]; n != nil {
		step.TimeoutPos = n.Pos
	}
	if n := fields["rollback"]; n != nil && s.inFinally() {
		w.Errorf(n.Pos, diagnostics.CodeInvalidValue, "rollbacks come before these steps",
			"%q has no place in %q", "rollback", "finally")
	}
	if step.Foreach != nil {
		s = &scope{outer: s, item: step.Foreach.As}
	}
	w.uses(&step, fields["uses"], fields["with"], f, s)
	k := kind(step.Uses.Text)
	if step.Body != nil && step.Body.Tool != nil {
		k = Kind{Name: step.Uses.Text, without: noCallsOfItsOwn}
	}
	w.refuse(k, fields)
	w.repairs(&step, fields["output"])
	return step
}

// repairs reports repairs of an answer that nobody gives, or that nothing is asked of.
func (w *walker) repairs(step *Step, output *yamlnode.Node) {
	o, kind := step.Output, step.Uses.Text
	if o == nil || o.Repairs == nil {
		return
	}
	pos := output.Child("repairs").Pos
	switch {
	case kind != "model" && kind != "agent":
		w.Errorf(pos, diagnostics.CodeInvalidValue, "only models and agents mend their answers",
			"%q means nothing for %q", "repairs", kind)
	case o.SchemaJSON == nil && o.Checks == nil:
		w.Errorf(pos, diagnostics.CodeInvalidValue, "",
			"%q means nothing without %q or %q", "repairs", "schema", "check")
	}
}

// misplaced are hints for wrong keys of a step, those among them that belong into its with.
func misplaced(step *yamlnode.Node) map[string]string {
	wrong := func(f yamlnode.Field) bool { return !slices.Contains(stepObject.known, f.Key) }
	if !slices.ContainsFunc(step.Fields, wrong) {
		return nil
	}
	name := ""
	if i := slices.IndexFunc(step.Fields, func(f yamlnode.Field) bool { return f.Key == "uses" }); i >= 0 {
		name, _ = step.Fields[i].Value.Value.(string)
	}
	inside := []string{"argv", "stdin", "dir", "env", "url", "method", "headers", "body", "path", "content"}
	if k := kind(name); k.Name != "" {
		inside = nil
		for _, arg := range k.Args {
			inside = append(inside, arg.Name)
		}
	} else if !strings.Contains(name, ".") {
		return stepObject.synonyms
	}
	hints := maps.Clone(stepObject.synonyms)
	hints["steps"] = "steps stand inside with: in branches of a fork, in cases of a switch"
	for _, key := range inside {
		hints[key] = fmt.Sprintf("put %s inside with", key)
	}
	return hints
}

// uses reads what the step runs and checks the arguments for it.
func (w *walker) uses(step *Step, uses, with *yamlnode.Node, f yamlnode.Field, s *scope) {
	name := w.literal(uses)
	if name == "" {
		return
	}
	step.Uses = Name{Text: name, Pos: uses.Pos}
	switch k := kind(name); {
	case strings.ContainsAny(name, " \t\n"):
		w.Errorf(uses.Pos, diagnostics.CodeInvalidValue, "", "%q is not the name of a kind or a tool", name)
	case w.useTool(step, with):
	case strings.Contains(name, "/"), strings.HasSuffix(name, ".yaml"), strings.HasSuffix(name, ".yml"):
		hint := fmt.Sprintf("to run a recipe, write uses: recipe, and ref: %s inside with", name)
		if strings.Contains(name, "@") {
			hint = "there are no actions: to run a command, write uses: exec.run, and argv inside with"
		}
		w.Errorf(uses.Pos, diagnostics.CodeUnknownKind, hint, "%q is a file, not a kind or a tool", name)
		step.Uses.Text = ""
	case strings.Contains(name, "."):
		step.With = w.mapping(with)
	case k.Name == "":
		w.Errorf(uses.Pos, diagnostics.CodeUnknownKind, kindHint(name), "there is no kind of step %q", name)
	case with == nil && name != "fail":
		w.Errorf(f.Pos, diagnostics.CodeMissingKey, "", "a step of kind %q needs the key %q", name, "with")
	default:
		w.with(step, name, with, s)
	}
}

// refuse reports the keys that mean nothing for a step of this kind.
func (w *walker) refuse(k Kind, fields map[string]*yamlnode.Node) {
	for _, r := range k.without {
		if n := fields[r.key]; n != nil {
			w.Errorf(n.Pos, diagnostics.CodeInvalidValue, r.hint, "%q has no place in a step of kind %q", r.key, k.Name)
		}
	}
}

func kindHint(name string) string {
	var names []string
	for _, k := range kinds {
		names = append(names, k.Name)
	}
	if near := cmp.Or(usesHints[name], diagnostics.Suggest(name, names)); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "the name of a tool contains a dot; the kinds are " + strings.Join(names, ", ")
}

// with reads the arguments of a built-in kind.
func (w *walker) with(step *Step, kind string, n *yamlnode.Node, s *scope) {
	switch kind {
	case "model":
		w.model(n)
	case "agent":
		w.task(step, n)
	case "fail":
		w.arguments(n, failObject, true)
	case "say":
		w.arguments(n, sayObject, true)
	case "recipe":
		step.Body = w.body(n, w.object(n, bodyObject), s, false)
		return
	case "human":
		step.Human = w.human(n)
		return
	case "wait":
		step.Wait = w.wait(n)
		return
	case "loop":
		step.Loop = w.loop(n, s)
		return
	case "fork":
		step.Fork = w.fork(n, s)
		return
	case "switch":
		step.Switch = w.choice(n, s)
		return
	case "send":
		step.Send = w.send(n)
		return
	case "receive":
		step.Receive = w.receive(n)
		return
	case "retrieve":
		step.Retrieve = w.retrieve(n)
		return
	case "index":
		step.Index = w.index(n)
		return
	}
	step.With = w.value(n)
	switch kind {
	case "agent":
		agent := step.With.get("agent")
		w.collect(step.With.get("prompt"), agent.get("instructions"), agent.get("compact").get("prompt"))
		w.collectMessages(step.With)
	case "say":
		w.collect(step.With.get("text"))
	case "model":
		w.collect(step.With.get("prompt"), step.With.get("system"))
		w.collectMessages(step.With)
	}
}

// collectMessages is collect for the texts of messages.
func (w *walker) collectMessages(with *Value) {
	if messages := with.get("messages"); messages != nil {
		for _, m := range messages.List {
			w.collect(m.get("text"))
		}
	}
}

// task reads what an agent is to do.
func (w *walker) task(step *Step, n *yamlnode.Node) {
	fields := w.arguments(n, taskObject, true)
	w.shown(fields)
	w.asks(n, fields, "agent")
}

// body reads the keys of a body that stand in n, among others: ref with inputs, or steps with
// output. It may be one without any steps where that makes sense.
func (w *walker) body(n *yamlnode.Node, fields map[string]*yamlnode.Node, s *scope, noSteps bool) *Body {
	if fields == nil {
		return nil
	}
	ref, steps := fields["ref"], fields["steps"]
	body := &Body{Pos: n.Pos}
	switch {
	case ref != nil && steps != nil:
		w.Errorf(steps.Pos, diagnostics.CodeInvalidValue, "", "%q and %q exclude each other", "ref", "steps")
	case ref == nil && steps == nil:
		w.Errorf(n.Pos, diagnostics.CodeMissingKey, "", "a body needs %q or %q", "ref", "steps")
	case ref != nil:
		body.Ref = Name{Text: w.literal(ref), Pos: ref.Pos}
		body.Inputs = w.mapping(fields["inputs"])
		w.exclude(fields["output"], "the file has its own output")
		w.refs = append(w.refs, body)
	default:
		if !noSteps {
			w.notEmpty(steps)
		}
		body.Steps = w.steps(steps, s)
		body.Output = w.value(fields["output"])
		w.exclude(fields["inputs"], "steps in place see the names around them")
	}
	return body
}

// notEmpty reports a mapping or a list that has nothing in it.
func (w *walker) notEmpty(n *yamlnode.Node) {
	if n != nil && (n.Kind == yamlnode.Map || n.Kind == yamlnode.List) && len(n.Fields)+len(n.Items) == 0 {
		w.Errorf(n.Pos, diagnostics.CodeInvalidValue, "", "%q may not be empty", n.Key)
	}
}

// exclude reports a key that has no place in this form of a body.
func (w *walker) exclude(n *yamlnode.Node, hint string) {
	if n != nil {
		w.Errorf(n.Pos, diagnostics.CodeInvalidValue, hint, "%q has no place here", n.Key)
	}
}

// mapping reads arguments: a mapping, or an expression that gives one.
func (w *walker) mapping(n *yamlnode.Node) *Value {
	if n != nil && !isTemplate(n) {
		w.Map(n)
	}
	return w.value(n)
}

func (w *walker) foreach(n *yamlnode.Node, s *scope) *Foreach {
	fields := w.object(n, foreachObject)
	if fields == nil {
		return nil
	}
	return &Foreach{
		Pos:         n.Pos,
		In:          w.itemsOf(fields["in"]),
		As:          w.foreachAs(fields["as"], n, s),
		MaxParallel: w.positive(fields["max_parallel"]),
		Collect:     w.word(fields, foreachObject, "on_error") == "collect",
		MaxItems:    w.positive(fields["max_items"]),
	}
}

// itemsOf reads a list of items, or an expression that gives one.
func (w *walker) itemsOf(n *yamlnode.Node) *Value {
	switch {
	case n == nil || n.Kind == yamlnode.List || n.Kind == yamlnode.Invalid || isTemplate(n):
	case n.Kind == yamlnode.String:
		w.Errorf(n.Pos, diagnostics.CodeWrongType, fmt.Sprintf("write ${{ %s }}", n.Value),
			"%q must be a list or an expression in ${{ }}", n.Key)
	default:
		w.WrongType(n, "a list or an expression")
	}
	return w.value(n)
}

// as reads the name of an item; each is what has items.
func (w *walker) as(n, each *yamlnode.Node) Name {
	as := Name{Text: "item", Pos: each.Pos}
	if n != nil {
		as = Name{Text: w.Text(n), Pos: n.Pos}
	}
	switch as.Text {
	case "":
	case "steps", "inputs", "consts", "run", "secrets", "index":
		w.Errorf(as.Pos, diagnostics.CodeDuplicateName, "choose another name",
			"%q already has a meaning in expressions", as.Text)
	default:
		if !itemName.MatchString(as.Text) {
			w.Errorf(as.Pos, diagnostics.CodeInvalidValue, "use letters, digits and _, beginning with a letter",
				"%q cannot be the name of an item", as.Text)
		}
	}
	return as
}

// foreachAs reads the item's name, which may not hide another one.
func (w *walker) foreachAs(n, each *yamlnode.Node, s *scope) Name {
	as := w.as(n, each)
	switch {
	case s.names(as.Text):
		w.Errorf(as.Pos, diagnostics.CodeDuplicateName, "give this one another name with as",
			"the item of an outer foreach is called %q too", as.Text)
	case s.inLoop() && slices.Contains(loopNames, as.Text):
		w.Errorf(as.Pos, diagnostics.CodeDuplicateName, "choose another name",
			"%q already has a meaning in expressions of a loop", as.Text)
	}
	return as
}

func (w *walker) onError(n *yamlnode.Node) OnError {
	if n == nil {
		return OnError{}
	}
	word, set := w.wordOrSet(n, onErrorObject, typeOnError, "fail", "continue")
	return OnError{Continue: word == "continue", Set: set}
}

// wordOrSet reads a word or {set: value}; want is the noun for both.
func (w *walker) wordOrSet(n *yamlnode.Node, o *object, want string, words ...string) (string, *Value) {
	switch n.Kind {
	case yamlnode.Map:
		return "", w.value(w.object(n, o)["set"])
	case yamlnode.String:
		return w.OneOf(n, words...), nil
	case yamlnode.Invalid:
	default:
		w.WrongType(n, want)
	}
	return "", nil
}
