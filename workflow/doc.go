// Package workflow compiles recipes and runs them.
//
// [Compile] compiles a recipe to a [Workflow], an immutable DAG. [Workflow.Run] executes it with a
// [runtime.Runtime], and always returns an [Outcome].
//
//	recipe.Recipe ── Compile ──▶ Workflow ── Run ──▶ Outcome: ok, error or cancelled
//	                                          │
//	                                          └────▶ Outcome: paused, with a token for each pause
//	                                                    │
//	    Resume (token), Answer, Send, Recover, Cancel ◀─┘   in any process, with the same store
//
// [Fork] begins a run from the record of another one, [Sweep] resumes what is due, and [Signal] reaches a run that
// another process executes.
package workflow
