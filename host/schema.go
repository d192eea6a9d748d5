package host

import (
	_ "embed" // the schema
	"slices"
)

//go:embed config.schema.json
var configSchema []byte

// ConfigSchema returns the JSON Schema (2020-12) of braise.yaml. It describes what this version
// takes. Editors use it; [ParseConfig] finds more.
func ConfigSchema() []byte { return slices.Clone(configSchema) }
