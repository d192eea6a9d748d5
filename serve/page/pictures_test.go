package page_test

import "testing"

const clerk = `apiVersion: braise/v1
name: answer
description: Answers a customer, after somebody has looked at the letter.
inputs: {ticket: {type: string, description: What the customer wrote.}}
steps:
  classify: {uses: model, with: {model: fast, prompt: "What is this ticket of an order about? ${{ inputs.ticket }}"}}
  terms: {uses: set, with: {text: Refunds within 30 days.}}
  draft:
    uses: model
    with: {model: fast, prompt: "Answer this order. ${{ inputs.ticket }} ${{ steps.classify.output.text }} ${{ steps.terms.output.text }}"}
  approve:
    uses: human
    with: {prompt: Send this reply?, decisions: [approve, reject], show: {reply: "${{ steps.draft.output.text }}"}}
  send: {uses: set, when: "steps.approve.output.decision == 'approve'", with: {sent: true}}
output: ${{ steps.send.output }}
`

// The screens of the documentation, from real runs. They are written with -pictures.
func TestPictures(t *testing.T) {
	s := newSite(t, options{recipes: map[string]string{"refund": refund, "answer": clerk},
		answers: `matches: [{contains: order, text: "Dear Ada, we are sorry that your lamp came broken. A new one is on its way."}]`})
	s.run("refund", map[string]any{"order": 4711})
	s.run("refund", map[string]any{"order": 4712})
	id := s.run("answer", map[string]any{"ticket": "My lamp came broken."})
	b := s.open(olga, "#/runs")
	b.sees("main", "answer")
	b.sees("main", "refund")
	b.shot("runs")
	b.goTo("#/runs/" + id + "/graph?step=approve")
	b.see(".graph .node.waiting")
	b.sees(".detail", "approve")
	b.shot("run")
	b.goTo("#/inbox?at=" + id + "/approve")
	b.sees(".pane .show", "Dear Ada")
	b.see(".decide")
	b.shot("inbox")
	b.goTo("#/recipes/answer")
	b.see(".graph .node")
	b.axe("recipe")
	b.goTo("#/runs/" + id + "/graph?step=approve")
	b.see(".graph .node.waiting")
	b.axe("run")
	b.goTo("#/inbox")
	b.sees("main", "Send this reply?")
	b.axe("inbox")
	b.goTo("#/runs")
	b.sees("main", "answer")
	b.axe("runs")
}
