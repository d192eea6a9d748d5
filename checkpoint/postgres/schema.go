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
var migrations = []migration{{sql: `
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
`}, {sql: `
CREATE TABLE SCHEMA.documents (
	num        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- in the order of a collection
	collection text COLLATE "C" NOT NULL,
	name       text COLLATE "C" NOT NULL,
	line       bytea NOT NULL,
	UNIQUE (collection, name)
);
`}, {sql: `
ALTER TABLE SCHEMA.runs ADD queue text COLLATE "C" NOT NULL DEFAULT '', ADD parent text COLLATE "C" NOT NULL DEFAULT '';
CREATE TABLE SCHEMA.labels (
	run     bigint NOT NULL,
	key     text COLLATE "C" NOT NULL,
	value   text COLLATE "C" NOT NULL,
	started text COLLATE "C" NOT NULL, -- this and id are those of the run
	id      text COLLATE "C" NOT NULL,
	PRIMARY KEY (run, key)
);
CREATE INDEX labels_value ON SCHEMA.labels (key, value, started, id);
CREATE TABLE SCHEMA.pauses (
	run     bigint NOT NULL,
	seq     bigint NOT NULL, -- of the record that opened it
	id      text COLLATE "C" NOT NULL,
	kind    text COLLATE "C" NOT NULL,
	opened  text COLLATE "C" NOT NULL,
	expires text COLLATE "C" NOT NULL, -- behind all stamps: never
	due     text COLLATE "C" NOT NULL,
	run_id  text COLLATE "C" NOT NULL,
	recipe  text COLLATE "C" NOT NULL,
	PRIMARY KEY (run, seq)
);
CREATE INDEX pauses_opened ON SCHEMA.pauses (opened, run_id);
CREATE INDEX pauses_expires ON SCHEMA.pauses (expires, run_id);
CREATE INDEX pauses_kind ON SCHEMA.pauses (kind, opened, run_id);
CREATE INDEX pauses_recipe ON SCHEMA.pauses (left(recipe, 100), opened, run_id);
CREATE TABLE SCHEMA.signals (
	num  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- in the order of a run
	run  bigint NOT NULL,
	id   text COLLATE "C" NOT NULL,
	line bytea NOT NULL,
	call text COLLATE "C" NOT NULL, -- that put it
	done boolean NOT NULL DEFAULT false,
	UNIQUE (run, id)
);
CREATE INDEX signals_open ON SCHEMA.signals (run, id) WHERE NOT done;
`}, {sql: `
CREATE INDEX runs_recipe ON SCHEMA.runs (left(recipe, 100), status, started, id);
CREATE INDEX runs_queue ON SCHEMA.runs (queue, status, started, id);
CREATE INDEX runs_parent ON SCHEMA.runs (parent, started, id) WHERE parent <> '';
CREATE INDEX runs_digest ON SCHEMA.runs (digest);
`}, {sql: `
LOCK TABLE SCHEMA.runs IN SHARE MODE;
`, fill: fill}, {sql: `
LOCK TABLE SCHEMA.runs IN SHARE MODE;
ALTER TABLE SCHEMA.labels ADD status text COLLATE "C" NOT NULL DEFAULT '', ADD recipe text NOT NULL DEFAULT '',
	ADD queue text COLLATE "C" NOT NULL DEFAULT ''; -- of the run
UPDATE SCHEMA.labels l SET status = r.status, recipe = r.recipe, queue = r.queue FROM SCHEMA.runs r WHERE r.key = l.run;
DROP INDEX SCHEMA.labels_value;
CREATE INDEX labels_value ON SCHEMA.labels (key, value, status, started, id);
CREATE INDEX runs_dated ON SCHEMA.runs (status, started, id) WHERE due <> '';
`}, {sql: `
ALTER TABLE SCHEMA.runs ADD figures text NOT NULL DEFAULT ''; -- see checkpoint.Summary.Figures
`}}

// migration leads to a version of the tables. Each is a transaction of its own: reads go on while indexes are made, and
// while what there is fills new tables.
type migration struct {
	sql  string
	fill func(ctx context.Context, tx pgx.Tx, schema string) error // nil: nothing
}

// migrateTime is how long a process waits for others that make the tables or bring them up to date.
const migrateTime = "10min"

// migrate makes the tables, or brings them up to date, one version and one process at a time; it reports whether
// there are more versions. Where there is nothing to do it takes no lock: a process that was stopped here does not keep
// others from the store.
func migrate(ctx context.Context, tx pgx.Tx, schema string) (more bool, err error) {
	hasSchema, version, err := versionOf(ctx, tx, schema)
	if err == nil && version < len(migrations) {
		_, err = tx.Exec(ctx, "SELECT set_config('lock_timeout', $2, true), "+
			"pg_advisory_xact_lock(hashtextextended($1, 0))", "braise "+schema, migrateTime)
		if err == nil { // what follows waits for writes only
			_, err = tx.Exec(ctx, "SELECT set_config('lock_timeout', $1, true)", lockTime)
		}
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
	if err == nil && version < len(migrations) {
		next := migrations[version]
		_, err = tx.Exec(ctx, inSchema(schema, next.sql))
		if err == nil && next.fill != nil {
			err = next.fill(ctx, tx, schema)
		}
		if err == nil {
			_, err = tx.Exec(ctx, inSchema(schema, "UPDATE SCHEMA.version SET version = $1"), version+1)
		}
	}
	if err != nil {
		return false, fmt.Errorf("schema %s: %w", schema, err)
	}
	return version+1 < len(migrations), nil
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
