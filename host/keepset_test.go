package host

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// trust 8.6: what is kept is a set: a server that loads a recipe 10,000 times keeps its files once.
func TestFilesAreKeptOnce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "recipe.yaml")
	for path, text := range map[string]string{
		path:                           "apiVersion: braise/v1\nname: r\nsteps: {one: {uses: recipe, with: {ref: sub.yaml}}}\n",
		filepath.Join(dir, "sub.yaml"): "apiVersion: braise/v1\nname: sub\nsteps: {one: {uses: set, with: {value: 1}}}\noutput: 1\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h := &Host{kept: new(kept)}
	r, err := h.Recipe(path)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{filepath.Join(dir, "agents"), path, filepath.Join(dir, "sub.yaml")}
	for range 10_000 {
		if _, err := h.keepRecipe(r, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := h.Recipe(path); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, h.kept.list()); diff != "" {
		t.Errorf("the files that are kept (-want +got)\n%s", diff)
	}
	h.Keep("", dir+"/./recipe.yaml")
	if diff := cmp.Diff(want, h.kept.list()); diff != "" {
		t.Errorf("the files that are kept after another name of one (-want +got)\n%s", diff)
	}
}
