package execution_test

// A run that fails: its child has a finally, then come the rollbacks, then its own finally, which asks.
var crashFinally = &crashRecipe{
	name: "finally", code: "boom",
	text: `steps:
  charge: {uses: fx.external, with: {as: charge}, rollback: {uses: fx.external, with: {as: charge!rollback}}}
  sub: {uses: recipe, needs: [charge], with: {ref: child.yaml}}
  boom: {uses: fail, needs: [sub], with: {message: boom, code: boom}}
  never: {uses: fx.external, needs: [boom], with: {as: never}}
finally:
  told: {uses: fx.external, with: {as: told, status: "${{ run.status }} ${{ run.error.code }}"}}
  ask: {uses: human, needs: [told], with: {prompt: Seen?}}
  free: {uses: fx.idempotent, needs: [ask], with: {as: free}}
`,
	files: map[string]string{"child.yaml": `apiVersion: braise/v1
name: child
steps: {work: {uses: fx.external, with: {as: sub/work}}}
finally: {clean: {uses: fx.external, with: {as: sub/clean}}}
output: ${{ steps.work.output }}
`},
	answers: map[string]any{"ask": decided("approve")},
	want: always(crashWant{
		artefact: map[string]any{"charge": did("charge"), "sub": did("sub/work"), "told": did("told"), "free": did("free"),
			"ask": map[string]any{"decision": "approve", "form": nil}},
		effects: map[string]string{"charge": "external", "charge!rollback": "external", "sub/work": "external", "sub/clean": "external",
			"told": "external", "free": "idempotent"},
		answers: []string{"ask"},
	}),
	order: map[string][]string{"sub/clean": {"sub/work"}, "charge!rollback": {"sub/clean"}, "told": {"charge!rollback"}, "free": {"told"}},
}

// A signal cancels a run that waits in a child: what both have for the end comes after the rollbacks.
var crashFinallyCancelled = &crashRecipe{
	name: "finallycancelled", cancels: "sub/ask", code: "run.cancelled",
	text: `steps:
  charge: {uses: fx.external, with: {as: charge}, rollback: {uses: fx.external, with: {as: charge!rollback}}}
  sub: {uses: recipe, needs: [charge], with: {ref: child.yaml}}
finally:
  told: {uses: fx.external, with: {as: told, status: "${{ run.status }}"}}
`,
	files: map[string]string{"child.yaml": `apiVersion: braise/v1
name: child
steps: {ask: {uses: human, with: {prompt: Go on?}}}
finally: {clean: {uses: fx.external, with: {as: sub/clean}}}
`},
	want: always(crashWant{
		artefact: map[string]any{"charge": did("charge"), "told": did("told")},
		effects:  map[string]string{"charge": "external", "charge!rollback": "external", "sub/clean": "external", "told": "external"},
	}),
	order: map[string][]string{"charge!rollback": {"charge"}, "sub/clean": {"charge!rollback"}, "told": {"sub/clean"}},
}
