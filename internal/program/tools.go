package program

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
)

// Missing is the warning that a name is not configured. If the recipe requires the name, its kind is requirement.
func Missing(u Use, what string, code diagnostics.Code, offered []string) diagnostics.Diagnostic {
	d := diagnostics.Diagnostic{
		Level: diagnostics.Warn, Kind: diagnostics.KindContract, Code: code,
		Message: fmt.Sprintf("no %s named %q is configured; step %q needs it", what, u.Name, u.Step),
		Hint:    diagnostics.DidYouMean(u.Name, offered), Position: u.Pos, Step: u.Step,
	}
	if u.Required {
		d.Kind, d.Message = diagnostics.KindRequirement,
			fmt.Sprintf("no %s named %q is configured; the recipe requires it", what, u.Name)
	}
	return d
}

// portTools are the tools that a host has because of something else, with why they are missing.
var portTools = map[string]string{
	"docs.search": "it comes with a retriever" +
		"\n  hint: give retriever or retrievers in braise.yaml, or Runtime.Retriever",
	runtime.StateGet: withoutStore,
	runtime.StatePut: withoutStore,
}

const withoutStore = "it comes with a store that outlives the run\n  hint: give store in braise.yaml, or Runtime.Store"

// MissingTool reports a tool that is not configured, and why, if specs say so.
func MissingTool(u Use, specs []runtime.ToolSpec) diagnostics.Diagnostic {
	d := Missing(u, "tool", diagnostics.CodeMissingTool, ToolNames(specs))
	if why := WhyMissing(specs, u.Name); why != "" {
		why, d.Hint, _ = strings.Cut(why, "\n  hint: ")
		d.Message += ": " + why
	}
	return d
}

// WhyMissing says why a tool is not configured, see [runtime.ToolSpec.Missing]; "" if not known.
func WhyMissing(specs []runtime.ToolSpec, name string) string {
	for _, spec := range specs {
		prefix, all := strings.CutSuffix(spec.Name, "*")
		if spec.Missing != "" && (spec.Name == name || all && strings.HasPrefix(name, prefix)) {
			return spec.Missing
		}
	}
	return portTools[name]
}

// ToolNames returns the names of tools in their order.
func ToolNames(specs []runtime.ToolSpec) []string {
	names := make([]string, len(specs))
	for i := range specs {
		names[i] = specs[i].Name
	}
	return names
}

// OfAgents reports whether a tool is one of those that only agents have, and nothing else calls it.
func (u *Use) OfAgents(tools []string) bool { return !u.called && slices.Contains(tools, u.Name) }

// toolCheck is what checking the calls against some tools has found.
type toolCheck struct {
	specs  []runtime.ToolSpec
	agents []string
	list   diagnostics.List
}

// CheckTools is FindInTools with a cache: most runs have the same tools as the previous run.
func (p *Program) CheckTools(specs []runtime.ToolSpec, agents []string) diagnostics.List {
	last := p.checked.Load()
	if last == nil || !slices.EqualFunc(specs, last.specs, sameParameters) || !slices.Equal(agents, last.agents) {
		last = &toolCheck{slices.Clone(specs), agents, p.FindInTools(specs, agents)}
		p.checked.Store(last)
	}
	return last.list
}

func sameParameters(a, b runtime.ToolSpec) bool {
	return a.Name == b.Name && a.Missing == b.Missing && bytes.Equal(a.Parameters, b.Parameters)
}

// FindInTools checks the calls of tools against the tools' specs: an unknown name is a warning,
// arguments that cannot be valid are an error. agents are tools that only agents have.
func (p *Program) FindInTools(specs []runtime.ToolSpec, agents []string) diagnostics.List {
	var list diagnostics.List
	byName := make(map[string]runtime.ToolSpec, len(specs))
	for _, s := range specs {
		if s.Missing == "" {
			byName[s.Name] = s
		}
	}
	list = append(list, p.weakEffects(byName)...)
	for _, u := range p.Tools {
		if _, ok := byName[u.Name]; !ok && u.Step != "" && !u.Required && !u.OfAgents(agents) {
			list = append(list, MissingTool(u, specs))
		}
	}
	var suggest Suggester
	for _, call := range p.Calls {
		spec, ok := byName[call.Name]
		if call.Kind != ToolCall || !ok || spec.Parameters == nil ||
			call.With != nil && !call.With.IsMap { // the recipe has said that it must be a mapping
			continue
		}
		s, err := schema.Compile(spec.Parameters)
		if err != nil {
			continue // the tool's fault: Runtime.Validate reports it
		}
		for _, problem := range s.Check(argumentsAsWritten(call.With)) {
			if at, pos, known := locate(call.With, problem, call.Pos); known {
				hint := unquoted(at, problem)
				if problem.Known != nil {
					tokens := value.Tokens(problem.Path)
					hint = suggest.hint(tokens[len(tokens)-1], func() []string { return problem.Known })
				}
				list = append(list, diagnostics.Diagnostic{
					Level: diagnostics.ErrorLevel, Kind: diagnostics.KindRecipe, Code: diagnostics.CodeArguments,
					Message:  fmt.Sprintf("arguments of %q: %s", call.Name, schema.Describe([]schema.Problem{problem})),
					Hint:     cmp.Or(hint, "braise kinds "+call.Name+" lists its arguments"),
					Position: pos, Step: call.Step,
				})
			}
		}
	}
	return list
}

// unquoted is a hint for a number, at, that stands where a text is asked for; else "".
func unquoted(at *recipe.Value, problem schema.Problem) string {
	if at == nil || !strings.Contains(schema.Describe([]schema.Problem{problem}), "must be a string") {
		return ""
	}
	switch n := at.Scalar.(type) {
	case int64, float64:
		if strings.HasSuffix(problem.Path, "/timeout") {
			return fmt.Sprintf("give it a unit: %vs", n)
		}
		return fmt.Sprintf(`quote it: "%v"`, n)
	}
	return ""
}

func argumentsAsWritten(v *recipe.Value) any {
	if v == nil {
		return map[string]any{}
	}
	return v.Literal()
}

// locate finds the place that a problem of literal arguments is about, and the value there; nil: none is. It is not
// known when an expression will give the value there, a part of it, or what holds it.
func locate(
	v *recipe.Value, problem schema.Problem, whole diagnostics.Position,
) (at *recipe.Value, pos diagnostics.Position, known bool) {
	if v == nil {
		return nil, whole, true
	}
	pos = v.Pos
	tokens := value.Tokens(problem.Path)
	for i, token := range tokens {
		switch f := v.Field(token); {
		case v.IsMap && f == nil:
			return nil, pos, true // a member that is missing
		case v.IsMap && problem.Known != nil && i == len(tokens)-1:
			return f.Value, f.Pos, true // whatever its value will be
		case v.IsMap:
			v, pos = f.Value, f.Value.Pos
		case v.IsList:
			item, err := strconv.Atoi(token)
			if err != nil || item < 0 || item >= len(v.List) {
				return nil, pos, true
			}
			v, pos = v.List[item], v.List[item].Pos
		default:
			return nil, pos, !v.HasExpression()
		}
	}
	return v, pos, !v.HasExpression()
}
