// Package agents decides what an agent does next. It is a stepper: data in, one action out.
//
// An agent is an [agentloop.Loop]. What happens in it is a sequence of [Event] values, and [Reduce] says what each
// makes of its [State]. An [Execution] decides by the state what is to be done next, and does nothing itself: the
// engine, which drives it, appends events to the journal, only then lets anybody see what happened, and makes the
// calls. So an agent can continue from its journal alone, after a pause and after a crash.
//
//	    ┌────────── Next ────────────┬───────────────────────────────┐
//	    │                            ▼                               ▼
//	Execution              Job: a call for the driver         Record: an event
//	    ▲                            │                               │
//	    │       Done (its reply)     │                               ▼ in the journal
//	    └────────────────────────────┴─────────────── State ◀── Reduce
//
// An Execution has a frame for its own loop and one for each loop below it: delegates and sub-agents. A frame asks a
// model, its round is the tool calls of the answer, and each call is a thread.
//
// Where to look:
//
//	execution, job                       what the driver uses
//	event, state, reduce, snapshot       the journal of an agent, and what it adds up to
//	frame, model, context, layers, shown a loop, and what its model is sent
//	compact, blocks                      how a conversation is made shorter
//	round, tools, gates, approval        tool calls, which there are, and which need a person
//	children, handoff, recipes           other agents, and steps of the recipe, as tools
//	policy, bounds, result, trace        when a loop is over, and what is seen of it
package agents
