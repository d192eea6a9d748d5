package retriever

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// Postgres returns the Database of a name in the database of a URL (postgres://…), of Postgres 13 or later. Tables
// (braise_index…) are made by the first change. Vectors need the extension pgvector, which that change creates where it
// is installed; all of them are compared, so that the best are found. Words are those of Postgres's text search for
// English, without accents. Each call has a connection of its own. It does no I/O itself; errors never show the URL.
func Postgres(url string, opts DatabaseOptions) *Database {
	d := newDatabase(nil, opts)
	d.shelf = &server{url: url, index: opts.Name, vectors: d.opts.Embedder != nil}
	return d
}

// server is an index in a database of Postgres.
type server struct {
	url, index string
	vectors    bool // it is to have some
}

func (p *server) name() string { return p.index }

// pgTables are made where they are missing. A vector belongs to all passages of one text.
const pgTables = `
CREATE TABLE IF NOT EXISTS braise_index (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	name text NOT NULL UNIQUE, model text NOT NULL DEFAULT '', dimensions int NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS braise_index_sources (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	place bigint NOT NULL REFERENCES braise_index ON DELETE CASCADE, name text COLLATE "C" NOT NULL,
	digest text NOT NULL, UNIQUE (place, name));
CREATE TABLE IF NOT EXISTS braise_index_passages (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	place bigint NOT NULL, source bigint NOT NULL REFERENCES braise_index_sources ON DELETE CASCADE,
	number int NOT NULL, document text NOT NULL, text text NOT NULL, words text NOT NULL, metadata text NOT NULL,
	hash bytea NOT NULL, lexemes tsvector NOT NULL, length int NOT NULL, UNIQUE (source, number));
CREATE INDEX IF NOT EXISTS braise_index_by_hash ON braise_index_passages (place, hash);
CREATE INDEX IF NOT EXISTS braise_index_by_word ON braise_index_passages USING gin (lexemes);
CREATE TABLE IF NOT EXISTS braise_index_changes (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	place bigint NOT NULL REFERENCES braise_index ON DELETE CASCADE, key text NOT NULL,
	added int, changed int, deleted int, skipped int, UNIQUE (place, key));
`

// pgVectors is the table for vectors.
const pgVectors = `
CREATE EXTENSION IF NOT EXISTS vector;
CREATE TABLE IF NOT EXISTS braise_index_vectors (place bigint NOT NULL REFERENCES braise_index ON DELETE CASCADE,
	hash bytea NOT NULL, vector vector NOT NULL, PRIMARY KEY (place, hash));
`

// lexemes are the words of a text whose words stand one by one, without accents.
const lexemes = `to_tsvector('english', regexp_replace(normalize($%d, NFD), U&'[\0300-\036F]+', '', 'g'))`

func (p *server) open(ctx context.Context, writing bool) (_ session, err error) {
	cfg, err := pgx.ParseConfig(p.url)
	if err != nil {
		return nil, errors.New("its URL is not one of Postgres") // the error may have the password
	}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeExec // no statement is prepared: it may be behind PgBouncer
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, &retry.Failure{Reason: retry.Network, Err: err}
	}
	s := &serverSession{ctx: ctx, conn: conn}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if err = s.tables(); err != nil {
		return nil, err
	}
	if writing && (!s.made || p.vectors && !s.vectors) {
		if err = s.make(p.vectors); err != nil {
			return nil, err
		}
	}
	if s.made {
		s.place, err = s.one("SELECT coalesce((SELECT id FROM braise_index WHERE name = $1), 0)", p.index)
	}
	switch {
	case err != nil || s.place != 0:
	case !writing:
		err = errNothing
	default:
		s.place, err = s.one(`INSERT INTO braise_index (name) VALUES ($1)
			ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING id`, p.index)
	}
	return s, err
}

// serverSession is a connection for one call, of which ctx is.
type serverSession struct {
	ctx     context.Context
	conn    *pgx.Conn
	place   int64 // the id of the index
	made    bool  // the tables are there
	vectors bool  // the one for vectors is, too
}

// tables looks which tables are there.
func (s *serverSession) tables() error {
	return s.conn.QueryRow(s.ctx, `SELECT to_regclass('braise_index_changes') IS NOT NULL,
		to_regclass('braise_index_vectors') IS NOT NULL`).Scan(&s.made, &s.vectors)
}

// make makes tables, one process at a time.
func (s *serverSession) make(vectors bool) error {
	text := "SELECT pg_advisory_xact_lock(hashtext('braise_index'));" + pgTables
	if vectors {
		text += pgVectors
	}
	err := s.inOne(func(tx pgx.Tx) error {
		_, err := tx.Conn().PgConn().Exec(s.ctx, text).ReadAll()
		return err
	})
	if about, ok := errors.AsType[*pgconn.PgError](err); ok && strings.Contains(about.Message, `extension "vector"`) {
		return &runtime.Error{Category: runtime.CategoryConfig, Code: "index.noVectors", Err: fmt.Errorf(
			"the server keeps no vectors: %s\n  hint: install pgvector there, and CREATE EXTENSION vector; "+
				"or search by words", about.Message)}
	}
	if err != nil {
		return err
	}
	return s.tables()
}

