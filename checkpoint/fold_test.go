package checkpoint_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
)

// asked is a journal with n pauses that get a token each; the first half of them, from the last to the first, is answered.
func asked(n int) []checkpoint.Record {
	lines := []string{created}
	for i := range n {
		lines = append(lines, fmt.Sprintf(`pause.opened {"kind":"human","pause":"p%d"}`, i), fmt.Sprintf(`token.minted {"hash":"00ff","pause":"p%d"}`, i))
	}
	lines = append(lines, "run.paused")
	for i := n/2 - 1; i >= 0; i-- {
		lines = append(lines, fmt.Sprintf(`pause.answered {"pause":"p%d"}`, i))
	}
	return journal(lines...)
}

// allocated is how many bytes f allocates, at least: the least of some attempts.
func allocated(f func()) uint64 {
	var list []uint64
	for range 5 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		list = append(list, after.TotalAlloc-before.TotalAlloc)
	}
	return slices.Min(list)
}

// trust 8.14: what a record costs does not depend on how many pauses are open.
func TestPausesCostLinearly(t *testing.T) {
	const n, more = 500, 8
	few, many := asked(n), asked(more*n)
	begin := checkpoint.Run{ID: "run", Recipe: "greet", Digest: "d", StartedAt: noon}
	for _, tt := range []struct {
		name string
		f    func(recs []checkpoint.Record) (checkpoint.Summary, error)
	}{
		{"Fold", func(recs []checkpoint.Record) (checkpoint.Summary, error) { return checkpoint.Fold("run", recs) }},
		{"Begin", func(recs []checkpoint.Record) (checkpoint.Summary, error) {
			s, _, err := checkpoint.Begin(begin, recs[1:])
			return s, err
		}},
		{"Next", func(recs []checkpoint.Record) (checkpoint.Summary, error) {
			s, err := checkpoint.Fold("run", recs[:2])
			if err == nil {
				s, _, err = s.Next(2, recs[2:])
			}
			return s, err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			count := func(recs []checkpoint.Record, n int) uint64 {
				return allocated(func() {
					s, err := tt.f(recs)
					if err != nil || len(s.Pauses) != n-n/2 || s.Pauses[0].ID != fmt.Sprint("p", n/2) || len(s.Pauses[n/4].Tokens) != 1 {
						t.Fatal(err, len(s.Pauses))
					}
				})
			}
			one, eight := count(few, n), count(many, more*n)
			if eight > 2*more*one {
				t.Errorf("%d pauses take %d bytes, %d take %d", n, one, more*n, eight)
			}
		})
	}
}

// trust 8.14: a summary that was returned does not change when the journal goes on, in either of two ways.
func TestSummariesShareNothing(t *testing.T) {
	recs := asked(8)
	s, err := checkpoint.Fold("run", recs[:18])
	if err != nil {
		t.Fatal(err)
	}
	before := fmt.Sprint(s)
	next := func(s checkpoint.Summary, line string) checkpoint.Summary {
		rec := journal(created, line)[1]
		rec.Seq = 0
		s, _, err := s.Next(s.Seq, []checkpoint.Record{rec})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	a := next(next(s, `pause.closed {"pause":"p3"}`), `token.minted {"hash":"01","pause":"p0"}`)
	b := next(next(s, `token.minted {"hash":"02","pause":"p0"}`), `pause.opened {"kind":"human","pause":"q"}`)
	if diff := cmp.Diff(before, fmt.Sprint(s)); diff != "" {
		t.Errorf("the first summary has changed (-before +after):\n%s", diff)
	}
	hashes := []string{a.Pauses[0].Tokens[1].Hash, b.Pauses[0].Tokens[1].Hash, a.Pauses[3].ID, b.Pauses[3].ID, b.Pauses[8].ID}
	if want := []string{"01", "02", "p4", "p3", "q"}; !slices.Equal(hashes, want) {
		t.Errorf("got %q, want %q", hashes, want)
	}
	if err := a.Apply(checkpoint.Record{Seq: a.Seq + 1, At: noon, Kind: checkpoint.PauseAnswered, Data: []byte(`{"pause":"p3"}`)}); err == nil || len(a.Pauses) != 7 {
		t.Errorf("a record that cannot follow: %v, %d pauses", err, len(a.Pauses))
	}
}
