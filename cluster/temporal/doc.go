// Package temporal runs recipes on a Temporal cluster. A run there has the outcome that it has on one machine; its
// calls of models and tools are made by workers, any of which may die at any time.
//
//	Engine.Start ──▶ workflow braise.run ──▶ activities braise.call ──▶ the adapters of a worker
//	Engine.Answer ─▶   (its journal is       (one attempt of one
//	Engine.Wait  ◀──    in its history)       call each)
//
// A [Worker] has a [runtime.Runtime]. The workflow asks one worker at the beginning what its runtime offers; from then
// on that is fixed for the run. Values of secrets are read on the worker that makes a call, and never leave it.
//
// # What becomes of calls when a worker is lost
//
// Temporal notices within 10 seconds. Calls of models, and of tools that only read or are idempotent, are made again by
// another worker, up to five times, with the same idempotency key. A call with an effect outside is not: the run pauses
// with the reason indeterminate, and somebody says what became of it.
//
// # What is different
//
//   - Plugins with hooks of runs or steps, and resume adapters other than resume.PassThrough, are refused before the
//     first step. Hooks of models and tools are called by the worker that makes the call.
//   - A recipe must be one that can be stored: agents in Go are refused. Skills that bring tools fail the step that
//     loads them.
//   - Runtime.Store, Cache, OnPause, Reporter, Drain and NewRunID of a worker are not used. Warnings are in the log of the
//     worker. Runtime.Trace gets the events of a run when it pauses, ends or goes on in another execution, at least once.
//   - A run with a long history goes on in another execution of its workflow. The trace of its outcome is then that of
//     the last execution, which begins with what was recovered, as after workflow.Recover.
//   - The arguments of a call with secrets are checked by the worker that makes it.
//
// # Limits
//
// The recipe and the inputs have 1 MiB each at most, as has each output, answer, value and request of a model. Up to
// 200 calls of a run are under way at once. What a run keeps has 32 MiB at most.
//
// # Versions
//
// A run keeps to the version of the workers that it began with, see WorkerOptions.Build. Other executions of its workflow
// begin with the current one, as journals are read by later versions, and histories may not be.
//
// # Tokens and encryption
//
// Whoever may write to the namespace may answer by the name of a pause. Tokens are made and checked by the [Engine],
// with its TokenKey. A [Codec] compresses and encrypts what the server keeps. A worker that lacks the key fails the tasks
// and the calls that it gets, which other workers are given then: runs wait for the key, however long that takes.
package temporal
