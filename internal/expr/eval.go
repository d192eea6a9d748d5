package expr

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"unicode/utf8"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/value"
)

// code is a compiled node. It reports failures by panicking with a failure, see fail.
type code func(s *state) any

// state is one evaluation.
type state struct {
	env    Env
	vars   []any // of let
	args   []any // stack of the arguments of calls
	frame  frame
	work   int // what is left of maxWork
	memory int // what is left of maxMemory

	pattern  string // the last computed regular expression
	compiled *pattern
}

// frame is what #, #index and #acc mean in the innermost predicate.
type frame struct {
	item  any
	index int
	acc   any
}

type failure struct{ err error }

func fail(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

// spend pays for n units of work.
func (s *state) spend(n int) {
	if s.work -= n; s.work < 0 {
		fail("it takes too much work: it was stopped")
	}
}

// alloc pays for n bytes of memory.
func (s *state) alloc(n int) {
	if s.memory -= n; s.memory < 0 {
		fail("it takes more than %d MiB of memory: it was stopped", maxMemory>>20)
	}
}

// newList pays for a list of n items.
func (s *state) newList(n int) []any {
	s.spend(n)
	s.alloc(24 + 16*n)
	return make([]any, 0, n)
}

// newString pays for a string of n bytes before it is made.
func (s *state) newString(n int) {
	if n > maxString {
		check(errTooLong)
	}
	s.alloc(n)
}

// text is v as it reads inside other text, its size checked before it is made.
func (s *state) text(v any) string {
	if v, ok := v.(string); ok {
		return v
	}
	text, err := render(v)
	check(err)
	s.spend(len(text) / 16)
	s.alloc(len(text))
	return text
}

var errTooLong = errors.New("a string is over the limit of 1 MiB")

var errTooMuch = fmt.Errorf("the texts of one value take more than %d MiB: it was stopped",
	templateFactor*maxMemory>>20)

// render is value.Text with a limit.
func render(v any) (string, error) {
	size, err := measure(v, 2, maxString, 0)
	if err != nil {
		return "", err
	}
	if size > maxString {
		return "", errTooLong
	}
	return value.Text(v)
}

// measure adds up the strings in v and each for every value, and stops soon after the limit: a value
// whose parts are shared may be exponentially larger when it is written out.
func measure(v any, each, limit, depth int) (int, error) {
	if depth > value.MaxDepth {
		return 0, fmt.Errorf("a value is nested more than %d deep", value.MaxDepth)
	}
	size := each
	switch v := v.(type) {
	case string:
		size += len(v)
	case json.Number:
		size += len(v)
	case []any:
		for _, e := range v {
			n, err := measure(e, each, limit-size, depth+1)
			if size += n; err != nil || size > limit {
				return size, err
			}
		}
	case map[string]any:
		for k, e := range v {
			n, err := measure(e, each, limit-size, depth+1)
			if size += n + len(k); err != nil || size > limit {
				return size, err
			}
		}
	}
	return size, nil
}

// expression is one compiled expression.
type expression struct {
	source string
	pos    diagnostics.Position
	path   *path // set for a plain path, which needs no state
	run    code
	vars   int  // how many let defines
	builds bool // it may make containers
	consts bool // it may give containers that are consts
	static static
	refs   []Ref
	wants  []Want
	secret string // instead of all that: the expression is secrets.NAME
}

var states = sync.Pool{New: func() any { return new(state) }}

// budget is what evaluations may still spend together.
type budget struct{ work, memory int }

func (e *expression) eval(env Env, b *budget) (any, error) {
	if e.path != nil {
		v, err := e.path.get(env)
		if err != nil {
			return nil, &Error{e.pos, e.source, err}
		}
		return v, nil
	}
	v, err := e.compute(env, b)
	if err != nil {
		return nil, &Error{e.pos, e.source, err}
	}
	return v, nil
}

func (e *expression) compute(env Env, b *budget) (v any, err error) {
	s := states.Get().(*state)
	s.env, s.work, s.memory = env, min(maxWork, b.work), min(maxMemory, b.memory)
	b.work, b.memory = b.work-s.work, b.memory-s.memory
	for range e.vars {
		s.vars = append(s.vars, nil)
	}
	defer func() {
		if r := recover(); r != nil {
			v, err = nil, asError(r)
		}
		b.work, b.memory = b.work+s.work, b.memory+s.memory
		clear(s.vars)
		clear(s.args[:cap(s.args)])
		*s = state{vars: s.vars[:0], args: s.args[:0], pattern: s.pattern, compiled: s.compiled}
		states.Put(s)
	}()
	v = e.run(s)
	if e.builds || e.consts {
		size, err := measure(v, 16, maxMemory, 0)
		check(err)
		s.alloc(size)
	}
	if e.consts {
		v = value.Clone(v)
	}
	return v, nil
}

// asError turns what was recovered into an error. What is not a failure is a mistake of this
// package, and still must not take the process down.
func asError(r any) error {
	if f, ok := r.(failure); ok {
		return f.err
	}
	return fmt.Errorf("internal error: %v", r)
}

// chars cuts s by characters.
func chars(s string, from, to int) string {
	start, n := len(s), 0
	for i := range s {
		if n == from {
			start = i
		}
		if n == to {
			return s[min(start, i):i]
		}
		n++
	}
	return s[start:]
}

func length(v any) int {
	switch v := v.(type) {
	case string:
		return utf8.RuneCountInString(v)
	case []any:
		return len(v)
	case map[string]any:
		return len(v)
	}
	fail("%s has no length", kindOf(v))
	return 0
}
