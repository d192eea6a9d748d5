// Package script answers in place of a model, with turns from a YAML file, for tests, demos
// and use without a key.
//
// A script has up to three parts, which are tried in this order: an entry of matches answers every
// request that it matches; steps has separate turns for each step path; turns answers by position.
//
//	turns:                  # the n-th call of this model in the run
//	  - text: Hello
//	  - expect: {contains: refund}
//	    json: {category: billing}
//	steps:                  # the n-th call that this step makes
//	  draft: [{text: first}, {text: second}]
//	matches:                # by content; the first that fits, again and again
//	  - contains: refund
//	    text: We refund.
//
// docs/scripts.md describes every key.
package script

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// Model is a script as a [runtime.StreamingModel]. It is immutable and holds no position: which turn
// answers is decided by the request alone, so that runs may share a Model, and a run that goes on
// in another process goes on in the script.
type Model struct {
	file    string
	turns   []turn
	steps   map[string][]turn
	matches []match
	named   map[string]diagnostics.Position // steps, with a place of each
}

// Steps returns the paths of the steps that the script names, with a place of each.
func (m *Model) Steps() map[string]diagnostics.Position { return maps.Clone(m.named) }

// turn is one answer. Exactly one of failure and the rest is used.
type turn struct {
	pos     diagnostics.Position
	expect  expectation
	delay   time.Duration
	failure *retry.Failure
	text    string // of json, the canonical encoding
	calls   []runtime.ToolCall
	usage   usage
	finish  string // "" means by the kind of answer
}

// match is a turn for every request that it fits.
type match struct {
	contains []string
	step     string // "" means any
	turn     turn
}

type expectation struct {
	contains, notContains []string
	options               map[string]any // of the request, by name
}

// usage overrides what is counted; nil fields do not.
type usage struct{ input, cached, written, output, reasoning *int }

// about says that a stream that broke may be opened again, as it is a call like any other, and that all options are
// taken.
var about = runtime.Metadata{Retry: &retry.Metadata{Restartable: true},
	Options: []string{"top_p", "stop", "seed", "tool_choice", "reasoning", "files"}}

// Metadata says that it takes all options, and that a stream that broke may be opened again.
func (m *Model) Metadata() runtime.Metadata { return about }

// Answers reports whether a model is a script or a cassette, so that it asks nobody.
func Answers(m runtime.Model) bool {
	switch m.(type) {
	case *Model, fromCassette:
		return true
	}
	return false
}

// Generate answers with the turn that the request's content or position selects. It fails without
// a retry reason when there is none, or when the request is not what the turn expects.
func (m *Model) Generate(ctx context.Context, req *runtime.Request) (*runtime.Response, error) {
	t, err := m.turn(req)
	if err == nil {
		err = t.check(req)
	}
	if err != nil {
		return nil, &retry.Failure{Sent: true, Err: err}
	}
	if err := wait(ctx, t.delay); err != nil {
		return nil, err
	}
	if t.failure != nil {
		f := *t.failure
		return nil, &f
	}
	return t.response(req), nil
}

// Stream is Generate that hands on the text word by word: a piece ends after each space.
func (m *Model) Stream(ctx context.Context, req *runtime.Request, emit func(runtime.Delta)) (*runtime.Response, error) {
	resp, err := m.Generate(ctx, req)
	emitWords(resp, emit)
	return resp, err
}

// emitWords emits the text of an answer, which may be empty.
func emitWords(resp *runtime.Response, emit func(runtime.Delta)) {
	if resp == nil {
		return
	}
	for piece := range strings.SplitAfterSeq(resp.Text, " ") {
		if piece != "" {
			emit(runtime.Delta{Text: piece})
		}
	}
}

// turn selects the turn that answers req.
func (m *Model) turn(req *runtime.Request) (*turn, error) {
	for i := range m.matches {
		if m.matches[i].fits(req) {
			return &m.matches[i].turn, nil
		}
	}
	turns, n, part := m.turns, req.Call, "turns"
	if own, ok := m.steps[req.Step]; ok {
		turns, n, part = own, req.StepCall, "steps."+req.Step
	}
	if n >= 1 && n <= len(turns) {
		return &turns[n-1], nil
	}
	return nil, fmt.Errorf("%s: no turn left for call %d of step %q, call %d of model %q: %s%s has %d; %s",
		m.file, req.StepCall, req.Step, req.Call, req.Model,
		passedOver(len(m.matches), m.steps, req.Step), part, len(turns), lastMessage(req))
}

