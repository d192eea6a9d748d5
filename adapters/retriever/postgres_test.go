package retriever_test

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/braise-run/braise/adapters/retriever"
	"github.com/braise-run/braise/internal/npmtest"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// indexes counts those that tests have made.
var indexes atomic.Int32

// inPostgres opens one index in the database of a URL, which is removed with the test.
func inPostgres(t *testing.T, url string) func(retriever.DatabaseOptions) *retriever.Database {
	name := fmt.Sprintf("test %d-%d", os.Getpid(), indexes.Add(1))
	t.Cleanup(func() {
		conn, err := pgx.Connect(context.Background(), url)
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close(context.Background())
		if _, err := conn.Exec(context.Background(), "DELETE FROM braise_index WHERE name = $1", name); err != nil {
			t.Error(err)
		}
	})
	return func(o retriever.DatabaseOptions) *retriever.Database {
		o.Name = name
		return retriever.Postgres(url, o)
	}
}

// postgresURL is a database of a server, without pgvector.
func postgresURL(t *testing.T) string {
	t.Helper()
	url := cmp.Or(os.Getenv("BRAISE_TEST_POSTGRES"), "postgres://postgres@127.0.0.1:5432/postgres?sslmode=disable")
	conn, err := pgx.Connect(t.Context(), url)
	if err == nil {
		conn.Close(t.Context())
		return url
	}
	if os.Getenv("CI") == "true" {
		t.Fatal(err)
	}
	t.Skipf("NO POSTGRES SERVER (set BRAISE_TEST_POSTGRES): %v", err)
	return ""
}

// pgvectorURL is a database of a new server that has pgvector.
func pgvectorURL(t *testing.T) string {
	t.Helper()
	file := npmtest.File(t, "@electric-sql/pglite-socket", "0.2.17", "@electric-sql/pglite-socket/dist/index.js")
	cmd := exec.Command("node", "testdata/pgvector.mjs", filepath.Dir(filepath.Dir(filepath.Dir(file))))
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal("no address: ", err)
	}
	return "postgres://postgres@" + strings.TrimSpace(addr) + "/postgres?sslmode=disable"
}

// What a server cannot do, or is not, is said, without its password.
func TestPostgresWithout(t *testing.T) {
	plain := inPostgres(t, postgresURL(t))
	_, err := plain(retriever.DatabaseOptions{Embedder: retriever.Hash(8)}).Update(t.Context(), runtime.Change{})
	if e, ok := errors.AsType[*runtime.Error](err); !ok || e.Code != "index.noVectors" || !strings.Contains(err.Error(), "install pgvector") {
		t.Errorf("without pgvector: %v", err)
	}
	update(t, plain(retriever.DatabaseOptions{}), runtime.Change{})
	for url, want := range map[string]string{
		"postgres://me:geheim@127.0.0.1:1/x":    "failed to connect",
		"postgres://me:geheim@127.0.0.1:port/x": "its URL is not one of Postgres",
	} {
		_, err := retriever.Postgres(url, retriever.DatabaseOptions{Name: "docs"}).Search(t.Context(), runtime.Query{Text: "owl", TopK: 1})
		if err == nil || !strings.HasPrefix(err.Error(), `index "docs": `) || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "geheim") {
			t.Errorf("%s: %v", url, err)
		}
		if f, ok := errors.AsType[*retry.Failure](err); ok != (want == "failed to connect") || ok && f.Reason != retry.Network {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// Words are compared without accents, by their stem and without syntax; a text may have what Postgres keeps in no text.
func TestPostgresWords(t *testing.T) {
	x := inPostgres(t, postgresURL(t))(retriever.DatabaseOptions{})
	sources := []runtime.Source{source("a", "Refunds for a café-bar at https://example.com/x"), source("b", "a\x00b it's no use"), source("c", "'; DROP TABLE x")}
	sources[1].Digest = "b"
	update(t, x, runtime.Change{Sources: sources})
	for query, want := range map[string]string{
		"refunded": "a#1", "CAFÉ": "a#1", "cafe": "a#1", "bar": "a#1", "example": "a#1", "using": "b#1", "table & !drop": "c#1", "the": "", "'": "",
	} {
		if got := strings.Join(idsOf(t, x, runtime.Query{Text: query}), " "); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}
