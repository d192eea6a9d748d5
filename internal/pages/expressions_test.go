//go:build unix

package pages_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/internal/expr"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/workflow"
)

// docs/expressions.md has each function as the table has it, and each expression in it gives what stands beside it.
func TestExpressions(t *testing.T) {
	const page = "../../docs/expressions.md"
	old, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	shown := map[string]bool{}
	marked := regexp.MustCompile(`(?s)(<!-- generated: ([A-Za-z ]+) -->\n).*?(<!-- /generated -->)`)
	text := marked.ReplaceAllStringFunc(string(old), func(part string) string {
		m := marked.FindStringSubmatch(part)
		table := "| function | gives | expression | gives |\n|---|---|---|---|\n"
		for _, f := range expr.Examples(m[2]) {
			shown[f.Name] = true
			table += fmt.Sprintf("| `%s` | %s | `%s` | `%s` |\n", f.Takes, f.Doc, f.Shows, f.Gives)
			if !strings.Contains(f.Shows, f.Name+"(") {
				t.Errorf("the example of %s does not call it", f.Name)
			}
		}
		return m[1] + table + m[3]
	})
	if len(shown) != expr.Functions() {
		t.Errorf("%d functions have examples, of %d", len(shown), expr.Functions())
	}
	if *update {
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if diff := cmp.Diff(text, string(old)); diff != "" {
		t.Errorf("%s is out of date: run go generate ./internal/pages (-want +got)\n%s", page, diff)
	}
	inputs, err := value.Decode([]byte(blocks(text)[0].text))
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\|.* `(.*)` \\| `(.*)` \\|$")
	for _, m := range row.FindAllStringSubmatch(text, -1) {
		want, err := value.Decode([]byte(m[2]))
		if err != nil {
			t.Fatal(m[2], err)
		}
		got, err := evaluate(m[1], inputs)
		if err != nil {
			t.Errorf("%s: %v", m[1], err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-page +got)\n%s", m[1], diff)
		}
	}
}

// evaluate runs a recipe whose output is the expression.
func evaluate(expression string, inputs any) (any, error) {
	quoted, err := json.Marshal("${{ " + expression + " }}")
	if err != nil {
		return nil, err
	}
	r, err := recipe.Parse("recipe.yaml", []byte(`apiVersion: braise/v1
name: expression
inputs: {name: string, n: integer, tags: array, order: object, nothing: {}}
steps: {all: {uses: set, with: `+string(quoted)+`}}
output: ${{ steps.all.output }}
`))
	if err != nil {
		return nil, err
	}
	wf, err := workflow.Compile(r, nil)
	if err != nil {
		return nil, err
	}
	out, err := wf.Run(context.Background(), inputs, nil)
	return out.Output, err
}
