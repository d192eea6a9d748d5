package diagnostics_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// declaredCodes are the constants of type Code in codes.go.
func declaredCodes(t *testing.T) (codes []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "codes.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	for n := range ast.Preorder(file) {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			continue
		}
		if name, ok := spec.Type.(*ast.Ident); !ok || name.Name != "Code" || len(spec.Values) != 1 {
			t.Fatalf("%v is not declared like the other codes", spec.Names)
		}
		code, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		codes = append(codes, code)
	}
	return codes
}

func TestDocsExplainEveryCode(t *testing.T) {
	page, err := os.ReadFile("../docs/diagnostics.md")
	if err != nil {
		t.Fatal(err)
	}
	var explained []string
	for _, section := range strings.Split(string(page), "\n## ")[1:] {
		code, text, _ := strings.Cut(section, "\n")
		explained = append(explained, code)
		parts := strings.Split(text, "\n```")
		if len(parts) != 3 || strings.TrimSpace(parts[0]) == "" || strings.TrimSpace(parts[2]) == "" {
			t.Errorf("the section %q does not say what the code means, show one example, and say what to do", code)
		}
	}
	if diff := cmp.Diff(declaredCodes(t), explained); diff != "" {
		t.Errorf("codes.go and the sections of docs/diagnostics.md differ (-codes.go +page)\n%s", diff)
	}
}

// Codes of diagnostics are declared nowhere else: only those are known to be explained.
func TestNoOtherCodes(t *testing.T) {
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for n := range ast.Preorder(file) {
			var is ast.Expr
			switch n := n.(type) {
			case *ast.ValueSpec:
				if len(n.Values) > 0 {
					is = n.Type
				}
			case *ast.CallExpr:
				if len(n.Args) == 1 {
					if _, literal := n.Args[0].(*ast.BasicLit); literal {
						is = n.Fun
					}
				}
			}
			if code, ok := is.(*ast.SelectorExpr); ok && code.Sel.Name == "Code" && fmt.Sprint(code.X) == "diagnostics" {
				t.Errorf("%s has a code of its own", name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestCodesAreDistinct(t *testing.T) {
	seen := map[string]bool{}
	for _, code := range declaredCodes(t) {
		if seen[code] {
			t.Errorf("%q is declared twice", code)
		}
		seen[code] = true
	}
}
