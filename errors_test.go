package braise

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// docs/errors.md lists the codes that the sources give to the errors of a run, each once.
func TestDocsListErrorCodes(t *testing.T) {
	page, err := os.ReadFile("docs/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z]+\\.[a-zA-Z_]+|fail)` ").FindAllStringSubmatch(string(page), -1) {
		listed = append(listed, row[1])
	}
	slices.Sort(listed)

	used := []string{"fail", "model.failed", "tool.failed", "retriever.failed", // the sources make these at run time
		"store.failed", "run.exists", "run.busy", "run.fenced", "run.notFound", "journal.corrupt", "journal.version"}
	findings := constants(t, "diagnostics/codes.go")
	for _, dir := range []string{"workflow", "internal/machine"} {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") {
				used = append(used, errorCodes(t, file, findings)...)
			}
		}
	}
	slices.Sort(used)
	if diff := cmp.Diff(slices.Compact(used), listed); diff != "" {
		t.Errorf("codes in the sources and in docs/errors.md differ (-sources +page)\n%s", diff)
	}
}

// errorCodes finds the codes in a source file: after Code: in a Failure or Error, and in calls of
// configError.
func errorCodes(t *testing.T, file string, findings map[string]string) (codes []string) {
	add := func(e ast.Expr) {
		switch e := e.(type) {
		case *ast.BasicLit:
			codes = append(codes, unquote(t, e))
		case *ast.SelectorExpr:
			if nameOf(e.X) == "diagnostics" {
				codes = append(codes, findings[e.Sel.Name])
			}
		}
	}
	for n := range ast.Preorder(parse(t, file)) {
		switch n := n.(type) {
		case *ast.CompositeLit:
			for _, e := range n.Elts {
				field, ok := e.(*ast.KeyValueExpr)
				if name := nameOf(n.Type); ok && nameOf(field.Key) == "Code" && (name == "Failure" || name == "Error") {
					add(field.Value)
				}
			}
		case *ast.CallExpr:
			if nameOf(n.Fun) == "configError" {
				add(n.Args[0])
			}
		}
	}
	return codes
}

// constants returns the string constants of a source file by name.
func constants(t *testing.T, file string) map[string]string {
	values := map[string]string{}
	for n := range ast.Preorder(parse(t, file)) {
		if spec, ok := n.(*ast.ValueSpec); ok {
			values[spec.Names[0].Name] = unquote(t, spec.Values[0].(*ast.BasicLit))
		}
	}
	return values
}

func parse(t *testing.T, file string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func unquote(t *testing.T, text *ast.BasicLit) string {
	t.Helper()
	s, err := strconv.Unquote(text.Value)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// nameOf returns the last part of a name, qualified or not.
func nameOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}
