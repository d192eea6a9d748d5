package diagnostics

import (
	"fmt"
	"slices"
	"strings"
)

// Suggest returns the candidate that name was most likely meant to be, or "" when none is near.
// Near is an edit distance (insert, delete, replace, swap of neighbours; letter case costs
// nothing) of at most a third of the longer name, and at least 1, that leaves something of it.
// Ties go to the candidate that sorts first, whatever the candidates' order.
func Suggest(name string, candidates []string) string {
	best, bestDistance := "", -1
	for _, c := range candidates {
		longer := max(len(name), len(c))
		limit := max(1, longer/3)
		d := distance(strings.ToLower(name), strings.ToLower(c), limit)
		if d > limit || d > 0 && d >= longer {
			continue
		}
		if bestDistance < 0 || d < bestDistance || d == bestDistance && c < best {
			best, bestDistance = c, d
		}
	}
	return best
}

// DidYouMean returns a hint for an unknown name: the nearest candidate, else the list of
// candidates when it is short, else "".
func DidYouMean(name string, candidates []string) string {
	if s := Suggest(name, candidates); s != "" {
		return fmt.Sprintf("did you mean %q?", s)
	}
	if len(candidates) == 0 || len(candidates) > 12 {
		return ""
	}
	sorted := slices.Sorted(slices.Values(candidates))
	return "known here: " + strings.Join(sorted, ", ")
}

// distance is the optimal string alignment distance of a and b, or limit+1 once it is sure to be
// more than limit. Names of over 64 bytes are compared for equality only.
func distance(a, b string, limit int) int {
	if a == b {
		return 0
	}
	if len(a) > 64 || len(b) > 64 || len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	var rows [3][65]int
	before, prev, cur := &rows[0], &rows[1], &rows[2]
	for j := range len(b) + 1 {
		prev[j] = j
	}
	for i := 1; i <= len(a); i++ {
		cur[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			cur[j] = min(prev[j]+1, cur[j-1]+1, prev[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				cur[j] = min(cur[j], before[j-2]+1)
			}
		}
		before, prev, cur = prev, cur, before
	}
	return prev[len(b)]
}
