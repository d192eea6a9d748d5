// Package history reads the journals of runs: their status, inputs, output, steps, agents, pauses and events. It works
// for runs that have ended and for runs in progress. It executes nothing and needs no lease. [Restore] alone writes.
//
// Steps come from a replay of the journal, so they include those that only compute and leave no record. Events
// come from the journal, which has fewer than the trace of an outcome. For the model calls of agents, it has only
// the answers.
//
//	             ┌─ List, Summarize       summaries: no journal is read
//	Source ──────┼─ Load ──▶ Run          a journal, read once
//	(a store)    └─ Reader ─▶ Tail        a journal that grows
//
// Where to look:
//
//	history, view          a run, and how it is read
//	steps, agent, detail   its steps, its agents, and all that is known of one step
//	acts, executions       what people did, and in which processes it was executed
//	list, stats            many runs
//	reader, tail           runs in progress
//	restore                a run from another store
package history