func (s *serverSession) close() {
	_ = s.conn.Close(context.WithoutCancel(s.ctx)) // nothing is under way
}

func (s *serverSession) snapshot() error { // closing ends it
	return s.do("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
}

func (s *serverSession) do(text string, args ...any) error {
	_, err := s.conn.Exec(s.ctx, text, args...)
	return err
}

// each calls row with each row that a query gives, until it returns errEnough.
func (s *serverSession) each(text string, row func(pgx.Rows) error, args ...any) error {
	rows, err := s.conn.Query(s.ctx, text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows); errors.Is(err, errEnough) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return rows.Err()
}

func (s *serverSession) one(text string, args ...any) (n int64, err error) {
	return n, s.conn.QueryRow(s.ctx, text, args...).Scan(&n)
}

// inOne does something in one transaction.
func (s *serverSession) inOne(change func(pgx.Tx) error) error {
	return pgx.BeginFunc(s.ctx, s.conn, change)
}

func (s *serverSession) earlier(key string) (u runtime.Updated, ok bool, err error) {
	const query = "SELECT added, changed, deleted, skipped FROM braise_index_changes WHERE place = $1 AND key = $2"
	err = s.each(query, func(row pgx.Rows) error {
		ok = true
		return row.Scan(&u.Added, &u.Changed, &u.Deleted, &u.Skipped)
	}, s.place, key)
	return u, ok, err
}

func (s *serverSession) digests() (map[string]string, error) {
	digests := map[string]string{}
	return digests, s.each("SELECT name, digest FROM braise_index_sources WHERE place = $1", func(row pgx.Rows) error {
		var name, digest string
		err := row.Scan(&name, &digest)
		digests[name] = digest
		return err
	}, s.place)
}

func (s *serverSession) alone(change func() error) error {
	return s.inOne(func(pgx.Tx) error {
		if err := s.do("SELECT FROM braise_index WHERE id = $1 FOR UPDATE", s.place); err != nil {
			return err
		}
		return change()
	})
}

func (s *serverSession) remove(sources []string) error {
	return s.do("DELETE FROM braise_index_sources WHERE place = $1 AND name = ANY($2)", s.place, sources)
}

func (s *serverSession) settle(key string, u runtime.Updated) error {
	if s.vectors {
		if err := s.do(`DELETE FROM braise_index_vectors v WHERE place = $1 AND NOT EXISTS
			(SELECT FROM braise_index_passages p WHERE p.place = v.place AND p.hash = v.hash)`, s.place); err != nil {
			return err
		}
	}
	if key == "" {
		return nil
	}
	err := s.do("INSERT INTO braise_index_changes (place, key, added, changed, deleted, skipped)"+
		" VALUES ($1, $2, $3, $4, $5, $6)", s.place, key, u.Added, u.Changed, u.Deleted, u.Skipped)
	if err != nil {
		return err
	}
	return s.do(`DELETE FROM braise_index_changes WHERE place = $1 AND id <=
		(SELECT id FROM braise_index_changes WHERE place = $1 ORDER BY id DESC OFFSET $2 LIMIT 1)`, s.place, maxChanges)
}

func (s *serverSession) put(source *runtime.Source) error {
	id, err := s.one("INSERT INTO braise_index_sources (place, name, digest) VALUES ($1, $2, $3) RETURNING id",
		s.place, source.Name, source.Digest)
	if err != nil {
		return err
	}
	var all pgx.Batch
	for i := range source.Documents {
		d := &source.Documents[i]
		words := wordsOf(d)
		hash := sha256.Sum256([]byte(words))
		about, err := metadataOf(d)
		if err != nil {
			return err
		}
		all.Queue(`INSERT INTO braise_index_passages
			(place, source, number, document, text, words, metadata, hash, lexemes, length)
			SELECT $1, $2, $3, $4, $5, $6, $7, $8, l,
				coalesce((SELECT sum(cardinality(positions)) FROM unnest(l)), 0) FROM `+fmt.Sprintf(lexemes, 9)+` l`,
			s.place, id, i+1, kept(d.ID), kept(d.Text), kept(words), about, hash[:], apart(words))
	}
	return s.conn.SendBatch(s.ctx, &all).Close()
}

// kept is a text as Postgres can keep it.
func kept(text string) string { return strings.ReplaceAll(text, "\x00", "\uFFFD") }

// apart are the words of a text, one by one.
func apart(text string) string { return strings.Join(strings.FieldsFunc(text, outsideWords), " ") }

func (s *serverSession) embedder() (e embedder, err error) {
	return e, s.conn.QueryRow(s.ctx, "SELECT model, dimensions FROM braise_index WHERE id = $1", s.place).
		Scan(&e.model, &e.dimensions)
}

func (s *serverSession) bare() (texts []string, err error) {
	return texts, s.each(`SELECT words FROM braise_index_passages p WHERE place = $1 AND NOT EXISTS
		(SELECT FROM braise_index_vectors v WHERE v.place = p.place AND v.hash = p.hash)`, func(row pgx.Rows) error {
		var text string
		err := row.Scan(&text)
		texts = append(texts, text)
		return err
	}, s.place)
}

func (s *serverSession) known(hash [32]byte) (bool, error) {
	n, err := s.one("SELECT count(*) FROM braise_index_vectors WHERE place = $1 AND hash = $2", s.place, hash[:])
	return n > 0, err
}

func (s *serverSession) keep(by embedder, texts []string, vectors [][]float32) error {
	return s.inOne(func(pgx.Tx) error {
		err := s.do("UPDATE braise_index SET model = $2, dimensions = $3 WHERE id = $1",
			s.place, by.model, by.dimensions)
		if err != nil {
			return err
		}
		var all pgx.Batch
		for i, v := range vectors {
			hash := sha256.Sum256([]byte(texts[i]))
			all.Queue("INSERT INTO braise_index_vectors VALUES ($1, $2, $3::vector) ON CONFLICT DO NOTHING",
				s.place, hash[:], vectorText(v))
		}
		return s.conn.SendBatch(s.ctx, &all).Close()
	})
}

// vectorText is a vector as pgvector reads it.
func vectorText(v []float32) string {
	text := []byte{'['}
	for i, f := range v {
		if i > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendFloat(text, float64(f), 'g', -1, 32)
	}
	return string(append(text, ']'))
}

// byWords reckons BM25 as SQLite does, with k1 = 1.2 and b = 0.75 (Robertson and Zaragoza, 2009).
func (s *serverSession) byWords(q *runtime.Query, most int) ([]hit, error) {
	words := strings.Join(wordsIn(q.Text), " ")
	return s.best(`WITH
		wanted AS (SELECT lexeme FROM unnest(`+fmt.Sprintf(lexemes, 2)+`)),
		found AS (SELECT p.id, p.length, u.lexeme, cardinality(u.positions) AS times
			FROM braise_index_passages p, unnest(p.lexemes) u
			WHERE p.place = $1 AND u.lexeme IN (SELECT lexeme FROM wanted)
				AND p.lexemes @@ (SELECT string_agg(quote_literal(lexeme), ' | ')::tsquery FROM wanted)),
		rare AS (SELECT lexeme, count(*) AS n FROM found GROUP BY lexeme),
		whole AS (SELECT count(*) AS n, greatest(avg(length), 1) AS length FROM braise_index_passages WHERE place = $1),
		scores AS (SELECT id, sum(greatest(ln((whole.n - rare.n + 0.5) / (rare.n + 0.5)), 0.000001) *
				times * 2.2 / (times + 1.2 * (0.25 + 0.75 * found.length / whole.length)))::float8 AS score
			FROM found JOIN rare USING (lexeme), whole GROUP BY id)
		SELECT p.id, score, p.metadata FROM scores JOIN braise_index_passages p USING (id)
		JOIN braise_index_sources s ON s.id = p.source ORDER BY score DESC, s.name, p.number`, q, most, words)
}

func (s *serverSession) byVector(q *runtime.Query, v []float32, most int) ([]hit, error) {
	return s.best(`SELECT p.id, -(v.vector <#> $2::vector) AS score, p.metadata FROM braise_index_vectors v
		JOIN braise_index_passages p ON p.place = v.place AND p.hash = v.hash
		JOIN braise_index_sources s ON s.id = p.source WHERE v.place = $1 ORDER BY score DESC, s.name, p.number`,
		q, most, vectorText(v))
}

// best returns the first passages of a query that fit the filter. The query has the index and about as parameters.
func (s *serverSession) best(text string, q *runtime.Query, most int, about string) (hits []hit, err error) {
	if len(q.Filter) == 0 {
		text += fmt.Sprintf(" LIMIT %d", most)
	}
	err = s.each(text, func(row pgx.Rows) error {
		var h hit
		var metadata string
		if err := row.Scan(&h.id, &h.score, &metadata); err != nil || !q.Fits(aboutOf(metadata)) {
			return err
		}
		if hits = append(hits, h); len(hits) == most {
			return errEnough
		}
		return nil
	}, s.place, about)
	return hits, err
}

func (s *serverSession) documents(hits []hit) (list []runtime.Document, err error) {
	for _, h := range hits {
		d := runtime.Document{Score: h.score}
		var about string
		err := s.conn.QueryRow(s.ctx, `SELECT p.document, p.text, p.metadata, s.name FROM braise_index_passages p
			JOIN braise_index_sources s ON s.id = p.source WHERE p.id = $1`, h.id).
			Scan(&d.ID, &d.Text, &about, &d.Source)
		if err != nil {
			return nil, err
		}
		d.Metadata = aboutOf(about)
		list = append(list, d)
	}
	return list, nil
}
