package seedtest

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"testing"
)

// F is a fuzz target whose inputs of go test, without -fuzz, are more than those that it adds itself:
// BRAISE_TEST_FUZZ, a number, says how many are made of them by chance, which [Seed] and the target's name decide.
//
//	func FuzzParse(target *testing.F) {
//		f := seedtest.Fuzz(target)
//		f.Add("x: 1")
//		f.Fuzz(func(t *testing.T, text string) { … })
//	}
//
// What go test -fuzz tries depends on the time that inputs take, so that a gate cannot be certain of it.
type F struct {
	*testing.F
	added [][]any
}

var made = number("BRAISE_TEST_FUZZ")

// Fuzz returns a target with what [F] promises.
func Fuzz(target *testing.F) *F { return &F{F: target} }

// Add is like that of [testing.F].
func (f *F) Add(args ...any) {
	f.Helper()
	f.F.Add(args...)
	f.added = append(f.added, args)
}

// Fuzz is like that of [testing.F]. Inputs that it makes may be of the types string, []byte, bool, int and int64.
func (f *F) Fuzz(target any) {
	f.Helper()
	h := fnv.New64a()
	h.Write([]byte(f.Name()))
	m := &mutator{rand.New(rand.NewPCG(Seed, h.Sum64())), f.added}
	for i := uint64(0); i < made && len(f.added) > 0; i++ {
		f.F.Add(m.input()...)
	}
	f.F.Fuzz(target)
}

// mutator makes inputs of given ones.
type mutator struct {
	*rand.Rand
	given [][]any
}

// input changes one to four things in a given input.
func (m *mutator) input() []any {
	args := slices.Clone(m.pick())
	for range 1 + m.IntN(4) {
		i := m.IntN(len(args))
		switch v := args[i].(type) {
		case string:
			args[i] = string(m.text([]byte(v), i))
		case []byte:
			args[i] = m.text(slices.Clone(v), i)
		case bool:
			args[i] = !v
		case int:
			args[i] = int(m.integer(int64(v)))
		case int64:
			args[i] = m.integer(v)
		default:
			panic(fmt.Sprintf("seedtest: an input of type %T", v))
		}
	}
	return args
}

func (m *mutator) pick() []any { return m.given[m.IntN(len(m.given))] }

func (m *mutator) integer(n int64) int64 {
	bounds := []int64{0, 1, -1, 127, 255, 256, 1 << 15, 1<<31 - 1, 1 << 31, -1 << 31, 1<<63 - 1, -1 << 63}
	switch m.IntN(3) {
	case 0:
		return n + int64(m.IntN(21)) - 10
	case 1:
		return bounds[m.IntN(len(bounds))]
	}
	return int64(m.Uint64())
}

// odd are texts that parsers stumble over.
var odd = []string{"\x00", "\xff", "\ufeff", "\u2028", "\U0001f600", "\r\n", "\n", "\t", " ", "\"", "'", "\\", "{",
	"}", "[", "]", ":", ",", "#", "-", "?", "${{", "}}", "0",
	"-0", "1e999", "9223372036854775808", "null", "true", "..", "%"}

// text changes the i-th value of an input, which is a text; it may change b.
func (m *mutator) text(b []byte, i int) []byte {
	at := m.IntN(len(b) + 1)
	to := at + min(m.IntN(9), len(b)-at)
	if m.IntN(4) == 0 {
		to = at + m.IntN(len(b)-at+1)
	}
	piece := b[at:to]
	switch m.IntN(8) {
	case 0: // a piece goes
		return slices.Delete(b, at, to)
	case 1: // a piece comes twice, or often
		return slices.Insert(b, to, slices.Repeat(piece, 1+m.IntN(3)*m.IntN(400)/max(1, len(piece)))...)
	case 2: // a piece is somewhere else, too
		return slices.Insert(b, m.IntN(len(b)+1), slices.Clone(piece)...)
	case 3:
		return slices.Insert(b, at, []byte(odd[m.IntN(len(odd))])...)
	case 4:
		return slices.Replace(b, at, to, []byte(odd[m.IntN(len(odd))])...)
	case 5: // the rest is that of another input
		var other []byte
		switch v := m.pick()[i].(type) {
		case string:
			other = []byte(v)
		case []byte:
			other = v
		}
		return append(b[:at], other[m.IntN(len(other)+1):]...)
	case 6:
		if at < len(b) {
			b[at] ^= 1 << m.IntN(8)
		}
		return b
	default:
		if at < len(b) {
			b[at] = byte(m.IntN(256))
		}
		return b
	}
}
