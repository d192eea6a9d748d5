//go:build unix

package pages_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/workflow"
)

// Each expression in docs/reference/expressions.md gives what stands beside it, and each function is there.
func TestExpressions(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/expressions.md")
	if err != nil {
		t.Fatal(err)
	}
	inputs, err := value.Decode([]byte(blocks(string(text))[0].text))
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `(.*)` \\| `(.*)` \\|$")
	examples := ""
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		examples += m[1] + "\n"
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
	files, err := filepath.Glob("../expr/*.go")
	if err != nil {
		t.Fatal(err)
	}
	functions := 0
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, table, _ := strings.Cut(string(source), "map[string]*function{\n")
		table, _, _ = strings.Cut(table, "\n}\n")
		for _, m := range regexp.MustCompile(`(?m)^\t"([a-zA-Z0-9]+)": `).FindAllStringSubmatch(table, -1) {
			if functions++; !strings.Contains(examples, m[1]+"(") {
				t.Errorf("no example calls %s", m[1])
			}
		}
	}
	if functions == 0 {
		t.Error("the table of functions was not found")
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
