package recipe

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/braise-run/braise/diagnostics"
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
	return &Retry{
		Pos:         n.Pos,
		MaxAttempts: w.positive(fields["max_attempts"]),
		Backoff:     w.given(fields["backoff"]),
		MaxBackoff:  w.given(fields["max_backoff"]),
		Jitter:      w.word(fields, retryObject, "jitter"),
		Mode:        w.word(fields, retryObject, "mode"),
		RetryOn:     w.reasons(fields["retry_on"]),
		Timeout:     w.given(fields["timeout"]),
	}
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
		if reason := w.OneOf(item, reasons...); reason != "" {
			list = append(list, reason)
		}
	}
	return list
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
		Expires: w.timeout(fields["expires"])}
	if prompt := fields["prompt"]; prompt != nil && prompt.Kind == yamlnode.Map {
		w.text(prompt)
		w.collect(h.Prompt)
	} else {
		w.Text(prompt)
	}
	h.Decisions = w.decisions(fields["decisions"])
	h.Form, h.FormJSON = w.form(fields["form"])
	if on := fields["on_expire"]; on != nil {
		h.OnExpire = w.onExpire(on, h.Decisions)
		if fields["expires"] == nil {
			w.Errorf(on.Pos, diagnostics.CodeInvalidValue, "say when with expires, or leave it out",
				"%q means nothing without %q", "on_expire", "expires")
		}
	}
	return h
}

// decisions reads the words that a person may choose from.
func (w *walker) decisions(n *yamlnode.Node) []Name {
	if n == nil {
		return nil
	}
	items := w.items(n)
	if n.Kind == yamlnode.List && len(items) == 0 {
		w.Errorf(n.Pos, diagnostics.CodeInvalidValue, "", "%q may not be empty", n.Key)
	}
	var decisions []Name
	seen := map[string]bool{}
	for _, item := range items {
		name := w.plain(item)
		switch {
		case name.Text == "":
			continue
		case seen[name.Text]:
			w.Errorf(item.Pos, diagnostics.CodeDuplicateName, "", "the decision %q stands here twice", name.Text)
		}
		seen[name.Text] = true
		decisions = append(decisions, name)
	}
	return decisions
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
func (w *walker) form(n *yamlnode.Node) (*Value, map[string]any) {
	object := w.Map(n)
	if n == nil || n.Kind != yamlnode.Map {
		return nil, nil
	}
	i := slices.IndexFunc(object, func(f yamlnode.Field) bool { return f.Key == "type" })
	if i < 0 || object[i].Value.Value != "object" {
		pos := n.Pos
		if i >= 0 {
			pos = object[i].Value.Pos
		}
		w.Errorf(pos, diagnostics.CodeBadSchema, "write type: object, and the fields under properties",
			"%q must be the JSON Schema of an object", n.Key)
		return nil, nil
	}
	schema := n.Decoded().(map[string]any)
	w.compile(n, schema)
	return w.value(n), schema
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
	if _, err := time.Parse(time.RFC3339, text); err != nil {
		w.Errorf(n.Pos, diagnostics.CodeInvalidValue, "times look like 2026-01-31T09:00:00Z", "%q is not a time", text)
	}
}
