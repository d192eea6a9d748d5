// Package engine decides how a run continues: the state that the events of its journal lead to, which of them still
// apply under another definition, and what must be asked again. It is pure: no goroutine, clock, I/O, randomness or
// map order.
//
// A [Run] is the fold of its events. An event has one meaning, whether it happens now or stands in a journal:
//
//	the driver: Returned (a call), Answer and Take (a pause), Fired (a timer), Carry (a signal)
//	      │ decides: another attempt, another model, a pause, the end of the step?
//	      ▼
//	   record ──▶ Unsaved: the driver has a store keep it
//	      │
//	      ▼
//	    apply ──▶ the machine: what is ready now, and what is over? ──▶ Next: the next command for the driver
//	      ▲
//	      │ possible: refuses an illegal event before anything has changed
//	    Apply: an event of a journal
//
// Where to look:
//
//	run, next, todo, apply, legal    the run, what is done next, what an event means, and whether it is possible
//	call, calls, attempts            calls under way, and their attempts
//	step, job, undo                  who they are made for: steps, agents and rollbacks
//	model, fallback, files           what calls of models need beside that
//	batches, batchsend               calls of models that answer in batches
//	agent, inside                    agents at work, and the steps inside their tools
//	start, indeterminate             calls that begin, and those with unknown outcome
//	pauses, answers, restart, grants pauses, their answers, and what later generations keep of these
//	wait, channel, say, signals      what steps wait for and say, and what comes from outside
//	budget, use, open                what calls may use, have used, and that they take long
//	finally, end, result             how a run ends
//	replay, share, view              a journal: to continue, of another run, to look at
//	trace, tools, breakpoint, deny   what sinks are shown, tools that change, and steps that wait or may not begin
//	drain, hold                      how an execution stops early
//
// The state is in parts, each a type with the rules for its data: docs/design.md, section "The parts of a run".
package engine
