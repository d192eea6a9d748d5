package host_test

import (
	"slices"
	"testing"

	"github.com/braise-run/braise/host"
)

// The name of a user is often that of a group, too: it is there once.
func TestGroups(t *testing.T) {
	h, err := host.Open(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	names := h.Groups()
	if sorted := slices.Sorted(slices.Values(names)); len(slices.Compact(sorted)) != len(names) || len(names) == 0 {
		t.Errorf("%q", names)
	}
}
