package recipe_test

import (
	"fmt"
	"os"

	"github.com/braise-run/braise/recipe"
)

func ExampleParse() {
	r, err := recipe.Parse("hello.yaml", []byte(`
apiVersion: braise/v1
name: hello
inputs:
  who: string
steps:
  greet:
    uses: set
    with: Hello, ${{ inputs.who }}!
output: ${{ steps.greet.output }}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, step := range r.Steps {
		fmt.Println(step.Pos, step.ID, "uses", step.Uses.Text)
	}
	// Output:
	// hello.yaml:7:3 greet uses set
}

// All mistakes are found at once, each with its place and a hint.
func ExampleParse_mistakes() {
	_, err := recipe.Parse("hello.yaml", []byte(`
apiVersion: braise/v1
name: hello
steps:
  greet:
    uses: sett
    with: Hello
    timeout: 30
    if: inputs.polite
`))
	fmt.Println(err)
	// Output:
	// hello.yaml:6:11: there is no kind of step "sett" [recipe.unknownKind]
	//   hint: did you mean "set"?
	// hello.yaml:8:14: "timeout" must be a duration, not an integer [recipe.wrongType]
	//   hint: give it a unit: 30s
	// hello.yaml:9:5: unknown key "if" [recipe.unknownKey]
	//   hint: did you mean "when"?
}

func ExampleLoad() {
	r, err := recipe.Load(os.DirFS("testdata/triage"), "triage.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, step := range r.Steps {
		if step.Body != nil && step.Body.Recipe != nil {
			fmt.Println(step.ID, "runs", step.Body.Recipe.Name)
		}
	}
	for _, agent := range r.Agents {
		fmt.Println("agent", agent.ID)
	}
	// Output:
	// verify runs verify-claim
	// agent writer
	// agent critic
}

// A definition makes the recipe again where its files are not.
func ExampleFromDefinition() {
	r, err := recipe.Load(os.DirFS("testdata/triage"), "triage.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	definition, err := r.Definition()
	if err != nil {
		fmt.Println(err)
		return
	}
	again, err := recipe.FromDefinition(definition)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(again.Name, again.Digest == r.Digest)
	fmt.Println(again.Steps[0].Pos)
	// Output:
	// support-triage true
	// triage.yaml:38:3
}

func ExampleKinds() {
	for _, kind := range recipe.Kinds() {
		fmt.Println(kind.Name, "-", kind.Doc)
	}
	// Output:
	// set - Sets a value: with is the value itself.
	// model - Sends one request to a model.
	// recipe - Runs another recipe, or steps written in place.
	// fail - Fails on purpose: it fails the body that contains it, or the run.
	// human - Asks a person and pauses the run until the answer arrives.
	// say - Reports something to whoever watches the run, once.
	// wait - Waits for a time or an event.
	// agent - Runs a model with tools until it answers.
	// loop - Repeats steps until a condition is true.
	// fork - Runs branches in parallel.
	// switch - Runs the first case that matches.
	// send - Puts a value into a channel.
	// receive - Takes a value out of a channel.
	// retrieve - Looks up documents.
	// index - Puts documents into an index, where retrieve steps find them.
}
