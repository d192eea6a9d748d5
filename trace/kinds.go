package trace

// Kind names what happened.
type Kind string

// The kinds of events, with the keys of their data.
const (
	RunStart     Kind = "run.start" // recipe, version, digest; of a later execution resume or recover, traceparent
	RunSuccess   Kind = "run.success"
	RunError     Kind = "run.error"     // code, message, step
	RunCancelled Kind = "run.cancelled" // reason
	RunPaused    Kind = "run.paused"    // pauseKind, step; one for each open pause
	RunOutput    Kind = "run.output"    // type: what a paused outcome has instead of an output
	RunEnd       Kind = "run.end"       // status; the last event of a run, exactly once
	StepStart    Kind = "step.start"
	StepEnd      Kind = "step.end"                // status, durationMs; of a failure code, message, stack
	StepSkip     Kind = "step.skip"               // reason
	StepWaiting  Kind = "step.waiting"            // pauseKind
	StepSaid     Kind = "step.said"               // text, value: what a step tells whoever watches
	StepReplayed Kind = "step.replayed"           // it had ended in an earlier execution of the run
	StepRollback Kind = "step.rollback"           // ok
	AdapterCall  Kind = "adapter.call"            // kind, name; of a model that describes itself model, provider; key
	AdapterRetry Kind = "adapter.retry"           // adapterKind, method, attempt, maxAttempts, reason, delayMs
	Custom       Kind = "custom"                  // name, data: what a tool, model or hook has to tell, see Emit
	RetriesOver  Kind = "adapter.retry.exhausted" // the same, without delayMs
	// from, to: another model is called instead of one whose call has failed
	AdapterFallback Kind = "adapter.fallback"
	// usage, finish, model: a call of a model has returned an answer; of a failure in an agent error
	ModelEnd   Kind = "model.end"
	ModelDelta Kind = "model.delta" // text, thinking or tool: a piece of an answer; live only, see Detailed

	// In agents, with the path of the agent's step, or of a child of it.

	AgentStart Kind = "agent.start" // agent, model, depth; of one that is resumed resume, usage so far
	MemoryLoad Kind = "memory.load" // messages: how many
	Retrieve   Kind = "retrieve"    // documents: how many
	// model, step, messages: how many; of a model that describes itself providerModel, provider
	ModelStart     Kind = "model.start"
	ToolCallsBegin Kind = "tool.calls.begin"    // tools: the names, in order
	ToolStart      Kind = "tool.start"          // call: its number, tool
	ToolEnd        Kind = "tool.end"            // call, tool; of a failure error: its code
	AgentItem      Kind = "agent.item"          // item: plan (steps, tools) or response (bytes)
	MemorySave     Kind = "memory.save"         // messages: how many
	LoopSnapshot   Kind = "agent.loop.snapshot" // snapshot
	AgentEnd       Kind = "agent.end"           // stopReason, which is paused while it waits
	// message; of a loop code, else what: model, delegate, or tool, and call
	AgentError         Kind = "agent.error"
	DelegateStart      Kind = "delegate.start"      // agent, depth, call
	DelegateEnd        Kind = "delegate.end"        // the same
	AgentHandoff       Kind = "agent.handoff"       // from, to, call
	SubagentStarted    Kind = "subagent.started"    // id
	SubagentCompleted  Kind = "subagent.completed"  // id
	SubagentFailed     Kind = "subagent.failed"     // id
	PermissionRequest  Kind = "permission.request"  // call, tool
	PermissionResponse Kind = "permission.response" // call, tool, allow, scope
	HumanRequest       Kind = "human.request"       // call: its number
	HumanResponse      Kind = "human.response"      // call
	Steer              Kind = "steer"               // messages: how many
	Compact            Kind = "compact"             // messages: how many, model, usage; or archive: its name
)

// kindData is what there is to know of a kind.
type kindData struct {
	kind   Kind
	about  string  // what happened
	fields []field // of data; nil: there is no data
	needs  []string
}

