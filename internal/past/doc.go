// Package past reads what the journal of a run says. It is the one place that says what an event means to those who do
// not replay the run: who resumes it, forks it, changes its definition or shows it.
//
//	        events of the journal, in order
//	        ┌─────────┬───────────┬─────┬───────────┬─────┬───────────┬─────────────┐
//	        │ created │ begun     │  …  │ redefined │  …  │ restarted │  …          │
//	        └─────────┴───────────┴─────┴───────────┴─────┴───────────┴─────────────┘
//	Read       Begun: what the run     Definition: the present     Last: what happened since
//	           was started with        one applies from here       the run last began again
//
//	Past.Unknown    the calls of the present definition whose outcome is unknown
//	Ends.Next       how an event ends a step
//	Clock.Read      how long the run has been worked on
//
// The package is pure, and it knows neither the engine nor a program: engine, execution and history build on it.
package past
