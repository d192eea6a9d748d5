package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/braise-run/braise/checkpoint"
)

// In all statements, SCHEMA stands for the store's schema: it is named, and does not hang on the session's search_path.
func inSchema(schema, sql string) string { return strings.ReplaceAll(sql, "SCHEMA.", schema+".") }

// migrations lead from each version of the tables to the next, the first from none. started and due
// are stamps, updated is a mark. Most writes change nothing that is in an index, and runs leave space
// for that on their pages.
var migrations = []string{`
CREATE TABLE SCHEMA.version (version int NOT NULL);
INSERT INTO SCHEMA.version VALUES (0);
CREATE TABLE SCHEMA.runs (
	key     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	id      text COLLATE "C" NOT NULL UNIQUE,
	recipe  text NOT NULL,
	digest  text NOT NULL,
	started text COLLATE "C" NOT NULL,
	seq     bigint NOT NULL,
	updated text COLLATE "C" NOT NULL,
	summary bytea NOT NULL,
	status  text NOT NULL,
	due     text COLLATE "C" NOT NULL,
	owner   text NOT NULL,
	epoch   bigint NOT NULL,
	until   timestamptz NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX runs_started ON SCHEMA.runs (started, id);
CREATE INDEX runs_status ON SCHEMA.runs (status, started, id);
CREATE INDEX runs_due ON SCHEMA.runs (due) WHERE due <> '';
CREATE TABLE SCHEMA.records (
	run   bigint NOT NULL,
	seq   bigint NOT NULL, -- of the last of them
	lines bytea NOT NULL,
	PRIMARY KEY (run, seq)
);
CREATE TABLE SCHEMA.definitions (digest text COLLATE "C" PRIMARY KEY, line bytea NOT NULL);
`, `
CREATE TABLE SCHEMA.documents (
	num        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- in the order of a collection
	collection text COLLATE "C" NOT NULL,
	name       text COLLATE "C" NOT NULL,
	line       bytea NOT NULL,
	UNIQUE (collection, name)
);
`}

// migrate makes the tables, or brings them up to date, one process at a time. Where there is nothing to do it takes no
// lock: a process that was stopped here does not keep others from the store.
func migrate(ctx context.Context, tx pgx.Tx, schema string) error {
	hasSchema, version, err := versionOf(ctx, tx, schema)
	if err == nil && version < len(migrations) {
		_, err = tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", "braise "+schema)
		if err == nil { // somebody may have been quicker
			hasSchema, version, err = versionOf(ctx, tx, schema)
		}
	}
	if err == nil && !hasSchema { // else not even IF NOT EXISTS: it takes a right that not everyone has
		_, err = tx.Exec(ctx, "CREATE SCHEMA "+schema)
	}
	if version > len(migrations) {
		err = fmt.Errorf("%w: %d, not %d", checkpoint.ErrVersion, version, len(migrations))
	}
	for ; err == nil && version < len(migrations); version++ {
		if _, err = tx.Exec(ctx, inSchema(schema, migrations[version])); err == nil {
			_, err = tx.Exec(ctx, inSchema(schema, "UPDATE SCHEMA.version SET version = $1"), version+1)
		}
	}
	if err != nil {
		return fmt.Errorf("schema %s: %w", schema, err)
	}
	return nil
}

// versionOf returns whether there is the schema, and the version of its tables; 0: there are none. It reads the
// catalog: to_regclass would go on saying what it said before somebody else made the tables.
func versionOf(ctx context.Context, tx pgx.Tx, schema string) (hasSchema bool, version int, err error) {
	var hasTables bool
	err = tx.QueryRow(ctx, `SELECT n.oid IS NOT NULL, c.oid IS NOT NULL
FROM (VALUES ((pg_catalog.parse_ident($1))[1])) AS s(name)
LEFT JOIN pg_catalog.pg_namespace n ON n.nspname = s.name
LEFT JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = 'version'`, schema).
		Scan(&hasSchema, &hasTables)
	if err == nil && hasTables {
		err = tx.QueryRow(ctx, inSchema(schema, "SELECT version FROM SCHEMA.version")).Scan(&version)
	}
	return hasSchema, version, err
}

