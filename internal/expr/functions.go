package expr

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/braise-run/braise/internal/value"
)

// function is one that takes values, or walks over a list with a predicate.
type function struct {
	params   []kinds // the last one repeats when variadic
	least    int     // how many arguments there must be
	variadic bool
	result   kinds
	run      func(s *state, a []any) any
	pattern  int // the argument that is a regular expression; 0: none

	loop      func(s *state, l *loop) any // instead of run: see predicates.go
	predicate kinds                       // what the predicate gives
}

func (f *function) param(i int) kinds { return f.params[min(i, len(f.params)-1)] }

func argument(name string, i int) string {
	return fmt.Sprintf("argument %d of %s", i+1, name)
}

// arity says how many arguments the function takes.
func (f *function) arity() string {
	switch {
	case f.variadic:
		return fmt.Sprintf("at least %d arguments", f.least)
	case f.least < len(f.params):
		return fmt.Sprintf("%d or %d arguments", f.least, len(f.params))
	case f.least == 1:
		return "1 argument"
	}
	return fmt.Sprintf("%d arguments", f.least)
}

// takes lists the kinds of arguments.
func takes(params ...kinds) *function { return &function{params: params, least: len(params)} }

func (f *function) optional(k kinds) *function {
	f.params = append(f.params, k)
	return f
}

func (f *function) repeated() *function {
	f.variadic = true
	return f
}

func (f *function) gives(k kinds, run func(s *state, a []any) any) *function {
	f.result, f.run = k, run
	return f
}

// matching says which argument is a regular expression.
func (f *function) matching(i int) *function {
	f.pattern = i
	return f
}

// iterates is a function over a list, with a predicate that gives k.
func iterates(k, result kinds, run func(s *state, l *loop) any) *function {
	return &function{predicate: k, result: result, loop: run}
}

// functionsElsewhere say what to write in place of functions that other languages have.
var functionsElsewhere = map[string]string{
	"now": noClock, "date": noClock, "duration": noClock, "timezone": noClock, "today": noClock, "time": noClock,
	"always":    "write trigger: all_done at the step, or put it under finally",
	"success":   "leave it out: a step runs when all that it needs has succeeded",
	"failure":   "write trigger: all_done at the step, and read steps.ID.status",
	"cancelled": "steps under finally run after a cancellation, too, and read run.status",
	"format":    "put ${{ }} into a text",
	"tojson":    "write toJSON(x)",
	"fromjson":  "write fromJSON(x)",
	"json":      "write toJSON(x), or fromJSON(x)",
	"csv":       "write fromCSV(x)",
	"fromcsv":   "write fromCSV(x)",
	"length":    "write len(x)",
	"size":      "write len(x)",
	"str":       "write string(x)",
	"number":    "write int(x), or float(x)",
	"default":   "write x ?? default",
	"coalesce":  "write x ?? y",
	"toupper":   "write upper(x)",
	"tolower":   "write lower(x)",
	"substring": "write x[from:to]",
	"slice":     "write x[from:to]",
	"includes":  "write y in x for a list, x contains y for a text",
	"exists":    "write x != null",
	"env":       "expressions do not read the environment: take the value as an input, or a secret from secrets",
	"hashFiles": "expressions do not read files: let a step do it",
	"file":      "expressions do not read files: let a step do it",
	"read":      "expressions do not read files: let a step do it",
	"uuid":      "expressions give the same each time: run.id is the run's own, else take it from a step",
	"random":    "expressions give the same each time: take it from a step",
}

// namesElsewhere say what to write in place of names that expressions have in other tools.
var namesElsewhere = map[string]string{
	"github":   "take it as an input: --input ref=…",
	"matrix":   "in a foreach the item is item",
	"needs":    "write steps.ID.output",
	"tasks":    "write steps.ID.output",
	"job":      "run.status is that of the run, under finally",
	"workflow": "run.id is the id of the run, inputs has its inputs",
	"env":      "expressions do not read the environment: take the value as an input, or a secret from secrets",
	"state":    "write inputs.NAME, or steps.ID.output",
	"$json":    "write steps.ID.output, of the step before",
	"$node":    "write steps.ID.output",
	"$input":   "write inputs.NAME, or steps.ID.output",
	"params":   "write inputs.NAME",
}

const noClock = "expressions have no clock: take the time as an input or from a step"

