package trace_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/trace"
)

// Every constant has a row in the table of kinds, which the schema comes from, in the same order; every
// row says what happened.
func TestTableOfKinds(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "kinds.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var constants []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Kind" {
			text, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			constants = append(constants, text)
		}
		return false
	})
	if len(constants) < 40 {
		t.Fatalf("%d constants, want those of runs, steps and agents: %q", len(constants), constants)
	}

	var s struct {
		Properties struct {
			Kind struct{ Enum []string }
		}
		AllOf []struct {
			If struct {
				Properties struct {
					Kind struct{ Const string }
				}
			}
			Then struct{ Description string }
		}
	}
	if err := json.Unmarshal(trace.EventSchema(), &s); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(constants, s.Properties.Kind.Enum); diff != "" {
		t.Errorf("kinds (-constants +schema):\n%s", diff)
	}
	about := map[string]string{}
	for _, rule := range s.AllOf {
		about[rule.If.Properties.Kind.Const] = rule.Then.Description
	}
	for _, kind := range constants {
		if about[kind] == "" {
			t.Errorf("the schema does not say what %s is", kind)
		}
	}
}
