// Package expr compiles and evaluates the expressions of recipes: ${{ … }} in a scalar, and the
// bare expressions of when and other conditions.
//
// The syntax is that of github.com/expr-lang/expr. Checking and evaluation
// are this package's own, because recipes come from strangers and runs are replayed: every value
// is decoded JSON (see package value), a missing key is an error unless it is read with ?., maps
// are walked in the order of their keys, there is no clock, randomness or environment, and every
// expression is bounded in size, work and memory (see bounds.go).
//
//	scan       a scalar falls into text and expressions          template.go
//	parse      expression → syntax tree                          package syntax, parse.go
//	lower      tree → closures; names resolved, types checked    lower.go, access.go, types.go
//	evaluate   closures over an Env                              eval.go, operators.go, functions.go, predicates.go
//
// Compiled programs and templates are immutable and safe for concurrent use.
package expr

import (
	"fmt"
	"slices"
	"strings"

	"github.com/braise-run/braise/diagnostics"
)

// StepRef finds a step at run time: Up bodies outwards, then the Index-th node there.
type StepRef struct{ Up, Index int }

// Var is a name that foreach defines: its item, or index.
type Var struct {
	Name      string
	Up, Index int // handed to Env.Var as they are
	Type      Type
	Noted     bool // reading it is a Ref
}

// Scope is what names mean for the expressions of one step. The zero Scope knows only run.
// Compiling does not change it, so scopes may share maps.
type Scope struct {
	Inputs  map[string]any     // name → JSON Schema: decoded JSON, or true
	Consts  map[string]any     // name → value
	Steps   map[string]StepRef // the steps that may be read, by id
	Outputs map[string]Type    // of those steps, by id; of those that it lacks nothing is known
	Vars    []Var              // the last of one name counts
	Secrets bool               // secrets.NAME is allowed
	Final   bool               // the steps here run when all others have ended: run has status and error, too
	Braces  bool               // what stands in braces means something to whom the texts are for: no warnings
	Prose   bool               // the texts are for readers: {NAME} of an input is probably meant as an expression
	Stored  bool               // runs have begun with the recipe: what is never equal is a warning, no error
	URL     bool               // the texts are URLs: what expressions put in is escaped
	// Hints are for names that exist elsewhere only: an unknown name is reported with its hint.
	// Steps are looked up as "steps.ID".
	Hints map[string]string
	// Outer is the scope around a body that is written in place: its steps and vars are found too,
	// one body further out. nil: there is none.
	Outer *Scope
}

// run is the schema of run, which has more where the steps here, or around, run when all others have ended.
func (s *Scope) run() map[string]any {
	for ; s != nil; s = s.Outer {
		if s.Final {
			return finalSchema
		}
	}
	return runSchema
}

// step finds a step here or in the scopes around.
func (s *Scope) step(id string) (ref StepRef, ok bool) {
	for up := 0; s != nil; s, up = s.Outer, up+1 {
		if ref, ok = s.Steps[id]; ok {
			ref.Up += up
			return ref, true
		}
	}
	return ref, false
}

// output is the type of a step's output, here or in the scopes around.
func (s *Scope) output(id string) Type {
	for ; s != nil; s = s.Outer {
		if _, ok := s.Steps[id]; ok {
			return s.Outputs[id]
		}
	}
	return Type{}
}

// variable finds a var here or in the scopes around.
func (s *Scope) variable(name string) (v Var, ref StepRef, ok bool) {
	for up := 0; s != nil; s, up = s.Outer, up+1 {
		for _, v := range slices.Backward(s.Vars) {
			if v.Name == name {
				return v, StepRef{v.Up + up, v.Index}, true
			}
		}
	}
	return v, ref, false
}

// hint finds the hint for a name that means nothing.
func (s *Scope) hint(name string) string {
	for ; s != nil; s = s.Outer {
		if hint := s.Hints[name]; hint != "" {
			return hint
		}
	}
	return ""
}

// Source is the text of a scalar and where it stands.
type Source struct {
	Text string
	Pos  diagnostics.Position
	// Offset is the distance in columns from Pos to the text's first character, -1 when that cannot
	// be said; then everything in the text is reported at Pos.
	Offset int
	// Indent is how many columns stand before the second and all further lines of the text.
	Indent int

	lines []int // where the lines after the first begin in the text, in characters
}

// indexed returns s with its lines counted, for at.
func (s Source) indexed() Source {
	if s.Offset < 0 || !strings.Contains(s.Text, "\n") {
		return s
	}
	n := 0
	for _, r := range s.Text {
		if n++; r == '\n' {
			s.lines = append(s.lines, n)
		}
	}
	return s
}

// at is the position of the n-th character of the text.
func (s Source) at(n int) diagnostics.Position {
	p := s.Pos
	if s.Offset < 0 || p.Column == 0 {
		return p
	}
	line, _ := slices.BinarySearch(s.lines, n+1) // lines that begin at n or before
	if line == 0 {
		p.Column += s.Offset + n
		return p
	}
	p.Line += line
	p.Column = s.Indent + n - s.lines[line-1] + 1
	return p
}

// RefKind says what a Ref refers to.
type RefKind string

// The kinds of references.
const (
	RefStep   RefKind = "step"
	RefInput  RefKind = "input"
	RefSecret RefKind = "secret"
	RefVar    RefKind = "var" // of a Var that is Noted
)

// Ref is one place where an expression names a step, an input or a secret.
type Ref struct {
	Kind RefKind
	Name string  // "" for inputs as a whole
	Step StepRef // of a step
	// Field is that of a step: output, status, error, finish, usage, calls or messages; of a var its member, "" if
	// that is not known.
	Field string
	// Optional is false where the expression fails if that field is null: something is read below
	// it without ?., as in steps.a.output.x, and the expression has not found before that it is not null. The field
	// by itself is a value like any other. Of a var it is false where the expression fails if that has no such member.
	Optional bool
	Pos      diagnostics.Position
}

// Env is what names stand for during a run. Every value is decoded JSON and does not change.
type Env interface {
	Inputs() map[string]any
	Consts() map[string]any
	Run() map[string]any // id, recipe, version, started_at; in a final scope also status and error
	Step(ref StepRef) (status string, output, err any)
	Told(ref StepRef, what string) any // what: finish, usage, calls or messages
	Var(up, index int) any
}

// Error is an expression that failed at run time.
type Error struct {
	Pos    diagnostics.Position // of the ${{, or of the condition
	Source string               // the expression
	Err    error                // why
}

// Error prints the position, the expression, shortened to 60 characters, and the reason.
func (e *Error) Error() string {
	return fmt.Sprintf("%s: expression %q failed: %s", e.Pos, shorten(e.Source), e.Err)
}

// Unwrap returns the reason.
func (e *Error) Unwrap() error { return e.Err }

func shorten(s string) string {
	const limit = 60
	n := 0
	cut := 0 // where the text ends if it turns out to be too long
	for i := range s {
		if n == limit-1 {
			cut = i
		}
		if n++; n > limit {
			return s[:cut] + "…"
		}
	}
	return s
}
