package recipe_test

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/internal/yamlnode"
	"github.com/braise-run/braise/recipe"
)

// decoded reads YAML as the schema sees it.
func decoded(t *testing.T, text string) any {
	t.Helper()
	n, found := yamlnode.Parse("f", []byte(text), &yamlnode.Options{MaxDepth: 256})
	if n == nil {
		t.Fatal(found)
	}
	return n.Decoded()
}

func TestSchemaAccepts(t *testing.T) {
	s, err := schema.Compile(recipe.Schema())
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		head + "steps: {a: {uses: set, with: null}}\n",
		head + "steps: {a: {uses: fail}}\nagents: {a: {approval: never, memory: inherit, subagents: {max_active: 2}, until: true}}\n",
		head + "steps: {a: {uses: a.b, when: true, output: {schema: true}, on_error: fail, foreach: {in: [1]}, timeout: 1h0.5m}}\n",
		head + "steps: {a: {uses: model, with: {messages: \"${{ x }}\"}}, b: {uses: recipe, with: {ref: a, inputs: \"${{ x }}\"}}}\n",
		nested(3),
	} {
		if problems := s.Check(decoded(t, text)); problems != nil {
			t.Errorf("%s: %s", text, schema.Describe(problems))
		}
		if _, err := recipe.Parse("f", []byte(text)); err != nil {
			t.Error(err)
		}
	}
	files := os.DirFS("testdata/triage")
	if err := fs.WalkDir(files, ".", func(name string, _ fs.DirEntry, err error) error {
		if path.Ext(name) == ".yaml" {
			text, err := fs.ReadFile(files, name)
			if err != nil {
				return err
			}
			if problems := s.Check(decoded(t, string(text))); problems != nil {
				t.Errorf("%s: %s", name, schema.Describe(problems))
			}
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}

// TestSchemaRejects checks that the schema and Parse refuse the same recipes, but for mistakes that
// a JSON Schema cannot see.
func TestSchemaRejects(t *testing.T) {
	s, err := schema.Compile(recipe.Schema())
	if err != nil {
		t.Fatal(err)
	}
	unseen := regexp.MustCompile(`yaml\.|badSchema|duplicateName|leave \${{ and }} out|type name|recipe\.invalid$|` +
		`without default|may not hold|up to 63|leave it out for no limit|give it a unit: 90s|write an expression`)
	checked := 0
	for _, tt := range rejected {
		seen := false
		for _, line := range strings.Split(tt.want, "\n") {
			seen = seen || !unseen.MatchString(line)
		}
		if !seen {
			continue
		}
		checked++
		if s.Check(decoded(t, head+tt.text)) == nil {
			t.Errorf("the schema accepts %s", tt.text)
		}
	}
	if checked < 40 {
		t.Errorf("only %d recipes were checked", checked)
	}
}
