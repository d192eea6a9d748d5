package workflow_test

import (
	"context"
	"fmt"

	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

// eyes is a model that takes files.
type eyes struct{}

func (eyes) Metadata() runtime.Metadata { return runtime.Metadata{Options: []string{"files"}} }

func (eyes) Generate(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
	said := req.Messages[0]
	return &runtime.Response{Text: said.Text + " " + said.Files[0].MediaType}, nil
}

// A model says in its Metadata that it takes files. A step that gives them to another model fails.
func Example_modelOptions() {
	r, err := recipe.Parse("look.yaml", []byte(`
apiVersion: braise/v1
name: look
steps:
  look: {uses: model, with: {model: eyes, prompt: "I see:", images: ["data:image/png;base64,iVBORw0KGgo="]}}
  dark: {uses: model, on_error: continue, with: {model: blind, prompt: "I see:", images: ["data:image/png;base64,iVBORw0KGgo="]}}
output: ["${{ steps.look.output.text }}", "${{ steps.dark.error?.code }}"]
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
	rt := &runtime.Runtime{Models: map[string]runtime.Model{"eyes": eyes{}, "blind": runtimetest.Texts("nothing")}}
	out, err := wf.Run(context.Background(), nil, rt)
	fmt.Println(out.Output, err)
	// Output: [I see: image/png model.option] <nil>
}
