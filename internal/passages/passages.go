// Package passages cuts files and other texts into passages that are small enough to be found, and to be given to a
// model: plain text, Markdown, HTML, CSV and JSON. It does no I/O.
package passages

import (
	"bytes"
	"cmp"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"
)

// Passage is a part of a text.
type Passage struct {
	Number      int // in its text, from 1
	Text        string
	First, Last int      // lines, from 1; 0: what it is of has no lines
	Headings    []string // titles that it stands under, the outermost first
	Metadata    map[string]any

	titles int // how many of the headings, the last ones, are in the text
}

// Words is what is searched: the text, and the headings that are not in it.
func (p *Passage) Words() string {
	return strings.Join(p.Headings[:len(p.Headings)-p.titles], "\n") + "\n" + p.Text
}

// About is the metadata of the passage: where it stands, and what its file says of it.
func (p *Passage) About() map[string]any {
	about := map[string]any{}
	for name, v := range p.Metadata {
		about[name] = v
	}
	if p.First > 0 {
		about["first_line"], about["last_line"] = int64(p.First), int64(p.Last)
	}
	if p.Headings != nil {
		list := make([]any, len(p.Headings))
		for i, h := range p.Headings {
			list[i] = h
		}
		about["headings"] = list
	}
	return about
}

// Options say how a text is cut. A zero field means its default.
type Options struct {
	Type     Type
	Whole    bool // headings begin no passage
	MaxBytes int  // of a passage. Defaults to DefaultMaxBytes.
}

// DefaultMaxBytes is the most bytes of a passage where nothing else is said.
const DefaultMaxBytes = 2000

// Type is how a text is read.
type Type string

// The types. The default is that of the name: its ending, else text.
const (
	Text     Type = "text"
	Markdown Type = "markdown"
	HTML     Type = "html"
	CSV      Type = "csv"
	JSON     Type = "json"
)

// Types lists the types.
var Types = []Type{Text, Markdown, HTML, CSV, JSON}

var endings = map[string]Type{".md": Markdown, ".markdown": Markdown, ".html": HTML, ".htm": HTML, ".xhtml": HTML,
	".csv": CSV, ".tsv": CSV, ".json": JSON, ".jsonl": JSON, ".ndjson": JSON}

// TypeOf is the type of a file, by its name.
func TypeOf(name string) Type { return cmp.Or(endings[strings.ToLower(path.Ext(name))], Text) }

// Of cuts a text in UTF-8. The error says that it is not of its type.
func Of(name string, data []byte, o Options) (list []Passage, err error) {
	o.MaxBytes = max(cmp.Or(o.MaxBytes, DefaultMaxBytes), utf8.UTFMax)
	text := string(bytes.TrimPrefix(data, []byte("\uFEFF")))
	switch t := cmp.Or(o.Type, TypeOf(name)); t {
	case HTML:
		list, err = ofHTML(text, o)
	case CSV:
		list, err = ofCSV(text, strings.HasSuffix(strings.ToLower(name), ".tsv"), o)
	case JSON:
		list, err = ofJSON(text, o)
	default:
		list = cut(text, t == Markdown && !o.Whole, o.MaxBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("%q: %w", name, err)
	}
	for i := range list {
		list[i].Number = i + 1
	}
	return list, nil
}

// IsText reports whether data is UTF-8 without NUL; of a text that goes on, the last character may be incomplete.
func IsText(data []byte, goesOn bool) bool {
	if bytes.IndexByte(data, 0) >= 0 {
		return false
	}
	if !goesOn || utf8.Valid(data) {
		return utf8.Valid(data)
	}
	for cut := 1; cut < utf8.UTFMax; cut++ {
		if last := data[len(data)-cut:]; utf8.RuneStart(last[0]) {
			return !utf8.FullRune(last) && utf8.Valid(data[:len(data)-cut])
		}
	}
	return false
}
