package serve

import (
	"encoding/json"
	"fmt"
	"path"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// node is a part of a JSON Schema, or of the description of the API.
type node = map[string]any

// A described type has a JSON Schema that does not follow from its fields.
type described interface{ schema() node }

// schemas makes JSON Schemas of Go types: the one source of what requests are checked against, and of
// docs/openapi.json. A field is required unless its json tag says omitempty or omitzero. Its doc tag describes it; its
// tags min, max, maxItems, minLength and enum restrict it.
type schemas struct {
	named node // by name, for $ref; nil: structs are put in place
}

var foreign = map[reflect.Type]node{
	reflect.TypeFor[time.Time]():       {"type": "string", "format": "date-time"},
	reflect.TypeFor[json.RawMessage](): {},
	reflect.TypeFor[any]():             {},
	reflect.TypeFor[anything]():        {},
	reflect.TypeFor[object]():          {"type": "object"},
	reflect.TypeFor[runtime.Message](): {"type": "object", "description": "A message of a conversation with a model."},
	reflect.TypeFor[trace.Event](): {"type": "object",
		"description": "An event; GET /api/v1/schemas/event has its schema.",
		"required":    []any{"at", "kind"}},
	reflect.TypeFor[diagnostics.Diagnostic](): {"type": "object",
		"description": "What is wrong with a recipe, or a request.",
		"required":    []any{"level", "kind", "code", "message"}},
}

// of returns the schema of the JSON of a type.
func (s *schemas) of(t reflect.Type) node {
	if known, ok := foreign[t]; ok {
		return known
	}
	if d, ok := reflect.Zero(t).Interface().(described); ok {
		return d.schema()
	}
	switch t.Kind() {
	case reflect.Pointer:
		return s.of(t.Elem())
	case reflect.Bool:
		return node{"type": "boolean"}
	case reflect.Int, reflect.Int64:
		return node{"type": "integer"}
	case reflect.Float64:
		return node{"type": "number"}
	case reflect.String:
		return node{"type": "string"}
	case reflect.Slice, reflect.Array:
		return node{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return node{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.Struct:
		return s.ofStruct(t)
	}
	panic(fmt.Sprintf("serve: %v has no schema", t))
}

func (s *schemas) ofStruct(t reflect.Type) node {
	if s.named == nil {
		return s.object(t)
	}
	name := capital(t.Name())
	if pkg := path.Base(t.PkgPath()); pkg != "serve" {
		name = capital(pkg) + name
	}
	if _, done := s.named[name]; !done {
		s.named[name] = node{} // a type may have itself inside
		s.named[name] = s.object(t)
	}
	return node{"$ref": "#/components/schemas/" + name}
}

func capital(name string) string { return strings.ToUpper(name[:1]) + name[1:] }

func (s *schemas) object(t reflect.Type) node {
	properties, required := node{}, []any{}
	s.fields(t, properties, &required)
	o := node{"type": "object", "properties": properties, "additionalProperties": false}
	if len(required) > 0 {
		o["required"] = required
	}
	return o
}

func (s *schemas) fields(t reflect.Type, properties node, required *[]any) {
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			s.fields(f.Type, properties, required)
			continue
		case name == "" || name == "-":
			continue
		}
		properties[name] = s.field(f)
		if !strings.Contains(options, "omit") {
			*required = append(*required, name)
		}
	}
}

func (s *schemas) field(f reflect.StructField) node {
	field := node{}
	for k, v := range s.of(f.Type) {
		field[k] = v
	}
	if text := f.Tag.Get("doc"); text != "" {
		field["description"] = text
	}
	for tag, keyword := range map[string]string{"min": "minimum", "max": "maximum", "maxItems": "maxItems",
		"minLength": "minLength", "maxLength": "maxLength"} {
		if n, err := strconv.ParseInt(f.Tag.Get(tag), 10, 64); err == nil {
			field[keyword] = n
		}
	}
	if words := f.Tag.Get("enum"); words != "" {
		field["enum"] = anys(strings.Fields(words))
	}
	return field
}

func anys[T any](list []T) []any {
	all := make([]any, len(list))
	for i, v := range list {
		all[i] = v
	}
	return all
}

var bodySchemas sync.Map // by type: *schema.Schema

// bodySchema returns the schema of a body, given a value of its type.
func bodySchema(of any) *schema.Schema {
	t := reflect.TypeOf(of)
	if known, ok := bodySchemas.Load(t); ok {
		return known.(*schema.Schema)
	}
	compiled, err := schema.CompileValue((&schemas{}).of(t))
	if err != nil {
		panic(fmt.Sprintf("serve: %v: %v", t, err)) // a test compiles all of them
	}
	bodySchemas.Store(t, compiled)
	return compiled
}
