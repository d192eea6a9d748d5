package schema

import (
	"cmp"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/braise-run/braise/internal/value"
)

// found is a problem before it is reported.
type found struct {
	Problem
	types   []string // of a wrong type: those that would do
	choices []any    // of a wrong choice: those that would do
}

// problems puts the library's tree of errors about v into words, sorted by path.
func problems(err *jsonschema.ValidationError, v, doc any) []Problem {
	r := reader{v, doc, map[string][]string{}}
	var out []Problem
	for _, f := range sorted(r.read(err)) {
		out = append(out, f.Problem)
	}
	return slices.CompactFunc(out, func(a, b Problem) bool { return a.Path == b.Path && a.Message == b.Message })
}

// sorted orders problems by path, then message: the library's order is that of its maps.
func sorted(fs []found) []found {
	slices.SortStableFunc(fs, func(a, b found) int {
		return cmp.Or(comparePaths(a.Path, b.Path), strings.Compare(a.Message, b.Message))
	})
	return fs
}

// comparePaths orders JSON pointers by their tokens, item numbers by value.
func comparePaths(a, b string) int {
	return slices.CompareFunc(value.Tokens(a), value.Tokens(b), func(a, b string) int {
		i, errA := strconv.Atoi(a)
		j, errB := strconv.Atoi(b)
		if errA == nil && errB == nil {
			return cmp.Compare(i, j)
		}
		return strings.Compare(a, b)
	})
}

// reader reads errors about one value, v, by the schema doc.
type reader struct {
	v, doc any
	known  map[string][]string // results of properties
}

func (r reader) readAll(errs []*jsonschema.ValidationError) []found {
	var out []found
	for _, err := range errs {
		out = append(out, r.read(err)...)
	}
	return out
}

func (r reader) read(err *jsonschema.ValidationError) []found {
	path := ""
	for _, token := range err.InstanceLocation {
		path = value.Pointer(path, token)
	}
	say := func(format string, args ...any) []found {
		return []found{{Problem: Problem{Path: path, Message: fmt.Sprintf(format, args...)}}}
	}
	switch k := err.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		return r.readAll(err.Causes)
	case *kind.AnyOf:
		return r.alternatives(path, err.Causes)
	case *kind.OneOf:
		if len(k.Subschemas) == 0 {
			return r.alternatives(path, err.Causes)
		}
		return say("fits forms %d and %d of the schema's oneOf, must fit exactly one",
			k.Subschemas[0]+1, k.Subschemas[1]+1)
	case *kind.Type:
		return []found{r.wrongType(path, k.Want)}
	case *kind.Enum:
		return []found{r.wrongChoice(path, k.Want)}
	case *kind.Const:
		return []found{r.wrongChoice(path, []any{k.Want})}
	case *kind.Required:
		var out []found
		for _, name := range k.Missing {
			out = append(out, found{Problem: Problem{Path: value.Pointer(path, name), Message: "is required"}})
		}
		return out
	case *kind.Dependency:
		return beside(path, k.Prop, k.Missing)
	case *kind.DependentRequired:
		return beside(path, k.Prop, k.Missing)
	case *kind.AdditionalProperties:
		known := r.properties(err.SchemaURL)
		var out []found
		for _, name := range k.Properties {
			out = append(out, unknownProperty(value.Pointer(path, name), known))
		}
		return out
	case *kind.PropertyNames:
		return say("property name %q %s", k.Property, words(r.readAll(err.Causes), value.Pointer(path, k.Property)))
	case *kind.FalseSchema:
		if parent, ok := strings.CutSuffix(err.SchemaURL, "/unevaluatedProperties"); ok {
			return []found{unknownProperty(path, r.properties(parent))}
		}
		return say("is not allowed")
	}
	return say("%s", sentence(err.ErrorKind))
}