// kinds are all kinds of events, with what EventSchema says of them.
var kinds = []kindData{
	{kind: RunStart, about: "A run begins, or is resumed.", fields: []field{
		{"recipe", text("The recipe's name.")},
		{"version?", text("The recipe's version, if it has one.")},
		{"digest", text("What the recipe says, as a hash.")},
		{"resume?", described(object{"const": true}, "The run goes on after an answer.")},
		{"recover?", described(object{"const": true}, "The run goes on after its process died.")},
		{"traceparent?", text("The span of the run's first execution, in the form of the W3C trace context.")},
	}},
	{kind: RunSuccess, about: "The run ends well."},
	{kind: RunError, about: "The run fails.",
		fields: []field{{"code", text("")}, {"message", text("")}, {"step?", text("The path of what failed.")}}},
	{kind: RunCancelled, about: "The run is cancelled.", fields: []field{{"reason", text("")}}},
	{kind: RunPaused, about: "The run stops until a pause is answered: one for each open pause.",
		fields: []field{{"pauseKind", pauses}, {"step", text("The path of the step that waits.")}}},
	{kind: RunOutput, about: "What a paused outcome has instead of an output.",
		fields: []field{{"type", object{"const": "artefact"}}}},
	{kind: RunEnd, about: "The last event of a run, exactly once.",
		fields: []field{{"status", oneOf("", "ok", "paused", "error", "cancelled")}}},
	{kind: StepStart, about: "A step begins."},
	{kind: StepEnd, about: "A step ends.", fields: []field{
		{"status", oneOf("", "succeeded", "failed", "cancelled")},
		{"durationMs", count("")},
		{"code?", text("Of a failure.")},
		{"message?", text("Of a failure.")},
		{"stack?", text("Of a panic.")},
	}},
	{kind: StepSkip, about: "A step is skipped.", fields: []field{
		{"reason", oneOf("Its condition was false, or its trigger cannot hold any more.", "when_false", "upstream")},
	}},
	{kind: StepWaiting, about: "A step waits for an answer, an event or a time.",
		fields: []field{{"pauseKind", pauses}}},
	{kind: StepSaid, about: "A step tells whoever watches the run something.", fields: []field{
		{"text", text("What it says.")},
		{"value?", described(object{}, "What goes with it, for programs.")},
	}},
	{kind: StepReplayed, about: "The step had ended before the run was resumed."},
	{kind: StepRollback, about: "What a step did is rolled back.",
		fields: []field{{"ok", boolean}, {"message?", text("Of a failure.")}}},
	{kind: AdapterCall, about: "A step calls a model, a tool or a retriever.", fields: []field{
		{"kind", oneOf("", "model", "tool", "retriever")},
		{"name", text("Of the model or tool, as the recipe has it; of a retriever, retriever.")},
		{"model?", text("The model, as its provider names it.")},
		{"provider?", text("Who offers the model.")},
		{"key?", text("The idempotency key of a call that may have an effect, in a run with a store.")},
	}},
	{kind: AdapterRetry, about: "A call has failed and is made again.", fields: retried},
	{kind: Custom, about: "A tool, a model or a hook has something to tell.", fields: []field{
		{"name", text("What the event is.")},
		{"data?", described(object{"type": "object"}, "Whatever belongs to it.")},
	}},
	{kind: RetriesOver, about: "A call has failed and is not made again.", fields: retried},
	{kind: AdapterFallback, about: "Another model is called instead of one whose call has failed.", fields: []field{
		{"from", text("The model that has failed.")},
		{"to", text("The model that is called.")},
	}},
	{kind: ModelEnd, about: "A call of a model has returned an answer; in an agent, or failed.",
		needs: []string{"usage", "error"}, fields: []field{
			{"finish?", text("Why the answer ends, if the provider says: stop, length, tool_calls, content_filter.")},
			{"model?", text("The model that answered, as its provider names it.")},
			{"usage?", usage},
			{"error?", text("In an agent, instead: the code of the failure.")},
		}},
	{kind: ModelDelta, about: "A piece of an answer. Live only.", needs: []string{"text", "thinking", "tool"},
		fields: []field{
			{"text?", text("Of its text, which is all pieces together.")},
			{"thinking?", text("Instead, of what the model thinks.")},
			{"tool?", text("Instead, a tool whose call begins.")},
		}},
	{kind: AgentStart, about: "An agent begins, or is resumed.", fields: []field{
		{"agent", text("Its name.")},
		{"model?", text("As the recipe has it. A journal does not tell.")},
		{"depth", count("0: it is not a child of another agent.")},
		{"resume?", described(object{"const": true}, "It goes on after an answer or a crash.")},
		{"usage?", described(closed(tokens, ""), "Of one that goes on: tokens so far, children's included.")},
	}},
	{kind: MemoryLoad, about: "An agent has loaded the messages of its conversation.", fields: messages},
	{kind: Retrieve, about: "An agent has looked up documents.", fields: []field{{"documents", count("How many.")}}},
	{kind: ModelStart, about: "An agent calls its model.", fields: []field{
		{"model?", text("As the recipe has it. A journal does not tell.")},
		{"step", number("The step of the loop.")},
		{"messages?", count("How many. A journal does not tell.")},
		{"provider?", text("Who offers the model.")},
		{"providerModel?", text("The model, as its provider names it.")},
	}},
	{kind: ToolCallsBegin, about: "The model of an agent asks for calls of tools.",
		fields: []field{{"tools", texts("In the order of the calls.")}}},
	{kind: ToolStart, about: "An agent calls a tool.", fields: toolCall},
	{kind: ToolEnd, about: "A call of a tool has ended.",
		fields: append(toolCall[:2:2], field{"error?", text("The code of a failure.")})},
	{kind: AgentItem, about: "The model of an agent has given a plan, which is a list of calls, or a response.",
		fields: []field{
			{"item", oneOf("", "plan", "response")},
			{"steps?", count("Of a plan: how many.")},
			{"tools?", texts("Of a plan: the tools called, in order.")},
			{"bytes?", count("Of a response: how long.")},
		}},
	{kind: MemorySave, about: "An agent has saved messages of its conversation.", fields: messages},
	{kind: LoopSnapshot, about: "What the run of an agent's loop was made of.",
		fields: []field{{"snapshot", closed(snapshot, "What the run of the loop was made of.")}}},
	{kind: AgentEnd, about: "An agent ends, or waits.",
		fields: []field{{"stopReason", oneOf("",
			"answer", "max_steps", "repetition", "refused", "no_action", "cut", "until", "error", "cancelled",
			"paused")}}},
	{kind: AgentError, about: "Something in an agent has failed: before the end of what failed.", fields: []field{
		{"message", text("")},
		{"what?", oneOf("What failed; without it the loop.", "model", "tool", "delegate")},
		{"code?", text("Of a failure of the loop.")},
		{"call?", number("")},
		{"tool?", text("")},
	}},
	{kind: DelegateStart, about: "An agent hands a task to another.", fields: delegate},
	{kind: DelegateEnd, about: "The other agent has ended.", fields: delegate},
	{kind: AgentHandoff, about: "An agent leaves the conversation to another, after the calls of the same answer.",
		fields: []field{{"call", number("Its number in the loop.")}, {"from", text("")}, {"to", text("")}}},
	{kind: SubagentStarted, about: "An agent has made a sub-agent.", fields: child},
	{kind: SubagentCompleted, about: "A sub-agent has ended well, or was closed without a turn.", fields: child},
	{kind: SubagentFailed, about: "A sub-agent has failed.", fields: child},
	{kind: PermissionRequest, about: "A call of a tool waits for an approval.", fields: toolCall},
	{kind: PermissionResponse, about: "A call of a tool was approved or denied.",
		fields: append(toolCall[:2:2], field{"allow", boolean}, field{"edited?", boolean},
			field{"scope", oneOf("", "once", "run", "session")})},
	{kind: HumanRequest, about: "An agent asks a person.", fields: question},
	{kind: HumanResponse, about: "A person has answered an agent.", fields: question},
	{kind: Steer, about: "An agent has got messages while it works.", fields: messages},
	{kind: Compact, about: "A summary has replaced old messages of an agent.",
		fields: []field{{"archive?", text("The name of the archive that has the summary.")},
			{"messages?", count("How many it stands for.")}, {"model?", text("That made it, by name.")},
			{"usage?", usage}}},
}
