package host

import (
	"math"
	"strings"

	"github.com/braise-run/braise/adapters/openai"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/yamlnode"
)

// modelOption is a setting of a model: how it is read, and what the endpoint calls it. "": it is an option of the
// adapter.
type modelOption struct {
	name, member string
	read         func(*yamlnode.Reader, *yamlnode.Node) any
}

// settings are those that models of a provider have.
type settings struct {
	list    []modelOption
	instead map[string]string // hints, or the right names, for names that are not in the list
	of      adapter
}

// openaiSettings are those of endpoints that speak OpenAI's chat completions. Not every one knows each of them.
var openaiSettings = settings{of: openaiAdapter, list: []modelOption{
	{"temperature", "temperature", numberFrom(0)},
	{"top_p", "top_p", share},
	{"top_k", "top_k", countFrom(0)},
	{"min_p", "min_p", share},
	{"presence_penalty", "presence_penalty", numberFrom(math.Inf(-1))},
	{"frequency_penalty", "frequency_penalty", numberFrom(math.Inf(-1))},
	{"repetition_penalty", "repetition_penalty", numberFrom(0)},
	{"seed", "seed", countFrom(math.MinInt32)},
	{"stop", "stop", words},
	{"reasoning", "reasoning_effort", func(r *yamlnode.Reader, n *yamlnode.Node) any { return r.Text(n) }},
	{"verbosity", "verbosity", func(r *yamlnode.Reader, n *yamlnode.Node) any {
		return r.OneOf(n, "low", "medium", "high")
	}},
	{"service_tier", "service_tier", func(r *yamlnode.Reader, n *yamlnode.Node) any { return r.Text(n) }},
	{"parallel_tool_calls", "parallel_tool_calls", func(r *yamlnode.Reader, n *yamlnode.Node) any { return r.Bool(n) }},
}, instead: map[string]string{
	"reasoning_effort": "reasoning",
	"max_tokens":       ofSteps,

	"reasoning_summary": "only the Responses API has summaries: api: responses of the model",
}}

// responsesSettings are those of OpenAI's Responses API.
var responsesSettings = settings{of: responsesAdapter, list: []modelOption{
	{"temperature", "temperature", numberFrom(0)},
	{"top_p", "top_p", share},
	{"reasoning", "reasoning.effort", func(r *yamlnode.Reader, n *yamlnode.Node) any { return r.Text(n) }},
	{"reasoning_summary", "reasoning.summary", func(r *yamlnode.Reader, n *yamlnode.Node) any {
		return r.OneOf(n, "auto", "concise", "detailed")
	}},
	{"verbosity", "text.verbosity", func(r *yamlnode.Reader, n *yamlnode.Node) any {
		return r.OneOf(n, "low", "medium", "high")
	}},
	{"service_tier", "service_tier", func(r *yamlnode.Reader, n *yamlnode.Node) any { return r.Text(n) }},
	{"parallel_tool_calls", "parallel_tool_calls", func(r *yamlnode.Reader, n *yamlnode.Node) any { return r.Bool(n) }},
}, instead: map[string]string{
	"reasoning_effort": "reasoning", "effort": "reasoning", "summary": "reasoning_summary",
	"max_tokens": ofSteps, "max_output_tokens": ofSteps,
	"seed": noneOfResponses, "stop": noneOfResponses, "top_k": noneOfResponses, "min_p": noneOfResponses,
	"presence_penalty": noneOfResponses, "frequency_penalty": noneOfResponses, "repetition_penalty": noneOfResponses,
}}

const ofSteps = "give max_tokens to the step or the agent"

const noneOfResponses = "the Responses API has no such setting"

