package trace

import (
	_ "embed" // the schema
	"slices"
)

//go:embed event.schema.json
var eventSchema []byte

// EventSchema returns the JSON Schema (2020-12) of events as [Event.MarshalJSON] writes them. It
// is closed: kinds and data are those of this version.
func EventSchema() []byte { return slices.Clone(eventSchema) }
