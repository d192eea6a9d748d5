package recipe

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFormatKnowsEveryKeyOfAStep(t *testing.T) {
	var want []string
	for _, key := range stepObject.keys {
		want = append(want, key.Name)
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Sorted(slices.Values(stepOrder))); diff != "" {
		t.Errorf("(-keys of a step +order of Format):\n%s", diff)
	}
}

func TestTitleKeys(t *testing.T) {
	want := []string{"apiVersion", "name", "version", "description", "tags"}
	if diff := cmp.Diff(want, topObject.known[:titleKeys]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The keys of a braise.yaml, of which some have the names of a recipe's, stay where they are.
func TestFormatOfAConfiguration(t *testing.T) {
	const text = "models:\n  fast: {provider: script, file: script.yaml}\n\ntools:\n  file: {base: .}\n\nlimits: {max_items: 5, cost_usd: 1}\n"
	got, err := Format("braise.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(text, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
