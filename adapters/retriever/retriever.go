// Package retriever finds passages of texts: in a folder of files, indexed in memory by words, or in an index in a
// database.
package retriever

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"strings"
	"unicode"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/braise-run/braise/internal/passages"
	"github.com/braise-run/braise/runtime"
)

// Options limit what an Index takes in. A zero field means its default.
type Options struct {
	MaxFiles     int   // files, those that are skipped not counted. Defaults to 20,000.
	MaxFileBytes int64 // of one file. Defaults to 1 MiB.
	MaxBytes     int64 // of all files together. Defaults to 64 MiB.
}

// The defaults of Options.
const (
	DefaultMaxFiles     = 20_000
	DefaultMaxFileBytes = 1 << 20
	DefaultMaxBytes     = 64 << 20
)

// MaxWords is how many different words of a query count: the first ones.
const MaxWords = 256

// Index is a runtime.Retriever over the text files in a folder and the folders below. Make it with [New]; it is safe
// for concurrent use. It is built in memory at the first Retrieve and stays as it is until Build is called: a file
// that changes meanwhile is not noticed.
//
// Every file in UTF-8 counts, whatever its name. Left out are hidden files and folders, binary files, which have a NUL
// or bytes that are no UTF-8, and whatever is no file. A symbolic link to a file inside the folder counts as a file,
// one to a folder is left out, and one that leads out of the folder or nowhere is an error.
//
// A document is a passage of at most 2,000 bytes: the text below a heading of Markdown or HTML, or as many paragraphs
// of it as fit; of CSV a row, and of JSON an item of a list. Its Source is the path of the file relative to the
// folder, with slashes; its ID is that and the passage's number in the file, "guide/refunds.md#3"; its Metadata has
// first_line and last_line and, in Markdown, headings: the titles that it stands under, from the outermost on. A page
// has headings and its title, a row and an item their short fields.
//
// Scores are those of BM25 in SQLite's full-text index, over the text and the headings: k1 is 1.2, b is 0.75, and a
// word in half of the passages or more counts next to nothing. Words are compared without case and accents and by
// their English stem (Porter); one word of the query is enough. English words like "the" and "how" count only in a
// query that has no others. Equal scores are in the order of the files' paths, then of lines. Languages that write
// without spaces find only what stands between spaces or punctuation.
type Index struct {
	dir  string
	opts Options

	turn    chan struct{} // has room for one: who uses what follows
	conn    *sqlite.Conn  // nil: not built yet
	closing goruntime.Cleanup
	list    []passage // by rowid-1
}

var (
	_ runtime.Retriever = (*Index)(nil)
	_ runtime.Searcher  = (*Index)(nil)
)

// New returns the Index of a folder. It does no I/O: a missing folder is an error of Build and
// Retrieve.
func New(dir string, opts Options) *Index {
	if opts.MaxFiles <= 0 {
		opts.MaxFiles = DefaultMaxFiles
	}
	if opts.MaxFileBytes <= 0 {
		opts.MaxFileBytes = DefaultMaxFileBytes
	}
	if opts.MaxBytes <= 0 {
		opts.MaxBytes = DefaultMaxBytes
	}
	return &Index{dir: dir, opts: opts, turn: make(chan struct{}, 1)}
}

// Build reads the folder and replaces what was indexed before. After an error, that stays. Retrieve
// calls wait meanwhile.
func (x *Index) Build(ctx context.Context) error {
	if err := x.lock(ctx); err != nil {
		return err
	}
	defer x.unlock()
	return x.build(ctx)
}

// Retrieve returns the passages that fit the words of query best, at most topK. None is no error. The
// query is only words: it has no syntax. What the first Build would say, Retrieve says.
func (x *Index) Retrieve(ctx context.Context, query string, topK int) ([]runtime.Document, error) {
	found, err := x.Search(ctx, runtime.Query{Text: query, TopK: topK})
	return found.Documents, err
}

