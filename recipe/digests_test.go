package recipe

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// digestsFile has a line for each recipe, sorted: its name and its digest.
const digestsFile = "testdata/digests.txt"

// TestDigestsStay holds the digests of all recipes that stand in scenarios and that are shipped: a run is resumed with
// the recipe of its digest, so what a recipe of today is must not change with the program. -update adds recipes that
// are new, and leaves the others as they are.
func TestDigestsStay(t *testing.T) {
	found := map[string]string{}
	add := func(name string, fsys fs.FS) {
		if r, err := Load(fsys, "recipe.yaml"); err == nil {
			found[name] = r.Digest
		}
	}
	scenarios, err := filepath.Glob("../testdata/scenarios/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range scenarios {
		archive, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if fsys, err := txtar.FS(archive); err == nil {
			add("scenarios/"+strings.TrimSuffix(filepath.Base(file), ".txtar"), fsys)
		}
	}
	shipped, err := filepath.Glob("../recipes/*/recipe.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range shipped {
		dir := filepath.Dir(file)
		add("recipes/"+filepath.Base(dir), os.DirFS(dir))
	}

	text, err := os.ReadFile(digestsFile)
	if err != nil && !*update {
		t.Fatal(err)
	}
	known := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, digest, _ := strings.Cut(strings.TrimSpace(line), " ")
		known[name] = digest
		switch got, ok := found[name]; {
		case !ok:
			t.Errorf("%s is gone, or has errors", name)
		case got != digest:
			t.Errorf("%s has the digest %s, and had %s", name, got, digest)
		}
	}
	if !*update {
		return
	}
	maps.DeleteFunc(found, func(name, _ string) bool { return known[name] != "" })
	maps.Copy(known, found)
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(known)) {
		fmt.Fprintf(&b, "%s %s\n", name, known[name])
	}
	if err := os.WriteFile(digestsFile, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
