package postgres

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/checkpointtest"
	"github.com/braise-run/braise/internal/seedtest"
)

// server returns the URL of the server of the tests, and a connection to it.
func server(t testing.TB) (string, *pgx.Conn) {
	t.Helper()
	addr := os.Getenv("BRAISE_TEST_POSTGRES")
	if addr == "" {
		addr = "postgres://postgres@127.0.0.1:5432/postgres?sslmode=disable"
	}
	conn, err := pgx.Connect(t.Context(), addr)
	if err != nil {
		message := fmt.Sprintf("NO POSTGRES SERVER, NOTHING OF THIS STORE IS TESTED (set BRAISE_TEST_POSTGRES): %v", err)
		if os.Getenv("CI") == "true" {
			t.Fatal(message)
		}
		t.Skip(message)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return addr, conn
}

// medium is a schema of a test's own.
type medium struct {
	t    testing.TB
	url  string // with the schema
	name string
	conn *pgx.Conn
}

func newMedium(t testing.TB) *medium {
	t.Helper()
	addr, conn := server(t)
	u, err := url.Parse(addr)
	if err != nil {
		t.Fatal(err)
	}
	name := "test_" + strings.ToLower(rand.Text())
	m := &medium{t: t, name: name, conn: conn}
	q := u.Query()
	q.Set("schema", name)
	q.Set("application_name", name)
	u.RawQuery = q.Encode()
	m.url = u.String()
	t.Cleanup(func() { m.exec("DROP SCHEMA IF EXISTS " + name + " CASCADE") })
	return m
}

func (m *medium) open() *Store {
	m.t.Helper()
	s, err := Open(m.t.Context(), m.url, nil)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { s.Close() })
	return s
}

func (m *medium) exec(sql string, args ...any) {
	m.t.Helper()
	if _, err := m.conn.Exec(context.Background(), strings.ReplaceAll(sql, "SCHEMA.", m.name+"."), args...); err != nil {
		m.t.Fatal(err)
	}
}

// column reads a column of texts.
func (m *medium) column(sql string, args ...any) []string {
	m.t.Helper()
	rows, _ := m.conn.Query(context.Background(), strings.ReplaceAll(sql, "SCHEMA.", m.name+"."), args...)
	vals, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		m.t.Fatal(err)
	}
	return vals
}

func openPlace(url string) (checkpoint.Store, error) { return Open(context.Background(), url, nil) }

// What the suite has several processes do.
func TestManyProcesses(t *testing.T) {
	checkpointtest.RunProcesses(t, func(t *testing.T) string { return newMedium(t).url }, openPlace)
}

func TestStore(t *testing.T) {
	server(t)
	testStore(t, func(*testing.T, *medium) {})
}

