package trace

import (
	"bytes"
	"encoding/json"
	"strings"
)

// kindData is what events of a kind hold.
type kindData struct {
	kind   Kind
	fields []field // of data; nil: there is no data
	needs  []string
}

// field is a key of data. One whose name ends with ? may be missing.
type field struct {
	name   string
	schema object
}

type object = map[string]any

func text(about string) object { return described(object{"type": "string"}, about) }

func count(about string) object { return described(object{"type": "integer", "minimum": 0}, about) }

func number(about string) object { return described(object{"type": "integer", "minimum": 1}, about) }

func oneOf(about string, words ...string) object { return described(object{"enum": words}, about) }

func texts(about string) object { return described(object{"type": "array", "items": text("")}, about) }

func described(schema object, about string) object {
	if about != "" {
		schema["description"] = about
	}
	return schema
}

// closed is the schema of an object with these members and no others.
func closed(fields []field, about string) object {
	required, properties := []string{}, object{}
	for _, f := range fields {
		name, optional := strings.CutSuffix(f.name, "?")
		if properties[name] = f.schema; !optional {
			required = append(required, name)
		}
	}
	s := object{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		s["required"] = required
	}
	return described(s, about)
}

var (
	boolean = object{"type": "boolean"}
	usage   = closed([]field{{"input_tokens", count("")}, {"output_tokens", count("")}}, "Tokens.")
	pauses  = oneOf("", "human", "external", "system")
	ports   = oneOf("", "model", "tool", "retriever", "memory")

	retried = []field{
		{"adapterKind", ports},
		{"attempt", number("The attempts so far.")},
		{"maxAttempts", number("")},
		{"method", text("What was called: generate, stream, call or retrieve; of a memory read or write.")},
		{"reason", text("Why the last attempt failed.")},
		{"delayMs?", count("The wait before the next attempt.")},
	}
	toolCall = []field{{"call", number("Its number in the loop.")}, {"tool", text("")}}
	delegate = []field{{"agent", text("")}, {"call", number("")}, {"depth", number("")}}
	messages = []field{{"messages", count("How many.")}}
	question = []field{{"call", number("Its number in the loop.")}}
	child    = []field{{"id", text("")}}

	snapshot = []field{
		{"agent", text("Its name.")},
		{"allow?", texts("The tools that it may call, sorted. Without it: all.")},
		{"skills?", object{"type": "array", "description": "Sorted by scope, name and path.", "items": closed([]field{
			{"scope?", text("")}, {"name", text("")}, {"path", text("")}, {"sha256", text("")}}, "")}},
		{"approvals?", texts("What is approved for the session, sorted.")},
		{"definition", text("What the agent is made of, as a hash.")},
		{"steps", count("")},
		{"usage", usage},
	}
)

