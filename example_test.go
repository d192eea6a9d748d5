package braise_test

import (
	"context"
	"fmt"
	"testing/fstest"

	"github.com/braise-run/braise"
	"github.com/braise-run/braise/adapters/script"
	"github.com/braise-run/braise/runtime"
)

// A recipe is loaded once and run as often as needed; here a script stands in for the model.
func ExampleLoad() {
	recipes := fstest.MapFS{"greet.yaml": {Data: []byte(`
apiVersion: braise/v1
name: greet
inputs: {who: string}
steps:
  greet:
    uses: model
    with: {model: fast, prompt: "Greet ${{ inputs.who }}."}
output: ${{ steps.greet.output.text }}
`)}}
	wf, err := braise.Load(recipes, "greet.yaml")
	if err != nil {
		fmt.Println(err) // every mistake, with its position and a hint
		return
	}
	model, err := script.Parse("answers.yaml", []byte(`turns: [{text: "Hello, Ada!"}]`))
	if err != nil {
		fmt.Println(err)
		return
	}
	rt := &runtime.Runtime{Models: map[string]runtime.Model{"fast": model}}
	out, err := wf.Run(context.Background(), map[string]any{"who": "Ada"}, rt)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(out.Output)
	// Output: Hello, Ada!
}

// A recipe with mistakes is refused. The error has all of them, by file, line and column.
func ExampleLoad_mistakes() {
	_, err := braise.Load(fstest.MapFS{"r.yaml": {Data: []byte(`
apiVersion: braise/v1
name: r
steps:
  a: {uses: modle}
  b: {uses: set, wit: 1}
`)}}, "r.yaml")
	fmt.Println(err)
	// Output:
	// r.yaml:5:13: there is no kind of step "modle" [recipe.unknownKind]
	//   hint: did you mean "model"?
	// r.yaml:6:3: a step of kind "set" needs the key "with" [recipe.missingKey]
	// r.yaml:6:18: unknown key "wit" [recipe.unknownKey]
	//   hint: did you mean "with"?
}
