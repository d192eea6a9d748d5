package workflow

import (
	"fmt"
	"maps"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
)

// inputs are the declared inputs of a file, ready to check what is given.
type inputs struct {
	list   []input
	byName map[string]int
}

type input struct {
	recipe.Input
	schema *schema.Schema // nil when it does not compile, which is reported
}

func (c *compiler) compileInputs(declared []recipe.Input) *inputs {
	in := &inputs{byName: make(map[string]int, len(declared))}
	for i, d := range declared {
		compiled, err := schema.CompileValue(d.SchemaJSON)
		if err != nil && !c.broken { // else reported when the recipe was read
			c.errorf(d.Pos, diagnostics.CodeBadSchema, "", "schema of input %q: %v", d.Name, err)
		}
		in.list = append(in.list, input{d, compiled})
		in.byName[d.Name] = i
	}
	return in
}

func (in *inputs) names() []string {
	names := make([]string, len(in.list))
	for i := range in.list {
		names[i] = in.list[i].Name
	}
	return names
}

// fault is one thing wrong with given inputs.
type fault struct {
	name, message, hint string
}

// faults lists everything wrong with given inputs, in a fixed order: unknown names, then the
// declared ones in their order. checkValue says whether a value can be checked already.
func (in *inputs) faults(given map[string]any, suggest *suggester, checkValue func(name string) bool) []fault {
	var list []fault
	for _, name := range value.SortedKeys(given) {
		if _, ok := in.byName[name]; !ok {
			list = append(list, fault{name, fmt.Sprintf("unknown input %q", name), suggest.hint(name, in.names)})
		}
	}
	for _, d := range in.list {
		v, ok := given[d.Name]
		switch {
		case !ok && !d.HasDefault:
			list = append(list, fault{d.Name, fmt.Sprintf("input %q is missing", d.Name), ""})
		case ok && d.schema != nil && checkValue(d.Name):
			if problems := d.schema.Check(v); problems != nil {
				list = append(list, fault{d.Name, fmt.Sprintf("input %q does not match its schema: %s", d.Name, schema.Describe(problems)), ""})
			}
		}
	}
	return list
}

// check returns the given inputs with defaults filled in, or an error that lists all faults.
func (in *inputs) check(given map[string]any) (map[string]any, error) {
	if faults := in.faults(given, &suggester{}, func(string) bool { return true }); faults != nil {
		texts := make([]string, len(faults))
		for i, f := range faults {
			texts[i] = f.message
		}
		return nil, fmt.Errorf("%s", strings.Join(texts, "; "))
	}
	full := make(map[string]any, len(in.list))
	maps.Copy(full, given)
	for _, d := range in.list {
		if _, ok := full[d.Name]; !ok {
			full[d.Name] = value.Clone(d.Default)
		}
	}
	return full, nil
}

// checkWritten checks the inputs that a step gives to a sub-recipe, as far as they are written
// out. ref is where the sub-recipe is named.
func (in *inputs) checkWritten(v *recipe.Value, ref recipe.Name, suggest *suggester) diagnostics.List {
	if v != nil && !v.IsMap {
		return nil // an expression: checked when it is known
	}
	given, where, computed := map[string]any{}, map[string]diagnostics.Position{}, map[string]bool{}
	if v != nil {
		for _, f := range v.Map {
			given[f.Key], where[f.Key], computed[f.Key] = f.Value.Literal(), f.Pos, f.Value.HasExpression()
		}
	}
	var list diagnostics.List
	for _, f := range in.faults(given, suggest, func(name string) bool { return !computed[name] }) {
		pos, ok := where[f.name]
		if !ok {
			pos = ref.Pos
		}
		list = append(list, diagnostics.Diagnostic{
			Level: diagnostics.ErrorLevel, Kind: diagnostics.KindRecipe, Code: diagnostics.CodeInput,
			Message: fmt.Sprintf("sub-recipe %q: %s", ref.Text, f.message), Hint: f.hint, Position: pos,
		})
	}
	return list
}

// ParseInputs turns "name=value" texts into inputs, as a command line gives them: each value is
// everything after the first "=", read as its input's schema says (recipe-format and command
// pages). The error is a *diagnostics.Error that holds everything that is wrong: unknown names,
// repeated ones, values that cannot be read. The result is not yet checked against the schemas.
func (wf *Workflow) ParseInputs(pairs []string) (map[string]any, error) {
	given, seen := make(map[string]any, len(pairs)), map[string]bool{}
	var list diagnostics.List
	wrong := func(message, hint string) {
		list = append(list, diagnostics.Diagnostic{Level: diagnostics.ErrorLevel, Kind: diagnostics.KindWorkflow,
			Code: diagnostics.CodeInput, Message: message, Hint: hint})
	}
	for _, pair := range pairs {
		name, text, ok := strings.Cut(pair, "=")
		i, known := wf.inputs.byName[name]
		switch {
		case !ok:
			wrong(fmt.Sprintf("input %q is not name=value", pair), "")
		case seen[name]:
			wrong(fmt.Sprintf("input %q is given twice", name), "")
		case !known:
			wrong(fmt.Sprintf("unknown input %q", name), diagnostics.DidYouMean(name, wf.inputs.names()))
		default:
			v, err := schema.Coerce(wf.inputs.list[i].SchemaJSON, text)
			if err != nil {
				wrong(fmt.Sprintf("input %q: %v", name, err), "")
			}
			given[name] = v
		}
		seen[name] = true
	}
	if err := list.Err(); err != nil {
		return nil, err
	}
	return given, nil
}
