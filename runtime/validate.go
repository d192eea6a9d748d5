package runtime

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/braise-run/braise/internal/schema"
)

// Validate reports programmer errors: what can be wrong with the value before anything runs, all
// at once. A run calls it first. It does no I/O.
func (rt *Runtime) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("runtime: "+format, args...)) }
	for _, name := range slices.Sorted(maps.Keys(rt.Models)) {
		switch {
		case name == "":
			bad("a model without a name")
		case rt.Models[name] == nil:
			bad("model %q is nil", name)
		}
	}
	for i, t := range rt.Tools {
		if t == nil {
			bad("tool %d is nil", i)
			continue
		}
		spec := t.Spec()
		if !strings.Contains(strings.Trim(spec.Name, "."), ".") {
			bad("tool %q: a tool's name contains a dot, like %q", spec.Name, "crm.lookup")
		}
		switch spec.Effect {
		case "", ReadOnly, Idempotent, External:
		default:
			bad("tool %q: unknown effect %q", spec.Name, spec.Effect)
		}
		if b, ok := t.(broken); ok && b.constructionError() != nil {
			errs = append(errs, fmt.Errorf("runtime: %w", b.constructionError()))
		} else if err := checkParameters(spec); err != nil { // compiled once per text, see internal/schema
			bad("tool %q: %w", spec.Name, err)
		}
	}
	for i, s := range rt.Trace {
		if s == nil {
			bad("trace sink %d is nil", i)
		}
	}
	if l := rt.Limits; l.MaxParallel < 0 || l.Grace < 0 || l.MaxItems < 0 || l.MaxSteps < 0 || l.MaxOutputBytes < 0 || l.MaxRunBytes < 0 {
		bad("a limit is negative: %+v", l)
	}
	return errors.Join(errs...)
}

// checkParameters reports a schema of arguments that does not compile, or that describes anything
// but an object.
func checkParameters(spec ToolSpec) error {
	if spec.Parameters == nil {
		return nil
	}
	if _, err := schema.Compile(spec.Parameters); err != nil {
		return fmt.Errorf("parameters: %w", err)
	}
	var top struct{ Type any }
	if err := json.Unmarshal(spec.Parameters, &top); err != nil || top.Type != "object" {
		return errors.New(`parameters: the schema of a tool's arguments says "type": "object"`)
	}
	return nil
}
