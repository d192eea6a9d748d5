package host

import (
	"fmt"
	"slices"
	"strings"

	"github.com/braise-run/braise/diagnostics"
)

// schemes are the stores that a URL can name.
var schemes = []string{"memory", "sqlite", "postgres", "postgresql", "jsonl"}

// CheckStore says what is wrong with a store's URL, as in the key store and the flag --store. This
// version has memory: only, which is what a run without a store does. The error holds no more of
// the URL than its scheme, as the rest may hold a password.
func CheckStore(url string) error {
	code, message, hint := storeProblem(url)
	switch {
	case code == "":
		return nil
	case hint == "":
		return fmt.Errorf("store: %s", message)
	}
	return fmt.Errorf("store: %s\n  hint: %s", message, hint)
}

// storeProblem says what is wrong with a store's URL; code is "" when nothing is.
func storeProblem(url string) (code diagnostics.Code, message, hint string) {
	scheme, rest, ok := strings.Cut(url, ":")
	switch {
	case !ok:
		return diagnostics.CodeInvalidValue, "a store is a URL that begins with its kind", `say "memory:"`
	case !slices.Contains(schemes, scheme):
		return diagnostics.CodeInvalidValue, fmt.Sprintf("unknown store %q", scheme), diagnostics.DidYouMean(scheme, schemes)
	case scheme != "memory":
		return diagnostics.CodeNotBuilt, fmt.Sprintf("this version does not have the store %q", scheme), `only "memory:" is built`
	case rest != "":
		return diagnostics.CodeInvalidValue, `nothing may follow "memory:"`, ""
	}
	return "", "", ""
}
