package host_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/braise-run/braise/host"
)

const headOf = "apiVersion: braise/v1\nname: named\nsteps:\n"

// openIn opens an installation with the configuration of a folder.
func openIn(t *testing.T, dir string) *host.Host {
	t.Helper()
	h, err := host.Open(t.Context(), &host.Options{Config: filepath.Join(dir, "braise.yaml"), Store: host.MemoryStore, Warn: func(string) {}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

// A recipe of a root reads nothing outside of that root, by paths or by links; positions name its files.
func TestRootsAreWalls(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{
		"app/braise.yaml":       "recipes: {roots: [../lib, ../more]}\n",
		"app/recipe.yaml":       headOf + "  a: {uses: recipe, with: {ref: ok.yaml}}\n  b: {uses: recipe, with: {ref: up.yaml}}\n  c: {uses: recipe, with: {ref: link.yaml}}\n",
		"app/good.yaml":         headOf + "  a: {uses: recipe, with: {ref: ok.yaml}}\n",
		"lib/ok.yaml":           headOf + "  a: {uses: recipe, with: {ref: deep}}\n",
		"lib/up.yaml":           headOf + "  a: {uses: recipe, with: {ref: ../secret.yaml}}\n",
		"more/deep/recipe.yaml": headOf + "  a: {uses: set, with: 1}\n",
		"secret.yaml":           headOf + "  a: {uses: set, with: 1}\n",
	})
	if err := os.Symlink(filepath.Join("..", "secret.yaml"), filepath.Join(dir, "lib", "link.yaml")); err != nil {
		t.Skip(err)
	}
	h := openIn(t, filepath.Join(dir, "app"))
	wf, err := h.Load(t.Context(), filepath.Join(dir, "app", "good.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := wf.Recipe().Steps[0].Body.Recipe.File, filepath.ToSlash(filepath.Join(dir, "lib", "ok.yaml")); got != want {
		t.Errorf("the sub-recipe is %q, want %q", got, want)
	}
	_, err = h.Load(t.Context(), filepath.Join(dir, "app", "recipe.yaml"))
	for _, want := range []string{`"../secret.yaml" leaves the folder`, `there is no recipe "link.yaml", neither in the folder of this file nor in the roots`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v\ndoes not say %q", err, want)
		}
	}
	if _, err := host.LoadRecipe(filepath.Join(dir, "app", "good.yaml")); err == nil {
		t.Error("a root was found without its configuration")
	}
}

// A root that does not exist is an error of what is loaded, and is named.
func TestRootThatIsMissing(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{"braise.yaml": "recipes: {roots: [gone]}\n", "recipe.yaml": headOf + "  a: {uses: set, with: 1}\n"})
	_, err := openIn(t, dir).Load(t.Context(), filepath.Join(dir, "recipe.yaml"))
	if err == nil || !strings.Contains(err.Error(), "/gone: a folder of recipes.roots cannot be read") {
		t.Error(err)
	}
}

// A recipe that is served is read again when what it names in a root has changed.
func TestRecipesOfRoots(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{
		"app/braise.yaml": "recipes: {roots: [../lib]}\n", "app/recipe.yaml": "apiVersion: braise/v1\nname: app\nsteps: {base: {uses: recipe, with: {ref: base.yaml}}}\n",
		"lib/base.yaml": recipeText("base", "1"),
	})
	h := openIn(t, filepath.Join(dir, "app"))
	r, err := h.Recipes(t.Context(), []string{filepath.Join(dir, "app")})
	if err != nil {
		t.Fatal(err)
	}
	before, _ := r.Find("app")
	writeFiles(t, dir, map[string]string{"lib/base.yaml": recipeText("base", "another")})
	if err := r.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	after, _ := r.Find("app")
	if before.Workflow == nil || after.Workflow == nil || before.Workflow.Recipe().Digest == after.Workflow.Recipe().Digest {
		t.Errorf("before %v, after %v", before.Diagnostics, after.Diagnostics)
	}
}

// An agent's file stands for a recipe that asks it. In a folder agents, or one below, the others there are known.
func TestLoadRecipeOfAnAgent(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{
		"agents/critic.md": "---\nmodel: fast\n---\nBe strict.\n", "agents/team/lead.md": "---\nmodel: fast\ndelegates: [critic]\n---\nLead.\n",
		"notes/critic.md": "---\nmodel: fast\ninstructions: {file: text.md}\n---\n", "notes/text.md": "Be kind.", "notes/other.md": "---\nmodle: x\n---\n",
	})
	for _, tt := range []struct {
		file, name, instructions string
		agents                   int
	}{
		{"agents/critic.md", "critic", "Be strict.", 2},
		{"agents/team/lead.md", "team/lead", "Lead.", 2},
		{"notes/critic.md", "critic", "Be kind.", 1},
	} {
		r, err := host.LoadRecipe(filepath.Join(dir, tt.file))
		if err != nil {
			t.Errorf("%s: %v", tt.file, err)
			continue
		}
		text := ""
		for _, a := range r.Agents {
			if a.ID == tt.name {
				text = a.Instructions
			}
		}
		if r.Name != tt.name || text != tt.instructions || len(r.Agents) != tt.agents {
			t.Errorf("%s: %q with %d agents says %q", tt.file, r.Name, len(r.Agents), text)
		}
		definition, err := r.Definition()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(definition), "modle") {
			t.Errorf("%s: the definition has files of others", tt.file)
		}
	}
	if _, err := host.LoadRecipe(filepath.Join(dir, "notes/other.md")); err == nil || !strings.Contains(err.Error(), "notes/other.md:2:1: unknown key \"modle\"") {
		t.Error(err)
	}
	if _, err := host.LoadRecipe(filepath.Join(dir, "notes/gone.md")); err == nil || !strings.Contains(err.Error(), "notes/gone.md") {
		t.Error(err)
	}
}