// testStore has the suite test stores in media that by changes.
func testStore(t *testing.T, by func(t *testing.T, m *medium)) {
	media := map[checkpoint.Store]*medium{}
	proxies := map[checkpoint.Store]*proxy{}
	checkpointtest.Run(t, func(t *testing.T) checkpoint.Store {
		m := newMedium(t)
		by(t, m)
		p := startProxy(t, m)
		s, err := Open(t.Context(), m.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		media[s], proxies[s] = m, p
		return s
	}, checkpointtest.Options{
		Cut: func(_ *testing.T, s checkpoint.Store, answer bool) {
			quiet(s.(*Store))
			proxies[s].cut(answer)
		},
		Remembered: func(s checkpoint.Store) int { return len(s.(*Store).ends) },
		Reopen: func(t *testing.T, s checkpoint.Store) checkpoint.Store {
			other, err := Open(t.Context(), media[s].url, nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { other.Close() })
			return other
		},
		Edit: func(t *testing.T, s checkpoint.Store, runID string, edit func([]string) []string) {
			m := media[s]
			text := strings.Join(m.column("SELECT convert_from(lines, 'UTF8') FROM SCHEMA.records WHERE run = "+
				"(SELECT key FROM SCHEMA.runs WHERE id = $1) ORDER BY seq", runID), "")
			m.exec("DELETE FROM SCHEMA.records WHERE run = (SELECT key FROM SCHEMA.runs WHERE id = $1)", runID)
			for i, line := range edit(strings.Split(strings.TrimSuffix(text, "\n"), "\n")) {
				m.exec("INSERT INTO SCHEMA.records SELECT key, $2, $3 FROM SCHEMA.runs WHERE id = $1", runID, i+1, []byte(line+"\n"))
			}
		},
		EditDefinition: func(t *testing.T, s checkpoint.Store, digest string, edit func(string) string) {
			m := media[s]
			line := m.column("SELECT convert_from(line, 'UTF8') FROM SCHEMA.definitions WHERE digest = $1", digest)[0]
			m.exec("UPDATE SCHEMA.definitions SET line = $2 WHERE digest = $1", digest, []byte(edit(line)))
		},
		EditDocument: func(t *testing.T, s checkpoint.Store, collection, name string, edit func(string) string) {
			m := media[s]
			line := m.column("SELECT convert_from(line, 'UTF8') FROM SCHEMA.documents WHERE collection = $1 AND name = $2", collection, name)[0]
			m.exec("UPDATE SCHEMA.documents SET line = $3 WHERE collection = $1 AND name = $2", collection, name, []byte(edit(line)))
		},
		EditSignal: func(t *testing.T, s checkpoint.Store, runID, id string, edit func(string) string) {
			m := media[s]
			const of = "run = (SELECT key FROM SCHEMA.runs WHERE id = $1) AND id = $2"
			line := m.column("SELECT convert_from(line, 'UTF8') FROM SCHEMA.signals WHERE "+of, runID, id)[0]
			m.exec("UPDATE SCHEMA.signals SET line = $3 WHERE "+of, runID, id, []byte(edit(line)))
		},
		Break: func(t *testing.T, s checkpoint.Store) func() {
			m := media[s]
			m.exec("CREATE FUNCTION SCHEMA.full() RETURNS trigger LANGUAGE plpgsql AS " +
				"$$ BEGIN RAISE EXCEPTION 'no space left on device' USING ERRCODE = 'disk_full'; END $$")
			for _, table := range []string{"records", "documents", "signals"} {
				m.exec("CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON SCHEMA." + table + " FOR EACH ROW EXECUTE FUNCTION SCHEMA.full()")
			}
			return func() {
				m.exec("DROP TRIGGER full_disk ON SCHEMA.records")
				m.exec("DROP TRIGGER full_disk ON SCHEMA.documents")
				m.exec("DROP TRIGGER full_disk ON SCHEMA.signals")
			}
		},
		Size: func(t *testing.T, s checkpoint.Store) int64 {
			var size int64
			err := media[s].conn.QueryRow(t.Context(), "SELECT sum(pg_total_relation_size(oid)) FROM pg_class "+
				"WHERE relkind = 'r' AND relnamespace = to_regnamespace($1)", media[s].name).Scan(&size)
			if err != nil {
				t.Fatal(err)
			}
			return size
		},
	})
}

// quiet waits until a store has told others of all that it did, and so sends nothing by itself.
func quiet(s *Store) { s.news.senders.Wait() }

const (
	long   = time.Hour
	digest = "sha256:0123456789abcdef"
)

var start = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func makeRun(id string) checkpoint.Run {
	return checkpoint.Run{ID: id, Recipe: "greet", Digest: digest, Definition: []byte(`{"steps":[]}`), StartedAt: start}
}

func note(text string) checkpoint.Record {
	return checkpoint.Record{At: start, Kind: "step.end", Path: "greet", Data: fmt.Appendf(nil, `{"text":%q}`, text)}
}

func (m *medium) create(s checkpoint.Store, id string, recs ...checkpoint.Record) checkpoint.Lease {
	m.t.Helper()
	l, err := s.Create(m.t.Context(), makeRun(id), "me", long, recs...)
	if err != nil {
		m.t.Fatal(err)
	}
	return l
}

// texts are the notes in a journal.
func (m *medium) texts(s checkpoint.Store, id string) []string {
	m.t.Helper()
	_, recs, err := s.Load(m.t.Context(), id, 0)
	if err != nil {
		m.t.Fatal(err)
	}
	var got []string
	for _, r := range recs[1:] {
		got = append(got, string(r.Data))
	}
	return got
}

func TestOpenURL(t *testing.T) {
	for _, tt := range []struct{ name, url string }{
		{"no scheme", "host=127.0.0.1 password=hunter2"},
		{"another scheme", "mysql://me:hunter2@127.0.0.1/db"},
		{"a colon", "postgres://me:hunter2:hunter2@127.0.0.1:x/db"},
		{"a percent sign", "postgres://me:hunter2%zz@127.0.0.1/db"},
		{"a slash", "postgres://me:12/hunter2@127.0.0.1/db"},
		{"a port", "postgres://me:hunter2@127.0.0.1:port/db"},
		{"a bad parameter", "postgres://me@127.0.0.1/db?password=hunter2&sslmode=perhaps"},
		{"nobody listens", "postgres://me:hunter2@127.0.0.1:1/db?connect_timeout=1"},
	} {
		_, err := Open(t.Context(), tt.url, nil)
		if err == nil {
			t.Errorf("%s: no error", tt.name)
		}
		for e := err; e != nil; e = errors.Unwrap(e) {
			if strings.Contains(fmt.Sprintf("%v %+v", e, e), "hunter2") {
				t.Errorf("%s: the error shows the password: %v", tt.name, e)
			}
		}
	}
}

func TestSchema(t *testing.T) {
	m := newMedium(t)
	m.name = `test "odd" schema.` + m.name
	quoted := pgx.Identifier{m.name}.Sanitize()
	t.Cleanup(func() { m.exec("DROP SCHEMA IF EXISTS " + quoted + " CASCADE") })
	for range 2 {
		s, err := Open(t.Context(), m.url, &Options{Schema: m.name})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
	}
	got := m.column("SELECT table_name FROM information_schema.tables WHERE table_schema = $1 ORDER BY 1", m.name)
	if diff := cmp.Diff([]string{"definitions", "documents", "labels", "pauses", "records", "runs", "signals", "version"}, got); diff != "" {
		t.Errorf("tables (-want +got):\n%s", diff)
	}
	m.exec("UPDATE " + quoted + ".version SET version = version + 1")
	_, err := Open(t.Context(), m.url, &Options{Schema: m.name})
	if !errors.Is(err, checkpoint.ErrVersion) {
		t.Errorf("Open of a later version: %v, want ErrVersion", err)
	}
}

// Of many that open a new store at the same time one makes the tables.
func TestManyOpen(t *testing.T) {
	m := newMedium(t)
	errs := make(chan error)
	for range 10 {
		go func() {
			s, err := Open(t.Context(), m.url, nil)
			if err == nil {
				err = s.Close()
			}
			errs <- err
		}()
	}
	for range 10 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// A process that was stopped while it opened the store does not keep others from it.
func TestStoppedInOpen(t *testing.T) {
	m := newMedium(t)
	m.open()
	stopped, err := m.conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stopped.Rollback(context.Background())
	if more, err := migrate(t.Context(), stopped, m.name); more || err != nil {
		t.Fatal(more, err)
	}
	if s, err := Open(t.Context(), m.url, nil); err != nil {
		t.Error(err)
	} else {
		s.Close()
	}
}

// A role that may use the tables, but not make any, is enough once they exist.
func TestRights(t *testing.T) {
	m := newMedium(t)
	m.open()
	role := m.name + "_role"
	m.exec("CREATE ROLE " + role + " LOGIN")
	t.Cleanup(func() { m.exec("DROP OWNED BY " + role); m.exec("DROP ROLE " + role) })
	m.exec("GRANT USAGE ON SCHEMA " + m.name + " TO " + role)
	m.exec("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA " + m.name + " TO " + role)
	u, _ := url.Parse(m.url)
	u.User = url.User(role)
	m.url = u.String()
	s := m.open()
	l := m.create(s, "run", note("a"))
	if err := s.Release(t.Context(), l); err != nil {
		t.Error(err)
	}
	if n, err := s.Prune(t.Context(), start.Add(1), checkpoint.Running); n != 1 || err != nil {
		t.Errorf("Prune: %d, %v", n, err)
	}
}

func TestSession(t *testing.T) {
	m := newMedium(t)
	m.exec("SELECT 1")
	for param, want := range map[string]string{"": "on", "&synchronous_commit=remote_apply": "remote_apply"} {
		s, err := Open(t.Context(), m.url+param, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		var got string
		if err := s.pool.QueryRow(t.Context(), "SHOW synchronous_commit").Scan(&got); err != nil || got != want {
			t.Errorf("with %q: synchronous_commit is %q (%v), want %q", param, got, err, want)
		}
	}
}

// What is wrong with the rows of runs themselves shows, too.
func TestDamagedRow(t *testing.T) {
	m := newMedium(t)
	s := m.open()
	m.create(s, "healthy")
	m.create(s, "run", note("a"))
	for _, tt := range []struct{ name, damage, mend string }{
		{"summary", "summary = set_byte(summary, 40, get_byte(summary, 40) # 1)", "summary = set_byte(summary, 40, get_byte(summary, 40) # 1)"},
		{"last record", "seq = seq + 1", "seq = seq - 1"},
		{"time of the last record", "updated = replace(updated, '12:', '13:')", "updated = replace(updated, '13:', '12:')"},
		{"no time", "updated = '~' || updated", "updated = substr(updated, 2)"},
		{"summary of another run", "id = 'other'", "id = 'run'"},
	} {
		m.exec("UPDATE SCHEMA.runs SET " + tt.damage + " WHERE id = 'run'")
		id := "run"
		if tt.damage == "id = 'other'" {
			id = "other"
		}
		for _, after := range []int64{0, 1 << 60} {
			if _, _, err := s.Load(t.Context(), id, after); !errors.Is(err, checkpoint.ErrCorrupt) {
				t.Errorf("%s: Load: %v, want ErrCorrupt", tt.name, err)
			}
		}
		if _, err := s.FindPause(t.Context(), id, []byte("x")); !errors.Is(err, checkpoint.ErrCorrupt) {
			t.Errorf("%s: FindPause: %v, want ErrCorrupt", tt.name, err)
		}
		for _, limit := range []int{0, 1} {
			all, err := s.List(t.Context(), checkpoint.Filter{Limit: limit})
			if len(all) != 1 || all[0].ID != "healthy" || !errors.Is(err, checkpoint.ErrCorrupt) {
				t.Errorf("%s: List of %d: %v, %v, want the healthy run and ErrCorrupt", tt.name, limit, all, err)
			}
		}
		m.exec("UPDATE SCHEMA.runs SET "+tt.mend+" WHERE id = $1", id)
	}
	// A run that was removed from the middle, with its records left.
	m.exec("DELETE FROM SCHEMA.records WHERE seq = 2")
	if _, _, err := s.Load(t.Context(), "run", 1); !errors.Is(err, checkpoint.ErrCorrupt) {
		t.Errorf("Load: %v, want ErrCorrupt", err)
	}
}

// One text that the server does not take harms nobody else.
func TestPoison(t *testing.T) {
	m := newMedium(t)
	s := m.open()
	var group []*write
	for i := range 9 {
		owner := "me"
		if i == 4 {
			owner = "a\x00b"
		}
		l := m.create(s, fmt.Sprint("run-", i))
		group = append(group, &write{key: l.RunID, sql: leaseSQL, row: []any{new(time.Time)}, done: make(chan error, 1),
			args: []any{l.RunID, l.Epoch, l.Owner, nil, owner, l.Epoch, int64(0)}})
	}
	group[7].args[1] = int64(99) // refused
	s.commit(t.Context(), group)
	for i, w := range group {
		switch err := <-w.done; {
		case i == 4 && (err == nil || errors.Is(err, errRefused)), i == 7 && !errors.Is(err, errRefused), i != 4 && i != 7 && err != nil:
			t.Errorf("write %d: %v", i, err)
		}
	}
	if _, err := s.Create(t.Context(), makeRun("new"), "a\x00b", 0); !errors.Is(err, checkpoint.ErrInvalid) {
		t.Errorf("Create: %v, want ErrInvalid", err)
	}
}

// Appends to many runs are one statement, and each is made or refused for itself.
func TestManyAppends(t *testing.T) {
	m := newMedium(t)
	s := m.open()
	const made, refused, invalid = "made", "refused", "invalid"
	var group []*write
	var want []string
	add := func(expected string, l checkpoint.Lease, change func(w *write)) {
		e, ok := s.known(l)
		if !ok {
			t.Fatalf("%s is unknown", l.RunID)
		}
		rec := note("hello")
		rec.Seq = 2
		sum, _, err := e.sum.Next(1, []checkpoint.Record{rec})
		if err != nil {
			t.Fatal(err)
		}
		w := &write{key: l.RunID, sql: appendSQL, done: make(chan error, 1),
			args: []any{e.key, l.Epoch, l.Owner, e.sum.Seq, sum.Seq, mark(sum), lines([]checkpoint.Record{rec})}}
		change(w)
		group, want = append(group, w), append(want, expected)
	}
	lease := func(i int) checkpoint.Lease { return m.create(s, fmt.Sprint("run-", i)) }
	as := func(*write) {}
	add(made, lease(0), as)
	add(refused, lease(1), func(w *write) { w.args[0] = int64(-1) })
	add(refused, lease(2), func(w *write) { w.args[1] = int64(7) })
	add(refused, lease(3), func(w *write) { w.args[2] = "somebody" })
	add(refused, lease(4), func(w *write) { w.args[3] = int64(0) })
	twice := lease(5)
	add(made, twice, as)
	add(refused, twice, as)
	add(made, lease(6), as)
	for _, poisoned := range []bool{false, true} {
		if poisoned {
			group, want = nil, nil
			add(made, lease(10), as)
			add(invalid, lease(11), func(w *write) { w.args[2] = "a\x00b" })
			add(made, lease(12), as)
		}
		s.commit(t.Context(), group)
		for i, w := range group {
			got := made
			if err := <-w.done; errors.Is(err, errRefused) {
				got = refused
			} else if err != nil {
				got = invalid
			}
			if got != want[i] {
				t.Errorf("write %d to %s was %s, want %s", i, w.key, got, want[i])
			}
			sum, recs, err := s.Load(t.Context(), w.key, 0)
			end := int64(1)
			if want[i] == made || w.key == twice.RunID {
				end = 2
			}
			if err != nil || sum.Seq != end || int64(len(recs)) != end {
				t.Errorf("%s ends at %d with %d records, want %d (%v)", w.key, sum.Seq, len(recs), end, err)
			}
		}
	}
}

func FuzzParse(target *testing.F) {
	f := seedtest.Fuzz(target)
	created := checkpoint.Record{Seq: 1, At: start, Kind: checkpoint.RunCreated, Data: []byte(`{"digest":"d","format":1,"recipe":"r","run":"run"}`)}
	second := note("a")
	second.Seq = 2
	whole := lines([]checkpoint.Record{created, second})
	f.Add(whole, int64(0), int64(2))
	f.Add(whole, int64(1), int64(2))
	f.Add(whole[:50], int64(0), int64(1))
	f.Add([]byte("\n"), int64(0), int64(0))
	f.Fuzz(func(t *testing.T, text []byte, after, seq int64) {
		sum := checkpoint.Summary{Run: checkpoint.Run{ID: "run"}, Seq: max(seq, 0)}
		after = min(max(after, 0), sum.Seq)
		recs, err := parse(sum, after, text)
		if err != nil {
			if !errors.Is(err, checkpoint.ErrCorrupt) && !errors.Is(err, checkpoint.ErrVersion) {
				t.Errorf("%v is neither ErrCorrupt nor ErrVersion", err)
			}
			return
		}
		for i, rec := range recs {
			if want := after + 1 + int64(i); rec.Seq != want {
				t.Errorf("record %d where %d should be", rec.Seq, want)
			}
		}
		if after+int64(len(recs)) != sum.Seq {
			t.Errorf("%d records behind %d, the last should be %d", len(recs), after, sum.Seq)
		}
	})
}

// A recipe and a pause may have any name.
func TestLongNames(t *testing.T) {
	m := newMedium(t)
	s := m.open()
	name := ""
	for range 200 {
		name += rand.Text()
	}
	for i, recipe := range []string{name, name + "x", name[:100], name[:99]} {
		run := makeRun(fmt.Sprint("run-", i))
		run.Recipe = recipe
		opened := checkpoint.Record{At: start, Kind: checkpoint.PauseOpened, Path: name, Data: fmt.Appendf(nil, `{"kind":"human","pause":%q}`, name)}
		if _, err := s.Create(t.Context(), run, "me", 0, opened); err != nil {
			t.Fatal(err)
		}
		if got := m.listed(s, checkpoint.Filter{Recipe: recipe}); len(got) != 1 || got[0] != run.ID {
			t.Errorf("runs: %v, want %s", got, run.ID)
		}
		pauses, err := s.Pauses(t.Context(), checkpoint.PauseFilter{Recipe: recipe})
		if err != nil || len(pauses) != 1 || pauses[0].Pause.ID != name || pauses[0].Summary.ID != run.ID {
			t.Errorf("pauses: %v, %v", pauses, err)
		}
	}
}
