package past

import (
	"slices"

	"github.com/braise-run/braise/internal/journal"
)

// Files returns what is in the files that events name, by SHA-256, sorted: it is kept beside the journal.
func Files(events []journal.Event) (sums []string) {
	for i := range events {
		switch what := events[i].What.(type) {
		case journal.CallFiles:
			for _, f := range what.Files {
				sums = append(sums, f.SHA256)
			}
		case journal.AgentEvents:
			for k := range what.Events {
				for _, f := range what.Events[k].Rest().Files {
					sums = append(sums, f.SHA256)
				}
			}
		}
	}
	slices.Sort(sums)
	return slices.Compact(sums)
}
