// Package diagnostics describes problems, their positions, and what to do about them.
//
// A [Diagnostic] is one problem with its position. A [List] collects diagnostics. It is not an error, so that an empty
// list can never be mistaken for a failure; [List.Err] returns an [*Error] for a list with errors.
// A [Mode] determines whether a diagnostic about the installation blocks a run.
package diagnostics

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Position is a place in a file. The zero Position is "nowhere".
type Position struct {
	File   string // as the user named it; slash-separated
	Line   int    // from 1; 0 when only the file is known
	Column int    // from 1, in characters (not bytes); 0 when only the line is known
}

// IsZero reports whether p names no place at all.
func (p Position) IsZero() bool { return p == Position{} }

// String prints file:line:column, leaving out what is not known; "-" for the zero Position.
func (p Position) String() string {
	switch {
	case p.IsZero():
		return "-"
	case p.Line == 0:
		return p.File
	case p.Column == 0:
		return fmt.Sprintf("%s:%d", p.File, p.Line)
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Compare orders positions by file, line and column.
func (p Position) Compare(q Position) int {
	return cmp.Or(cmp.Compare(p.File, q.File), cmp.Compare(p.Line, q.Line), cmp.Compare(p.Column, q.Column))
}

// Level says how bad a diagnostic is.
type Level string

// The two levels. There is no third: what is neither wrong nor suspicious is not a diagnostic.
const (
	Warn       Level = "warn"
	ErrorLevel Level = "error"
)

// Kind says which part of the world a diagnostic is about.
type Kind string

// The kinds of diagnostics.
const (
	KindRecipe      Kind = "recipe"      // the recipe's text
	KindRequirement Kind = "requirement" // something the recipe says that it requires
	KindContract    Kind = "contract"    // what the runtime does not offer as a step uses it, and conflicting offers
	KindPlugin      Kind = "plugin"      // plugins and their hooks
	KindResume      Kind = "resume"      // resuming a run that waited or was interrupted
	KindAdapter     Kind = "adapter"     // a part of the runtime that no step calls, such as a trace sink
	KindWorkflow    Kind = "workflow"    // a run and its inputs
)

// Diagnostic is one problem. Only Level, Kind, Code and Message are always set.
type Diagnostic struct {
	Level    Level
	Kind     Kind
	Code     Code   // stable; each has a section in docs/diagnostics.md
	Message  string // one line, lower case, the user's names in double quotes
	Hint     string // what to do about it; one line
	Position Position
	Step     string         // the step's path, for diagnostics of a run
	Data     map[string]any // decoded JSON, for machines
	Mild     bool           // a warning that [Strict] leaves as it is; not in JSON
}

// String prints the diagnostic on one line, with its hint on a second one.
func (d Diagnostic) String() string {
	var b strings.Builder
	if !d.Position.IsZero() {
		fmt.Fprintf(&b, "%s: ", d.Position)
	}
	if d.Level == Warn {
		b.WriteString("warning: ")
	}
	b.WriteString(d.Message)
	fmt.Fprintf(&b, " [%s]", d.Code)
	if d.Hint != "" {
		b.WriteString("\n  hint: " + d.Hint)
	}
	return b.String()
}

// MarshalJSON writes the flat object that the command prints: the position's parts are members
// of the diagnostic, and members without a value are left out.
func (d Diagnostic) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(struct {
		Level   Level          `json:"level"`
		Kind    Kind           `json:"kind"`
		Code    Code           `json:"code"`
		Message string         `json:"message"`
		Hint    string         `json:"hint,omitempty"`
		File    string         `json:"file,omitempty"`
		Line    int            `json:"line,omitempty"`
		Column  int            `json:"column,omitempty"`
		Step    string         `json:"step,omitempty"`
		Data    map[string]any `json:"data,omitempty"`
	}{d.Level, d.Kind, d.Code, d.Message, d.Hint, d.Position.File, d.Position.Line, d.Position.Column, d.Step, d.Data})
	return b.Bytes(), err
}

// List is a collection of diagnostics; nil is the empty list. It is deliberately not an error.
type List []Diagnostic

// Sort orders the list by file, line, column, then code and message, and drops exact repetitions.
// It is for diagnostics about text; diagnostics of a run keep the order in which they were made.
func (l *List) Sort() {
	slices.SortStableFunc(*l, func(a, b Diagnostic) int {
		return cmp.Or(a.Position.Compare(b.Position), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Message, b.Message))
	})
	*l = slices.CompactFunc(*l, func(a, b Diagnostic) bool {
		return a.Position == b.Position && a.Code == b.Code && a.Message == b.Message
	})
}

// HasErrors reports whether the list holds a diagnostic of level error.
func (l List) HasErrors() bool {
	return slices.ContainsFunc(l, func(d Diagnostic) bool { return d.Level == ErrorLevel })
}

// Err returns nil for a list without errors, else an [*Error] that holds the whole list.
func (l List) Err() error {
	if !l.HasErrors() {
		return nil
	}
	return &Error{List: l}
}

// Error is a list with at least one diagnostic of level error, as an error.
type Error struct{ List List }

// Error prints the diagnostics of level error, one after the other; beyond 100 it only counts them.
func (e *Error) Error() string {
	var lines []string
	rest := 0
	for _, d := range e.List {
		switch {
		case d.Level != ErrorLevel:
		case len(lines) == maxShown:
			rest++
		default:
			lines = append(lines, d.String())
		}
	}
	if rest > 0 {
		lines = append(lines, more(rest))
	}
	return strings.Join(lines, "\n")
}

// Mode decides what diagnostics do to a run.
type Mode int

const (
	// Default attaches diagnostics to the outcome and never blocks: a missing requirement is a
	// warning, and only the step that needs it fails.
	Default Mode = iota
	// Strict raises diagnostics of kind requirement, contract and recipe to errors, unless they are mild; any error
	// stops the run before its first step.
	Strict
)

// Apply returns l as the mode sees it: unchanged in Default; in Strict a copy in which the
// diagnostics that it raises are errors.
func (m Mode) Apply(l List) List {
	if m != Strict {
		return l
	}
	raised := slices.Clone(l)
	for i := range raised {
		switch d := &raised[i]; d.Kind {
		case KindRequirement, KindContract, KindRecipe:
			if !d.Mild {
				d.Level = ErrorLevel
			}
		}
	}
	return raised
}
