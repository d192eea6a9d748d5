package sqlite

import (
	"errors"
	"fmt"
	"strings"

	"zombiezen.com/go/sqlite"

	"github.com/braise-run/braise/checkpoint"
)

// migrations take a file from each version of its tables to the next; a new file has version 0.
//
// What matters is in lines with a checksum, see checkpoint.Record.AppendLine; the other columns exist to
// search by and are compared with them. A row of journal is one append; its key holds the run and the last
// seq. An append that has a transaction for itself goes into records, where journals lie in one piece: it
// changes one page of the file. Appends that many runs make in one transaction go into crowded, one behind the
// other: they change few pages more than they fill.
var migrations = []string{`
CREATE TABLE runs (
	num     INTEGER PRIMARY KEY,
	id      TEXT NOT NULL UNIQUE,
	recipe  TEXT NOT NULL,
	digest  TEXT NOT NULL,
	started TEXT NOT NULL,
	status  TEXT NOT NULL,
	due     TEXT,
	lease   BLOB NOT NULL,
	summary BLOB NOT NULL -- when it was last more than the number and the time of the last record that changed
);
CREATE INDEX runs_started ON runs (started, id);
CREATE INDEX runs_due ON runs (due) WHERE due IS NOT NULL;
CREATE TABLE records (
	key   INTEGER PRIMARY KEY, -- num << 32 | seq of the last
	lines BLOB NOT NULL
);
CREATE TABLE definitions (
	digest TEXT PRIMARY KEY,
	line   BLOB NOT NULL
);
`, `
CREATE TABLE documents (
	num        INTEGER PRIMARY KEY, -- in the order of a collection
	collection TEXT NOT NULL,
	name       TEXT NOT NULL,
	line       BLOB NOT NULL, -- see checkpoint.DocumentLine
	UNIQUE (collection, name)
);
`, `
CREATE TABLE crowded (
	num   INTEGER PRIMARY KEY, -- in the order of writing
	key   INTEGER NOT NULL UNIQUE, -- as in records, where it is not then
	lines BLOB NOT NULL
);
CREATE VIEW journal AS SELECT key, lines FROM records UNION ALL SELECT key, lines FROM crowded;
`, `
DROP INDEX runs_started;
DROP INDEX runs_due;
ALTER TABLE runs DROP COLUMN due;
ALTER TABLE runs ADD COLUMN queue TEXT NOT NULL DEFAULT '';
ALTER TABLE runs ADD COLUMN parent TEXT;
ALTER TABLE runs ADD COLUMN ended TEXT;
CREATE INDEX runs_status ON runs (status, started, id, recipe, queue);
CREATE INDEX runs_recipe ON runs (recipe, started, id, queue);
CREATE INDEX runs_queue ON runs (queue, started, id, recipe) WHERE queue <> '';
CREATE INDEX runs_parent ON runs (parent, started, id) WHERE parent IS NOT NULL;
CREATE INDEX runs_ended ON runs (ended) WHERE ended IS NOT NULL;
CREATE TABLE labels (
	key     TEXT NOT NULL,
	value   TEXT NOT NULL,
	started TEXT NOT NULL,
	id      TEXT NOT NULL,
	run     INTEGER NOT NULL, -- its num
	PRIMARY KEY (key, value, started, id)
) WITHOUT ROWID;
CREATE TABLE pauses ( -- that are open
	run     INTEGER NOT NULL, -- its num
	id      TEXT NOT NULL,
	owner   TEXT NOT NULL, -- the id of the run
	recipe  TEXT NOT NULL,
	kind    TEXT NOT NULL,
	opened  TEXT NOT NULL,
	expires TEXT NOT NULL, -- ~: never
	due     TEXT, -- when the run needs attention without an answer
	PRIMARY KEY (run, id)
) WITHOUT ROWID;
CREATE INDEX pauses_opened ON pauses (opened, owner, id, kind, recipe);
CREATE INDEX pauses_expires ON pauses (expires, owner, id, kind, recipe);
CREATE INDEX pauses_due ON pauses (due) WHERE due IS NOT NULL;
CREATE TABLE signals (
	num  INTEGER PRIMARY KEY, -- in the order of writing
	run  INTEGER NOT NULL,
	id   TEXT NOT NULL,
	done INTEGER NOT NULL DEFAULT 0,
	line BLOB NOT NULL, -- see checkpoint.Signal.Line
	UNIQUE (run, id)
);
CREATE INDEX signals_open ON signals (run) WHERE done = 0;
CREATE TABLE changes ( -- by the last transactions, see watch.go
	num  INTEGER PRIMARY KEY, -- in the order of writing
	runs TEXT NOT NULL -- the numbers of the runs, with commas between
);
ALTER TABLE definitions ADD COLUMN loose INTEGER NOT NULL DEFAULT 0;
CREATE INDEX definitions_loose ON definitions (digest) WHERE loose = 1;
UPDATE definitions SET loose = 1;
`, `
DROP INDEX runs_recipe;
DROP INDEX runs_queue;
CREATE INDEX runs_recipe ON runs (recipe, status, started, id, queue);
CREATE INDEX runs_queue ON runs (queue, status, started, id, recipe) WHERE queue <> '';
CREATE TABLE labelled (
	key     TEXT NOT NULL,
	value   TEXT NOT NULL,
	status  TEXT NOT NULL, -- what follows is of the run
	started TEXT NOT NULL,
	id      TEXT NOT NULL,
	run     INTEGER NOT NULL, -- its num
	recipe  TEXT NOT NULL,
	queue   TEXT NOT NULL,
	PRIMARY KEY (key, value, status, started, id)
) WITHOUT ROWID;
INSERT INTO labelled SELECT l.key, l.value, r.status, l.started, l.id, l.run, r.recipe, r.queue
	FROM labels l JOIN runs r ON r.num = l.run;
DROP TABLE labels;
ALTER TABLE labelled RENAME TO labels;
`, `
CREATE INDEX runs_id ON runs (id, status, started, recipe, queue);
`, `
ALTER TABLE runs -- see checkpoint.Summary.Figures, '': an earlier version wrote it
	ADD COLUMN figures TEXT NOT NULL DEFAULT '';
DROP INDEX runs_status;
CREATE INDEX runs_status ON runs (status, started, id, recipe, queue, figures);
`}

