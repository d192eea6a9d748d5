package workflow

import (
	"fmt"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/schema"
)

// ParseInputs parses inputs of the form "name=value", as given on a command line. The value is
// everything after the first "=", and is parsed by the schema of its input (see the recipe format
// and the command). The error is a *diagnostics.Error that lists all problems: unknown names,
// repeated names and malformed values. The result is not yet validated against the schemas.
func (wf *Workflow) ParseInputs(pairs []string) (map[string]any, error) {
	given, seen := make(map[string]any, len(pairs)), map[string]bool{}
	var list diagnostics.List
	wrong := func(message, hint string) {
		list = append(list, diagnostics.Diagnostic{Level: diagnostics.ErrorLevel, Kind: diagnostics.KindWorkflow,
			Code: diagnostics.CodeInput, Message: message, Hint: hint})
	}
	for _, pair := range pairs {
		name, text, ok := strings.Cut(pair, "=")
		i, known := wf.program.Inputs.ByName[name]
		switch {
		case !ok:
			wrong(fmt.Sprintf("input %q is not name=value", pair), "")
		case seen[name]:
			wrong(fmt.Sprintf("input %q is given twice", name), "")
		case !known:
			wrong(fmt.Sprintf("unknown input %q", name), diagnostics.DidYouMean(name, wf.program.Inputs.Names()))
		default:
			v, err := schema.Coerce(wf.program.Inputs.List[i].SchemaJSON, text)
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
