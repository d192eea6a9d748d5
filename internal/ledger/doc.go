// Package ledger writes the journals of runs that are executed, and is the only package that does: [history.Restore]
// copies whole ones. It claims a run, appends to its journal, records answers, and gives the run back.
//
//	Claim ──▶ Load ──▶ Answer ──▶ Write … Write ──▶ Release      a run that is resumed
//	                               ▲
//	Write: creates the run ────────┘                             a new run
//
// All that a ledger asks of a store goes through package guard. Whatever the store does, a call ends after a minute at
// most, those that keep or give back a lease after a third of the time of a lease; all calls of a cache that one of
// these takes share that minute. A run without a store has a ledger too, in the runtime's cache or in this process.
package ledger
