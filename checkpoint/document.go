package checkpoint

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/braise-run/braise/internal/value"
)

// Documents is an optional interface of a Store, which all stores of this module have: it keeps what
// outlives runs, such as the conversations of agents. Nothing that happens to runs changes a document,
// Prune with it.
//
// Documents have names, and stand in collections. Both names are UTF-8 of 1 to 1,000 bytes without NUL. A
// collection exists while it has a document.
//
// The methods are like those of a Store: a write is atomic and durable when it returns without an
// error, and of several reasons to refuse the first is the error: ErrClosed, the context's error,
// ErrInvalid.
type Documents interface {
	// PutDocument keeps a document: in the place of the one of that name, or else behind all others of
	// its collection. A text that is not UTF-8 is ErrInvalid.
	PutDocument(ctx context.Context, collection string, d Document) error

	// Documents returns a whole collection, as it is at one moment, in the order in which the names were first
	// put there; nil when there is none. ErrCorrupt when one of them is damaged.
	Documents(ctx context.Context, collection string) ([]Document, error)

	// DeleteDocuments removes a whole collection. It is no error if it does not exist.
	DeleteDocuments(ctx context.Context, collection string) error

	// Document returns the text of a document; false: there is none. ErrCorrupt when it is damaged.
	Document(ctx context.Context, collection, name string) (text string, ok bool, err error)

	// SwapDocument replaces the text old of a document by another one, so that several processes lose nothing that one
	// of them wrote. A nil old means that there is no such document yet, a nil text that there shall be none.
	// ErrConflict if the store has something else than old; the document stays as it is then.
	SwapDocument(ctx context.Context, collection, name string, old, text *string) error
}

// Collections is an optional interface of a store that has [Documents]: it lists what there is. All stores of this
// module have it.
type Collections interface {
	// Collections returns the names, sorted by their bytes, of the collections that begin with prefix.
	Collections(ctx context.Context, prefix string) ([]string, error)
}

// Document is a text with a name.
type Document struct {
	Name string
	Text string // any UTF-8; ""
}

// maxDocumentName is how many bytes the name of a document or collection may have: two of them fit into a row
// of every index.
const maxDocumentName = 1000

// Check returns an ErrInvalid for a document that no store can take into that collection.
func (d Document) Check(collection string) error {
	if err := CheckCollection(collection); err != nil {
		return err
	}
	if err := checkName("document", d.Name); err != nil {
		return err
	}
	if !utf8.ValidString(d.Text) {
		return fmt.Errorf("document %q: %w: its text is not UTF-8", d.Name, ErrInvalid)
	}
	return nil
}

// SwapLine returns the line that a store keeps after a swap of the document for one with another text; nil for a nil
// text, after which there is none. ErrInvalid as for [Document.Check].
func (d Document) SwapLine(collection string, text *string) ([]byte, error) {
	if text == nil {
		return nil, d.Check(collection)
	}
	d.Text = *text
	return DocumentLine(collection, d)
}

// CheckSwap returns an ErrConflict unless now, the text that a store has for the document, is old. nil: there is none.
func (d Document) CheckSwap(now, old *string) error {
	switch {
	case now == nil && old == nil, now != nil && old != nil && *now == *old:
		return nil
	case now == nil:
		return fmt.Errorf("document %q: %w: it is gone", d.Name, ErrConflict)
	}
	return fmt.Errorf("document %q: %w: it was changed meanwhile", d.Name, ErrConflict)
}

// CheckCollection returns an ErrInvalid for a name that no collection can have.
func CheckCollection(collection string) error { return checkName("collection", collection) }

func checkName(what, name string) error {
	problem := ""
	switch {
	case name == "":
		problem = "it has no name"
	case len(name) > maxDocumentName:
		name, problem = name[:40]+"…", fmt.Sprintf("its name has more than %d bytes", maxDocumentName)
	case !utf8.ValidString(name):
		problem = "its name is not UTF-8"
	case strings.ContainsRune(name, 0):
		problem = "there is a NUL in its name"
	default:
		return nil
	}
	return fmt.Errorf("%s %q: %w: %s", what, name, ErrInvalid, problem)
}

// document is the kind of the record in which a document is kept; it is in no journal.
const document Kind = "document"

// DocumentLine returns the form in which a store keeps a document, with a checksum; ErrInvalid as
// for [Document.Check].
func DocumentLine(collection string, d Document) ([]byte, error) {
	if err := d.Check(collection); err != nil {
		return nil, err
	}
	data := value.AppendString([]byte(`{"collection":`), collection)
	data = append(value.AppendString(append(data, `,"text":`...), d.Text), '}')
	return Record{Seq: 1, At: time.Now(), Kind: document, Path: d.Name, Data: data}.AppendLine(nil), nil
}

// ParseDocumentLine returns the document of that name that DocumentLine wrote for collection; "" is any
// name. ErrCorrupt when line is anything else.
func ParseDocumentLine(collection, name string, line []byte) (Document, error) {
	rec, err := ParseLine(line)
	data, _ := value.Decode(rec.Data)
	members, _ := data.(map[string]any)
	text, ok := members["text"].(string)
	switch {
	case err != nil:
		return Document{}, fmt.Errorf("document %q: %w", name, err)
	case !ok || rec.Kind != document || members["collection"] != collection || name != "" && name != rec.Path:
		return Document{}, fmt.Errorf("document %q: %w: another one is in its place",
			cmp.Or(name, rec.Path), ErrCorrupt)
	}
	return Document{rec.Path, text}, nil
}
