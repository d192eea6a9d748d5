package soak

import (
	"fmt"
	"strings"
)

// recipe is one kind of run, with the outcome that it must have however often its processes die.
type recipe struct {
	name    string
	text    string            // after the head
	effects []string          // paths of the calls that have an effect, each once
	undone  []string          // those that are undone once, or not without a diagnostic
	known   string            // the effect that must be idempotent: any number of times under one key; "" is none
	answers map[string]string // what a person decides, by the step of the pause
	sent    string            // the channel that gets a value from outside; "" is none
	status  string
	output  any // decoded JSON
}

const head = `apiVersion: braise/v1
name: %s
inputs: {run: string, url: string}
`

// program is a call of exec.run that has the effect of a path.
func program(path string) string {
	return fmt.Sprintf(`uses: exec.run, with: {argv: [./effect, "${{ inputs.run }}", "%s"]}`, path)
}

// request is a call of http.request that has the effect of a path. more are members of its body.
func request(path, more string) string {
	return fmt.Sprintf(`uses: http.request, with: {method: POST, url: "${{ inputs.url }}", `+
		`json: {run: "${{ inputs.run }}", path: "%s"%s}}`, path, more)
}

var recipes = []recipe{
	{
		name: "chain",
		text: `steps:
  a: {` + program("a") + `}
  b: {needs: [a], ` + request("b", ", delay: 30") + `}
  c: {needs: [b], ` + program("c") + `}
  d: {needs: [c], ` + request("d", "") + `}
output: ["${{ steps.a.output.stdout }}", "${{ steps.b.output.body }}", "${{ steps.c.output.stdout }}", "${{ steps.d.output.body }}"]
`,
		effects: []string{"a", "b", "c", "d"},
		status:  "ok", output: []any{"did a", "did b", "did c", "did d"},
	},
	{
		name: "foreach",
		text: `steps:
  each: {foreach: {in: [1, 2, 3, 4, 5], max_parallel: 2}, ` + request("each[${{ index }}]", ", delay: 20") + `}
output: ${{ map(steps.each.output, .body) }}
`,
		effects: []string{"each[0]", "each[1]", "each[2]", "each[3]", "each[4]"},
		status:  "ok", output: []any{"did each[0]", "did each[1]", "did each[2]", "did each[3]", "did each[4]"},
	},
	{
		name: "fork",
		text: `steps:
  both:
    uses: fork
    with:
      branches:
        left:
          steps:
            l: {` + program("both/left/l") + `}
            ask: {uses: human, needs: [l], with: {prompt: "Left?"}}
          output: ${{ steps.ask.output.decision }}
        right: {steps: {r: {` + request("both/right/r", ", delay: 40") + `}}, output: "${{ steps.r.output.body }}"}
  route:
    uses: switch
    needs: [both]
    with:
      cases: [{name: go, when: steps.both.output.left == "approve", steps: {pay: {` + request("route/go/pay", "") + `}}, output: "${{ steps.pay.output.body }}"}]
      default: {steps: {no: {` + program("route/default/no") + `}}, output: no}
output: ["${{ steps.both.output }}", "${{ steps.route.output }}"]
`,
		effects: []string{"both/left/l", "both/right/r", "route/go/pay"},
		answers: map[string]string{"both/left/ask": "approve"},
		status:  "ok",
		output: []any{
			map[string]any{"left": "approve", "right": "did both/right/r"},
			map[string]any{"case": "go", "output": "did route/go/pay"},
		},
	},
	{
		name: "loop",
		text: `steps:
  rounds:
    uses: loop
    with:
      steps:
        make: {` + program("rounds#${{ iteration }}/make") + `}
        sell: {needs: [make], ` + request("rounds#${{ iteration }}/sell", "") + `}
      output: ${{ steps.sell.output.body }}
      max_iterations: 3
output: ${{ steps.rounds.output.last }}
`,
		effects: []string{"rounds#1/make", "rounds#1/sell", "rounds#2/make", "rounds#2/sell", "rounds#3/make", "rounds#3/sell"},
		status:  "ok", output: "did rounds#3/sell",
	},
	{
		name: "waits",
		text: `channels: {mail: queue}
steps:
  nap: {uses: wait, with: {duration: 1500ms}}
  letter: {uses: receive, with: {channel: mail}}
  late: {uses: human, with: {prompt: Nobody answers., expires: 1200ms, on_expire: {set: expired}}}
  pay: {needs: [nap, letter, late], ` + request("pay", "") + `}
  short: {uses: wait, needs: [pay], with: {duration: 200ms}}
  then: {needs: [short], ` + program("then") + `}
output: ["${{ steps.letter.output }}", "${{ steps.late.output }}", "${{ steps.pay.output.body }}", "${{ steps.then.output.stdout }}"]
`,
		effects: []string{"pay", "then"}, sent: "mail",
		status: "ok", output: []any{"a letter", "expired", "did pay", "did then"},
	},
	{
		name: "sub",
		text: `steps:
  each:
    uses: recipe
    foreach: {in: [1, 2], max_parallel: 2}
    with: {ref: part.yaml, inputs: {run: "${{ inputs.run }}", url: "${{ inputs.url }}", at: "each[${{ index }}]"}}
output: ${{ steps.each.output }}
`,
		effects: []string{"each[0]/p", "each[0]/q", "each[1]/p", "each[1]/q"},
		status:  "ok", output: []any{"did each[0]/q", "did each[1]/q"},
	},
	{
		name: "retries",
		text: `steps:
  pay: {retry: {max_attempts: 4, backoff: 200ms}, ` + request("pay", ", fail: 2, status: 503") + `}
  book: {retry: {max_attempts: 4, backoff: 150ms}, ` + request("book", ", fail: 1, status: 429") + `}
  last: {needs: [pay, book], ` + program("last") + `}
output: ["${{ steps.pay.output.body }}", "${{ steps.book.output.body }}", "${{ steps.last.output.stdout }}"]
`,
		effects: []string{"pay", "book", "last"},
		status:  "ok", output: []any{"did pay", "did book", "did last"},
	},
	{
		name: "rollback",
		text: `steps:
  a: {` + program("a") + `, rollback: {` + program("a!rollback") + `}}
  b: {needs: [a], ` + request("b", "") + `, rollback: {` + request("b!rollback", ", delay: 100") + `}}
  no: {uses: fail, needs: [b], with: {message: no, code: no}}
`,
		effects: []string{"a", "b"}, undone: []string{"a!rollback", "b!rollback"},
		status: "error",
	},
	{
		name: "agent",
		text: `defaults: {model: m}
agents:
  clerk: {instructions: You pay., tools: [exec.run], approval: {exec.run: pause}, delegates: [helper], subagents: false}
  helper: {instructions: You help., tools: [exec.run], subagents: false}
steps:
  ask: {uses: agent, with: {agent: clerk, prompt: "Pay for ${{ inputs.run }}."}}
output: ${{ steps.ask.output.text }}
`,
		effects: []string{"ask", "ask/helper#2"},
		answers: map[string]string{"ask": "approve"},
		status:  "ok", output: "all paid",
	},
	{
		name: "idempotent",
		text: `steps:
  put: {` + strings.Replace(program("put"), "argv:", "effect: idempotent, argv:", 1) + `}
  pay: {needs: [put], ` + request("pay", "") + `}
output: ["${{ steps.put.output.stdout }}", "${{ steps.pay.output.body }}"]
`,
		effects: []string{"pay"}, known: "put",
		status: "ok", output: []any{"did put", "did pay"},
	},
}

// part is the sub-recipe of the recipe sub.
var part = strings.Replace(fmt.Sprintf(head, "part"), "url: string", "url: string, at: string", 1) + `steps:
  p: {` + program("${{ inputs.at }}/p") + `}
  q: {needs: [p], ` + request("${{ inputs.at }}/q", ", delay: 20") + `}
output: ${{ steps.q.output.body }}
`

// turns answers for the model of the recipe agent; RUN is the run.
const turns = `steps:
  ask:
    - tool_calls: [{name: exec.run, args: {argv: [./effect, RUN, ask]}}]
    - tool_calls: [{name: delegate_helper, args: {task: help}}]
    - text: all paid
  ask/helper#2:
    - tool_calls: [{name: exec.run, args: {argv: [./effect, RUN, "ask/helper#2"]}}]
    - text: helped
`
