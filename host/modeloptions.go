package host

import (
	"maps"
	"math"
	"slices"
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

// geminiSettings are those of Google's Gemini API. Newer models are best without the first three.
var geminiSettings = settings{of: geminiAdapter, list: []modelOption{
	{"temperature", "generationConfig.temperature", numberFrom(0)},
	{"top_p", "generationConfig.topP", share},
	{"top_k", "generationConfig.topK", countFrom(0)},
	{"presence_penalty", "generationConfig.presencePenalty", numberFrom(math.Inf(-1))},
	{"frequency_penalty", "generationConfig.frequencyPenalty", numberFrom(math.Inf(-1))},
	{"seed", "generationConfig.seed", countFrom(math.MinInt32)},
	{"stop", "generationConfig.stopSequences", words},
	{"reasoning", "", func(r *yamlnode.Reader, n *yamlnode.Node) any { return r.Text(n) }},
	{"service_tier", "serviceTier", func(r *yamlnode.Reader, n *yamlnode.Node) any { return r.Text(n) }},
	{"safety", "safetySettings", safety},
}, instead: map[string]string{"effort": "reasoning", "reasoning_effort": "reasoning", "safety_settings": "safety",
	"safetySettings": "safety", "stop_sequences": "stop", "max_tokens": ofSteps, "max_output_tokens": ofSteps,
	"thinking": "write reasoning: minimal, low, medium or high; or put generationConfig into extra",
	"min_p":    noneOfGemini, "verbosity": noneOfGemini, "repetition_penalty": noneOfGemini,
	"parallel_tool_calls": noneOfGemini,
}}

const noneOfGemini = "the provider \"gemini\" has no such setting"

// safety reads what Gemini holds back, by category of harm. The categories are those that its API takes.
func safety(r *yamlnode.Reader, n *yamlnode.Node) any {
	fields := r.Object(n, []string{"HARM_CATEGORY_HARASSMENT", "HARM_CATEGORY_HATE_SPEECH",
		"HARM_CATEGORY_SEXUALLY_EXPLICIT", "HARM_CATEGORY_DANGEROUS_CONTENT", "HARM_CATEGORY_CIVIC_INTEGRITY",
		"HARM_CATEGORY_JAILBREAK"}, nil)
	list := []any{}
	for _, category := range slices.Sorted(maps.Keys(fields)) {
		list = append(list, map[string]any{"category": category, "threshold": r.OneOf(fields[category],
			"BLOCK_LOW_AND_ABOVE", "BLOCK_MEDIUM_AND_ABOVE", "BLOCK_ONLY_HIGH", "BLOCK_NONE", "OFF")})
	}
	return list
}

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
		if err := s.of(openai.Options{Model: "any", Defaults: map[string]any{f.Key: v}}); err != nil {
			r.Errorf(f.Value.Pos, diagnostics.CodeInvalidValue, "", "%s", withoutAdapter(err))
		} else if twice := addMember(options, f.Key, v); twice != "" {
			r.Errorf(f.Value.Pos, diagnostics.CodeInvalidValue, "leave one of them out",
				"%q stands in options, too", twice)
		}
	}
	return options, own
}

// addMember adds a member of requests. What an object has goes into the one that is there, as long as that has not the
// same; it returns the name of what is there already.
func addMember(members map[string]any, name string, v any) (twice string) {
	there, exists := members[name]
	to, isObject := there.(map[string]any)
	from, isAlso := v.(map[string]any)
	switch {
	case !exists:
		members[name] = v
		return ""
	case !isObject || !isAlso:
		return name
	}
	for _, inner := range slices.Sorted(maps.Keys(from)) {
		if twice := addMember(to, inner, from[inner]); twice != "" {
			return name + "." + twice
		}
	}
	return ""
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

// batches reads whether a model answers in batches, for which its provider has limits of its own.
func (r *reader) batches(n, batch *yamlnode.Node) bool {
	if batch == nil || !r.Bool(batch) {
		return false
	}
	for _, f := range n.Fields {
		if slices.Contains([]string{"max_parallel", "rpm", "tpm"}, f.Key) {
			r.Errorf(f.Value.Pos, diagnostics.CodeInvalidValue,
				"leave it out: the provider has limits of its own for batches", "%q does not go with \"batch\"", f.Key)
		}
	}
	return true
}