// A write is one statement that decides by itself: it returns a row, or changes nothing.
const (
	createSQL = `WITH made AS (
	INSERT INTO SCHEMA.runs (id, recipe, digest, started, seq, updated, summary, status, due, owner, epoch, until)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 1, clock_timestamp() + $11 * interval '1 microsecond')
	ON CONFLICT (id) DO NOTHING RETURNING key, seq, until
), kept AS (
	INSERT INTO SCHEMA.definitions (digest, line) SELECT $3, $12 FROM made WHERE $12::bytea IS NOT NULL
	ON CONFLICT (digest) DO NOTHING
), added AS (
	INSERT INTO SCHEMA.records (run, seq, lines) SELECT key, seq, $13 FROM made
) SELECT key, until FROM made`

	appendSQL = `WITH done AS (UPDATE SCHEMA.runs SET seq = $5, updated = $6` + appendedSQL
	changeSQL = `WITH done AS (UPDATE SCHEMA.runs SET seq = $5, updated = $6, summary = $8, status = $9, due = $10` +
		appendedSQL

	appendedSQL = ` WHERE key = $1 AND epoch = $2 AND owner = $3 AND seq = $4 RETURNING key, seq)
INSERT INTO SCHEMA.records (run, seq, lines) SELECT key, seq, $7 FROM done`

	// allSQL is appendSQL for many runs, whose rows it locks in the order of all writes; it returns those that
	// were as they should be. The arguments are those of appendSQL, as arrays.
	allSQL = `WITH new AS MATERIALIZED (
	SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::text[], $7::bytea[])
		AS u(key, epoch, owner, after, seq, updated, lines)
), free AS MATERIALIZED (
	SELECT r.key, u.seq, u.updated, u.lines FROM SCHEMA.runs r JOIN new u ON r.key = u.key
	WHERE r.epoch = u.epoch AND r.owner = u.owner AND r.seq = u.after ORDER BY r.id FOR UPDATE OF r
), done AS (
	UPDATE SCHEMA.runs r SET seq = f.seq, updated = f.updated FROM free f WHERE r.key = f.key
	RETURNING r.key, r.seq, f.lines
) INSERT INTO SCHEMA.records (run, seq, lines) SELECT key, seq, lines FROM done RETURNING run`

	leaseSQL = `UPDATE SCHEMA.runs SET owner = $5, epoch = $6, until = clock_timestamp() + $7 * interval '1 microsecond'
WHERE id = $1 AND epoch = $2 AND owner = $3 AND ($4::timestamptz IS NULL OR until = $4) RETURNING until`

	// seq keeps a run for which records come at the same time; the order of locks is that of all writes.
	deleteSQL = `WITH free AS MATERIALIZED (
	SELECT r.key FROM SCHEMA.runs r
	JOIN unnest($1::bigint[], $2::bigint[], $3::text[], $4::timestamptz[], $5::bigint[])
		AS u(key, epoch, owner, until, seq)
	USING (key, epoch, owner, until, seq) ORDER BY r.id FOR UPDATE OF r
), gone AS (
	DELETE FROM SCHEMA.runs WHERE key IN (SELECT key FROM free) RETURNING key
), swept AS (
	DELETE FROM SCHEMA.records WHERE run IN (SELECT key FROM gone)
) SELECT count(*) FROM gone`

	putSQL = `INSERT INTO SCHEMA.documents (collection, name, line) VALUES ($1, $2, $3)
ON CONFLICT (collection, name) DO UPDATE SET line = excluded.line`

	removeSQL = `WITH all_of_it AS MATERIALIZED (
	SELECT num FROM SCHEMA.documents WHERE collection = $1 ORDER BY name FOR UPDATE
) DELETE FROM SCHEMA.documents WHERE num IN (SELECT num FROM all_of_it)`

	headSQL = `SELECT id, key, started, seq, updated, summary, owner, epoch, until, clock_timestamp() FROM SCHEMA.runs `

	listSQL = headSQL + `WHERE ($1 = '' OR status = $1) AND ($2 = '' OR recipe = $2)
AND ($3 = '' OR due <> '' AND due <= $3)
AND ($4 = '' OR (started, id) < ($4, $5)) ORDER BY started DESC, id DESC LIMIT NULLIF($6, 0)`

	pruneSQL = headSQL + `WHERE status = ANY($1) AND updated < $2 AND id > $3 ORDER BY id LIMIT $4`
)