// kinds are all kinds of events with their data.
var kinds = []kindData{
	{kind: RunStart, fields: []field{
		{"recipe", text("The recipe's name.")},
		{"version?", text("The recipe's version, if it has one.")},
		{"digest", text("What the recipe says, as a hash.")},
		{"resume?", described(object{"const": true}, "The run goes on after an answer.")},
		{"recover?", described(object{"const": true}, "The run goes on after its process died.")},
	}},
	{kind: RunSuccess},
	{kind: RunError, fields: []field{{"code", text("")}, {"message", text("")}, {"step?", text("The path of the step that failed.")}}},
	{kind: RunCancelled, fields: []field{{"reason", text("")}}},
	{kind: RunPaused, fields: []field{{"pauseKind", pauses}, {"step", text("The path of the step that waits.")}}},
	{kind: RunOutput, fields: []field{{"type", object{"const": "artefact"}}}},
	{kind: RunEnd, fields: []field{{"status", oneOf("", "ok", "paused", "error", "cancelled")}}},
	{kind: StepStart},
	{kind: StepEnd, fields: []field{
		{"status", oneOf("", "succeeded", "failed", "cancelled")},
		{"durationMs", count("")},
		{"code?", text("Of a failure.")},
		{"message?", text("Of a failure.")},
		{"stack?", text("Of a panic.")},
	}},
	{kind: StepSkip, fields: []field{{"reason", oneOf("Its condition was false, or its trigger cannot hold any more.", "when_false", "upstream")}}},
	{kind: StepWaiting, fields: []field{{"pauseKind", pauses}}},
	{kind: StepReplayed},
	{kind: StepRollback, fields: []field{{"ok", boolean}, {"message?", text("Of a failure.")}}},
	{kind: AdapterCall, fields: []field{
		{"kind", oneOf("", "model", "tool", "retriever")},
		{"name", text("Of the model or tool, as the recipe has it; of a retriever, retriever.")},
		{"model?", text("The model, as its provider names it.")},
		{"provider?", text("Who offers the model.")},
	}},
	{kind: AdapterRetry, fields: retried},
	{kind: RetriesOver, fields: retried},
	{kind: ModelEnd, needs: []string{"usage", "error"}, fields: []field{
		{"finish?", text("Why the answer ends, if the provider says: stop, length, tool_calls, content_filter.")},
		{"model?", text("The model that answered, as its provider names it.")},
		{"usage?", usage},
		{"error?", text("In an agent, instead: the code of the failure.")},
	}},
	{kind: ModelDelta, fields: []field{{"text", text("A piece of an answer that is under way. Live only.")}}},

	{kind: "agent.start", fields: []field{
		{"agent", text("Its name.")},
		{"model?", text("As the recipe has it. A journal does not tell.")},
		{"depth", count("0: it is no child of another agent.")},
		{"resume?", described(object{"const": true}, "It goes on after an answer or a crash.")},
		{"usage?", described(closed([]field{{"input_tokens", count("")}, {"output_tokens", count("")}}, ""), "Of one that goes on: tokens so far, children's included.")},
	}},
	{kind: "memory.load", fields: messages},
	{kind: "retrieve", fields: []field{{"documents", count("How many.")}}},
	{kind: "model.start", fields: []field{
		{"model?", text("As the recipe has it. A journal does not tell.")},
		{"step", number("The step of the loop.")},
		{"messages?", count("How many. A journal does not tell.")},
		{"provider?", text("Who offers the model.")},
		{"providerModel?", text("The model, as its provider names it.")},
	}},
	{kind: "tool.calls.begin", fields: []field{{"tools", texts("In the order of the calls.")}}},
	{kind: "tool.start", fields: toolCall},
	{kind: "tool.end", fields: append(toolCall[:2:2], field{"error?", text("The code of a failure.")})},
	{kind: "agent.item", fields: []field{
		{"item", oneOf("", "plan", "response")},
		{"steps?", count("Of a plan: how many.")},
		{"tools?", texts("Of a plan: the tools called, in order.")},
		{"bytes?", count("Of a response: how long.")},
	}},
	{kind: "memory.save", fields: messages},
	{kind: "agent.loop.snapshot", fields: []field{{"snapshot", closed(snapshot, "What the run of the loop was made of.")}}},
	{kind: "agent.end", fields: []field{{"stopReason", oneOf("", "answer", "max_steps", "repetition", "no_action", "until", "error", "cancelled", "paused")}}},
	{kind: "agent.error", fields: []field{
		{"message", text("")},
		{"what?", oneOf("What failed; without it the loop.", "model", "tool", "delegate")},
		{"code?", text("Of a failure of the loop.")},
		{"call?", number("")},
		{"tool?", text("")},
	}},
	{kind: "delegate.start", fields: delegate},
	{kind: "delegate.end", fields: delegate},
	{kind: "subagent.started", fields: child},
	{kind: "subagent.completed", fields: child},
	{kind: "subagent.failed", fields: child},
	{kind: "permission.request", fields: toolCall},
	{kind: "permission.response", fields: append(toolCall[:2:2], field{"allow", boolean}, field{"scope", oneOf("", "once", "session")})},
	{kind: "human.request", fields: question},
	{kind: "human.response", fields: question},
	{kind: "steer", fields: messages},
	{kind: "compact", fields: []field{{"archive", text("Its name.")}}},
}

// EventSchema returns the JSON Schema (2020-12) of events as [Event.MarshalJSON] writes them. It
// is closed: kinds and data are those of this version.
func EventSchema() []byte {
	names, bare := []Kind{}, []Kind{}
	rules := []any{
		object{"if": kindIs(object{"pattern": `^run\.`}), "then": object{"properties": object{"step": false}}, "else": object{"required": []string{"step"}}},
	}
	for _, k := range kinds {
		names = append(names, k.kind)
		if k.fields == nil {
			bare = append(bare, k.kind)
			continue
		}
		data := closed(k.fields, "")
		if k.needs != nil {
			any := []object{}
			for _, name := range k.needs {
				any = append(any, object{"required": []string{name}})
			}
			data["oneOf"] = any
		}
		rules = append(rules, object{"if": kindIs(object{"const": k.kind}), "then": object{"properties": object{"data": data}}})
	}
	rules = append(rules, object{"if": kindIs(object{"enum": bare}), "then": object{"properties": object{"data": false}}, "else": object{"required": []string{"data"}}})
	return document("Braise trace event", object{
		"description": "One thing that happened in a run: an element of an outcome's trace, or a line of braise run --output jsonl.",
		"type":        "object",
		"required":    []string{"at", "kind"},
		"properties": object{
			"seq":  number("The event's place in the outcome's trace, from 1. Live events have none."),
			"at":   object{"description": "When it happened, in UTC.", "type": "string", "format": "date-time", "pattern": "Z$"},
			"kind": object{"description": "What happened.", "enum": names},
			"step": object{"description": "The path of the step, or of an agent's child in it: send, verify[2] for an item, verify[2]/check inside a body, ask/research#1 for the child that the agent's first call made.", "type": "string", "minLength": 1},
			"data": object{"description": "What there is to say about it, by its kind.", "type": "object"},
		},
		"additionalProperties": false,
		"allOf":                rules,
	})
}

// SnapshotSchema returns the JSON Schema (2020-12) of the snapshot in the data of agent.loop.snapshot.
func SnapshotSchema() []byte {
	return document("Braise agent snapshot", closed(snapshot, "What a run of an agent's loop was made of: equal runs have equal snapshots."))
}

func kindIs(schema object) object {
	return object{"properties": object{"kind": schema}}
}

func document(title string, schema object) []byte {
	schema["$schema"], schema["title"] = "https://json-schema.org/draft/2020-12/schema", title
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(schema); err != nil {
		panic("trace: a schema is JSON: " + err.Error())
	}
	return b.Bytes()
}
