package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/braise-run/braise/checkpoint"
)

// asked are pauses, in columns.
type asked struct {
	seqs                             []int64
	ids, kinds, opened, expires, due []string
}

func (a *asked) add(p checkpoint.Pause, opened time.Time) {
	a.seqs, a.ids, a.kinds = append(a.seqs, p.Seq), append(a.ids, p.ID), append(a.kinds, p.Kind)
	a.opened, a.expires = append(a.opened, stamp(opened)), append(a.expires, expiry(p.ExpiresAt))
	a.due = append(a.due, stamp(checkpoint.Summary{Pauses: []checkpoint.Pause{p}}.Due()))
}

func (a *asked) args() []any { return []any{a.seqs, a.ids, a.kinds, a.opened, a.expires, a.due} }

// expiry is the stamp of the expiry of a pause; never is behind all of them.
func expiry(t time.Time) string {
	if t.IsZero() {
		return "~~"
	}
	return stamp(t)
}

// pausesOf returns the pauses that recs have opened in a summary, and the numbers of all that are open; ok: they are
// not those of before.
func pausesOf(before, sum checkpoint.Summary, recs []checkpoint.Record) (open []int64, opened asked, ok bool) {
	open = []int64{}
	for _, p := range sum.Pauses {
		open = append(open, p.Seq)
		if p.Seq > before.Seq {
			opened.add(p, recs[p.Seq-recs[0].Seq].At)
		}
	}
	return open, opened, len(opened.seqs) > 0 || len(open) != len(before.Pauses)
}

// labels are labels in columns.
func labels(all map[string]string) (keys, values []string) {
	keys = slices.Sorted(maps.Keys(all))
	for _, key := range keys {
		values = append(values, all[key])
	}
	return keys, values
}

// record returns one of the records of a write.
func record(text []byte, seq int64) (checkpoint.Record, error) {
	for line := range bytes.Lines(text) {
		rec, err := checkpoint.ParseLine(bytes.TrimSuffix(line, []byte("\n")))
		if err != nil || rec.Seq == seq {
			return rec, err
		}
	}
	return checkpoint.Record{}, fmt.Errorf("%w: there is no record %d", checkpoint.ErrCorrupt, seq)
}

// pauseRow is a row of pauses, with that of its run and the write that opened it.
type pauseRow struct {
	head
	seq             int64
	id              string
	opened, expires string
	text            []byte
}

func (p *pauseRow) info() (checkpoint.PauseInfo, error) {
	sum, err := p.summary()
	if err != nil {
		return checkpoint.PauseInfo{}, err
	}
	rec, err := record(p.text, p.seq)
	i := slices.IndexFunc(sum.Pauses, func(q checkpoint.Pause) bool { return q.Seq == p.seq })
	if err == nil && i < 0 {
		err = checkpoint.ErrCorrupt
	}
	if err != nil {
		return checkpoint.PauseInfo{}, fmt.Errorf("run %q: pause %q: %w", p.lease.RunID, p.id, err)
	}
	return checkpoint.PauseInfo{Summary: sum, Pause: sum.Pauses[i], Opened: rec}, nil
}

// Pauses implements checkpoint.Querier.
func (s *Store) Pauses(ctx context.Context, f checkpoint.PauseFilter) ([]checkpoint.PauseInfo, error) {
	if err := s.begin(ctx); err != nil {
		return nil, err
	}
	defer s.calls.Done()
	if !isText(f.Kind, f.Recipe, f.After.RunID, f.After.Pause) {
		return nil, nil
	}
	var all []checkpoint.PauseInfo
	var failed []error
	after := []string{stamp(f.After.At), f.After.RunID, f.After.Pause}
	if f.Expiring {
		after[0] = expiry(f.After.At)
	}
	if (f.After == checkpoint.Cursor{}) {
		after = nil
	}
	for {
		want := max(f.Limit, 0) - len(all) // those that cannot be read leave room for others
		rows, err := s.pauses(ctx, f, after, want)
		if err != nil {
			return nil, err
		}
		for _, p := range rows {
			after = []string{p.opened, p.lease.RunID, p.id}
			if f.Expiring {
				after[0] = p.expires
			}
			if info, err := p.info(); err != nil {
				failed = append(failed, err)
			} else {
				all = append(all, info)
			}
		}
		if f.Limit <= 0 || len(rows) < want || len(all) >= f.Limit {
			return all, errors.Join(failed...)
		}
	}
}

// pauses reads some rows of pauses behind a place; limit 0 or less: all.
func (s *Store) pauses(ctx context.Context, f checkpoint.PauseFilter, after []string, limit int) ([]pauseRow, error) {
	var q query
	place, dir, than := "opened", " DESC", "<"
	if f.Expiring {
		place, dir, than = "expires", "", ">"
	}
	order := func(p string) string {
		return " ORDER BY " + p + place + dir + ", " + p + "run_id" + dir + ", " + p + "id" + dir
	}
	sql := "SELECT p.* FROM SCHEMA.pauses p WHERE " + openSQL
	if f.Kind != "" {
		sql += " AND kind = " + q.arg(f.Kind)
	}
	if f.Recipe != "" {
		sql += q.recipe("p", f.Recipe)
	}
	if after != nil {
		sql += fmt.Sprintf(" AND (%s, run_id, id) %s (%s, %s, %s)",
			place, than, q.arg(after[0]), q.arg(after[1]), q.arg(after[2]))
	}
	sql += order("p.") + q.limit(limit)
	sql = "SELECT " + columnsSQL + ", clock_timestamp(), p.seq, p.id, p.opened, p.expires, (SELECT lines " +
		"FROM SCHEMA.records c WHERE c.run = p.run AND c.seq >= p.seq ORDER BY c.seq LIMIT 1) FROM (" + sql +
		") AS p JOIN SCHEMA.runs r ON r.key = p.run" + order("p.")
	return collect(ctx, s, sql, q.args, func(row pgx.CollectableRow) (p pauseRow, err error) {
		err = row.Scan(append(p.head.fields(), &p.seq, &p.id, &p.opened, &p.expires, &p.text)...)
		return p, err
	})
}
