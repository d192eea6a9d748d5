// Package procgroup starts programs as the leaders of process groups, ends the groups, and finds the programs of a
// call. On systems that have no groups it is about the program alone.
package procgroup

// KeyVariable is the variable by which programs get the idempotency key of the call that they serve.
const KeyVariable = "BRAISE_IDEMPOTENCY_KEY"
