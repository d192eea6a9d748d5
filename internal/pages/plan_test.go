//go:build unix

package pages_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise"
)

// The picture in docs/command.md is that of a recipe that ships.
func TestPlanPicture(t *testing.T) {
	const picture = "../../docs/plan.svg"
	wf, err := braise.Load(os.DirFS("../../recipes/qa"), "recipe.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got := string(wf.Plan().Draw(nil).SVG())
	if *update {
		if err := os.WriteFile(picture, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(picture)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("docs/plan.svg is out of date: run go generate ./internal/pages (-want +got)\n%s", diff)
	}
}
