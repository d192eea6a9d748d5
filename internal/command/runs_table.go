package command

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/internal/terminal"
)

// runTable is a list of runs for people.
type runTable struct {
	short map[string]string // ids to show instead of others
	width int               // in characters
}

// The columns of a list of runs. Those without anything in them are left out, but for the first ones.
var runColumns = []string{"RUN", "RECIPE", "STATUS", "STARTED", "TOOK", "TOKENS", "COST", "ABOUT"}

const (
	recipeColumn = 1
	tookColumn   = 4
	aboutColumn  = 7
	leastRecipe  = 8 // so many characters of a recipe are shown in any case
	leastAbout   = 6 // and so many of what is said about a run, or none
)

// rows returns the lines of the table, the names of its columns first. What does not fit is cut: names of recipes, and
// what is said about a run.
func (t runTable) rows(list []history.Info) []string {
	table := [][]string{runColumns}
	for i := range list {
		table = append(table, t.cells(&list[i]))
	}
	widths := make([]int, len(runColumns))
	left := t.width
	for i := range runColumns {
		used := i <= tookColumn
		for _, row := range table[1:] {
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
			used = used || row[i] != "" && row[i] != "-"
		}
		if widths[i] = max(widths[i], len(runColumns[i])); !used {
			widths[i] = 0
		}
		if i != recipeColumn && i != aboutColumn && widths[i] > 0 {
			left -= widths[i] + columnGap
		}
	}
	widths[recipeColumn] = min(widths[recipeColumn], max(leastRecipe, left))
	if left -= widths[recipeColumn] + columnGap; left < widths[aboutColumn] {
		widths[aboutColumn] = left
	}
	if left < leastAbout {
		widths[aboutColumn] = 0
	}
	var lines []string
	for _, row := range table {
		var line strings.Builder
		for i, cell := range row {
			if widths[i] > 0 {
				cell = shortened(cell, widths[i])
				line.WriteString(cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+columnGap))
			}
		}
		lines = append(lines, strings.TrimRight(line.String(), " "))
	}
	return lines
}

// columnGap is how many spaces are between columns.
const columnGap = 2

// cells are what the columns have of a run.
func (t runTable) cells(r *history.Info) []string {
	id, started, took, tokens := r.RunID, terminal.LocalTime(r.StartedAt), "-", "-"
	if t.short != nil {
		id, started = t.short[id], r.StartedAt.Local().Format("01-02 15:04")
	}
	if !r.EndedAt.IsZero() {
		took = tookText(r.StartedAt, r.EndedAt)
	}
	if n := r.Usage.InputTokens + r.Usage.OutputTokens; n > 0 {
		tokens = rounded(n)
	}
	return []string{id, terminal.Visible(r.Recipe), string(r.Status), started, took, tokens,
		costText(r.Usage.Micros), terminal.Visible(aboutText(&r.About))}
}

// rounded is a number in at most five characters: 480, 12.3k, 123k, 4.6M.
func rounded(n int64) string {
	f, unit := float64(n), 0
	for ; f >= 999.5; unit++ {
		f /= 1000
	}
	digits := 0
	if unit > 0 && f < 99.95 {
		digits = 1
	}
	return strconv.FormatFloat(f, 'f', digits, 64) + strings.TrimSpace(" kMGTPE"[unit:unit+1])
}

// shortened is a text of at most so many characters.
func shortened(text string, most int) string {
	if chars := []rune(text); len(chars) > most {
		return string(chars[:most-1]) + "…"
	}
	return text
}

// idLengths are how much of an id is shown if that much denotes the run: of the ids that Braise makes, 8 characters are
// the time to a minute, and 13 that to a millisecond.
var idLengths = []int{8, 13, 18, 23}

// shortIDs returns beginnings of the ids of runs that history.Find takes for the runs; the whole id if there is none.
func shortIDs(ctx context.Context, runs history.Source, list []history.Info) map[string]string {
	ids := make([]string, len(list))
	for i, r := range list {
		ids[i] = r.RunID
	}
	slices.Sort(ids)
	short := map[string]string{}
	for i, id := range ids {
		short[id] = id
		for _, n := range idLengths {
			if n+1 >= len(id) || n <= common(ids, i) {
				continue
			}
			same, err := runs.List(ctx, checkpoint.Filter{Prefix: id[:n], Limit: 2})
			if err == nil && len(same) == 1 {
				short[id] = id[:n]
				break
			}
		}
	}
	return short
}

// common is how many bytes the i-th of sorted ids has in common with another one.
func common(ids []string, i int) (most int) {
	for _, j := range []int{i - 1, i + 1} {
		n := 0
		for j >= 0 && j < len(ids) && n < min(len(ids[i]), len(ids[j])) && ids[i][n] == ids[j][n] {
			n++
		}
		most = max(most, n)
	}
	return most
}
