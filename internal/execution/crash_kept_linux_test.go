package execution_test

// What a call leaves in an index is there once, and what it returns is what it returned at first, also where the process
// died between the change and its record.
var crashKept = &crashRecipe{
	name: "kept",
	text: `steps:
  put: {uses: index, with: {into: cellar, documents: [{source: x, text: one}, {source: y, text: two}]}}
  again: {uses: index, needs: [put], with: {into: cellar, documents: [{source: y, text: deux}, {source: z, text: three}]}}
  find:
    uses: recipe
    needs: [again]
    with: {steps: {look: {uses: retrieve, with: {from: cellar, query: deux}}}, output: "${{ map(steps.look.output.documents, .source) }}"}
  ship: {uses: fx.external, needs: [find], with: {as: ship}}
`,
	want: always(crashWant{
		artefact: map[string]any{
			"find": []any{"y"}, "ship": did("ship"),
			"put":   map[string]any{"added": 2., "updated": 0., "deleted": 0., "skipped": 0.},
			"again": map[string]any{"added": 1., "updated": 1., "deleted": 0., "skipped": 0.},
		},
		effects: map[string]string{"ship": "external"},
	}),
}

// When one model fails, another one answers.
var crashChosen = &crashRecipe{
	name: "chosen", script: twoTurns,
	text: `steps:
  pick: {uses: fx.external, with: {as: pick}}
  draft: {uses: model, needs: [pick], with: {model: busy, prompt: draft}}
  check: {uses: model, needs: [draft], with: {model: busy, prompt: check}}
  ask: {uses: human, needs: [check], with: {prompt: "external?"}}
  ship: {uses: fx.external, needs: [ask], with: {as: ship}}
output: ["${{ steps.draft.output.text }}", "${{ steps.check.output.text }}"]
`,
	answers: map[string]any{"ask": decided("approve")},
	want: always(crashWant{
		output: []any{"first", "second"},
		artefact: map[string]any{
			"pick": did("pick"), "ship": did("ship"), "draft": map[string]any{"text": "first"}, "check": map[string]any{"text": "second"},
			"ask": map[string]any{"decision": "approve", "form": nil},
		},
		effects: map[string]string{"pick": "external", "ship": "external"},
		answers: []string{"ask"},
	}),
	order: map[string][]string{"ship": {"pick"}},
}
