package host

import (
	"math"
	"strings"

	"github.com/braise-run/braise/adapters/openai"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/yamlnode"
)

// modelOption is a setting of a model: how it is read, and what the endpoint calls it.
type modelOption struct {
	name, member string
	read         func(*yamlnode.Reader, *yamlnode.Node) any
}

// modelOptions are those of endpoints that speak OpenAI's chat completions. Not every one knows each of them.
var modelOptions = []modelOption{
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
}

// modelOptions reads the settings of a model, by the endpoint's names. nil: there are none.
func (r *reader) modelOptions(n *yamlnode.Node) map[string]any {
	if n == nil {
		return nil
	}
	names := make([]string, 0, len(modelOptions)+1)
	for _, o := range modelOptions {
		names = append(names, o.name)
	}
	fields := r.Object(n, append(names, "extra"), map[string]string{"reasoning_effort": "reasoning"})
	options := map[string]any{}
	for _, o := range modelOptions {
		if field := fields[o.name]; field != nil {
			options[o.member] = read(r, field, o.read)
		}
	}
	for _, f := range r.Map(fields["extra"]) {
		v := f.Value.Decoded()
		_, err := openai.New(openai.Options{Model: "any", Defaults: map[string]any{f.Key: v}})
		switch _, twice := options[f.Key]; {
		case twice:
			r.Errorf(f.Value.Pos, diagnostics.CodeInvalidValue, "leave one of them out",
				"%q stands in options, too", f.Key)
		case err != nil:
			r.Errorf(f.Value.Pos, diagnostics.CodeInvalidValue, "", "%s", strings.TrimPrefix(err.Error(), "openai: "))
		default:
			options[f.Key] = v
		}
	}
	return options
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
