package script

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/internal/yamlnode"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// Parse reads a script. filename is for messages only. The error is a *diagnostics.Error that
// holds everything that is wrong, sorted by position.
func Parse(filename string, data []byte) (*Model, error) {
	root, found := yamlnode.Parse(filename, data, nil)
	r := reader{yamlnode.Reader{Diagnostics: found}}
	m := r.model(root)
	m.file = filename
	r.Diagnostics.Sort()
	if err := r.Diagnostics.Err(); err != nil {
		return nil, err
	}
	return m, nil
}

// reader reads the parts of a script. Like those of yamlnode.Reader, its methods take nil for a
// missing key.
type reader struct{ yamlnode.Reader }

func (r *reader) model(n *yamlnode.Node) *Model {
	fields := r.Object(n, []string{"turns", "steps", "matches"}, nil)
	if fields != nil && len(n.Fields) == 0 {
		r.Errorf(n.Pos, diagnostics.CodeMissingKey, "", "a script has turns, steps or matches")
	}
	m := &Model{turns: r.turns(fields["turns"]), steps: map[string][]turn{}, named: named(fields)}
	for _, f := range r.Map(fields["steps"]) {
		m.steps[f.Key] = r.turns(f.Value)
	}
	for _, item := range r.List(fields["matches"]) {
		m.matches = append(m.matches, r.match(item))
	}
	return m
}

// named finds the paths of steps that a script names, in its steps and matches.
func named(fields map[string]*yamlnode.Node) map[string]diagnostics.Position {
	paths := map[string]diagnostics.Position{}
	if matches := fields["matches"]; matches != nil {
		for _, item := range matches.Items {
			if step := item.Child("step"); step != nil {
				if path, ok := step.Value.(string); ok {
					paths[path] = step.Pos
				}
			}
		}
	}
	if steps := fields["steps"]; steps != nil {
		for _, f := range steps.Fields {
			paths[f.Key] = f.Pos
		}
	}
	return paths
}

func (r *reader) turns(n *yamlnode.Node) []turn {
	var turns []turn
	for _, item := range r.List(n) {
		turns = append(turns, r.turn(item, r.Object(item, turnKeys, turnSynonyms)))
	}
	return turns
}

func (r *reader) match(n *yamlnode.Node) match {
	fields := r.Object(n, matchKeys, turnSynonyms)
	if fields != nil && fields["contains"] == nil && fields["step"] == nil {
		r.Errorf(n.Pos, diagnostics.CodeMissingKey, "", `a match needs "contains", "step" or both`)
	}
	return match{contains: r.texts(fields["contains"]), step: r.Text(fields["step"]), turn: r.turn(n, fields)}
}

var (
	answerKeys   = []string{"text", "json", "tool_calls", "error"}
	turnKeys     = append([]string{"expect", "delay", "usage", "finish"}, answerKeys...)
	matchKeys    = append([]string{"contains", "step"}, turnKeys...)
	optionKeys   = []string{"temperature", "max_tokens", "top_p", "stop", "seed", "tool_choice", "reasoning"}
	turnSynonyms = map[string]string{"content": "text", "output": "json"}
)

// turn reads the keys that turns and matches share; n is where they stand.
func (r *reader) turn(n *yamlnode.Node, fields map[string]*yamlnode.Node) turn {
	if fields == nil {
		return turn{}
	}
	r.oneAnswer(n, fields)
	t := turn{
		pos:     n.Pos,
		expect:  r.expectation(fields["expect"]),
		delay:   r.Duration(fields["delay"]),
		failure: r.failure(fields["error"]),
		text:    r.String(fields["text"]),
		calls:   r.toolCalls(fields["tool_calls"]),
		usage:   r.usage(fields["usage"]),
		finish:  r.OneOf(fields["finish"], "stop", "length", "tool_calls", "content_filter"),
	}
	if answer := fields["json"]; answer != nil {
		t.text = string(r.json(answer))
	}
	return t
}

// oneAnswer reports a turn that has no answer, or more than one.
func (r *reader) oneAnswer(n *yamlnode.Node, fields map[string]*yamlnode.Node) {
	var given []string
	for _, key := range answerKeys {
		if fields[key] != nil {
			given = append(given, key)
		}
	}
	switch all := strings.Join(given, ", "); {
	case len(given) == 0:
		r.Errorf(n.Pos, diagnostics.CodeMissingKey, `an empty answer is text: ""`,
			"a turn needs one of %s", strings.Join(answerKeys, ", "))
	case len(given) > 1 && all != "text, tool_calls":
		r.Errorf(n.Pos, diagnostics.CodeInvalidValue, "only text and tool_calls go together",
			"a turn has one answer, not %s", all)
	}
	for _, key := range []string{"usage", "finish"} {
		if fields["error"] != nil && fields[key] != nil {
			r.Errorf(fields[key].Pos, diagnostics.CodeInvalidValue, "", "%q means nothing beside \"error\"", key)
		}
	}
}

