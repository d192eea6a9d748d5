// Package runtest has what tests of runs share, in whichever package they stand: small recipes, tools, models, stores
// and hooks, and what they read of outcomes.
package runtest

import (
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/workflow"
)

// Load compiles a recipe.
func Load(tb testing.TB, text []byte) *workflow.Workflow {
	tb.Helper()
	r, err := recipe.Parse("recipe.yaml", text)
	if err != nil {
		tb.Fatal(err)
	}
	wf, err := workflow.Compile(r, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return wf
}

// Structured is a recipe whose model answers by a schema.
const Structured = Head + `steps:
  ask:
    uses: model
    with: {model: fast, messages: [{role: user, text: Classify}]}
    output:
      schema: {type: object, required: [kind], properties: {kind: {enum: [bug, idea]}}, additionalProperties: false}
output: ${{ steps.ask.output.kind }}
`

// Printed is a list of diagnostics as one line each: line:column code message | hint.
func Printed(list diagnostics.List) []string {
	lines := []string{}
	for _, d := range list {
		line := fmt.Sprintf("%d:%d %s %s", d.Position.Line, d.Position.Column, d.Code, d.Message)
		if d.Hint != "" {
			line += " | " + d.Hint
		}
		lines = append(lines, line)
	}
	return lines
}

// CompileFiles compiles recipe.yaml of a file system.
func CompileFiles(
	t *testing.T, files map[string]string, opts *workflow.Options,
) (*workflow.Workflow, diagnostics.List) {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	r, err := recipe.Load(fsys, "recipe.yaml")
	if r == nil {
		t.Fatal(err)
	}
	wf, err := workflow.Compile(r, opts)
	if err != nil {
		return nil, err.(*diagnostics.Error).List
	}
	return wf, wf.Diagnostics
}

// Head is how the recipe of a test begins: its first two lines.
const Head = "apiVersion: braise/v1\nname: test\n"

// Must is what needs no check, as in an example.
func Must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
