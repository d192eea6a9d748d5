package runtime

import (
	"fmt"
	"slices"
	"strings"

	"github.com/braise-run/braise/internal/value"
)

// FallbacksOf returns the models that answer instead of a model, in order: each of its Fallbacks, followed by those of
// that one. None is there twice; nil: there are none.
func (rt *Runtime) FallbacksOf(model string) []string {
	var list []string
	var add func(name string)
	add = func(name string) {
		for _, next := range rt.Fallbacks[name] {
			if next != model && !slices.Contains(list, next) {
				list = append(list, next)
				add(next)
			}
		}
	}
	add(model)
	return list
}

// FallbackCircle returns the first circle that fallbacks make, as a path that begins and ends with the same name; nil:
// there is none.
func FallbackCircle(fallbacks map[string][]string) []string {
	done := map[string]bool{}
	var path, circle []string
	var visit func(name string) bool
	visit = func(name string) bool {
		if i := slices.Index(path, name); i >= 0 {
			circle = append(slices.Clone(path[i:]), name)
			return true
		}
		if done[name] {
			return false
		}
		path = append(path, name)
		if slices.ContainsFunc(fallbacks[name], visit) {
			return true
		}
		path, done[name] = path[:len(path)-1], true
		return false
	}
	for _, name := range value.SortedKeys(fallbacks) {
		if visit(name) {
			return circle
		}
	}
	return nil
}

// checkFallbacks reports what is wrong with the fallbacks of models.
func checkFallbacks(fallbacks map[string][]string, bad func(format string, args ...any)) {
	for _, name := range value.SortedKeys(fallbacks) {
		if slices.Contains(fallbacks[name], "") {
			bad("a fallback of model %q has no name", name)
		}
	}
	if circle := FallbackCircle(fallbacks); circle != nil {
		bad("the fallbacks of models make a circle: %s", fmt.Sprintf("%q", strings.Join(circle, " → ")))
	}
}
