package workflow_test

import (
	"context"
	"fmt"

	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// eyes is a model that takes files, and the option seed.
type eyes struct{}

func (eyes) Metadata() runtime.Metadata { return runtime.Metadata{Options: []string{"files", "seed"}} }

func (eyes) Generate(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
	said := req.Messages[0]
	text := fmt.Sprintf("%s %s, seed %d", said.Text, said.Files[0].MediaType, *req.Options.Seed)
	return &runtime.Response{Text: text}, nil
}

// A model says in its Metadata which options it takes; a step that gives it another one fails.
func Example_modelOptions() {
	r, err := recipe.Parse("look.yaml", []byte(`
apiVersion: braise/v1
name: look
steps:
  look: {uses: model, with: {model: eyes, prompt: "I see:", images: ["data:image/png;base64,AAAA"], seed: 7}}
  loud: {uses: model, on_error: continue, with: {model: eyes, prompt: "I see:", top_p: 0.5}}
output: ["${{ steps.look.output.text }}", "${{ steps.loud.error?.code }}"]
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	wf, err := workflow.Compile(r, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	rt := &runtime.Runtime{Models: map[string]runtime.Model{"eyes": eyes{}}}
	out, err := wf.Run(context.Background(), nil, rt)
	fmt.Println(out.Output, err)
	// Output: [I see: image/png, seed 7 model.option] <nil>
}
