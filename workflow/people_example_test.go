package workflow_test

import (
	"context"
	"fmt"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// A step asks people of a group, and not whoever began the run. The host says who answers, and of which groups.
func ExampleAnswer() {
	const payment = `
apiVersion: braise/v1
name: payment
steps:
  approve:
    uses: human
    with: {prompt: "Pay 9,000 euros?", to: [finance], four_eyes: true}
output: ${{ steps.approve.output.decision }}
`
	ctx := context.Background()
	wf := must(workflow.Compile(must(recipe.Parse("payment.yaml", []byte(payment))), nil))
	rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}, By: "ada"}
	paused := must(wf.Run(ctx, nil, rt))
	yes := resume.AnswerOf("approve", nil)
	for _, by := range []string{"ada", "bob"} {
		out, err := workflow.Answer(ctx, paused.RunID, "approve", yes, rt,
			&workflow.ResumeOptions{By: by, Groups: []string{"finance"}})
		fmt.Println(by, out.Status, out.Output)
		if err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// ada error <nil>
	// human pause "approve" of step "approve": "ada" began the run, and may not answer
	//   hint: another person must answer, as the step has four_eyes
	// bob ok approve
}
