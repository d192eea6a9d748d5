package host_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/host"
)

// writeFiles writes files below dir.
func writeFiles(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func recipeText(name, text string) string {
	return "apiVersion: braise/v1\nname: " + name + "\nsteps:\n  a: {uses: set, with: {x: " + text + "}}\n"
}

func names(r *host.Recipes) (list []string) {
	for _, s := range r.List() {
		list = append(list, s.Name)
	}
	return list
}

func recipes(t *testing.T, paths ...string) (*host.Recipes, error) {
	t.Helper()
	h, err := host.Open(t.Context(), &host.Options{Store: host.MemoryStore, Warn: func(string) {}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h.Recipes(t.Context(), paths)
}

func TestRecipesOfFolders(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{
		"one.yaml":              recipeText("one", "1"),
		"braise.yaml":           "models: {}\n",
		"two/recipe.yaml":       recipeText("second", "1"),
		"two/part.yaml":         recipeText("part", "1"),
		"three/other.yaml":      recipeText("other", "1"),
		".hidden/recipe.yaml":   recipeText("hidden", "1"),
		"broken.yaml":           "apiVersion: braise/v1\nname: broken\nsteps: {a: {uses: nothing}}\n",
		"whole/recipe.yaml":     recipeText("whole", "1"),
		"whole/sub/recipe.yaml": recipeText("sub", "1"),
	})
	for _, tt := range []struct {
		paths, want []string
	}{
		{[]string{""}, []string{"broken", "one", "second", "whole"}},
		{[]string{"two"}, []string{"second"}},
		{[]string{"two/part.yaml", "one.yaml"}, []string{"one", "part"}},
		{[]string{"two", "two/recipe.yaml"}, []string{"second"}},
	} {
		var paths []string
		for _, p := range tt.paths {
			paths = append(paths, filepath.Join(dir, p))
		}
		r, err := recipes(t, paths...)
		if err != nil {
			t.Fatal(err)
		}
		if got := names(r); !slices.Equal(got, tt.want) {
			t.Errorf("%q: %q, want %q", tt.paths, got, tt.want)
		}
	}
	r, _ := recipes(t, dir)
	broken, _ := r.Find("broken")
	if broken.Workflow != nil || !broken.Diagnostics.HasErrors() || !strings.Contains(broken.Source, "nothing") {
		t.Errorf("%+v", broken)
	}
}

func TestRecipesRefuse(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{"a/recipe.yaml": recipeText("same", "1"), "b.yaml": recipeText("same", "2"),
		"empty/readme.md": "no recipe"})
	for _, tt := range []struct{ path, want string }{
		{"gone", "no such file"},
		{"empty", "there is no recipe in"},
		{"", `two recipes have the name "same"`},
	} {
		_, err := recipes(t, filepath.Join(dir, tt.path))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: %v, want %q", tt.path, err, tt.want)
		}
	}
}

// A recipe that breaks is served as it was, with what is wrong with the file.
func TestRecipesRefresh(t *testing.T) {
	dir := t.TempDir()
	writeFiles(t, dir, map[string]string{"a.yaml": recipeText("a", "1"), "b.yaml": recipeText("b", "1")})
	r, err := recipes(t, dir)
	if err != nil {
		t.Fatal(err)
	}
	before, _ := r.Find("a")
	refresh := func(want string) {
		t.Helper()
		if err := r.Refresh(t.Context()); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Fatalf("%v, want %q", err, want)
		}
	}
	writeFiles(t, dir, map[string]string{"a.yaml": "apiVersion: braise/v1\nname: a\nsteps: {a: {uses: nothing}}\n"})
	refresh("")
	if s, _ := r.Find("a"); s.Workflow != before.Workflow || !s.Diagnostics.HasErrors() || !strings.Contains(s.Source, "nothing") {
		t.Errorf("broken: %+v", s)
	}
	writeFiles(t, dir, map[string]string{"a.yaml": recipeText("a", "22")})
	refresh("")
	s, _ := r.Find("a")
	if s.Workflow == before.Workflow || s.Diagnostics.HasErrors() {
		t.Errorf("repaired: %+v", s)
	}
	writeFiles(t, dir, map[string]string{"0.yaml": recipeText("a", "3"), "c.yaml": recipeText("c", "1")})
	refresh(`two recipes have the name "a"`)
	for range 2 { // the warning comes once, as long as there are two
		now, _ := r.Find("a")
		if now.Path != s.Path || now.Workflow != s.Workflow {
			t.Errorf("another recipe took its name: %+v", now)
		}
		if len(now.Diagnostics) != 1 || now.Diagnostics[0].Code != diagnostics.CodeDuplicateName || now.Diagnostics.HasErrors() ||
			!strings.Contains(now.Diagnostics[0].Message, "0.yaml has the name \"a\", too, and is not served") {
			t.Errorf("diagnostics %v, want one about the other recipe", now.Diagnostics)
		}
		refresh(`two recipes have the name "a"`)
	}
	if got, want := names(r), []string{"a", "b", "c"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, name := range []string{"0.yaml", "b.yaml"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	refresh("")
	if got, want := names(r), []string{"a", "c"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if now, _ := r.Find("a"); len(now.Diagnostics) > 0 {
		t.Errorf("the other recipe is gone, and there are still %v", now.Diagnostics)
	}
}
