package host_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/braise-run/braise/host"
)

// A link to a recipe leads to the recipe; a link in its folder leads nowhere outside.
func TestLoadRecipeThroughLinks(t *testing.T) {
	dir := t.TempDir()
	real, links := filepath.Join(dir, "real"), filepath.Join(dir, "links")
	for _, d := range []string{real, links} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	const head = "apiVersion: braise/v1\nname: linked\nsteps:\n"
	write(t, filepath.Join(real, "recipe.yaml"), head+"  a: {uses: recipe, with: {ref: sub.yaml}}\n")
	write(t, filepath.Join(real, "sub.yaml"), head+"  b: {uses: set, with: 1}\n")
	write(t, filepath.Join(dir, "outside.yaml"), head+"  c: {uses: set, with: 1}\n")
	if err := os.Symlink(filepath.Join("..", "real", "recipe.yaml"), filepath.Join(links, "recipe.yaml")); err != nil {
		t.Skip("no symbolic links here: ", err)
	}
	r, err := host.LoadRecipe(filepath.Join(links, "recipe.yaml"))
	if err != nil || r.Name != "linked" {
		t.Errorf("a link to a recipe: %v", err)
	}
	if err := os.Remove(filepath.Join(real, "sub.yaml")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join("..", "outside.yaml"), filepath.Join(real, "sub.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, err := host.LoadRecipe(filepath.Join(real, "recipe.yaml")); err == nil {
		t.Error("a link in the recipe's folder leads outside")
	}
}