// sentence words the errors that need neither path nor causes.
func sentence(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Not:
		return "fits what the schema's not excludes"
	case *kind.Format:
		if k.Want == "regex" {
			return "must be a regular expression as Go and RE2 know them: " +
				strings.TrimPrefix(k.Err.Error(), "error parsing regexp: ")
		}
		return fmt.Sprintf("must be in the format %s", k.Want)
	case *kind.Pattern:
		return fmt.Sprintf("must match the pattern %q", k.Want)
	case *kind.MinLength:
		return fmt.Sprintf("must have at least %s, not %d", plural(k.Want, "character"), k.Got)
	case *kind.MaxLength:
		return fmt.Sprintf("must have at most %s, not %d", plural(k.Want, "character"), k.Got)
	case *kind.MinItems:
		return fmt.Sprintf("must have at least %s, not %d", plural(k.Want, "item"), k.Got)
	case *kind.MaxItems:
		return fmt.Sprintf("must have at most %s, not %d", plural(k.Want, "item"), k.Got)
	case *kind.AdditionalItems:
		return fmt.Sprintf("has %s too many", plural(k.Count, "item"))
	case *kind.UniqueItems:
		return fmt.Sprintf("items %d and %d are equal, all must be different", k.Duplicates[0], k.Duplicates[1])
	case *kind.Contains:
		return "has no item that fits the schema's contains"
	case *kind.MinContains:
		return fmt.Sprintf("must have at least %s fitting the schema's contains, not %d",
			plural(k.Want, "item"), len(k.Got))
	case *kind.MaxContains:
		return fmt.Sprintf("must have at most %s fitting the schema's contains, not %d",
			plural(k.Want, "item"), len(k.Got))
	case *kind.MinProperties:
		return fmt.Sprintf("must have at least %s, not %d", plural(k.Want, "member"), k.Got)
	case *kind.MaxProperties:
		return fmt.Sprintf("must have at most %s, not %d", plural(k.Want, "member"), k.Got)
	case *kind.Minimum:
		return "must be at least " + number(k.Want)
	case *kind.Maximum:
		return "must be at most " + number(k.Want)
	case *kind.ExclusiveMinimum:
		return "must be more than " + number(k.Want)
	case *kind.ExclusiveMaximum:
		return "must be less than " + number(k.Want)
	case *kind.MultipleOf:
		return "must be a multiple of " + number(k.Want)
	case *kind.RefCycle:
		return "cannot be checked: the schema refers to itself without end"
	case *kind.InvalidJsonValue:
		return fmt.Sprintf("must be JSON, not a Go %T", k.Value)
	}
	return "does not fit the schema"
}

func unknownProperty(path string, known []string) found {
	return found{Problem: Problem{path, "is not a known property", known}}
}

// properties lists what the properties keyword of the schema at a location names, sorted; not nil.
func (r reader) properties(location string) []string {
	names, ok := r.known[location]
	if !ok {
		found, _ := lookup(r.doc, pathOf(location)+"/properties")
		named, _ := found.(map[string]any)
		names = slices.AppendSeq([]string{}, maps.Keys(named))
		slices.Sort(names)
		r.known[location] = names
	}
	return names
}

func beside(path, name string, missing []string) []found {
	var out []found
	for _, m := range missing {
		problem := Problem{Path: value.Pointer(path, m), Message: fmt.Sprintf("is required beside %q", name)}
		out = append(out, found{Problem: problem})
	}
	return out
}

// wrongType is the problem that the value at path has none of the types.
func (r reader) wrongType(path string, types []string) found {
	names := make([]string, len(types))
	for i, t := range types {
		names[i] = typeNames[t]
	}
	got, _ := lookup(r.v, path)
	what := value.TypeName(got)
	if f, ok := got.(float64); ok && slices.Contains(types, "integer") {
		what = strconv.FormatFloat(f, 'g', -1, 64)
	}
	problem := Problem{Path: path, Message: fmt.Sprintf("must be %s, not %s", oneOf(names), what)}
	return found{Problem: problem, types: types}
}

var typeNames = map[string]string{
	"null": "null", "boolean": "a boolean", "number": "a number", "integer": "an integer",
	"string": "a string", "array": "a list", "object": "an object",
}

