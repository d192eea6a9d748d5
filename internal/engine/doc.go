// Package engine decides how a run continues: the state that the events of its journal lead to, which of them still
// apply under another definition, and what must be asked again. It is pure: no goroutine, clock, I/O, randomness or
// map order.
package engine
