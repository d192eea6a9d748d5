package program

import (
	"fmt"
	"maps"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
)

// InputSet has the declared inputs of a file, ready to validate given inputs.
type InputSet struct {
	List   []input
	ByName map[string]int
}

type input struct {
	recipe.Input
	schema *schema.Schema // nil when it does not compile, which is reported
}

// Names returns the names of the inputs, in the order of the file.
func (in *InputSet) Names() []string {
	names := make([]string, len(in.List))
	for i := range in.List {
		names[i] = in.List[i].Name
	}
	return names
}

// fault is one thing wrong with given inputs.
type fault struct {
	name, Message, Hint string
	problems            []schema.Problem // paths begin with the name; nil: the message alone says it
}

// Faults lists everything wrong with given inputs, in a fixed order: unknown names, then the
// declared ones in their order. checkValue says whether a value can be checked already.
func (in *InputSet) Faults(given map[string]any, suggest *Suggester, checkValue func(name string) bool) []fault {
	var list []fault
	for _, name := range value.SortedKeys(given) {
		if _, ok := in.ByName[name]; !ok {
			list = append(list, fault{name, fmt.Sprintf("unknown input %q", name), suggest.hint(name, in.Names), nil})
		}
	}
	for _, d := range in.List {
		v, ok := given[d.Name]
		switch {
		case !ok && !d.HasDefault:
			list = append(list, fault{d.Name, fmt.Sprintf("input %q is missing", d.Name), "",
				[]schema.Problem{{Path: value.Pointer("", d.Name), Message: "is required"}}})
		case ok && d.schema != nil && checkValue(d.Name):
			if problems := d.schema.Check(v); problems != nil {
				message := fmt.Sprintf("input %q does not match its schema: %s", d.Name, schema.Describe(problems))
				for i := range problems {
					problems[i].Path = value.Pointer("", d.Name) + problems[i].Path
				}
				list = append(list, fault{d.Name, message, "", problems})
			}
		}
	}
	return list
}

// Check returns the given inputs with defaults filled in, or a *schema.Misfit that lists all faults.
func (in *InputSet) Check(given map[string]any) (map[string]any, error) {
	if faults := in.Faults(given, &Suggester{}, func(string) bool { return true }); faults != nil {
		texts, wrong := make([]string, len(faults)), &schema.Misfit{}
		for i, f := range faults {
			texts[i] = f.Message
			if f.problems == nil {
				f.problems = []schema.Problem{{Path: value.Pointer("", f.name), Message: f.Message}}
			}
			wrong.Problems = append(wrong.Problems, f.problems...)
		}
		wrong.Text = strings.Join(texts, "; ")
		return nil, wrong
	}
	full := make(map[string]any, len(in.List))
	maps.Copy(full, given)
	for _, d := range in.List {
		if _, ok := full[d.Name]; !ok {
			full[d.Name] = value.Clone(d.Default)
		}
	}
	return full, nil
}

// checkWritten checks the literal inputs that a step gives to a sub-recipe, or to a tool of the recipe, as what says.
// ref is where it is named.
func (in *InputSet) checkWritten(
	v *recipe.Value, what string, ref recipe.Name, suggest *Suggester,
) diagnostics.List {
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
	for _, f := range in.Faults(given, suggest, func(name string) bool { return !computed[name] }) {
		pos, ok := where[f.name]
		if !ok {
			pos = ref.Pos
		}
		list = append(list, diagnostics.Diagnostic{
			Level: diagnostics.ErrorLevel, Kind: diagnostics.KindRecipe, Code: diagnostics.CodeInput,
			Message: fmt.Sprintf("%s %q: %s", what, ref.Text, f.Message), Hint: f.Hint, Position: pos,
		})
	}
	return list
}

func (c *compiler) compileInputs(declared []recipe.Input) *InputSet {
	in := &InputSet{ByName: make(map[string]int, len(declared))}
	for i, d := range declared {
		compiled, err := schema.CompileValue(d.SchemaJSON)
		if err != nil && !c.broken { // else reported when the recipe was read
			c.errorf(d.Pos, diagnostics.CodeBadSchema, "", "schema of input %q: %v", d.Name, err)
		}
		in.List = append(in.List, input{d, compiled})
		in.ByName[d.Name] = i
	}
	return in
}
