// Package execution executes runs. It starts a run, or takes the lease of an existing one and reads its journal. It
// checks answers and values from outside, and lets internal/local drive the run. Package workflow is its public API.
//
//	Run, Fork     ───────────────────────────────────────────────▶ bind ─▶ begin ─────────────────┐
//	                                                                                               ▼
//	Resume, Answer ─▶ who answers, and what ─┐                                               local.Drive
//	Recover, Cancel, Send ───────────────────┴▶ claim ─▶ load ─▶ bind ─▶ replay ─▶ the act ────────▲
//
//	Enqueue       bind ─▶ record, for others to execute
//	Signal        load ─▶ check ─▶ leave a signal, for who executes the run
//	Sweep         list what is due ─▶ Recover, several at a time
//
// An act that is refused leaves the run as it is.
//
// Where to look:
//
//	execution, fork, enqueue    new runs
//	resume                      runs that exist: the way that all acts take
//	answer, send, signals       the acts
//	changed, lacks              other definitions, and what a run would lack
//	signal, await, sweep        what does not execute a run by itself
package execution
