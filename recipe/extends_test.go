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

// The digest is of what comes out, so it is that of the same recipe written whole.
func TestDigestOfAnExtendedRecipe(t *testing.T) {
	texts := map[string]string{
		"f": head + `extends: lib/g.yaml
inputs: {b: null, c: string}
defaults: {timeout: null, model: big}
agents: {w: {max_steps: 3}}
steps:
  two: {with: {n: 3}, when: null}
  one: null
  four: {uses: set, with: null}
`,
		"lib/g.yaml": `apiVersion: braise/v1
name: g
version: "9"
inputs: {a: string, b: integer}
defaults: {model: m, timeout: 3s}
agents: {w: {model: m, instructions: {file: w.md}, max_steps: 2}}
steps:
  one: {uses: set, with: 1}
  two: {uses: crm.lookup, with: {n: 2, k: 1}, when: "true", timeout: 1s}
  three: {uses: agent, with: {agent: w, prompt: Hello}}
output: ${{ steps.two.output }}
`,
		"lib/w.md": "Write.",
		"whole": head + `inputs: {a: string, c: string}
defaults: {model: big}
agents: {w: {model: m, instructions: Write., max_steps: 3}}
steps:
  two: {uses: crm.lookup, with: {n: 3, k: 1}, timeout: 1s}
  three: {uses: agent, with: {agent: w, prompt: Hello}}
  four: {uses: set, with: null}
output: ${{ steps.two.output }}
`,
	}
	f, err := recipe.Load(files(texts), "f")
	if err != nil {
		t.Fatal(err)
	}
	whole, err := recipe.Load(files(texts), "whole")
	if err != nil {
		t.Fatal(err)
	}
	if f.Digest != whole.Digest || f.Digest == "" {
		t.Errorf("digest %s, want %s", f.Digest, whole.Digest)
	}
	got := map[string][]string{}
	for _, s := range f.Steps {
		got[s.ID] = s.Files
	}
	want := map[string][]string{"two": {"f", "lib/g.yaml"}, "three": {"lib/g.yaml"}, "four": nil}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files of steps (-want +got)\n%s", diff)
	}
	if f.Version != "" {
		t.Errorf("version %q", f.Version)
	}
}

// A recipe alone cannot say what it extends.
func TestParseOfAnExtendedRecipe(t *testing.T) {
	_, err := recipe.Parse("f", []byte(head+"extends: g\n"))
	if diff := cmp.Diff([]string{"3:10 recipe.file | read the recipe with recipe.Load"}, findings(t, err)); diff != "" {
		t.Error(diff)
	}
}

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
		"f": head + `extends: braise:qa
steps:
  x: {uses: recipe, with: {ref: x.yaml}}
  own: {uses: recipe, with: {ref: own.yaml}}
`,
		"own.yaml": "steps: {a: {uses: set, with: 1}}\n",
	})
	r, err := lib.Load(own, "f")
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Agents) != 1 || r.Agents[0].ID != "deep/w" || r.Agents[0].File != "braise:qa/agents/deep/w.md" {
		t.Errorf("agents %v", r.Agents)
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
