// Package call makes single attempts of calls of adapters: models, tools, the retriever, the memory, everything else
// that agents call, and the hooks around them. Secrets are put in here, and redacted in every result. Every attempt has
// a result, whatever the adapter does.
//
//	Program, Runtime ── Bind ──▶ Caller: what the runtime offers, with the diagnostics of what it lacks
//	                               │
//	engine.Call ──▶ Prepare: are the arguments as the tool wants them?
//	       └─────▶ Make: secrets in ─ hooks ─ the adapter, guarded ─ hooks ─ secrets out ──▶ engine.Result
//
// A driver whose calls are made in other processes has a Caller of [Stand], which knows what those offer.
//
// Where to look:
//
//	bind, offer, place, unapproved  what there is to call, and what may be wrong with it
//	caller, attempt, job            one attempt: of a step, and of an agent's job
//	adapters, files, content, day   models and tools, what models are shown, and what a day may cost
//	guard, stand                    whether the runtime is valid, and callers of other processes
package call