// migrate brings the tables up to date.
func migrate(c *sqlite.Conn) error {
	version, err := checkVersion(c) // another process may have been faster
	from := version
	for ; err == nil && version < len(migrations); version++ {
		for text := range strings.SplitSeq(strings.TrimSpace(migrations[version]), ";\n") {
			if err := query(c, nil, text); err != nil {
				return err
			}
		}
	}
	if err == nil && from > 0 && from < 4 {
		err = fill(c)
	}
	if err == nil {
		err = query(c, nil, fmt.Sprintf("PRAGMA application_id = %d", application))
	}
	if err == nil {
		err = query(c, nil, fmt.Sprintf("PRAGMA user_version = %d", len(migrations)))
	}
	return err
}

// fill gives the runs of a file that had no version 4 what that version searches by. A run that is damaged stays as
// it is.
func fill(c *sqlite.Conn) error {
	var nums []int64
	err := query(c, func(stmt *sqlite.Stmt) error { nums = append(nums, stmt.ColumnInt64(0)); return nil },
		"SELECT num FROM runs")
	for _, num := range nums {
		if err == nil {
			err = fillRun(c, num)
		}
	}
	return err
}

func fillRun(c *sqlite.Conn, num int64) error {
	var line []byte
	err := query(c, func(stmt *sqlite.Stmt) error { line = column(stmt, 0); return nil },
		"SELECT summary FROM runs WHERE num = ?", num)
	if err != nil {
		return err
	}
	sum, err := parseSummary(line)
	if err != nil {
		return nil
	}
	err = query(c, nil, "UPDATE runs SET queue = ?, parent = ?, ended = ? WHERE num = ?",
		sum.Queue, parent(sum), ended(sum), num)
	if err == nil {
		err = addLabels(c, num, sum)
	}
	e := &entry{num: num, sum: sum}
	for _, p := range sum.Pauses {
		var rec checkpoint.Record
		if err == nil {
			rec, err = e.record(c, p.Seq)
		}
		if _, ok := errors.AsType[*refusal](err); ok {
			return nil
		}
		if err == nil {
			err = addPause(c, num, sum, p, rec)
		}
	}
	return err
}
