package recipe_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/recipe"
)

func texts(list diagnostics.List) (lines []string) {
	for _, d := range list {
		lines = append(lines, d.String())
	}
	return lines
}

// trust 4.3, 4.6: what is wrong with schemas, with its place.
func TestSchemaWords(t *testing.T) {
	const step = "steps: {a: {uses: model, with: {prompt: x}, output: {schema: {%}}}}\n"
	for _, tt := range []struct {
		name, text string
		want       []string
	}{
		{"a type", strings.Replace(step, "%", "type: strng", 1), []string{
			`f.yaml:3:69: this is not a JSON Schema: "strng" is not a type; did you mean "string"? [recipe.badSchema]`}},
		{"one of several types", strings.Replace(step, "%", "type: [string, nul]", 1), []string{
			`f.yaml:3:78: this is not a JSON Schema: "nul" is not a type; did you mean "null"? [recipe.badSchema]`}},
		{"the type of an input", "inputs: {a: strng}\nsteps: {a: {uses: set, with: 1}}\n", []string{
			`f.yaml:3:13: "strng" is not a type; did you mean "string"? [recipe.invalid]`}},
		{"keywords", "inputs: {a: {type: object, requred: [b], properties: {b: {type: integer, minimun: 1}}}}\n" +
			"steps: {a: {uses: set, with: 1}}\n", []string{
			"f.yaml:3:28: warning: \"requred\" is not a keyword of JSON Schema, and checks nothing [recipe.badSchema]\n  hint: did you mean \"required\"?",
			"f.yaml:3:74: warning: \"minimun\" is not a keyword of JSON Schema, and checks nothing [recipe.badSchema]\n  hint: did you mean \"minimum\"?"}},
		{"a file beside keywords", strings.Replace(step, "%", "file: x.json, type: object", 1), []string{
			"f.yaml:3:63: warning: \"file\" is not a keyword of JSON Schema, and checks nothing [recipe.badSchema]\n  hint: schema: {file: x.json} loads a file, as the output.schema of a step and with nothing beside it"}},
		{"a file for an input", "inputs: {a: {file: x.json}}\nsteps: {a: {uses: set, with: 1}}\n", []string{
			"f.yaml:3:14: warning: \"file\" is not a keyword of JSON Schema, and checks nothing [recipe.badSchema]\n  hint: schema: {file: x.json} loads a file, as the output.schema of a step and with nothing beside it"}},
		{"a file that is not loaded", strings.Replace(step, "%", "file: x.json", 1), []string{
			"f.yaml:3:69: warning: the schema in \"x.json\" is not loaded, and checks nothing [recipe.file]\n  hint: read the recipe with recipe.Load"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, _ := recipe.Parse("f.yaml", []byte(head+tt.text))
			if diff := cmp.Diff(tt.want, texts(r.Diagnostics)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// trust 4.3: a schema may stand in a file of its own, in JSON or YAML.
func TestSchemaFiles(t *testing.T) {
	const steps = "steps: {a: {uses: model, with: {prompt: x}, output: {schema: {file: s/%}}}}\n"
	fsys := files(map[string]string{
		"good.yaml":   strings.Replace(steps, "%", "person.json", 1),
		"yaml.yaml":   strings.Replace(steps, "%", "person.yaml", 1),
		"wrong.yaml":  strings.Replace(steps, "%", "wrong.json", 1),
		"gone.yaml":   strings.Replace(steps, "%", "gone.json", 1),
		"text.yaml":   strings.Replace(steps, "%", "text.json", 1),
		"s/text.json": `"x"`, "s/wrong.json": "{\n \"type\": \"strng\"}",
		"s/person.json": `{"type": "object", "requred": ["name"]}`, "s/person.yaml": "type: object\n",
	})
	for file, want := range map[string][]string{
		"good.yaml":  {"s/person.json:1:20: warning: \"requred\" is not a keyword of JSON Schema, and checks nothing [recipe.badSchema]\n  hint: did you mean \"required\"?"},
		"yaml.yaml":  nil,
		"wrong.yaml": {`s/wrong.json:2:10: this is not a JSON Schema: "strng" is not a type; did you mean "string"? [recipe.badSchema]`},
		"gone.yaml":  {`gone.yaml:3:69: "s/gone.json" cannot be read: file does not exist [recipe.file]`},
		"text.yaml":  {`s/text.json:1:1: this must be a JSON Schema, not a string [recipe.wrongType]`},
	} {
		r, err := recipe.Load(fsys, file)
		if diff := cmp.Diff(want, texts(r.Diagnostics)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", file, diff)
		}
		if err != nil {
			continue
		}
		if got := r.Steps[0].Output.SchemaJSON["type"]; got != "object" {
			t.Errorf("%s: the type is %v", file, got)
		}
		text, err := r.Definition()
		if err != nil {
			t.Fatal(err)
		}
		again, err := recipe.FromDefinition(text)
		if err != nil || again.Digest != r.Digest {
			t.Errorf("%s: of its definition: %v", file, err)
		}
	}
}

// trust 7.1: a run of a time when no such file was read goes on.
func TestSchemaFileOfAnOldDefinition(t *testing.T) {
	for _, file := range []string{"x.json", "/etc/x.json", ""} {
		text, err := json.Marshal(map[string]any{"format": 1, "main": "f.yaml", "files": map[string]any{"f.yaml": head +
			"steps: {a: {uses: model, with: {prompt: x}, output: {schema: {file: '" + file + "'}}}}\n"}})
		if err != nil {
			t.Fatal(err)
		}
		r, err := recipe.FromDefinition(text)
		if err != nil {
			t.Errorf("%q: %v", file, err)
			continue
		}
		if len(r.Diagnostics) != 1 || r.Diagnostics[0].Level != diagnostics.Warn {
			t.Errorf("%q: %v", file, r.Diagnostics)
		}
	}
}
