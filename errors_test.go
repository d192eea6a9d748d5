package braise

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
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
	errorTables, resultTable, _ := strings.Cut(string(page), "\n## Results of calls of agents\n")
	codesIn := func(text string) (codes []string) {
		for _, row := range regexp.MustCompile("(?m)^\\| `([a-z]+[._][a-zA-Z_]+|fail)` ").FindAllStringSubmatch(text, -1) {
			codes = append(codes, row[1])
		}
		slices.Sort(codes)
		return codes
	}

	used := []string{"fail", "model.failed", "tool.failed", "retriever.failed", "model.tooLong", "index.embedder", "index.noVectors", // the sources and adapters make these at run time
		"agent.invalid", "agent.selectionAmbiguous", "agent.unknown",
		"config.elsewhere", "store.failed", "run.exists", "run.busy", "run.fenced", "run.notFound", "journal.corrupt", "journal.version"}
	known := constants(t, "diagnostics/codes.go")
	results := constants(t, "internal/agents/tools.go", "internal/agents/children.go")
	maps.Copy(known, results)
	for _, dir := range []string{"workflow", "internal/program", "internal/machine", "internal/engine", "internal/call", "internal/ledger", "internal/local", "internal/execution", "internal/agents", "cluster/temporal", "cluster/temporal/cmd/braise", "internal/daily", "runtime"} {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if !strings.HasSuffix(file, "_test.go") {
				used = append(used, errorCodes(t, file, known)...)
			}
		}
	}
	slices.Sort(used)
	if diff := cmp.Diff(slices.Compact(used), codesIn(errorTables)); diff != "" {
		t.Errorf("codes in the sources and in docs/errors.md differ (-sources +page)\n%s", diff)
	}
	var told []string
	for _, code := range results {
		if regexp.MustCompile(`^(tool\.|delegate\.|handoff\.|mcp\.|subagent_)[a-z]`).MatchString(code) {
			told = append(told, code)
		}
	}
	slices.Sort(told)
	if diff := cmp.Diff(told, codesIn(resultTable)); diff != "" {
		t.Errorf("codes of results in the sources and in docs/errors.md differ (-sources +page)\n%s", diff)
	}
}

// codeArguments are the places of the codes in calls of what makes errors.
var codeArguments = map[string]int{"ConfigError": 0, "Port": 2, "fail": 1, "outside": 1, "failed": 1, "once": 5,
	"limited": 2, "stops": 2, "noAnswer": 1, "clusterError": 0}

// errorCodes finds the codes in a source file: after Code: in a Failure or Error, and in calls of
// what makes errors. known are constants by name.
func errorCodes(t *testing.T, file string, known map[string]string) (codes []string) {
	add := func(e ast.Expr) {
		if call, ok := e.(*ast.CallExpr); ok && nameOf(call.Fun) == "string" {
			e = call.Args[0]
		}
		switch e := e.(type) {
		case *ast.BasicLit:
			codes = append(codes, unquote(t, e))
		case *ast.Ident, *ast.SelectorExpr:
			if code := known[nameOf(e)]; code != "" {
				codes = append(codes, code)
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
			if i, ok := codeArguments[nameOf(n.Fun)]; ok && i < len(n.Args) {
				add(n.Args[i])
			}
		}
	}
	return codes
}

// constants returns the string constants of source files by name.
func constants(t *testing.T, files ...string) map[string]string {
	values := map[string]string{}
	for _, file := range files {
		for n := range ast.Preorder(parse(t, file)) {
			if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Values) == 1 {
				if text, ok := spec.Values[0].(*ast.BasicLit); ok && text.Kind == token.STRING {
					values[spec.Names[0].Name] = unquote(t, text)
				}
			}
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
