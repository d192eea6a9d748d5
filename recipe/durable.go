package recipe

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/internal/yamlnode"
)

// wordHint says what words look like.
const wordHint = "use up to 64 letters, digits and _ . -, beginning with a letter"

// wordPattern is what decisions and the names of events and channels look like.
var wordPattern = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_.-]{0,63}$`)

// retries reads policies by kind of adapter.
func (w *walker) retries(n *yamlnode.Node) map[string]*Retry {
	fields := w.object(n, retriesObject)
	if fields == nil {
		return nil
	}
	retries := map[string]*Retry{}
	for _, key := range retriesObject.keys {
		if r := w.retry(fields[key.Name]); r != nil {
			retries[key.Name] = r
		}
	}
	return retries
}

func (w *walker) retry(n *yamlnode.Node) *Retry {
	fields := w.object(n, retryObject)
	if fields == nil {
		return nil
	}
	r := &Retry{
		Pos:         n.Pos,
		MaxAttempts: w.positive(fields["max_attempts"]),
		Backoff:     w.given(fields["backoff"]),
		MaxBackoff:  w.given(fields["max_backoff"]),
		Jitter:      w.word(fields, retryObject, "jitter"),
		Mode:        w.word(fields, retryObject, "mode"),
		RetryOn:     w.reasons(fields["retry_on"]),
		Timeout:     w.given(fields["timeout"]),
		When:        w.condition(fields["when"]),
	}
	if r.When.Text != "" && r.MaxAttempts == 1 {
		w.Warnf(r.When.Pos, diagnostics.CodeInvalidValue, "let max_attempts be more, or leave when out",
			"%q means nothing with a single attempt", "when")
	}
	return r
}

// given reads a duration for which 0s differs from a missing value.
func (w *walker) given(n *yamlnode.Node) *time.Duration {
	if n == nil {
		return nil
	}
	d := w.Duration(n)
	return &d
}

// reasons reads a list of reasons; it is not nil for a list without any.
func (w *walker) reasons(n *yamlnode.Node) []string {
	items := w.items(n)
	if n == nil || n.Kind != yamlnode.List {
		return nil
	}
	list := make([]string, 0, len(items))
	for _, item := range items {
		if item.Kind == yamlnode.Int || item.Kind == yamlnode.String && isStatus(item.Value) {
			w.Errorf(item.Pos, diagnostics.CodeInvalidValue, "write rate_limit for 429, and 5xx for 500 to 599",
				"%v is a status of HTTP, not a reason", item.Value)
			continue
		}
		if reason := w.OneOf(item, reasons...); reason != "" {
			list = append(list, reason)
		}
	}
	return list
}

func isStatus(v any) bool {
	text, _ := v.(string)
	return len(text) == 3 && strings.Trim(text, "0123456789") == ""
}

func (w *walker) rollback(n *yamlnode.Node) *Rollback {
	fields := w.object(n, rollbackObject)
	if fields == nil {
		return nil
	}
	r := &Rollback{Pos: n.Pos, With: w.mapping(fields["with"])}
	name := w.literal(fields["uses"])
	switch {
	case name == "":
	case kind(name).Name != "":
		w.Errorf(fields["uses"].Pos, diagnostics.CodeInvalidValue, "the name of a tool contains a dot",
			"a rollback calls a tool, and %q is a kind of step", name)
	case !strings.Contains(name, ".") || strings.ContainsAny(name, " \t\n"):
		w.Errorf(fields["uses"].Pos, diagnostics.CodeInvalidValue, "the name of a tool contains a dot",
			"%q is not the name of a tool", name)
	default:
		r.Uses = Name{Text: name, Pos: fields["uses"].Pos}
	}
	return r
}

// key reads an idempotency key.
func (w *walker) key(n *yamlnode.Node) *Value {
	if w.Text(n) == "" {
		return nil
	}
	return w.value(n)
}

// human reads the arguments of a question to a person.
func (w *walker) human(n *yamlnode.Node) *Human {
	fields := w.object(n, humanObject)
	if fields == nil {
		return nil
	}
	h := &Human{Pos: n.Pos, Prompt: w.value(fields["prompt"]), Show: w.value(fields["show"]),
		To: w.value(fields["to"]), FourEyes: w.Bool(fields["four_eyes"]), Expires: w.timeout(fields["expires"])}
	w.people(fields["to"])
	if prompt := fields["prompt"]; prompt != nil && prompt.Kind == yamlnode.Map {
		w.text(prompt)
		w.collect(h.Prompt)
	} else {
		w.Text(prompt)
	}
	h.Decisions = w.words(fields["decisions"], "decision")
	var form, answer *schema.Schema
	h.Form, h.FormJSON, form = w.form(fields["form"])
	h.Answer, h.AnswerJSON, answer = w.answer(fields)
	if on := fields["on_expire"]; on != nil {
		h.OnExpire = w.onExpire(on, h.Decisions)
		w.expirySets(child(on, "set"), answer, form)
		if fields["expires"] == nil {
			w.Errorf(on.Pos, diagnostics.CodeInvalidValue, "say when with expires, or leave it out",
				"%q means nothing without %q", "on_expire", "expires")
		}
	}
	return h
}

// people checks who may answer: a list of names, each of which may hold an expression, or one expression.
func (w *walker) people(n *yamlnode.Node) {
	if n == nil || isTemplate(n) {
		return
	}
	items := w.items(n)
	if n.Kind == yamlnode.List && len(items) == 0 {
		w.Errorf(n.Pos, diagnostics.CodeInvalidValue, "leave it out if anybody may answer",
			"%q may not be empty", n.Key)
	}
	seen := map[string]bool{}
	for _, item := range items {
		name := w.Text(item)
		if seen[name] {
			w.Errorf(item.Pos, diagnostics.CodeDuplicateName, "", "the name %q appears here twice", name)
		}
		seen[name] = name != ""
	}
}

// words reads a list of words, such as decisions; what is one of them.
func (w *walker) words(n *yamlnode.Node, what string) []Name {
	if n == nil {
		return nil
	}
	items := w.items(n)
	if n.Kind == yamlnode.List && len(items) == 0 {
		w.Errorf(n.Pos, diagnostics.CodeInvalidValue, "", "%q may not be empty", n.Key)
	}
	var list []Name
	seen := map[string]bool{}
	for _, item := range items {
		name := w.plain(item)
		switch {
		case name.Text == "":
			continue
		case seen[name.Text]:
			w.Errorf(item.Pos, diagnostics.CodeDuplicateName, "", "the %s %q appears here twice", what, name.Text)
		}
		seen[name.Text] = true
		list = append(list, name)
	}
	return list
}

// plain reads a word.
func (w *walker) plain(n *yamlnode.Node) Name {
	text := w.literal(n)
	switch {
	case text == "":
		return Name{}
	case !wordPattern.MatchString(text):
		w.Errorf(n.Pos, diagnostics.CodeInvalidValue, wordHint, "%q is not a word", text)
		return Name{}
	}
	return Name{Text: text, Pos: n.Pos}
}

// form reads the JSON Schema of what a person fills in.
func (w *walker) form(n *yamlnode.Node) (*Value, map[string]any, *schema.Schema) {
	object := w.Map(n)
	if n == nil || n.Kind != yamlnode.Map {
		return nil, nil, nil
	}
	i := slices.IndexFunc(object, func(f yamlnode.Field) bool { return f.Key == "type" })
	if i < 0 || object[i].Value.Value != "object" {
		pos := n.Pos
		if i >= 0 {
			pos = object[i].Value.Pos
		}
		w.Errorf(pos, diagnostics.CodeBadSchema, "write type: object, and the fields under properties",
			"%q must be the JSON Schema of an object", n.Key)
		return nil, nil, nil
	}
	decoded := n.Decoded().(map[string]any)
	return w.value(n), decoded, w.compile(n, decoded)
}

// answer reads the JSON Schema of what a person answers, where that is the answer itself.
func (w *walker) answer(fields map[string]*yamlnode.Node) (*Value, map[string]any, *schema.Schema) {
	n := fields["answer"]
	if n == nil || n.Kind == yamlnode.Invalid {
		return nil, nil, nil
	}
	for _, key := range []string{"decisions", "form"} {
		if fields[key] != nil {
			w.Errorf(fields[key].Pos, diagnostics.CodeInvalidValue, "put what is asked for into "+
				"the schema of answer, or leave answer out", "%q and %q exclude each other", "answer", key)
		}
	}
	if on := fields["on_expire"]; on != nil && on.Value == "reject" {
		w.Errorf(on.Pos, diagnostics.CodeInvalidValue, "write fail or {set: value}",
			"%q is a decision, and with %q there are none", "reject", "answer")
	}
	switch n.Kind {
	case yamlnode.String:
		v, object := w.typeName(n)
		if object["type"] == "" {
			return nil, nil, nil
		}
		return v, object, w.compile(n, object)
	case yamlnode.Map:
	default:
		w.WrongType(n, "a JSON Schema or the name of a type")
		return nil, nil, nil
	}
	v := w.value(n)
	if v.HasExpression() {
		w.Errorf(n.Pos, diagnostics.CodeInvalidValue, "", "%q may not hold an expression", n.Key)
		return nil, nil, nil
	}
	object := n.Decoded().(map[string]any)
	compiled := w.compile(n, object)
	if preset := child(n, "default"); preset != nil {
		w.fits(compiled, preset, object["default"], "the default of the answer")
	}
	return v, object, compiled
}

func (w *walker) onExpire(n *yamlnode.Node, decisions []Name) OnExpire {
	word, set := w.wordOrSet(n, onExpireObject, typeOnExpire, "fail", "reject")
	if word == "reject" && decisions != nil &&
		!slices.ContainsFunc(decisions, func(d Name) bool { return d.Text == "reject" }) {
		w.Errorf(n.Pos, diagnostics.CodeUnknownName, "add it to decisions, or write {set: value}",
			"there is no decision %q", word)
	}
	return OnExpire{Pos: n.Pos, Reject: word == "reject", Set: set}
}

// expirySets checks a constant that is the output where nobody answers: like an answer, and if it has a form, that.
func (w *walker) expirySets(set *yamlnode.Node, answer, form *schema.Schema) {
	if set == nil {
		return
	}
	if v := w.value(set); !v.HasExpression() {
		w.fits(answer, set, v.Literal(), "what on_expire sets")
	}
	n := child(set, "form")
	if v := w.value(n); v != nil && n.Kind != yamlnode.Null && !v.HasExpression() {
		w.fits(form, n, v.Literal(), "the form that on_expire sets")
	}
}

// wait reads what a step waits for.
func (w *walker) wait(n *yamlnode.Node) *Wait {
	fields := w.object(n, waitObject)
	if fields == nil {
		return nil
	}
	first := ""
	for _, f := range n.Fields {
		switch {
		case f.Key != "duration" && f.Key != "at" && f.Key != "event":
		case first == "":
			first = f.Key
		default:
			w.Errorf(f.Value.Pos, diagnostics.CodeInvalidValue, "use a step for each",
				"%q and %q exclude each other", first, f.Key)
		}
	}
	if first == "" {
		w.Errorf(n.Pos, diagnostics.CodeMissingKey, "",
			"a step of kind %q needs %q, %q or %q", "wait", "duration", "at", "event")
	}
	if f := fields["timeout"]; f != nil && first != "" && first != "event" {
		w.Errorf(f.Pos, diagnostics.CodeInvalidValue, "leave it out",
			"%q is for a wait for an event, and this one ends by itself", "timeout")
	}
	if f := fields["duration"]; f != nil && !isTemplate(f) {
		w.Duration(f)
	}
	if f := fields["at"]; f != nil && !isTemplate(f) {
		w.time(f)
	}
	return &Wait{
		Pos: n.Pos, Duration: w.value(fields["duration"]), At: w.value(fields["at"]),
		Event: w.plain(fields["event"]), Timeout: w.timeout(fields["timeout"]),
	}
}

// time checks a time.
func (w *walker) time(n *yamlnode.Node) {
	text := w.Text(n)
	if text == "" {
		return
	}
	if _, err := value.Time(text); err != nil {
		w.Errorf(n.Pos, diagnostics.CodeInvalidValue, "times look like 2026-01-31T09:00:00Z", "%q is not a time", text)
	}
}
