// Package schema checks decoded JSON against JSON Schemas, draft 2020-12 unless a schema's
// $schema names an older one.
//
// Schemas come from strangers. Nothing is ever loaded: a schema is one document and every $ref
// stays in it. Compiling and checking are bounded in time and memory, and never panic. Formats
// are asserted; a format that is not known is ignored.
package schema

import (
	"cmp"
	"fmt"
	"strings"
	"sync"

	"github.com/braise-run/braise/internal/value"
)

// Error is why a schema does not compile.
type Error struct {
	Path    string // JSON pointer into the schema, "" for its root
	Message string
}

// Error prints the path, unless it is the root, and the message.
func (e *Error) Error() string { return Problem{Path: e.Path, Message: e.Message}.String() }

// Problem is one thing that is wrong with a checked value.
type Problem struct {
	Path    string // JSON pointer into the value, "" for its root
	Message string // completes "the value …": must be a string, not a number

	// Known is not nil if Path is a property that the schema does not know: those that it names there, sorted.
	Known []string
}

// String prints the path, unless it is the root, and the message.
func (p Problem) String() string {
	if p.Path == "" {
		return p.Message
	}
	return p.Path + ": " + p.Message
}

// Misfit is an error about a value that does not match its schema.
type Misfit struct {
	Problems []Problem
	Text     string // for people; "": what Describe prints
}

// Error prints what is wrong.
func (m *Misfit) Error() string { return cmp.Or(m.Text, Describe(m.Problems)) }

// Describe prints problems on one line; of more than ten it counts the rest.
func Describe(ps []Problem) string {
	const most = 10
	var b strings.Builder
	for i, p := range ps {
		if i == most {
			fmt.Fprintf(&b, "; and %d more", len(ps)-most)
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(p.String())
	}
	return b.String()
}

// Schema is a compiled schema. It is immutable and safe for concurrent use.
type Schema struct {
	doc any // the schema as decoded JSON

	mu   sync.Mutex
	free []*checker // that nobody uses at the moment
}

// Compile compiles the JSON text of a schema. The error is an *Error. Equal texts give the same
// Schema, as long as it is among those that were compiled last.
func Compile(raw []byte) (*Schema, error) {
	if len(raw) > maxText {
		return nil, &Error{"", fmt.Sprintf("larger than %d bytes", maxText)}
	}
	if s := compiled.get(raw); s != nil {
		return s, nil
	}
	doc, err := value.DecodeStrict(raw)
	if err != nil {
		path, cause := value.Place(err)
		return nil, &Error{path, cause.Error()}
	}
	c, err := newChecker(doc)
	if err != nil {
		return nil, err
	}
	s := &Schema{doc: doc, free: []*checker{c}}
	compiled.put(raw, s)
	return s, nil
}

// CompileValue compiles a schema given as decoded JSON, which it does not keep. The error is an
// *Error.
func CompileValue(v any) (*Schema, error) {
	raw, err := value.JSON(v)
	if err != nil {
		path, cause := value.Place(err)
		return nil, &Error{path, cause.Error()}
	}
	return Compile(raw)
}

// Check returns all that is wrong with the decoded JSON v, sorted by path; nil when v is valid.
// A check that takes too many steps ends with a problem that says so.
func (s *Schema) Check(v any) []Problem {
	// A checker counts the steps of one check, so it serves one at a time; there are as many as
	// there are checks at once.
	c := s.take()
	if c == nil {
		var err error
		if c, err = newChecker(s.doc); err != nil {
			return []Problem{{Message: "cannot be checked: " + err.Error()}} // it compiled before
		}
	}
	problems := c.check(v)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.free) < maxFree {
		s.free = append(s.free, c)
	}
	return problems
}

// OfObjects reports whether the schema says "type": "object".
func (s *Schema) OfObjects() bool {
	top, _ := s.doc.(map[string]any)
	return top["type"] == "object"
}

// maxFree is how many checkers a schema keeps.
const maxFree = 8

// take returns a checker that nobody uses; nil when there is none.
func (s *Schema) take() (c *checker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.free); n > 0 {
		c, s.free = s.free[n-1], s.free[:n-1]
	}
	return c
}

// memo keeps the schemas that were compiled last, by text: hosts compile the same tool schemas for
// every run.
type memo struct {
	mu    sync.Mutex
	byRaw map[string]*Schema
	order []string // oldest first
}

const (
	memoEntries = 512
	memoText    = 64 << 10 // of a text that is kept, in bytes
)

var compiled = memo{byRaw: map[string]*Schema{}}

func (m *memo) get(raw []byte) *Schema {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byRaw[string(raw)]
}

func (m *memo) put(raw []byte, s *Schema) {
	m.mu.Lock()
	defer m.mu.Unlock()
	text := string(raw)
	if _, there := m.byRaw[text]; there || len(text) > memoText {
		return
	}
	if len(m.order) == memoEntries {
		delete(m.byRaw, m.order[0])
		m.order = m.order[1:]
	}
	m.byRaw[text] = s
	m.order = append(m.order, text)
}
