package postgres

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
)

// What the second version did to create a run, and to change one.
const (
	oldCreateSQL = `WITH made AS (
	INSERT INTO SCHEMA.runs (id, recipe, digest, started, seq, updated, summary, status, due, owner, epoch, until)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 1, clock_timestamp() + $11 * interval '1 microsecond')
	ON CONFLICT (id) DO NOTHING RETURNING key, seq, until
) INSERT INTO SCHEMA.records (run, seq, lines) SELECT key, seq, $12 FROM made`
	oldChangeSQL = `WITH done AS (UPDATE SCHEMA.runs
SET seq = $3, updated = $4, summary = $6, status = $7, due = $8 WHERE id = $1 AND seq = $2 RETURNING key, seq)
INSERT INTO SCHEMA.records (run, seq, lines) SELECT key, seq, $5 FROM done`
)

// createOld creates a run as the second version did.
func (m *medium) createOld(run checkpoint.Run, recs ...checkpoint.Record) checkpoint.Summary {
	m.t.Helper()
	sum, recs, err := checkpoint.Begin(run, recs)
	if err != nil {
		m.t.Fatal(err)
	}
	summary, err := encode(sum)
	if err != nil {
		m.t.Fatal(err)
	}
	m.exec(oldCreateSQL, sum.ID, sum.Recipe, sum.Digest, stamp(sum.StartedAt), sum.Seq, mark(sum), summary, string(sum.Status),
		stamp(sum.Due()), "old", int64(0), lines(recs))
	return sum
}

func pauseRecord(kind checkpoint.Kind, seconds int, data string) checkpoint.Record {
	return checkpoint.Record{At: start.Add(time.Duration(seconds) * time.Second), Kind: kind, Path: "ask", Data: []byte(data)}
}

// listed are the ids of the runs that a filter lets through.
func (m *medium) listed(s *Store, f checkpoint.Filter) []string {
	m.t.Helper()
	all, err := s.List(m.t.Context(), f)
	if err != nil && !errors.Is(err, checkpoint.ErrCorrupt) {
		m.t.Fatal(err)
	}
	var ids []string
	for _, sum := range all {
		ids = append(ids, sum.ID)
	}
	return ids
}

// inbox are the open pauses.
func (m *medium) inbox(s *Store) []string {
	m.t.Helper()
	all, err := s.Pauses(m.t.Context(), checkpoint.PauseFilter{})
	if err != nil {
		m.t.Fatal(err)
	}
	var list []string
	for _, p := range all {
		list = append(list, p.Summary.ID+"/"+p.Pause.ID+" "+p.Opened.At.Sub(start).String())
	}
	return list
}

