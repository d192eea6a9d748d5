package expr

import (
	"net/url"
	"slices"
	"strings"

	"github.com/braise-run/braise/internal/value"
)

// Escape says how a value is escaped that an expression puts into a URL.
type Escape string

// How values are escaped. What begins a URL is put in as it is: it may be a whole one.
const (
	AsItIs  Escape = ""
	InPath  Escape = "path" // a "/" too, and the host counts as path: no value reaches beyond its place
	InQuery Escape = "query"
)

// escapeAfter is how the value behind pieces of a URL is escaped. Only the text that is written tells query from path.
func escapeAfter(before []piece) Escape {
	switch {
	case len(before) == 0:
		return AsItIs
	case slices.ContainsFunc(before, func(p piece) bool { return !p.expression && strings.Contains(p.text, "?") }):
		return InQuery
	}
	return InPath
}

// Apply escapes a text.
func (e Escape) Apply(text string) string {
	switch e {
	case InPath:
		return url.PathEscape(text)
	case InQuery:
		return value.QueryEscape(text)
	}
	return text
}
