package command

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/history"
)

// On a terminal a list of runs fits 80 columns, whatever is in it; elsewhere nothing is cut.
func TestRunTable(t *testing.T) {
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.Local)
	failed := history.About{Error: checkpoint.Failure{Code: "tool.failed", Message: "503 from crm\nafter 3 attempts"},
		Usage: checkpoint.Usage{InputTokens: 12_000, OutputTokens: 345, Micros: 3200}}
	list := []history.Info{
		{RunID: "0198c2d4-1a2b-7000-8000-000000000001", Recipe: "triage", Status: history.Running, StartedAt: at},
		{RunID: "order-4711", Recipe: "refund", Status: history.Failed, StartedAt: at, EndedAt: at.Add(72 * time.Second), About: failed},
	}
	narrow := runTable{map[string]string{list[0].RunID: "0198c2d4", list[1].RunID: "order-4711"}, 80}
	for _, tt := range []struct {
		name  string
		table runTable
		want  string
	}{
		{"terminal", narrow, `
RUN         RECIPE  STATUS   STARTED      TOOK   TOKENS  COST     ABOUT
0198c2d4    triage  running  01-31 12:00  -      -       -
order-4711  refund  error    01-31 12:00  1m12s  12.3k   $0.0032  tool.failed: …
`},
		{"pipe", runTable{width: 1 << 30}, `
RUN                                   RECIPE  STATUS   STARTED              TOOK   TOKENS  COST     ABOUT
0198c2d4-1a2b-7000-8000-000000000001  triage  running  2026-01-31 12:00:00  -      -       -
order-4711                            refund  error    2026-01-31 12:00:00  1m12s  12.3k   $0.0032  tool.failed: 503 from crm
`},
	} {
		if diff := cmp.Diff(strings.TrimPrefix(tt.want, "\n"), strings.Join(tt.table.rows(list), "\n")+"\n"); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}

	wide := history.Info{RunID: "0198c2d4-1a2b-7000-8000-000000000002", Recipe: strings.Repeat("größe", 20), Status: history.Interrupted,
		StartedAt: at, EndedAt: at.Add(99 * time.Hour), About: failed}
	wide.Usage = checkpoint.Usage{InputTokens: 999_949, Micros: 123_456_780_000}
	narrow.short[wide.RunID] = "0198c2d4-1a2b"
	for _, row := range narrow.rows(append(list, wide)) {
		if n := utf8.RuneCountInString(row); n > 85 {
			t.Errorf("%d columns: %s", n, row)
		}
	}
	if got := narrow.rows(nil); len(got) != 1 || got[0] != "RUN  RECIPE  STATUS  STARTED  TOOK" {
		t.Errorf("no runs: %q", got)
	}
}

func TestRounded(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1.0k", 12_345: "12.3k", 99_949: "99.9k", 99_950: "100k",
		999_499: "999k", 999_500: "1.0M", 1 << 62: "4.6E"} {
		if got := rounded(n); got != want {
			t.Errorf("rounded(%d): %s, want %s", n, got, want)
		}
	}
}

// Short ids denote their runs, and only those.
func TestShortIDs(t *testing.T) {
	store := &checkpoint.Memory{}
	ids := []string{"0198c2d4-1a2b-7000-8000-000000000001", "0198c2d4-1a2b-7000-8000-000000000002", "0198c2d4-1a2c-7000-8000-000000000001",
		"0198c2d5-1a2c-7000-8000-000000000001", "order-47", "order-4711", "order-471123"}
	for _, id := range ids {
		if _, err := store.Create(t.Context(), checkpoint.Run{ID: id, Digest: "d", StartedAt: time.Now()}, "me", 0); err != nil {
			t.Fatal(err)
		}
	}
	some := []history.Info{}
	for _, id := range ids[1:] {
		some = append(some, history.Info{RunID: id})
	}
	got := shortIDs(t.Context(), store, some)
	want := map[string]string{ids[1]: ids[1], ids[2]: "0198c2d4-1a2c", ids[3]: "0198c2d5", "order-47": "order-47", "order-4711": "order-4711",
		"order-471123": "order-471123"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for id, short := range got {
		if found, err := history.Find(t.Context(), store, short); err != nil || found != id {
			t.Errorf("%s denotes %s (%v), want %s", short, found, err, id)
		}
	}
}
