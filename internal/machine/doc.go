// Package machine implements a run as a pure state machine: events in, commands out. It has no goroutine, clock, I/O or
// map order, so the same events always give the same commands. Triggers, conditions, skips, bodies and the final status
// are decided only here.
//
// A driver, which is the engine, makes a [Machine] of a compiled [Graph], does what [Machine.Next] returns, and reports
// back:
//
//	Finish (a call)   Due (a timer)   Answer, Give (a pause)   Send (a channel)   Cancel
//	      └────────────────┴───────┬────────────┴────────────────────┴──────────────┘
//	                               ▼
//	           Task: pending ──▶ running ──▶ succeeded, failed or cancelled
//	                    └──▶ skipped │
//	                               ▼ its successors may be ready, its body may be over
//	           Next: call, stop, a timer, a pause …, or None
//
// Where to look:
//
//	graph                      what is executed: nodes, edges, bodies
//	machine, task              the state, and what the driver sees of it
//	start, end, stop           how a step begins and ends, and what a failure or a cancellation stops
//	foreach, loop, control     items, rounds, branches and cases
//	pause, channel, inside     waiting, messages between steps, and steps inside the tools of agents
//	absorbed, finally, result  what handles a failure, what runs at last, and how the run has ended
package machine