// wrongChoice is the problem that the value at path is none of the choices.
func (r reader) wrongChoice(path string, choices []any) found {
	const most = 12
	var texts []string
	for i, v := range choices {
		if i == most {
			texts = append(texts, fmt.Sprintf("… (%d in all)", len(choices)))
			break
		}
		texts = append(texts, short(v))
	}
	message := "must be " + strings.Join(texts, ", ")
	if len(texts) > 1 {
		message = "must be one of " + strings.Join(texts, ", ")
	}
	if got, _ := lookup(r.v, path); got != nil {
		message += nearest(got, choices)
	}
	return found{Problem: Problem{Path: path, Message: message}, choices: choices}
}

// alternatives sums up why a value fits none of several forms:
//
//  1. forms for another type of value are left out; if all are, the types are the problem
//  2. forms that another choice selects, {"kind":"circle"} say, are left out; if all are, the
//     choice is the problem
//  3. of one form that is left, its problems are the problems
//  4. else they are listed, form by form
func (r reader) alternatives(path string, errs []*jsonschema.ValidationError) []found {
	forms := make([][]found, len(errs))
	for i, err := range errs {
		forms[i] = r.read(err)
	}
	total := len(forms)

	left := slices.DeleteFunc(slices.Clone(forms), func(form []found) bool { return typesAt(path, form) != nil })
	if len(left) == 0 {
		var types []string
		for _, form := range forms {
			for _, t := range typesAt(path, form) {
				if !slices.Contains(types, t) {
					types = append(types, t)
				}
			}
		}
		return []found{r.wrongType(path, types)}
	}

	forms = left
	left = slices.DeleteFunc(slices.Clone(forms), func(form []found) bool { return choiceNear(path, form) != nil })
	if len(left) == 0 {
		where := choiceNear(path, forms[0]).Path
		var choices []any
		for _, form := range forms {
			f := choiceNear(path, form)
			if f.Path != where {
				return listed(path, total, forms)
			}
			choices = append(choices, f.choices...)
		}
		return []found{r.wrongChoice(where, choices)}
	}
	if len(left) == 1 {
		return left[0]
	}
	return listed(path, total, left)
}

// typesAt returns the types that a form wants of the value at path, nil if they are not what is
// wrong.
func typesAt(path string, form []found) []string {
	for _, f := range form {
		if f.Path == path && f.types != nil {
			return f.types
		}
	}
	return nil
}

// choiceNear returns a form's problem of a wrong choice for the value at path or a member of it,
// the first by path; nil if there is none.
func choiceNear(path string, form []found) *found {
	var first *found
	for i, f := range form {
		rest, below := strings.CutPrefix(f.Path, path)
		if below && f.choices != nil && strings.Count(rest, "/") <= 1 && (first == nil || f.Path < first.Path) {
			first = &form[i]
		}
	}
	return first
}

// listed says what is wrong with each of several forms, in a few words.
func listed(path string, total int, forms [][]found) []found {
	const most = 3
	var texts []string
	for i, form := range forms {
		if i == most {
			texts = append(texts, "…")
			break
		}
		texts = append(texts, words(form, path))
	}
	message := fmt.Sprintf("fits none of %d forms: %s", total, strings.Join(texts, "; or "))
	return []found{{Problem: Problem{Path: path, Message: message}}}
}

// words joins what is wrong with one thing, with paths relative to its own.
func words(form []found, path string) string {
	const most = 3
	var texts []string
	for i, f := range sorted(form) {
		if i == most {
			texts = append(texts, fmt.Sprintf("%d more", len(form)-most))
			break
		}
		texts = append(texts, Problem{Path: strings.TrimPrefix(f.Path, path), Message: f.Message}.String())
	}
	return strings.Join(texts, ", ")
}

// oneOf joins names: a, b or c.
func oneOf(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// number prints a limit: exactly where that is short.
func number(r *big.Rat) string {
	if r.IsInt() && r.Num().BitLen() <= 256 {
		return r.Num().String()
	}
	f, _ := r.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// short prints a value as JSON of at most 60 bytes.
func short(v any) string {
	text, err := value.JSON(v)
	if err != nil {
		return "…"
	}
	if s := string(text); len(s) <= 60 {
		return s
	}
	return strings.ToValidUTF8(string(text[:57]), "") + "…"
}