// passedOver says which parts of a script were asked before the one that has no turn left, and have none for a step.
func passedOver[T any](matches int, steps map[string]T, step string) (text string) {
	if matches > 0 {
		text = "none of matches fits, "
	}
	if _, own := steps[step]; own {
		return text
	}
	near := diagnostics.Suggest(step, slices.Collect(maps.Keys(steps)))
	if near != "" && digits.ReplaceAllString(near, "") != digits.ReplaceAllString(step, "") {
		text += fmt.Sprintf("steps has no %q, did you mean %q?, ", step, near)
	}
	return text
}

// digits tell the rounds of a loop and the items of a foreach apart, which are no typing errors.
var digits = regexp.MustCompile(`[0-9]+`)

func (m *match) fits(req *runtime.Request) bool {
	if m.step != "" && m.step != req.Step {
		return false
	}
	return !slices.ContainsFunc(m.contains, func(s string) bool { return !contains(req, s) })
}

// check compares req with what the turn expects.
func (t *turn) check(req *runtime.Request) error {
	var wrong []string
	for _, s := range t.expect.contains {
		if !contains(req, s) {
			wrong = append(wrong, fmt.Sprintf("does not contain %q", s))
		}
	}
	for _, s := range t.expect.notContains {
		if contains(req, s) {
			wrong = append(wrong, fmt.Sprintf("contains %q", s))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.expect.options)) {
		if want, got := t.expect.options[name], asked(req)[name]; !value.Equal(want, got) {
			wrong = append(wrong, fmt.Sprintf("has %s %s, not %s", name, text(got), text(want)))
		}
	}
	if wrong == nil {
		return nil
	}
	return fmt.Errorf("%s: the request of step %q %s; %s",
		t.pos, req.Step, strings.Join(wrong, ", "), lastMessage(req))
}

// asked are the options of a request.
func asked(req *runtime.Request) map[string]any {
	encoded, err := canonical(requestOf(&runtime.Request{
		Temperature: req.Temperature, MaxTokens: req.MaxTokens, Options: req.Options}, nil))
	if err != nil {
		return nil
	}
	v, _ := value.Decode(encoded)
	options, _ := v.(map[string]any)
	return options
}

// response makes the answer. Nothing in it is shared with the script.
func (t *turn) response(req *runtime.Request) *runtime.Response {
	resp := &runtime.Response{Text: t.text, Finish: t.finish}
	for i, c := range t.calls {
		if c.ID == "" {
			c.ID = fmt.Sprintf("call_%d_%d", req.StepCall, i+1)
		}
		c.Arguments = bytes.Clone(c.Arguments)
		resp.ToolCalls = append(resp.ToolCalls, c)
	}
	if resp.Finish == "" {
		resp.Finish = "stop"
		if len(t.calls) > 0 {
			resp.Finish = "tool_calls"
		}
	}
	resp.Usage = runtime.Usage{
		InputTokens:  tokens(req.Messages...),
		OutputTokens: tokens(runtime.Message{Text: t.text, ToolCalls: t.calls}),
	}
	u := &resp.Usage
	for _, given := range []struct{ to, n *int }{{&u.InputTokens, t.usage.input}, {&u.CachedTokens, t.usage.cached},
		{&u.CacheWriteTokens, t.usage.written}, {&u.OutputTokens, t.usage.output},
		{&u.ReasoningTokens, t.usage.reasoning}} {
		if given.n != nil {
			*given.to = *given.n
		}
	}
	return resp
}

// tokens counts 4 bytes a token, rounded up: texts, and the names and arguments of tool calls.
func tokens(messages ...runtime.Message) int {
	n := 0
	for _, m := range messages {
		n += len(m.Text)
		for _, c := range m.ToolCalls {
			n += len(c.Name) + len(c.Arguments)
		}
	}
	return (n + 3) / 4
}

func contains(req *runtime.Request, s string) bool {
	return slices.ContainsFunc(req.Messages, func(m runtime.Message) bool {
		return strings.Contains(m.Text, s) || slices.ContainsFunc(m.Files, func(f runtime.File) bool {
			return strings.Contains(f.URL, s)
		})
	})
}

// lastMessage describes the last message of req in at most a few hundred bytes.
func lastMessage(req *runtime.Request) string {
	const limit = 200
	if len(req.Messages) == 0 {
		return "it has no messages"
	}
	m := req.Messages[len(req.Messages)-1]
	text, more := m.Text, ""
	if len(text) > limit {
		end := limit
		for end > 0 && !utf8.RuneStart(text[end]) {
			end--
		}
		text, more = text[:end], fmt.Sprintf(" (the first %d of %d bytes)", end, len(text))
	}
	return fmt.Sprintf("the last message is %s %q%s", m.Role, text, more)
}

// wait sleeps for d, or until ctx is done.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
