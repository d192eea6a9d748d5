package schema

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/braise-run/braise/internal/value"
)

// Limits of a schema.
const (
	maxText    = 1 << 20 // bytes
	maxDepth   = 200
	maxParts   = 3000      // objects and booleans: the library's time grows with their square
	maxOdd     = 2_000_000 // parts, times different $ref to places that only they make schemas
	maxPattern = 10_000    // instructions of a compiled pattern
)

// base is the address of a schema within the library. Nothing can be loaded from it.
const base = "https://schema.invalid/"

// newChecker compiles a document:
//
//  1. survey it: size, depth, references
//  2. let the library compile it, its loader switched off
//  3. make every compiled part count its steps, and refuse parts that refer to themselves
func newChecker(doc any) (c *checker, err error) {
	defer func() {
		if r := recover(); r != nil {
			c, err = nil, &Error{"", fmt.Sprintf("cannot be compiled: %v", r)}
		}
	}()
	sv := survey{doc: doc}
	sv.walk(doc, "", 0, keywords)
	if err := sv.check(); err != nil {
		return nil, err
	}
	lib := jsonschema.NewCompiler()
	lib.AssertFormat()
	lib.UseLoader(noLoader{})
	lib.UseRegexpEngine(compilePattern)
	if err := lib.AddResource(base, doc); err != nil {
		return nil, &Error{"", err.Error()}
	}
	root, err := lib.Compile(base)
	if err != nil {
		return nil, sv.explain(err)
	}
	c = &checker{doc: doc, root: root, plain: map[*jsonschema.Schema]bool{}}
	roots := []*jsonschema.Schema{root}
	for _, path := range sv.anchors { // those may be reached by name only
		if s, err := lib.Compile(base + "#" + (&url.URL{Path: path}).EscapedPath()); err == nil {
			roots = append(roots, s) // else it is not a schema, but data
		}
	}
	for _, s := range roots {
		if err := c.arm(s); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// noLoader refuses every document.
type noLoader struct{}

var errOutside = errors.New("outside the schema")

func (noLoader) Load(string) (any, error) { return nil, errOutside }

// survey is what a schema document says before it is compiled.
type survey struct {
	doc     any
	parts   int
	deep    bool
	hasID   bool // an $id: references are relative to it
	refs    []reference
	odd     map[string]bool // targets of references that are not "#" or one of the definitions
	anchors []string        // paths of the objects with a $dynamicAnchor

	spell    bool // only keywords that are not known are looked for
	misspelt []Misspelling
}

// reference is a $ref.
type reference struct{ path, target string }

// What the members of an object are.
type members int

const (
	keywords members = iota // of a schema
	schemas                 // by name
	data                    // of const, say
)

func (sv *survey) walk(v any, path string, depth int, m members) {
	if depth > maxDepth {
		sv.deep = true
	}
	if sv.deep || sv.parts > maxParts {
		return
	}
	switch v := v.(type) {
	case bool:
		sv.parts++
	case []any:
		for i, e := range v {
			sv.walk(e, value.Pointer(path, strconv.Itoa(i)), depth+1, m)
		}
	case map[string]any:
		sv.parts++
		for _, k := range slices.Sorted(maps.Keys(v)) {
			at, below := value.Pointer(path, k), m
			if m == schemas {
				below = keywords
			} else if m == keywords {
				if below = sv.keyword(k, v[k], at); !sv.spell {
					clamp(v, k)
				} else if sv.spelling(k, path) {
					below = data
				}
			}
			if k == "$dynamicAnchor" {
				sv.anchors = append(sv.anchors, path)
			}
			sv.walk(v[k], at, depth+1, below)
		}
	}
}

// keyword notes a keyword of a schema and says what its value's members are.
func (sv *survey) keyword(name string, v any, path string) members {
	switch name {
	case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
		return schemas
	case "const", "enum", "default", "examples":
		return data
	case "$id":
		sv.hasID = true
	case "$ref":
		target, ok := v.(string)
		if !ok {
			break // the library says so
		}
		sv.refs = append(sv.refs, reference{path, target})
		if !plainRef.MatchString(target) {
			if sv.odd == nil {
				sv.odd = map[string]bool{}
			}
			sv.odd[target] = true
		}
	}
	return keywords
}

var plainRef = regexp.MustCompile(`^#(/(\$defs|definitions)/[^/]*)?$`)

// check reports what the library would not, or not with its place.
func (sv *survey) check() error {
	switch {
	case sv.deep:
		return &Error{"", fmt.Sprintf("nested more than %d deep", maxDepth)}
	case sv.parts > maxParts:
		return &Error{"", fmt.Sprintf("more than %d objects and booleans", maxParts)}
	case sv.parts*len(sv.odd) > maxOdd:
		return &Error{"", fmt.Sprintf("too many $ref, %d, to places other than $defs", len(sv.odd))}
	}
	if sv.hasID {
		return nil
	}
	for _, ref := range sv.refs {
		fragment, local := strings.CutPrefix(ref.target, "#")
		if !local {
			return outside(ref)
		}
		if fragment, err := url.PathUnescape(fragment); err == nil && strings.HasPrefix(fragment, "/") {
			if _, ok := lookup(sv.doc, fragment); !ok {
				return missing(ref)
			}
		}
	}
	return nil
}

func outside(ref reference) error {
	return &Error{ref.path, fmt.Sprintf("%q is outside the schema: a $ref works inside it only, %q say",
		ref.target, "#/$defs/name")}
}

func missing(ref reference) error {
	return &Error{ref.path, fmt.Sprintf("%q is not in the schema", ref.target)}
}

// lookup follows a JSON pointer.
func lookup(v any, pointer string) (any, bool) {
	for _, token := range value.Tokens(pointer) {
		switch w := v.(type) {
		case map[string]any:
			e, ok := w[token]
			if !ok {
				return nil, false
			}
			v = e
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(w) {
				return nil, false
			}
			v = w[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// explain turns the library's error into ours.
func (sv *survey) explain(err error) error {
	if invalid, ok := errors.AsType[*jsonschema.SchemaValidationError](err); ok {
		if cause, ok := errors.AsType[*jsonschema.ValidationError](invalid.Err); ok {
			prefix := pathOf(invalid.URL)
			found, _ := lookup(sv.doc, prefix)
			if ps := problems(cause, found, nil); len(ps) > 0 {
				path := prefix + ps[0].Path
				v, _ := lookup(sv.doc, path)
				if wrong, ok := notAType(path, v); ok && strings.HasSuffix(path, "/type") {
					return wrong
				}
				return &Error{path, named(ps[0].Message, v)}
			}
		}
	}
	if load, ok := errors.AsType[*jsonschema.LoadURLError](err); ok {
		for _, ref := range sv.refs {
			if before, _, _ := strings.Cut(ref.target, "#"); before != "" && strings.HasSuffix(load.URL, before) {
				return outside(ref)
			}
		}
		if name, ok := lookup(sv.doc, "/$schema"); ok {
			return &Error{"/$schema", fmt.Sprintf("%q is not a draft of JSON Schema that works here", name)}
		}
	}
	if lost, ok := errors.AsType[*jsonschema.AnchorNotFoundError](err); ok {
		_, anchor, _ := strings.Cut(lost.Reference, "#")
		for _, ref := range sv.refs {
			if strings.HasSuffix(ref.target, "#"+anchor) {
				return missing(ref)
			}
		}
	}
	return &Error{"", strings.ReplaceAll(err.Error(), base, "")}
}

// pathOf returns the JSON pointer of a location in the compiled document.
func pathOf(location string) string {
	_, fragment, _ := strings.Cut(location, "#")
	if plain, err := url.PathUnescape(fragment); err == nil {
		return plain
	}
	return fragment
}

// pattern is a regular expression with its price.
type pattern struct {
	*regexp.Regexp
	size int // instructions
}

// compilePattern refuses patterns whose program is large: matching takes time in proportion to
// program and text.
func compilePattern(text string) (jsonschema.Regexp, error) {
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, err
	}
	// Counting comes first, for compiling repetitions in repetitions takes memory.
	if n := patternSize(re); n > maxPattern {
		return nil, fmt.Errorf("larger than %d steps", maxPattern)
	}
	compiled, err := regexp.Compile(text)
	if err != nil {
		return nil, err
	}
	return &pattern{compiled, patternSize(re)}, nil
}

// patternSize is about how many instructions a parsed pattern compiles to.
func patternSize(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)
	for _, sub := range re.Sub {
		n += patternSize(sub)
	}
	if re.Op == syntax.OpRepeat {
		n *= max(re.Min, re.Max, 1) + 1
	}
	return min(n, maxPattern+1)
}
