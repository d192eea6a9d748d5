package trace

import (
	"bytes"
	"encoding/json"
	"strings"
)

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
	tokens  = []field{{"input_tokens", count("")}, {"cached_tokens?", count("")}, {"cache_write_tokens?", count("")},
		{"output_tokens", count("")}, {"reasoning_tokens?", count("")}}
	usage  = closed(tokens, "Tokens.")
	pauses = oneOf("", "human", "external", "system")
	ports  = oneOf("", "model", "tool", "retriever", "memory")

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

	content = field{"content?", object{"description": "What goes into or comes out of a call, if asked for."}}

	snapshot = []field{
		{"agent", text("Its name.")},
		{"allow?", texts("The tools that it may call, sorted. Without it: all.")},
		{"skills?", object{"type": "array", "description": "Sorted by scope, name and path.", "items": closed([]field{
			{"scope?", text("")}, {"name", text("")}, {"path", text("")}, {"sha256", text("")}}, "")}},
		{"approvals?", texts("What is approved for the run, sorted.")},
		{"definition", text("What the agent is made of, as a hash.")},
		{"steps", count("")},
		{"usage", usage},
	}
)

// EventSchema returns the JSON Schema (2020-12) of events as [Event.MarshalJSON] writes them. It
// is closed: kinds and data are those of this version.
func EventSchema() []byte {
	names, bare := []Kind{}, []Kind{}
	rules := []any{
		object{
			"if":   kindIs(object{"pattern": `^run\.`}),
			"then": object{"properties": object{"step": false}},
			"else": object{"required": []string{"step"}},
		},
	}
	for _, k := range kinds {
		names = append(names, k.kind)
		then := object{"description": k.about}
		rules = append(rules, object{"if": kindIs(object{"const": k.kind}), "then": then})
		if k.fields == nil {
			bare = append(bare, k.kind)
			continue
		}
		data := closed(append(k.fields[:len(k.fields):len(k.fields)], content), "")
		if k.needs != nil {
			any := []object{}
			for _, name := range k.needs {
				any = append(any, object{"required": []string{name}})
			}
			data["oneOf"] = any
		}
		then["properties"] = object{"data": data}
	}
	rules = append(rules, object{
		"if":   kindIs(object{"enum": bare}),
		"then": object{"properties": object{"data": false}},
		"else": object{"required": []string{"data"}},
	})
	return document("Braise trace event", object{
		"description": "One thing that happened in a run: an element of an outcome's trace," +
			" or a line of braise run --output jsonl.",
		"type":     "object",
		"required": []string{"at", "kind"},
		"properties": object{
			"seq": number("The event's place in the outcome's trace, from 1. Live events have none."),
			"at": object{"description": "When it happened, in UTC.", "type": "string",
				"format": "date-time", "pattern": "Z$"},
			"run":  object{"description": "The run's id. Of live events only.", "type": "string", "minLength": 1},
			"kind": object{"description": "What happened.", "enum": names},
			"step": object{"description": "The path of the step, or of an agent's child in it: send, verify[2] for an" +
				" item, verify[2]/check inside a body, ask/research#1 for the child that the agent's first call made.",
				"type": "string", "minLength": 1},
			"data": object{"description": "What there is to say about it, by its kind.", "type": "object"},
		},
		"additionalProperties": false,
		"allOf":                rules,
	})
}

// SnapshotSchema returns the JSON Schema (2020-12) of the snapshot in the data of agent.loop.snapshot.
func SnapshotSchema() []byte {
	return document("Braise agent snapshot",
		closed(snapshot, "What a run of an agent's loop was made of: equal runs have equal snapshots."))
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
