package page_test

import "testing"

const refund = `apiVersion: braise/v1
name: refund
description: Pays an order back.
inputs: {order: integer, note: {type: string, default: none}}
steps:
  draft: {uses: model, with: {model: fast, prompt: "Write to the customer of order ${{ inputs.order }}."}}
  ask:
    uses: human
    with: {prompt: "Pay order ${{ inputs.order }}?", decisions: [approve, reject], show: {letter: "${{ steps.draft.output.text }}"}}
  pay: {uses: set, with: {paid: "${{ steps.ask.output.decision == 'approve' }}"}}
output: ${{ steps.pay.output.paid }}
`

const dear = `matches: [{contains: order, text: Dear Ada}]`

func TestLogin(t *testing.T) {
	s := newSite(t, options{recipes: map[string]string{"refund": refund}, answers: dear})
	b := s.open("", "")
	b.fill("input[name=token]", "wrong-0123456789abcdef")
	b.press("Log in")
	b.see("[role=alert]")
	b.fill("input[name=token]", rita)
	b.press("Log in")
	b.sees("h1", "Runs")
	b.sees(".who", "rita")
	b.beside("#/inbox").sees("h1", "Inbox")
	b.keys("gc")
	b.sees("h1", "Recipes")
	b.keys("?")
	b.sees("dialog", "Keys")
	b.press("Close")
	b.gone("dialog")
	b.press("Log out")
	b.see("input[name=token]")
}
