package retriever

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/braise-run/braise/runtime"
)

// file is a Database in a file of SQLite.
type file string

func (f file) name() string { return filepath.ToSlash(string(f)) }

// tables are made where they are missing. The texts are with the passages, index_words has words only. A vector belongs
// to all passages of one text.
const tables = `
CREATE TABLE IF NOT EXISTS index_about (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS index_sources (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, digest TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS index_passages (id INTEGER PRIMARY KEY, source INTEGER NOT NULL, number INTEGER NOT NULL,
	document TEXT NOT NULL, text TEXT NOT NULL, words TEXT NOT NULL, metadata TEXT NOT NULL, hash BLOB NOT NULL,
	UNIQUE (source, number));
CREATE INDEX IF NOT EXISTS index_passages_by_hash ON index_passages (hash);
CREATE VIRTUAL TABLE IF NOT EXISTS index_words USING fts5(text, content='', contentless_delete=1, ` + tokens + `);
CREATE TABLE IF NOT EXISTS index_vectors (id INTEGER PRIMARY KEY, hash BLOB NOT NULL UNIQUE, vector BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS index_changes (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE,
	added INTEGER, changed INTEGER, deleted INTEGER, skipped INTEGER);
`

func (f file) open(ctx context.Context, writing bool) (_ session, err error) {
	flags := sqlite.OpenReadWrite
	if writing {
		flags |= sqlite.OpenCreate
		if err := os.MkdirAll(filepath.Dir(string(f)), 0o755); err != nil {
			return nil, bare(err)
		}
	} else if _, err := os.Stat(string(f)); errors.Is(err, fs.ErrNotExist) {
		return nil, errNothing
	}
	conn, err := sqlite.OpenConn(string(f), flags) // which waits for others as long as ctx lasts
	if err != nil {
		return nil, err
	}
	s := &fileSession{conn}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	conn.SetInterrupt(ctx.Done())
	if !writing {
		made, err := s.one("SELECT count(*) FROM sqlite_schema WHERE name = 'index_changes'")
		if err == nil && made == 0 {
			err = errNothing
		}
		return s, err
	}
	if err = sqlitex.ExecuteTransient(conn, "PRAGMA journal_mode = wal", nil); err != nil {
		return nil, err
	}
	end, err := sqlitex.ImmediateTransaction(conn)
	if err != nil {
		return nil, err
	}
	defer end(&err)
	return s, sqlitex.ExecuteScript(conn, tables, nil)
}

type fileSession struct{ conn *sqlite.Conn }

func (s *fileSession) close() {
	s.conn.SetInterrupt(nil)
	_ = s.conn.Close() // nothing is under way
}

func (s *fileSession) snapshot() error { return s.do("BEGIN", nil) } // closing ends it

func (s *fileSession) do(text string, row func(*sqlite.Stmt) error, args ...any) error {
	return sqlitex.Execute(s.conn, text, &sqlitex.ExecOptions{Args: args, ResultFunc: row})
}

// one is the number that a query gives; 0: it gives none.
func (s *fileSession) one(text string, args ...any) (n int64, err error) {
	err = s.do(text, func(row *sqlite.Stmt) error { n = row.ColumnInt64(0); return nil }, args...)
	return n, err
}

func (s *fileSession) earlier(key string) (u runtime.Updated, ok bool, err error) {
	const query = "SELECT added, changed, deleted, skipped FROM index_changes WHERE key = ?"
	err = s.do(query, func(row *sqlite.Stmt) error {
		ok = true
		u = runtime.Updated{Added: row.ColumnInt(0), Changed: row.ColumnInt(1), Deleted: row.ColumnInt(2),
			Skipped: row.ColumnInt(3)}
		return nil
	}, key)
	return u, ok, err
}

func (s *fileSession) digests() (map[string]string, error) {
	digests := map[string]string{}
	return digests, s.do("SELECT name, digest FROM index_sources", func(row *sqlite.Stmt) error {
		digests[row.ColumnText(0)] = row.ColumnText(1)
		return nil
	})
}

func (s *fileSession) alone(change func() error) (err error) {
	end, err := sqlitex.ImmediateTransaction(s.conn)
	if err != nil {
		return err
	}
	defer end(&err)
	return change()
}

func (s *fileSession) settle(key string, u runtime.Updated) error {
	err := s.do("DELETE FROM index_vectors WHERE hash NOT IN (SELECT hash FROM index_passages)", nil)
	if err == nil && key != "" {
		err = s.do("INSERT INTO index_changes (key, added, changed, deleted, skipped) VALUES (?, ?, ?, ?, ?)", nil,
			key, u.Added, u.Changed, u.Deleted, u.Skipped)
	}
	if err != nil {
		return err
	}
	return s.do("DELETE FROM index_changes WHERE id <= (SELECT max(id) FROM index_changes) - ?", nil, maxChanges)
}

