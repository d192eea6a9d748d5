// Package recipes contains the shipped recipes. Each is a folder with a recipe.yaml, the files
// that it names, a braise.yaml whose models are scripts, and scenarios. docs/recipes.md describes
// them; `braise init --template NAME` writes one to a folder.
package recipes

import "embed"

// FS has a folder for each recipe.
//
//go:embed agent changelog chat chat-rag data-check evaluate evaluator-optimizer fan-out-summary
//go:embed function-calling handoff hitl ingest loop operator parallel-vote plan-execute qa rag react research review
//go:embed routing starter summarize triage
var FS embed.FS

// Names lists the recipes, sorted.
func Names() []string {
	entries, err := FS.ReadDir(".")
	if err != nil {
		panic(err) // the root of an embed.FS is always there
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names
}
