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