func (s *fileSession) remove(sources []string) error {
	const of = " (SELECT id FROM index_passages WHERE source = (SELECT id FROM index_sources WHERE name = ?1))"
	for _, name := range sources {
		for _, text := range []string{
			"DELETE FROM index_words WHERE rowid IN" + of,
			"DELETE FROM index_passages WHERE id IN" + of,
			"DELETE FROM index_sources WHERE name = ?1",
		} {
			if err := s.do(text, nil, name); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *fileSession) put(source *runtime.Source) error {
	err := s.do("INSERT INTO index_sources (name, digest) VALUES (?, ?)", nil, source.Name, source.Digest)
	id := s.conn.LastInsertRowID()
	for i := range source.Documents {
		if err != nil {
			return err
		}
		d := &source.Documents[i]
		words := wordsOf(d)
		hash := sha256.Sum256([]byte(words))
		about, bad := metadataOf(d)
		if bad != nil {
			return bad
		}
		err = s.do("INSERT INTO index_passages (source, number, document, text, words, metadata, hash)"+
			" VALUES (?, ?, ?, ?, ?, ?, ?)", nil, id, i+1, d.ID, d.Text, words, about, hash[:])
		if err == nil {
			err = s.do("INSERT INTO index_words (rowid, text) VALUES (?, ?)", nil, s.conn.LastInsertRowID(), words)
		}
	}
	return err
}

func (s *fileSession) embedder() (e embedder, err error) {
	return e, s.do("SELECT name, value FROM index_about", func(row *sqlite.Stmt) error {
		switch row.ColumnText(0) {
		case "model":
			e.model = row.ColumnText(1)
		case "dimensions":
			e.dimensions = row.ColumnInt(1)
		}
		return nil
	})
}

func (s *fileSession) bare() (texts []string, err error) {
	return texts, s.do("SELECT words FROM index_passages WHERE hash NOT IN (SELECT hash FROM index_vectors)",
		func(row *sqlite.Stmt) error {
			texts = append(texts, row.ColumnText(0))
			return nil
		})
}

func (s *fileSession) known(hash [32]byte) (bool, error) {
	n, err := s.one("SELECT count(*) FROM index_vectors WHERE hash = ?", hash[:])
	return n > 0, err
}

func (s *fileSession) keep(by embedder, texts []string, vectors [][]float32) error {
	return s.alone(func() error {
		err := s.do("INSERT OR REPLACE INTO index_about VALUES ('model', ?), ('dimensions', ?)", nil,
			by.model, by.dimensions)
		for i, v := range vectors {
			if err != nil {
				return err
			}
			hash := sha256.Sum256([]byte(texts[i]))
			err = s.do("INSERT OR IGNORE INTO index_vectors (hash, vector) VALUES (?, ?)", nil, hash[:], bytesOf(v))
		}
		return err
	})
}

// bytesOf is a vector as it is kept.
func bytesOf(v []float32) []byte {
	data := make([]byte, 0, 4*len(v))
	for _, f := range v {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(f))
	}
	return data
}

func (s *fileSession) byWords(q *runtime.Query, most int) (hits []hit, err error) {
	match := matchAny(q.Text)
	if match == "" {
		return nil, nil
	}
	err = s.do(`SELECT p.id, -bm25(index_words) AS score, p.metadata FROM index_words
		JOIN index_passages p ON p.id = index_words.rowid JOIN index_sources s ON s.id = p.source
		WHERE index_words MATCH ? ORDER BY score DESC, s.name, p.number`, func(row *sqlite.Stmt) error {
		if len(q.Filter) > 0 && !q.Fits(aboutOf(row.ColumnText(2))) {
			return nil
		}
		if hits = append(hits, hit{row.ColumnInt64(0), row.ColumnFloat(1)}); len(hits) == most {
			return errEnough
		}
		return nil
	}, match)
	if errors.Is(err, errEnough) {
		err = nil
	}
	return hits, err
}

func (s *fileSession) byVector(q *runtime.Query, v []float32, most int) ([]hit, error) {
	fits := map[int64]bool{} // vectors, if there is a filter
	if len(q.Filter) > 0 {
		err := s.do("SELECT v.id, p.metadata FROM index_passages p JOIN index_vectors v ON v.hash = p.hash",
			func(row *sqlite.Stmt) error {
				if q.Fits(aboutOf(row.ColumnText(1))) {
					fits[row.ColumnInt64(0)] = true
				}
				return nil
			})
		if err != nil {
			return nil, err
		}
	}
	best := bestOf{most: most}
	buf := make([]byte, 4*len(v))
	err := s.do("SELECT id, vector FROM index_vectors", func(row *sqlite.Stmt) error {
		id := row.ColumnInt64(0)
		if len(q.Filter) == 0 || fits[id] {
			best.add(hit{id, dot(v, buf[:row.ColumnBytes(1, buf)])})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return s.passagesOf(q, best.hits, most)
}

// passagesOf returns the passages that vectors are of, those of one vector in their order.
func (s *fileSession) passagesOf(q *runtime.Query, vectors []hit, most int) (hits []hit, err error) {
	type place struct {
		hit
		source string
		number int
	}
	var places []place
	for _, h := range vectors {
		err := s.do(`SELECT p.id, p.metadata, s.name, p.number
			FROM index_vectors v JOIN index_passages p ON p.hash = v.hash
			JOIN index_sources s ON s.id = p.source WHERE v.id = ?`, func(row *sqlite.Stmt) error {
			if q.Fits(aboutOf(row.ColumnText(1))) {
				places = append(places, place{hit{row.ColumnInt64(0), h.score}, row.ColumnText(2), row.ColumnInt(3)})
			}
			return nil
		}, h.id)
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(b.score, a.score), strings.Compare(a.source, b.source), a.number-b.number)
	})
	for _, p := range places[:min(len(places), most)] {
		hits = append(hits, p.hit)
	}
	return hits, nil
}

func (s *fileSession) documents(hits []hit) ([]runtime.Document, error) {
	var list []runtime.Document
	for _, h := range hits {
		err := s.do(`SELECT p.document, p.text, p.metadata, s.name FROM index_passages p
			JOIN index_sources s ON s.id = p.source WHERE p.id = ?`, func(row *sqlite.Stmt) error {
			list = append(list, runtime.Document{ID: row.ColumnText(0), Text: row.ColumnText(1),
				Metadata: aboutOf(row.ColumnText(2)), Source: row.ColumnText(3), Score: h.score})
			return nil
		}, h.id)
		if err != nil {
			return nil, err
		}
	}
	return list, nil
}
