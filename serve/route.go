package serve

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/braise-run/braise/internal/value"
)

// route is one row of the table of routes. The mux, the check of who may use it, the checks of parameters and bodies,
// docs/openapi.json and docs/api.md are made of it.
type route struct {
	method, path string // a pattern of http.ServeMux, below the mount
	name         string // its operationId
	roles        []Role // any of them lets in; nil: anybody
	about        string
	params       []param
	takes        any // a value of the type of the body; nil: the route takes none
	gives        []gift
	fails        []int // statuses of errors, besides those that follow from the rest
	do           func(*call) error
	open         bool // it tells nothing, so any Host will do
	foreign      bool // its bodies are those of another system: of any type
}

// gift is one response that is no error.
type gift struct {
	status int
	of     any    // a value of the type of the body; nil: there is none, or it is not JSON
	media  string // of a body that is not a type's: text/event-stream
	about  string
}

// param is a parameter of a route. One of the query may be left out.
type param struct {
	in, name string
	schema   node
	about    string
	many     bool // it may be given several times
}

func inPath(name, about string) param {
	return param{"path", name, node{"type": "string"}, about, false}
}

func inHeader(name, about string) param {
	return param{"header", name, node{"type": "string"}, about, false}
}

func text(name, about string) param {
	return param{"query", name, node{"type": "string"}, about, false}
}

func texts(name, about string) param {
	return param{"query", name, node{"type": "string"}, about, true}
}

func moment(name, about string) param {
	return param{"query", name, node{"type": "string", "format": "date-time"}, about, false}
}

func flag(name, about string) param {
	return param{"query", name, node{"type": "boolean"}, about, false}
}

func number(name, about string, from, to int64) param {
	return param{"query", name, node{"type": "integer", "minimum": from, "maximum": to}, about, false}
}

func oneOf(name, about string, words ...string) param {
	return param{"query", name, node{"type": "string", "enum": anys(words)}, about, false}
}

// check refuses a value of the query.
func (p *param) check(v string) error {
	wrong := func(hint string) error {
		return malformed("request.parameter", "parameter %q cannot be %.40q\n  hint: %s", p.name, v, hint)
	}
	switch p.schema["type"] {
	case "boolean":
		if v != "true" && v != "false" {
			return wrong("it is true or false")
		}
	case "integer":
		from, to := p.schema["minimum"].(int64), p.schema["maximum"].(int64)
		if n, err := strconv.ParseInt(v, 10, 64); err != nil || n < from || n > to {
			return wrong(fmt.Sprintf("it is a whole number from %d to %d", from, to))
		}
	}
	if words, ok := p.schema["enum"].([]any); ok && !slices.Contains(words, any(v)) {
		var list []string
		for _, w := range words {
			list = append(list, w.(string))
		}
		return wrong(suggest(v, list, "it is "+strings.Join(list, ", ")))
	}
	if _, err := time.Parse(time.RFC3339Nano, v); p.schema["format"] == "date-time" && err != nil {
		return wrong("it is a time like 2026-01-31T12:00:00Z")
	}
	return nil
}

// statuses returns the statuses of the errors that a route may have, rising.
func (r *route) statuses() []int {
	all := slices.Clone(r.fails)
	if !r.open {
		all = append(all, http.StatusBadRequest, http.StatusMisdirectedRequest, http.StatusServiceUnavailable,
			http.StatusInternalServerError)
	}
	if r.roles != nil {
		all = append(all, http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests)
	}
	if r.changes() {
		all = append(all, http.StatusForbidden, http.StatusUnsupportedMediaType, http.StatusRequestEntityTooLarge)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// changes reports whether the method of the route is one that foreign pages must not send.
func (r *route) changes() bool { return r.method != http.MethodGet }

// paths returns the paths of all routes, for suggestions.
func paths(all []route) []string {
	set := map[string]bool{}
	for _, r := range all {
		set[r.path] = true
	}
	return value.SortedKeys(set)
}