// anthropicSettings are those of Anthropic's Messages API. Newer models refuse the first three.
var anthropicSettings = settings{of: anthropicAdapter, list: []modelOption{
	{"temperature", "temperature", share},
	{"top_p", "top_p", share},
	{"top_k", "top_k", countFrom(0)},
	{"stop", "stop_sequences", words},
	{"reasoning", "", func(r *yamlnode.Reader, n *yamlnode.Node) any { return r.Text(n) }},
	{"max_tokens", "", countFrom(1)},
	{"service_tier", "service_tier", func(r *yamlnode.Reader, n *yamlnode.Node) any { return r.Text(n) }},
	{"parallel_tool_calls", "", func(r *yamlnode.Reader, n *yamlnode.Node) any { return r.Bool(n) }},
}, instead: map[string]string{"effort": "reasoning", "reasoning_effort": "reasoning", "stop_sequences": "stop",
	"thinking": "write reasoning: low, medium or high; or put thinking into extra",
	"seed":     none, "min_p": none, "verbosity": none, "presence_penalty": none, "frequency_penalty": none,
	"repetition_penalty": none,
}}

const none = "the provider \"anthropic\" has no such setting"

// modelOptions reads the settings of a model: members of requests, by the endpoint's names, and options of the adapter,
// by their own. nil: there are none.
func (r *reader) modelOptions(n *yamlnode.Node, s settings) (options, own map[string]any) {
	if n == nil {
		return nil, nil
	}
	names := make([]string, 0, len(s.list)+1)
	for _, o := range s.list {
		names = append(names, o.name)
	}
	fields := r.Object(n, append(names, "extra"), s.instead)
	options, own = map[string]any{}, map[string]any{}
	for _, o := range s.list {
		switch field := fields[o.name]; {
		case field == nil:
		case o.member == "":
			own[o.name] = read(r, field, o.read)
		default:
			setMember(options, o.member, read(r, field, o.read))
		}
	}
	for _, f := range r.Map(fields["extra"]) {
		v := f.Value.Decoded()
		err := s.of(openai.Options{Model: "any", Defaults: map[string]any{f.Key: v}})
		switch _, twice := options[f.Key]; {
		case twice:
			r.Errorf(f.Value.Pos, diagnostics.CodeInvalidValue, "leave one of them out",
				"%q stands in options, too", f.Key)
		case err != nil:
			r.Errorf(f.Value.Pos, diagnostics.CodeInvalidValue, "", "%s", withoutAdapter(err))
		default:
			options[f.Key] = v
		}
	}
	return options, own
}

// setMember sets a member of requests, or a member of an object in them: reasoning.effort.
func setMember(members map[string]any, name string, v any) {
	outer, inner, nested := strings.Cut(name, ".")
	if !nested {
		members[name] = v
		return
	}
	object, _ := members[outer].(map[string]any)
	if object == nil {
		object = map[string]any{}
		members[outer] = object
	}
	object[inner] = v
}

func numberFrom(least float64) func(*yamlnode.Reader, *yamlnode.Node) any {
	return func(r *yamlnode.Reader, n *yamlnode.Node) any {
		f := r.Float(n)
		switch {
		case math.IsInf(f, 0), math.IsNaN(f):
			r.Errorf(n.Pos, diagnostics.CodeInvalidValue, "", "%q must be a number", n.Key)
		case f < least:
			r.Errorf(n.Pos, diagnostics.CodeInvalidValue, "", "%q must be %v or more", n.Key, least)
		}
		return f
	}
}

func words(r *yamlnode.Reader, n *yamlnode.Node) any {
	list := []string{}
	for _, item := range r.List(n) {
		list = append(list, r.Text(item))
	}
	return list
}

func share(r *yamlnode.Reader, n *yamlnode.Node) any {
	f := r.Float(n)
	if !(f >= 0 && f <= 1) {
		r.Errorf(n.Pos, diagnostics.CodeInvalidValue, "", "%q must be a number from 0 to 1", n.Key)
	}
	return f
}

func countFrom(least int) func(*yamlnode.Reader, *yamlnode.Node) any {
	return func(r *yamlnode.Reader, n *yamlnode.Node) any { return r.Int(n, least, math.MaxInt32) }
}