// Tables that an earlier version made keep what they have, and get what a later one needs of it.
func TestEarlierVersions(t *testing.T) {
	current := migrations
	t.Cleanup(func() { migrations = current })
	for version := 1; version < 5; version++ {
		m := newMedium(t)
		migrations = current[:version]
		m.open().Close()
		m.createOld(makeRun("run"), note("a"))
		fork := makeRun("fork")
		fork.Parent, fork.Queue, fork.Labels = "run", "default", map[string]string{"k": "v", `"pauses":`: "x"}
		m.createOld(fork)
		m.createOld(makeRun("asks"), note("a"), pauseRecord(checkpoint.PauseOpened, 3, `{"kind":"human","pause":"p"}`), note("b"),
			pauseRecord(checkpoint.PauseOpened, 9, `{"dueAt":"2026-01-31T13:00:00Z","kind":"timer","pause":"q"}`))
		m.createOld(makeRun("answered"), pauseRecord(checkpoint.PauseOpened, 3, `{"kind":"human","pause":"p"}`),
			pauseRecord(checkpoint.PauseAnswered, 4, `{"pause":"p"}`))
		m.createOld(makeRun("damaged"), pauseRecord(checkpoint.PauseOpened, 3, `{"kind":"human","pause":"p"}`))
		m.exec("UPDATE SCHEMA.runs SET summary = set_byte(summary, 40, 0) WHERE id = 'damaged'")

		migrations = current
		errs := make(chan error, 4)
		for range cap(errs) {
			go func() {
				s, err := Open(t.Context(), m.url, nil)
				if err == nil {
					err = s.Close()
				}
				errs <- err
			}()
		}
		for range cap(errs) {
			if err := <-errs; err != nil {
				t.Fatalf("version %d: %v", version, err)
			}
		}
		s := m.open()
		for what, tt := range map[string]struct{ got, want []string }{
			"journal":     {m.texts(s, "run"), []string{`{"text":"a"}`}},
			"fork":        {m.listed(s, checkpoint.Filter{Parent: "run"}), []string{"fork"}},
			"queue":       {m.listed(s, checkpoint.Filter{Queues: []string{"default"}}), []string{"fork"}},
			"label":       {m.listed(s, checkpoint.Filter{Labels: map[string]string{"k": "v"}}), []string{"fork"}},
			"interrupted": {m.listed(s, checkpoint.Filter{Recipe: "greet", Oldest: true}), []string{"answered", "asks", "fork", "run"}},
			"due":         {m.listed(s, checkpoint.Filter{DueBefore: start.Add(long)}), []string{"asks"}},
			"pauses":      {m.inbox(s), []string{"asks/q 9s", "asks/p 3s"}},
		} {
			if diff := cmp.Diff(tt.want, tt.got); diff != "" {
				t.Errorf("version %d: %s (-want +got):\n%s", version, what, diff)
			}
		}

		// A process of that version keeps using what it has open.
		sum := m.createOld(makeRun("late"))
		next, recs, err := sum.Next(1, []checkpoint.Record{pauseRecord(checkpoint.PauseOpened, 5, `{"dueAt":"2026-01-31T13:00:00Z","kind":"timer","pause":"q"}`)})
		if err != nil {
			t.Fatal(err)
		}
		summary, err := encode(next)
		if err != nil {
			t.Fatal(err)
		}
		m.exec(oldChangeSQL, "late", int64(1), next.Seq, mark(next), lines(recs), summary, string(next.Status), stamp(next.Due()))
		if diff := cmp.Diff([]string{"asks", "late"}, m.listed(s, checkpoint.Filter{DueBefore: start.Add(long), Oldest: true})); diff != "" {
			t.Errorf("version %d: due (-want +got):\n%s", version, diff)
		}
		l, err := s.Claim(t.Context(), "late", "me", long)
		if err == nil {
			err = s.Append(t.Context(), l, 2, pauseRecord(checkpoint.PauseClosed, 6, `{"pause":"q"}`), pauseRecord(checkpoint.PauseOpened, 7, `{"kind":"human","pause":"r"}`))
		}
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"asks/q 9s", "late/r 7s", "asks/p 3s"}, m.inbox(s)); diff != "" {
			t.Errorf("version %d: pauses (-want +got):\n%s", version, diff)
		}
	}
}

// Labels of version 5 did not say what else lists ask for.
func TestEarlierLabels(t *testing.T) {
	current := migrations
	t.Cleanup(func() { migrations = current })
	m := newMedium(t)
	migrations = current[:5]
	m.open().Close()
	for _, id := range []string{"a", "b", "c"} {
		run := makeRun(id)
		run.Labels = map[string]string{"team": "x"}
		if id != "a" {
			run.Queue = "default"
		}
		m.createOld(run)
	}
	m.exec("UPDATE SCHEMA.runs SET queue = 'default' WHERE id <> 'a'")
	m.exec("INSERT INTO SCHEMA.labels (run, key, value, started, id) SELECT key, 'team', 'x', started, id FROM SCHEMA.runs")

	migrations = current
	s := m.open()
	labelled := checkpoint.Filter{Labels: map[string]string{"team": "x"}, Queues: []string{"default"}, Recipe: "greet"}
	if diff := cmp.Diff([]string{"c", "b"}, m.listed(s, labelled)); diff != "" {
		t.Errorf("label and queue (-want +got):\n%s", diff)
	}
	l, err := s.Claim(t.Context(), "b", "me", long)
	if err == nil {
		err = s.Append(t.Context(), l, 1, checkpoint.Record{At: start, Kind: checkpoint.RunEnded, Data: []byte(`{"status":"ok"}`)})
	}
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Count(t.Context(), labelled, 0)
	want := map[checkpoint.Phase]int{checkpoint.PhaseOK: 1, checkpoint.PhaseInterrupted: 1}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("counts: %v (-want +got):\n%s", err, diff)
	}
}
