package runtime_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/braise-run/braise/runtime"
)

func TestFallbacks(t *testing.T) {
	for _, tt := range []struct {
		fallbacks map[string][]string
		of        string   // fast
		circle    []string // nil: none
	}{
		{nil, "", nil},
		{map[string][]string{"fast": {"mini", "large"}, "mini": {"tiny"}, "tiny": {"large"}}, "mini tiny large", nil},
		{map[string][]string{"fast": {"fast"}}, "", []string{"fast", "fast"}},
		{map[string][]string{"fast": {"mini"}, "mini": {"tiny"}, "tiny": {"mini"}}, "mini tiny", []string{"mini", "tiny", "mini"}},
	} {
		rt := &runtime.Runtime{Fallbacks: tt.fallbacks}
		if got := strings.Join(rt.FallbacksOf("fast"), " "); got != tt.of {
			t.Errorf("%v: %q, want %q", tt.fallbacks, got, tt.of)
		}
		if got := runtime.FallbackCircle(tt.fallbacks); !slices.Equal(got, tt.circle) {
			t.Errorf("%v: circle %q, want %q", tt.fallbacks, got, tt.circle)
		}
		if err := rt.Validate(); (err != nil) != (tt.circle != nil) {
			t.Errorf("%v: %v", tt.fallbacks, err)
		}
	}
}