// Search is Retrieve for passages whose metadata fit a filter.
func (x *Index) Search(ctx context.Context, q runtime.Query) (runtime.Found, error) {
	if err := x.lock(ctx); err != nil {
		return runtime.Found{}, err
	}
	defer x.unlock()
	if x.conn == nil {
		if err := x.build(ctx); err != nil {
			return runtime.Found{}, err
		}
	}
	match := matchAny(q.Text)
	if match == "" || q.TopK < 1 {
		return runtime.Found{}, nil
	}
	x.conn.SetInterrupt(ctx.Done())
	defer x.conn.SetInterrupt(nil)
	var found []runtime.Document
	err := sqlitex.Execute(x.conn,
		"SELECT rowid, -bm25(words) AS score FROM words WHERE words MATCH ? ORDER BY score DESC, rowid",
		&sqlitex.ExecOptions{Args: []any{match}, ResultFunc: func(row *sqlite.Stmt) error {
			d := x.list[row.ColumnInt(0)-1].document()
			if !q.Fits(d.Metadata) {
				return nil
			}
			d.Score = row.ColumnFloat(1)
			if found = append(found, d); len(found) == q.TopK {
				return errEnough
			}
			return nil
		}})
	if err != nil && !errors.Is(err, errEnough) {
		return runtime.Found{}, x.failed(ctx, err)
	}
	return runtime.Found{Documents: found}, nil
}

// errEnough ends a query that has found enough.
var errEnough = errors.New("enough")

func (x *Index) lock(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case x.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (x *Index) unlock() { <-x.turn }

// failed words an error: the end of ctx is told as such.
func (x *Index) failed(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return fmt.Errorf("index of %q: %w", x.dir, err)
}

// build makes a new index beside the old one, and puts it in its place.
func (x *Index) build(ctx context.Context) error {
	list, err := x.read(ctx)
	if err != nil {
		return x.failed(ctx, err)
	}
	conn, err := fill(ctx, list)
	if err != nil {
		return x.failed(ctx, err)
	}
	if x.conn != nil {
		x.closing.Stop()
		x.conn.Close()
	}
	x.conn, x.list = conn, list
	// SQLite's memory is not the garbage collector's, and nobody has to close an Index.
	x.closing = goruntime.AddCleanup(x, func(conn *sqlite.Conn) { conn.Close() }, conn)
	return nil
}

// fill makes the full-text index. The texts stay with the passages: the index holds words only.
func fill(ctx context.Context, list []passage) (_ *sqlite.Conn, err error) {
	conn, err := sqlite.OpenConn(":memory:", sqlite.OpenReadWrite, sqlite.OpenMemory)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, conn.Close())
		}
	}()
	conn.SetInterrupt(ctx.Done())
	defer conn.SetInterrupt(nil)
	err = sqlitex.ExecuteTransient(conn, "CREATE VIRTUAL TABLE words"+
		" USING fts5(text, content='', "+tokens+")", nil)
	if err != nil {
		return nil, err
	}
	defer sqlitex.Transaction(conn)(&err)
	for i := range list {
		err = sqlitex.Execute(conn, "INSERT INTO words(rowid, text) VALUES (?, ?)",
			&sqlitex.ExecOptions{Args: []any{i + 1, list[i].Words()}})
		if err != nil {
			return nil, err
		}
	}
	return conn, nil
}

// tokens says what words are, to SQLite.
const tokens = "tokenize='porter unicode61 remove_diacritics 2'"

// passage is a passage of a file.
type passage struct {
	source string
	passages.Passage
}

func (p *passage) document() runtime.Document {
	return runtime.Document{ID: fmt.Sprintf("%s#%d", p.source, p.Number), Text: p.Text, Source: p.source,
		Metadata: p.About()}
}

// matchAny makes SQLite's expression for any of the words of a query; "" when there is none. Words are
// letters and digits only, in quotes: nothing in them is syntax.
func matchAny(query string) string {
	words := wordsIn(query)
	for i, word := range words {
		words[i] = `"` + word + `"`
	}
	return strings.Join(words, " OR ")
}

// wordsIn are the words of a query that count, each once and in small letters.
func wordsIn(query string) []string {
	var words, small []string
	seen := map[string]bool{}
	for word := range strings.FieldsFuncSeq(query, outsideWords) {
		word = strings.ToLower(word)
		switch {
		case seen[word]:
			continue
		case smallWords[word]:
			small = append(small, word)
		default:
			words = append(words, word)
		}
		if seen[word] = true; len(words) == MaxWords {
			break
		}
	}
	if words == nil {
		return small
	}
	return words
}

// smallWords are those that questions are full of. In a folder of few passages they would look rare.
var smallWords = func() map[string]bool {
	set := map[string]bool{}
	for _, word := range strings.Fields(`a about an and any are as at be but by can could did do does for
		from had has have how i if in into is it its me my no not of on or our should so some than that the
		their them then there these they this those to us was we were what when where which who whom whose why
		will with would you your`) {
		set[word] = true
	}
	return set
}()

// outsideWords reports whether a character stands between words, as SQLite sees it.
func outsideWords(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsNumber(r) && !unicode.IsMark(r) && !unicode.Is(unicode.Co, r)
}
