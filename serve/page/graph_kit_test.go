package page_test

import (
	"context"
	"errors"

	"github.com/braise-run/braise/runtime"
)

// triage has a foreach of which an item fails, a loop of three rounds, a fork, and a step that waits for a person.
const triage = `apiVersion: braise/v1
name: triage
description: Checks what a ticket claims.
inputs: {claims: {type: array, items: {type: integer}}, slow: {type: boolean, default: false, description: Whether to wait.}}
steps:
  constructor: {uses: set, with: {n: 1}}
  verify:
    uses: recipe
    needs: [constructor]
    foreach: {in: "${{ inputs.claims }}", as: claim, on_error: collect}
    with: {steps: {check: {uses: test.check, with: {n: "${{ claim }}"}}, note: {uses: set, needs: [check], with: 1}}}
  rounds:
    uses: loop
    needs: [verify]
    with: {steps: {try: {uses: set, with: "${{ iteration }}"}}, output: "${{ steps.try.output }}", until: last == 3, max_iterations: 5}
  other: {uses: set, needs: [constructor], when: inputs.slow, with: {n: 2}}
  approve: {uses: human, needs: [rounds, other], trigger: none_failed, with: {prompt: Send it?, decisions: [approve, reject]}}
  send: {uses: set, needs: [approve], with: {sent: "${{ steps.approve.output.decision }}"}}
output: ${{ steps.send.output.sent }}
`

// check is a tool that fails for the number 7.
var check = runtime.NewTool(runtime.ToolSpec{Name: "test.check", Effect: runtime.ReadOnly},
	func(_ context.Context, args struct {
		N int `json:"n"`
	}) (int, error) {
		if args.N == 7 {
			return 0, errors.New("seven is wrong")
		}
		return args.N, nil
	})

// claims are the numbers from 1.
func claims(n int) map[string]any {
	list := []any{}
	for i := range n {
		list = append(list, i+1)
	}
	return map[string]any{"claims": list}
}
