package recipe

import "testing"

// BuildDurable lets a test read the keys and kinds that need durable runs as if this version ran them.
func BuildDurable(t testing.TB) {
	later := func(is bool) {
		defaultsObject.key("retry").Later = is
		for _, key := range []string{"retry", "rollback", "idempotency_key"} {
			stepObject.key(key).Later = is
		}
		for i := range kinds {
			if kinds[i].Name == "human" || kinds[i].Name == "wait" {
				kinds[i].Built = !is
			}
		}
	}
	old := objects
	objects = append(objects[:len(objects):len(objects)], laterObjects...)
	later(false)
	t.Cleanup(func() {
		objects = old
		later(true)
	})
}
