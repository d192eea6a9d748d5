package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/braise-run/braise/checkpoint"
)

// fill brings what summaries say into columns and tables that are younger. Runs that cannot be read are left out.
func fill(ctx context.Context, tx pgx.Tx, schema string) error {
	rows, _ := tx.Query(ctx, inSchema(schema, headSQL+`WHERE position($1::bytea IN summary) > 0
OR position($2::bytea IN summary) > 0 OR position($3::bytea IN summary) > 0 OR position($4::bytea IN summary) > 0`),
		[]byte(`"pauses":`), []byte(`"parent":`), []byte(`"queue":`), []byte(`"labels":`))
	heads, err := pgx.CollectRows(rows, scanHead)
	if err != nil {
		return err
	}
	var f filling
	for _, h := range heads {
		if sum, err := h.summary(); err == nil {
			f.add(h, sum)
		}
	}
	if err := f.findOpenings(ctx, tx, schema); err != nil {
		return err
	}
	return f.write(ctx, tx, schema)
}

// filling is what fill writes, in columns.
type filling struct {
	runs             []int64 // with a queue or a parent
	queues, parents  []string
	labelRuns        []int64
	keys, values     []string
	labelIDs, starts []string
	pauseRuns        []int64
	runIDs, recipes  []string
	asked            asked
}

func (f *filling) add(h head, sum checkpoint.Summary) {
	if sum.Queue != "" || sum.Parent != "" {
		f.runs = append(f.runs, h.key)
		f.queues, f.parents = append(f.queues, sum.Queue), append(f.parents, sum.Parent)
	}
	keys, values := labels(sum.Labels)
	f.keys, f.values = append(f.keys, keys...), append(f.values, values...)
	for range keys {
		f.labelRuns = append(f.labelRuns, h.key)
		f.labelIDs, f.starts = append(f.labelIDs, sum.ID), append(f.starts, h.started)
	}
	for _, p := range sum.Pauses {
		f.asked.add(p, sum.UpdatedAt)
		f.pauseRuns = append(f.pauseRuns, h.key)
		f.runIDs, f.recipes = append(f.runIDs, sum.ID), append(f.recipes, sum.Recipe)
	}
}

// findOpenings finds out when pauses were opened: the records say it.
func (f *filling) findOpenings(ctx context.Context, tx pgx.Tx, schema string) error {
	rows, _ := tx.Query(ctx, inSchema(schema, `SELECT (SELECT lines FROM SCHEMA.records r
WHERE r.run = u.run AND r.seq >= u.seq ORDER BY r.seq LIMIT 1)
FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS u(run, seq, n) ORDER BY n`), f.pauseRuns, f.asked.seqs)
	var lines []byte
	n := -1
	_, err := pgx.ForEachRow(rows, []any{&lines}, func() error {
		n++
		if rec, err := record(lines, f.asked.seqs[n]); err == nil {
			f.asked.opened[n] = stamp(rec.At)
		}
		return nil
	})
	return err
}

func (f *filling) write(ctx context.Context, tx pgx.Tx, schema string) error {
	a := f.asked
	for _, w := range []struct {
		sql  string
		args []any
	}{
		{`UPDATE SCHEMA.runs SET queue = u.queue, parent = u.parent
FROM unnest($1::bigint[], $2::text[], $3::text[]) AS u(key, queue, parent) WHERE runs.key = u.key`,
			[]any{f.runs, f.queues, f.parents}},
		{`INSERT INTO SCHEMA.labels (run, key, value, started, id)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[])`,
			[]any{f.labelRuns, f.keys, f.values, f.starts, f.labelIDs}},
		{`INSERT INTO SCHEMA.pauses (run, run_id, recipe, seq, id, kind, opened, expires, due) SELECT * FROM
unnest($1::bigint[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[])`,
			append([]any{f.pauseRuns, f.runIDs, f.recipes}, a.args()...)},
	} {
		if _, err := tx.Exec(ctx, inSchema(schema, w.sql), w.args...); err != nil {
			return fmt.Errorf("runs of an earlier version: %w", err)
		}
	}
	return nil
}
