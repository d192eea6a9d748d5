package past

import (
	"slices"

	"github.com/braise-run/braise/internal/journal"
)

// Files returns what is in the files that events name, by SHA-256, sorted: it is kept beside the journal.
func Files(events []journal.Event) (sums []string) {
	for i := range events {
		if what, ok := events[i].What.(journal.CallFiles); ok {
			for _, f := range what.Files {
				sums = append(sums, f.SHA256)
			}
		}
	}
	slices.Sort(sums)
	return slices.Compact(sums)
}
