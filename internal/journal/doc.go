// Package journal has the events of a run, and the records that they are stored as. It is the only package that knows
// the members of a record.
//
//	the engine ── Event{At, Path, What} ── Encode ──▶ Record{At, Kind, Path, Data: JSON} ──▶ a store
//	               ▲                                                                            │
//	               └───────────────────────── Decode ◀───────────────── Record, with its Seq ───┘
//
// What has a type for each kind of event. A journal is a list of them:
//
//	Created  Begun  Execution   CallBegun … CallEnded   PauseOpened  Paused │ Execution  PauseAnswered …  Ended
//	└─ by the store   └─ the first of each execution                        └─ the next one, in any process
//
// What an earlier version wrote is read, and what Encode makes of it again is the same to the byte. A record of a kind
// that only a later version knows has an Event without What: its reader decides.
package journal
