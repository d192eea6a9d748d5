package recipe_test

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/recipe"
)

type librarySide struct{ fstest.MapFS }

func (librarySide) DisplayName(name string) string { return "../lib/" + name }

// What a recipe names of a library is part of its definition, which needs no library.
func TestDefinitionWithALibrary(t *testing.T) {
	const part = "apiVersion: braise/v1\nname: part\nsteps: {a: {uses: model, with: {model: m, prompt: {file: p.md}}}}\n"
	lib := &recipe.Library{
		Roots: nil,
		Shipped: fstest.MapFS{
			"qa/recipe.yaml": {Data: []byte(part)}, "qa/p.md": {Data: []byte("shipped")},
			"qa/agents/deep/w.md": {Data: []byte("Write.")},
		},
	}
	lib.Roots = append(lib.Roots, fstest.MapFS{}, librarySide{fstest.MapFS{
		"x.yaml": {Data: []byte(part)}, "p.md": {Data: []byte("root")}, "own.yaml": {Data: []byte("never")},
	}})
	own := files(map[string]string{
		"f": head + `steps:
  qa: {uses: recipe, with: {ref: "braise:qa"}}
  x: {uses: recipe, with: {ref: x.yaml}}
  own: {uses: recipe, with: {ref: own.yaml}}
`,
		"own.yaml": "steps: {a: {uses: set, with: 1}}\n",
	})
	r, err := lib.Load(own, "f")
	if err != nil {
		t.Fatal(err)
	}
	if list := r.Steps[0].Body.Recipe.Agents; len(list) != 1 || list[0].ID != "deep/w" || list[0].File != "braise:qa/agents/deep/w.md" {
		t.Errorf("agents %v", list)
	}
	if got := r.Steps[1].Body.Recipe.File; got != "../lib/x.yaml" {
		t.Errorf("x is of %q", got)
	}
	definition, err := r.Definition()
	if err != nil {
		t.Fatal(err)
	}
	again, err := recipe.FromDefinition(definition)
	if err != nil {
		t.Fatal(err)
	}
	if again.Digest != r.Digest {
		t.Errorf("digest %s, want %s", again.Digest, r.Digest)
	}
	if diff := cmp.Diff(r.Steps, again.Steps, cmp.AllowUnexported(recipe.Recipe{}), cmp.FilterPath(func(p cmp.Path) bool {
		return strings.HasSuffix(p.String(), "Recipe.beside")
	}, cmp.Ignore())); diff != "" {
		t.Errorf("steps (-want +got)\n%s", diff)
	}
	second, err := again.Definition()
	if err != nil || string(second) != string(definition) {
		t.Errorf("the definition became %s, %v", second, err)
	}
	if _, err := recipe.Load(own, "f"); err == nil {
		t.Error("it was found without a library")
	} else if wrong := (*diagnostics.Error)(nil); !errors.As(err, &wrong) || !strings.Contains(err.Error(), `no recipe "braise:qa" is shipped`) {
		t.Error(err)
	}
}
