package execution_test

// An agent, and one that it delegates to, call a tool of the recipe, whose steps have effects and ask a person.
var crashTools = &crashRecipe{
	name: "tools",
	script: `steps:
  ask:
    - tool_calls: [{name: door.open, args: {as: "ask/door.open#1/put", ask: true}}]
    - tool_calls: [{name: delegate_porter, args: {task: back}}]
    - text: open
  ask/porter#2:
    - tool_calls: [{name: door.open, args: {as: "ask/porter#2/door.open#1/put", ask: false}}]
    - text: back
`,
	text: `inputs: {careful: {type: boolean, default: true}}
defaults: {model: m}
tools:
  door.open:
    description: Open a door.
    inputs: {as: string, ask: boolean}
    steps:
      sure: {uses: human, when: inputs.ask && inputs.careful, with: {prompt: Open it?}}
      put: {uses: fx.external, needs: [sure], trigger: none_failed, with: {as: "${{ inputs.as }}"}}
    output: ${{ steps.put.output.did }}
agents:
  guide: {tools: [door.open], delegates: ['${{ inputs.careful ? "porter" : "" }}'], subagents: false}
  porter: {tools: [door.open], subagents: false}
steps:
  ask: {uses: agent, with: {agent: guide, prompt: Open all.}}
  ship: {uses: fx.external, needs: [ask], with: {as: ship}}
output: ["${{ steps.ask.output.text }}", "${{ map(steps.ask.calls, .result) }}"]
`,
	answers: map[string]any{"ask/door.open#1/sure": decided("approve")},
	want: always(crashWant{
		output: []any{"open", []any{"ask/door.open#1/put", "back"}},
		artefact: map[string]any{
			"ask": map[string]any{"text": "open", "steps": 3., "stop_reason": "answer"}, "ship": did("ship"),
		},
		effects: map[string]string{
			"ask/door.open#1/put": "external", "ask/porter#2/door.open#1/put": "external", "ship": "external",
		},
		answers: []string{"ask/door.open#1/sure"},
	}),
	order: map[string][]string{"ask/porter#2/door.open#1/put": {"ask/door.open#1/put"}, "ship": {"ask/porter#2/door.open#1/put"}},
}
