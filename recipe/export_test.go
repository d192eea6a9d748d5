package recipe

import (
	"slices"
	"testing"
)

// BuildControl lets a test read the keys and kinds of control flow as if this version ran them.
func BuildControl(t testing.TB) {
	oldKinds, oldObjects := slices.Clone(kinds), objects
	control := []string{"loop", "fork", "switch", "send", "receive", "retrieve"}
	for i := range kinds {
		kinds[i].Built = kinds[i].Built || slices.Contains(control, kinds[i].Name)
	}
	var later []*Argument
	for _, key := range []*Argument{topObject.key("channels"), stepObject.key("limits"), limitsObject.key("tokens"), limitsObject.key("cost_usd"), limitsObject.key("on_exceeded")} {
		if key.Later {
			later = append(later, key)
			key.Later = false
		}
	}
	objects = slices.Concat(objects, laterObjects)
	t.Cleanup(func() {
		copy(kinds, oldKinds)
		objects = oldObjects
		for _, key := range later {
			key.Later = true
		}
	})
}