// texts reads a string or a list of strings.
func (r *reader) texts(n *yamlnode.Node) []string {
	switch {
	case n == nil || n.Kind == yamlnode.Invalid:
		return nil
	case n.Kind == yamlnode.String:
		return []string{r.Text(n)}
	case n.Kind == yamlnode.List:
		r.notEmpty(n)
		return r.Strings(n)
	}
	r.WrongType(n, "a string or a list of strings")
	return nil
}

// notEmpty reports a list without items.
func (r *reader) notEmpty(n *yamlnode.Node) {
	if n != nil && n.Kind == yamlnode.List && len(n.Items) == 0 {
		r.Errorf(n.Pos, diagnostics.CodeInvalidValue, "", "%q may not be empty", n.Key)
	}
}

func (r *reader) expectation(n *yamlnode.Node) expectation {
	fields := r.Object(n, []string{"contains", "not_contains", "options"}, nil)
	e := expectation{contains: r.texts(fields["contains"]), notContains: r.texts(fields["not_contains"])}
	options := r.Object(fields["options"], optionKeys, nil)
	for name, option := range options {
		if e.options == nil {
			e.options = map[string]any{}
		}
		e.options[name] = option.Decoded()
	}
	return e
}

func (r *reader) toolCalls(n *yamlnode.Node) []runtime.ToolCall {
	r.notEmpty(n)
	var calls []runtime.ToolCall
	for _, item := range r.List(n) {
		fields := r.Object(item, []string{"name", "args", "id"}, map[string]string{"arguments": "args"})
		r.Require(item, fields, "name")
		call := runtime.ToolCall{ID: r.Text(fields["id"]), Name: r.Text(fields["name"]), Arguments: []byte("{}")}
		if args := fields["args"]; args != nil {
			r.Map(args) // for its message
			call.Arguments = r.json(args)
		}
		calls = append(calls, call)
	}
	return calls
}

func (r *reader) failure(n *yamlnode.Node) *retry.Failure {
	fields := r.Object(n, []string{"status", "message", "retry_after", "reason"}, nil)
	if fields == nil {
		return nil
	}
	if fields["status"] == nil && fields["message"] == nil && fields["reason"] == nil {
		r.Errorf(n.Pos, diagnostics.CodeMissingKey, "", `an error needs "status", "message" or "reason"`)
	}
	f := &retry.Failure{Reason: retry.Unknown, Sent: true, After: r.Duration(fields["retry_after"])}
	var words []string
	if fields["status"] != nil {
		f.Status = r.Int(fields["status"], 400, 599)
		f.Reason = retry.ReasonOfStatus(f.Status)
		words = append(words, strings.TrimSpace(fmt.Sprintf("status %d %s", f.Status, http.StatusText(f.Status))))
	}
	if reason := fields["reason"]; reason != nil {
		f.Reason = retry.Reason(r.OneOf(reason, string(retry.RateLimit), string(retry.ServerError),
			string(retry.Timeout), string(retry.Network), string(retry.Unknown)))
	}
	if message := r.Text(fields["message"]); message != "" {
		words = append(words, message)
	}
	if words == nil {
		words = append(words, "scripted failure: "+string(f.Reason))
	}
	f.Err = errors.New(strings.Join(words, ": "))
	return f
}

func (r *reader) usage(n *yamlnode.Node) usage {
	fields := r.Object(n, []string{"input_tokens", "cached_tokens", "cache_write_tokens", "output_tokens",
		"reasoning_tokens"}, nil)
	count := func(n *yamlnode.Node) *int {
		if n == nil {
			return nil
		}
		tokens := r.Int(n, 0, math.MaxInt32)
		return &tokens
	}
	return usage{count(fields["input_tokens"]), count(fields["cached_tokens"]), count(fields["cache_write_tokens"]),
		count(fields["output_tokens"]), count(fields["reasoning_tokens"])}
}

// json encodes the value of n canonically.
func (r *reader) json(n *yamlnode.Node) []byte {
	text, err := value.JSON(n.Decoded())
	if err != nil {
		r.Errorf(n.Pos, diagnostics.CodeInvalidValue, "", "not JSON: %v", err)
	}
	return text
}
