package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/braise-run/braise/checkpoint"
)

// migrations lead from each version of the tables to the next, the first from none. Times but for
// a lease's are texts, see stamp; the columns of runs behind digest change with each write, but for those
// in an index, and rows leave space for that.
var migrations = []string{`
CREATE TABLE version (version int NOT NULL);
INSERT INTO version VALUES (0);
CREATE TABLE runs (
	key     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	id      text COLLATE "C" NOT NULL UNIQUE,
	recipe  text NOT NULL,
	digest  text NOT NULL,
	started text COLLATE "C" NOT NULL,
	status  text NOT NULL,
	due     text COLLATE "C" NOT NULL,
	updated text COLLATE "C" NOT NULL,
	seq     bigint NOT NULL,
	summary bytea NOT NULL,
	owner   text NOT NULL,
	epoch   bigint NOT NULL,
	until   timestamptz NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX runs_started ON runs (started, id);
CREATE INDEX runs_status ON runs (status, started, id);
CREATE INDEX runs_due ON runs (due) WHERE due <> '';
CREATE TABLE records (
	run  bigint NOT NULL,
	seq  bigint NOT NULL,
	line bytea NOT NULL,
	PRIMARY KEY (run, seq)
);
CREATE TABLE definitions (digest text COLLATE "C" PRIMARY KEY, line bytea NOT NULL);
`}

// migrate makes the tables, or brings them up to date, one process at a time.
func migrate(ctx context.Context, tx pgx.Tx, schema string) error {
	var made bool
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", "braise "+schema); err != nil {
		return err
	}
	if err := tx.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", schema+".version").Scan(&made); err != nil {
		return err
	}
	version := 0
	if made {
		if err := tx.QueryRow(ctx, "SELECT version FROM version").Scan(&version); err != nil {
			return err
		}
	} else if err := makeSchema(ctx, tx, schema); err != nil {
		return err
	}
	if version > len(migrations) {
		return fmt.Errorf("schema %s: %w: %d, not %d", schema, checkpoint.ErrVersion, version, len(migrations))
	}
	if version == len(migrations) {
		return nil
	}
	for _, sql := range migrations[version:] {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return fmt.Errorf("schema %s: %w", schema, err)
		}
	}
	_, err := tx.Exec(ctx, "UPDATE version SET version = $1", len(migrations))
	return err
}

// makeSchema makes the schema unless it is there, which one must not even try without the right to.
func makeSchema(ctx context.Context, tx pgx.Tx, schema string) error {
	var made bool
	err := tx.QueryRow(ctx, "SELECT to_regnamespace($1) IS NOT NULL", schema).Scan(&made)
	if err == nil && !made {
		_, err = tx.Exec(ctx, "CREATE SCHEMA "+schema)
	}
	return err
}

// A write is one statement that decides by itself: it returns a row, or changes nothing.
const (
	createSQL = `WITH made AS (
	INSERT INTO runs (id, recipe, digest, started, updated, due, status, seq, summary, owner, epoch, until)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 1, clock_timestamp() + $11 * interval '1 microsecond')
	ON CONFLICT (id) DO NOTHING RETURNING key, until
), kept AS (
	INSERT INTO definitions (digest, line) SELECT $3, $12 FROM made WHERE $12::bytea IS NOT NULL
	ON CONFLICT (digest) DO NOTHING
), added AS (
	INSERT INTO records (run, seq, line) SELECT key, n, r FROM made, unnest($13::bytea[]) WITH ORDINALITY AS u(r, n)
) SELECT key, until FROM made`

	endSQL = `WITH done AS (
	UPDATE runs SET seq = $5, summary = $6, status = $7, updated = $8, due = $9
	WHERE key = $1 AND epoch = $2 AND owner = $3 AND seq = $4 RETURNING key, seq
) INSERT INTO records (run, seq, line) `
	appendSQL    = endSQL + `SELECT key, $4 + n, r FROM done, unnest($10::bytea[]) WITH ORDINALITY AS u(r, n)`
	appendOneSQL = endSQL + `SELECT key, seq, $10 FROM done` // a tenth faster

	leaseSQL = `UPDATE runs SET owner = $5, epoch = $6, until = clock_timestamp() + $7 * interval '1 microsecond'
WHERE id = $1 AND epoch = $2 AND owner = $3 AND ($4::timestamptz IS NULL OR until = $4) RETURNING until`

	// seq keeps a run for which records come at the same time; the order of locks is that of all writes.
	deleteSQL = `WITH free AS MATERIALIZED (
	SELECT r.key FROM runs r
	JOIN unnest($1::bigint[], $2::bigint[], $3::text[], $4::timestamptz[], $5::bigint[]) AS u(key, epoch, owner, until, seq)
	USING (key, epoch, owner, until, seq) ORDER BY r.id FOR UPDATE OF r
), gone AS (
	DELETE FROM runs WHERE key IN (SELECT key FROM free) RETURNING key
), swept AS (
	DELETE FROM records WHERE run IN (SELECT key FROM gone)
) SELECT count(*) FROM gone`

	headSQL = `SELECT id, key, seq, started, summary, owner, epoch, until, clock_timestamp() FROM runs `

	listSQL = headSQL + `WHERE ($1 = '' OR status = $1) AND ($2 = '' OR recipe = $2) AND ($3 = '' OR due <> '' AND due <= $3)
AND ($4 = '' OR (started, id) < ($4, $5)) ORDER BY started DESC, id DESC LIMIT NULLIF($6, 0)`

	pruneSQL = headSQL + `WHERE status = ANY($1) AND updated < $2 AND key > $3 ORDER BY key LIMIT $4`
)
