// Package local drives runs in this process: it carries out the commands of the engine, makes calls, keeps timers and
// the store's lease, and sends events to the sinks.
//
//	Drive: begin (the caller's) ──▶ supervise ──▶ end
//
//	supervise:      engine.Next ──▶ a call ──▶ a goroutine ─ call.Make ─┐
//	                    ▲          a timer ──▶ time.AfterFunc ──────────┤
//	                    │           a save ──▶ ledger.Write             │
//	                    └────────── takes the turn, and reports ◀───────┘
//
// No goroutine waits for all of these. The one that has the turn may access the run: it drives the run until nothing is
// left to do, and gives the turn back. One more goroutine renews the lease and looks for signals.
//
// Where to look:
//
//	run, end         an execution, from its description to its end
//	drive, flight    the turn, and the calls under way
//	store, signals   the journal and the lease, and what comes from outside
//	hooks, watch     what the host is told, and what takes long
//	driver           what another driver uses
package local
