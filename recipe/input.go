package recipe

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/internal/yamlnode"
)

// typeNames are the shorthands for the schema of an input, or of an answer.
var typeNames = []string{"string", "integer", "number", "boolean", "object", "array"}

func (w *walker) inputs(n *yamlnode.Node) []Input {
	var inputs []Input
	for _, f := range w.Map(n) {
		in := Input{Name: f.Key, Pos: f.Pos}
		if f.Value.Kind == yamlnode.String {
			in.Schema, in.SchemaJSON = w.typeName(f.Value)
		} else {
			w.inputSchema(&in, f.Value)
		}
		inputs = append(inputs, in)
	}
	return inputs
}

// typeName expands the shorthand for {type: NAME}.
func (w *walker) typeName(n *yamlnode.Node) (*Value, map[string]any) {
	name := n.Value.(string)
	if !slices.Contains(typeNames, name) {
		w.Errorf(n.Pos, diagnostics.CodeInvalidValue, "", "%s", schema.NotAType(name))
		name = ""
	}
	v := &Value{Pos: n.Pos, Offset: -1, IsMap: true, Map: []Field{{Key: "type", Pos: n.Pos, Value: w.value(n)}}}
	return v, map[string]any{"type": name}
}

// inputSchema reads the whole form: a JSON Schema, whose default makes the input optional.
func (w *walker) inputSchema(in *Input, n *yamlnode.Node) {
	if n.Kind != yamlnode.Map && n.Kind != yamlnode.Invalid {
		w.WrongType(n, "a JSON Schema or the name of a type")
		return
	}
	in.Schema = w.value(n)
	object, _ := n.Decoded().(map[string]any)
	in.Default, in.HasDefault = object["default"]
	in.SchemaJSON = maps.Clone(object)
	delete(in.SchemaJSON, "default")
	compiled := w.compile(n, in.SchemaJSON)
	if in.HasDefault {
		w.fits(compiled, child(n, "default"), in.Default, fmt.Sprintf("the default of input %q", in.Name))
	}
}

// fits reports how a value that stands at n, and which what names, differs from its schema; s nil: it fits.
func (w *walker) fits(s *schema.Schema, n *yamlnode.Node, v any, what string) {
	if s == nil {
		return
	}
	for _, p := range s.Check(v) {
		text := what + " " + p.Message
		if p.Path != "" {
			text = what + ": " + p.String()
		}
		w.Errorf(locate(n, p.Path), diagnostics.CodeInvalidValue, "", "%s", text)
	}
}

// maxSchemaWeight limits what the schemas of a file cost together: about a second.
const maxSchemaWeight = 40_000

// weigh counts the values of a schema. A pattern weighs as much as many values.
func weigh(n *yamlnode.Node) int {
	weight := 1
	if n.Key == "pattern" || n.Key == "patternProperties" {
		weight += 10 * max(1, len(n.Fields))
	}
	for _, item := range n.Items {
		weight += weigh(item)
	}
	for _, f := range n.Fields {
		weight += weigh(f.Value)
	}
	return weight
}

// compile compiles the schema that stands at n; nil when it was reported, or when there is too
// much of them or of reports.
func (w *walker) compile(n *yamlnode.Node, document any) *schema.Schema {
	if w.Full() || w.schemas > maxSchemaWeight {
		return nil
	}
	if w.schemas += weigh(n); w.schemas > maxSchemaWeight {
		w.Errorf(n.Pos, diagnostics.CodeTooLarge, "move steps into recipes of their own",
			"the JSON Schemas of this file are too large together")
		return nil
	}
	compiled, err := schema.CompileValue(document)
	if err == nil {
		w.spelling(n, document)
		return compiled
	}
	var at *schema.Error
	if !errors.As(err, &at) {
		at = &schema.Error{Message: err.Error()}
	}
	hint := ""
	if required := child(n, "required"); required != nil && required.Kind == yamlnode.Bool {
		hint = "leave required out: an input without a default is required"
	}
	w.Errorf(locate(n, at.Path), diagnostics.CodeBadSchema, hint, "this is not a JSON Schema: %s", at.Message)
	return nil
}

// spelling warns of keywords of a schema that check nothing.
func (w *walker) spelling(n *yamlnode.Node, document any) {
	for _, m := range schema.Misspelt(document) {
		if w.misspelt++; w.misspelt > maxMisspelt {
			return
		}
		w.Warnf(keyOf(n, m.Path, m.Word), diagnostics.CodeBadSchema, fmt.Sprintf("did you mean %q?", m.Meant),
			"%q is not a keyword of JSON Schema, and checks nothing", m.Word)
	}
	if file := child(n, "file"); file != nil {
		w.Warnf(keyOf(n, "", "file"), diagnostics.CodeBadSchema,
			"schema: {file: x.json} loads a file, as the output.schema of a step and with nothing beside it",
			"%q is not a keyword of JSON Schema, and checks nothing", "file")
	}
}

// maxMisspelt limits the warnings about keywords in a file: exceeding the limit for all diagnostics is an error.
const maxMisspelt = 100

// output reads a step's `output`.
func (w *walker) output(n *yamlnode.Node) *Output {
	fields := w.object(n, outputObject)
	if fields == nil {
		return nil
	}
	out := &Output{Pos: n.Pos, MaxBytes: w.positive(fields["max_bytes"]), Checks: w.checks(fields["check"])}
	if r := fields["repairs"]; r != nil {
		out.Repairs = new(w.Int(r, 0, MaxRepairs))
	}
	s := fields["schema"]
	switch {
	case s == nil || s.Kind == yamlnode.Invalid:
		return out
	case s.Kind == yamlnode.Bool && s.Value == true:
		out.SchemaJSON = map[string]any{}
	case isFile(s):
		out.SchemaJSON = s.Decoded().(map[string]any)
		w.schemaFiles = append(w.schemaFiles, out)
	case s.Kind == yamlnode.Map:
		out.SchemaJSON = s.Decoded().(map[string]any)
		w.compile(s, out.SchemaJSON)
	default:
		w.notASchema(s)
		return out
	}
	out.Schema = w.value(s)
	return out
}

// MaxRepairs is how often an answer may be mended at most.
const MaxRepairs = 10

// checks reads the rules for an output.
func (w *walker) checks(n *yamlnode.Node) []Check {
	if n == nil {
		return nil
	}
	items := w.List(n)
	if n.Kind == yamlnode.List && len(items) == 0 {
		w.Errorf(n.Pos, diagnostics.CodeInvalidValue, "give a rule, or leave the key out", "%q may not be empty", n.Key)
	}
	var list []Check
	for _, item := range items {
		fields := w.object(item, checkObject)
		if fields == nil {
			continue
		}
		w.String(fields["else"])
		list = append(list, Check{That: w.condition(fields["that"]), Else: w.value(fields["else"])})
	}
	return list
}

// notASchema reports a value in the place of a JSON Schema.
func (w *walker) notASchema(n *yamlnode.Node) {
	if text, _ := n.Value.(string); slices.Contains(typeNames, text) {
		w.Errorf(n.Pos, diagnostics.CodeWrongType, "write {type: "+text+"}",
			"%q must be a JSON Schema, not a string", n.Key)
		return
	}
	w.WrongType(n, "a JSON Schema")
}
