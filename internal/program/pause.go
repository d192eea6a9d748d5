package program

// WaitKind is what a step waits for.
type WaitKind string

// What steps wait for.
const (
	waitHuman WaitKind = "human" // a person
	WaitTime  WaitKind = "wait"  // a time, or an event from outside
)