// functions are those of the library that take values, over decoded JSON: strings count in
// characters, whole numbers are integers, JSON is canonical, maps go by sorted keys.
var functions = map[string]*function{
	"len":    takes(text|list|dict).gives(number, func(_ *state, a []any) any { return int64(length(a[0])) }),
	"type":   takes(anyKind).gives(text, func(_ *state, a []any) any { return typeName(a[0]) }),
	"string": takes(anyKind).gives(text, func(s *state, a []any) any { return s.text(a[0]) }),
	"int":    takes(text|number).gives(number, func(_ *state, a []any) any { return toInteger(a[0]) }),
	"float":  takes(text|number).gives(number, func(_ *state, a []any) any { return number64(toFloat(a[0])) }),
	"abs": takes(number).gives(number, func(_ *state, a []any) any {
		if float(a[0]) < 0 {
			return arithmetic(nil, "-", int64(0), a[0])
		}
		return a[0]
	}),
	"ceil":  rounding(math.Ceil),
	"floor": rounding(math.Floor),
	"round": rounding(math.Round),

	"trim":       trimming(strings.Trim, " \t\r\n\v\f\u0085\u00a0"),
	"trimPrefix": trimming(strings.TrimPrefix, " "),
	"trimSuffix": trimming(strings.TrimSuffix, " "),
	"upper":      takes(text).gives(text, made(strings.ToUpper)),
	"lower":      takes(text).gives(text, made(strings.ToLower)),
	"split":      takes(text, text).optional(number).gives(list, splitting(strings.SplitN)),
	"splitAfter": takes(text, text).optional(number).gives(list, splitting(strings.SplitAfterN)),
	"replace":    takes(text, text, text).optional(number).gives(text, replace),
	"repeat":     takes(text, number).gives(text, repeat),
	"join":       takes(list).optional(text).gives(text, join),
	"indexOf":    takes(text, text).gives(number, positions(strings.Index)),
	"lastIndexOf": takes(text, text).gives(number,
		positions(strings.LastIndex)),
	"hasPrefix": takes(text, text).gives(boolean, comparing(strings.HasPrefix)),
	"hasSuffix": takes(text, text).gives(boolean, comparing(strings.HasSuffix)),

	"replaceAll": takes(text, text, text).matching(1).gives(text, replaceAll),

	"max":    takes(number|list).repeated().gives(number|null, extreme("max", 1)),
	"min":    takes(number|list).repeated().gives(number|null, extreme("min", -1)),
	"mean":   takes(number|list).repeated().gives(number, mean),
	"median": takes(number|list).repeated().gives(number, median),

	"toJSON": takes(anyKind).gives(text, func(s *state, a []any) any {
		if str, ok := a[0].(string); ok {
			s.newString(len(str))
			return s.made(string(value.AppendString(nil, str)))
		}
		if a[0] == nil {
			return "null"
		}
		return s.text(a[0])
	}),
	"fromJSON": takes(text).gives(anyKind, fromJSON),
	"toBase64": takes(text).gives(text, made(func(str string) string {
		return base64.StdEncoding.EncodeToString([]byte(str))
	})),
	"fromBase64": takes(text).gives(text, fromBase64),
	"fromCSV":    takes(text).gives(list, fromCSV),

	"first": takes(list).gives(anyKind, func(_ *state, a []any) any { v, _ := member(a[0], int64(0)); return v }),
	"last":  takes(list).gives(anyKind, func(_ *state, a []any) any { v, _ := member(a[0], int64(-1)); return v }),
	"get": takes(list|dict|text|null, text|number).gives(anyKind, func(s *state, a []any) any {
		v, _ := s.member(a[0], a[1])
		return v
	}),
	"take": takes(list, number).gives(list, func(s *state, a []any) any {
		return s.slice(a[0], nil, int64(max(0, integer("the number of items", a[1]))))
	}),
	"reverse": takes(list).gives(list, func(s *state, a []any) any {
		l := s.copied(a[0])
		slices.Reverse(l)
		return l
	}),
	"concat":    takes(list).repeated().gives(list, concat),
	"converged": takes(list, number).gives(boolean, converged),
	"flatten": takes(list).gives(list, func(s *state, a []any) any {
		return s.flatten(s.newList(0), a[0].([]any), 0)
	}),
	"uniq": takes(list).gives(list, uniq),
	"sort": takes(list).optional(text).gives(list, func(s *state, a []any) any {
		l := s.copied(a[0])
		s.sort("sort", l, l, a[1:])
		return l
	}),

	"keys":   takes(dict).gives(list, entries(func(_ *state, k string, _ any) any { return k })),
	"values": takes(dict).gives(list, entries(func(_ *state, _ string, v any) any { return v })),
	"toPairs": takes(dict).gives(list, entries(func(s *state, k string, v any) any {
		return append(s.newList(2), k, v)
	})),
	"fromPairs": takes(list).gives(dict, fromPairs),
	"merge":     takes(dict, dict).gives(dict, merge),

	"all":           iterates(boolean, boolean, none(false)),
	"any":           iterates(boolean, boolean, some),
	"none":          iterates(boolean, boolean, none(true)),
	"one":           iterates(boolean, boolean, func(s *state, l *loop) any { return l.count(s, l.items(s)) == 1 }),
	"count":         iterates(boolean, number, func(s *state, l *loop) any { return l.count(s, l.items(s)) }),
	"find":          iterates(boolean, anyKind, item(false)),
	"findLast":      iterates(boolean, anyKind, item(true)),
	"findIndex":     iterates(boolean, number|null, index(false)),
	"findLastIndex": iterates(boolean, number|null, index(true)),
	"filter":        iterates(boolean, list, filter),
	"map":           iterates(anyKind, list, mapItems),
	"sum":           iterates(anyKind, number, sum),
	"groupBy":       iterates(anyKind, dict, groupBy),
	"sortBy":        iterates(anyKind, list, sortBy),
	"reduce":        iterates(anyKind, anyKind, reduce),
}

// weight is the work of reading a value once, without what is below it.
func weight(v any) int {
	switch v := v.(type) {
	case string:
		return 1 + len(v)/16
	case []any:
		return 1 + len(v)/8
	case map[string]any:
		return 1 + len(v)
	}
	return 1
}

// made pays for a string that was made of one of limited size.
func (s *state) made(str string) string {
	s.newString(len(str))
	return str
}

func (s *state) copied(v any) []any {
	l := v.([]any)
	return append(s.newList(len(l)), l...)
}

func typeName(v any) string {
	switch v := v.(type) {
	case nil:
		return "nil"
	case bool:
		return "bool"
	case int64, json.Number:
		return "int"
	case float64:
		if _, ok := number64(v).(int64); ok {
			return "int"
		}
		return "float"
	case string:
		return "string"
	case []any:
		return "array"
	}
	return "map"
}
