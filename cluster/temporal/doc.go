// Package temporal runs recipes on a Temporal cluster. The outcome of a run is the same as on one machine. Workers
// make its calls of models and tools, and any of them may die at any time.
//
//	Engine.Start ──▶ workflow braise.run ──▶ activities braise.call ──▶ the adapters of a worker
//	Engine.Answer ─▶   (its journal is       (one attempt of one
//	Engine.Wait  ◀──    in its history)       call each)
//
// A [Worker] has a [runtime.Runtime]. At the start of a run, one worker reports what its runtime offers, which is then
// fixed for the run. The worker that makes a call reads the values of secrets, which never leave it.
//
// # Lost workers
//
// Temporal detects a lost worker within 10 seconds. Another worker repeats calls of models, and of tools that only read
// or are idempotent, up to five times, with the same idempotency key. A call with an external effect is not repeated:
// the run pauses with the reason indeterminate, and a person decides.
//
// # Differences
//
//   - Plugins with hooks of runs or steps, and resume adapters other than resume.PassThrough, are refused before the
//     first step. Hooks of models and tools are called by the worker that makes the call.
//   - A runtime with a model that answers in batches is refused, too.
//   - It must be possible to store the recipe, so agents in Go are refused. Skills with tools fail the step that
//     loads them.
//   - Runtime.Store, Cache, OnPause, Reporter, Drain and NewRunID of a worker are not used. Warnings are in the log of
//     the worker. Runtime.Trace gets the events of a run when it pauses, ends or continues in another execution, at
//     least once.
//   - A run with a long history continues in another execution of its workflow. The trace of its outcome is then that
//     of the last execution, which begins with what was recovered, as after workflow.Recover.
//   - The worker that makes a call with secrets checks its arguments.
//
// # Limits
//
// The recipe, the inputs, and each output, answer, value and model request may have at most 1 MiB. Up to 200 calls of a
// run are in progress at the same time. A run may keep at most 32 MiB of data.
//
// # Versions
//
// A run keeps the version of the workers with which it started, see WorkerOptions.Build. Further executions of its
// workflow start with the current version, because later versions can read journals, but not always replay histories.
//
// # Tokens and encryption
//
// Anyone who can write to the namespace can answer a pause by its name. The [Engine] makes and checks tokens with its
// TokenKey. A [Codec] compresses and encrypts the data on the server. A worker without the key fails the tasks and
// calls that it gets, and other workers get them: runs wait until a worker has the key.
package temporal
