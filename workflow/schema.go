package workflow

import (
	"bytes"
	_ "embed" // the schema
	"encoding/json"
	"errors"

	"github.com/braise-run/braise/trace"
)

//go:embed outcome.schema.json
var outcomeSchema []byte

// OutcomeSchema returns the JSON Schema (2020-12) of outcomes as [Outcome.MarshalJSON] writes
// them, with [trace.EventSchema] for the trace. It is closed: it allows only the members, event
// kinds and diagnostic codes of this version.
func OutcomeSchema() []byte {
	var schema, event map[string]any
	var text []byte
	err := errors.Join(json.Unmarshal(outcomeSchema, &schema), json.Unmarshal(trace.EventSchema(), &event))
	if err == nil {
		delete(event, "$schema") // the root says it
		schema["$defs"].(map[string]any)["event"] = event
		text, err = marshal(schema)
	}
	var b bytes.Buffer
	if err = errors.Join(err, json.Indent(&b, text, "", "  ")); err != nil {
		panic("workflow: the schemas are JSON: " + err.Error())
	}
	return append(b.Bytes(), '\n')
}
