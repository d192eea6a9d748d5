// Package wire writes calls of the engine, and their results, as JSON for another process.
//
//	engine.Call ──▶ EncodeCall ──▶ bytes ──▶ DecodeCall ──▶ engine.Call ──▶ call.Caller, in another process
//	engine.Result ◀── DecodeResult ◀── bytes ◀── EncodeResult ◀── engine.Result ◀──┘
//
// What a call has to do with a batch does not cross: such calls are made by the process that drives the run.
//
// The bytes name the version of this form, and the recipe by its digest. A driver with messages of its own can put a
// [Call] and a [Result] into them instead.
package wire
