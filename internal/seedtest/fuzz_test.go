package seedtest

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
)

// inputs makes n inputs by a seed.
func inputs(seed uint64, n int) (all [][]any) {
	m := &mutator{rand.New(rand.NewPCG(seed, 1)), [][]any{
		{"one: 1\ntwo: [2, 3]\nthree: {four: five}\n", []byte("six, seven and eight"), true, 3, int64(4)}, {"nine: 10\n", []byte{}, false, 0, int64(0)}}}
	for range n {
		all = append(all, m.input())
	}
	return all
}

// One seed makes the same inputs each time, another one others. They have the types of the given ones, and many are distinct.
func TestInputs(t *testing.T) {
	one := inputs(1, 1000)
	if !reflect.DeepEqual(one, inputs(1, 1000)) {
		t.Error("one seed made other inputs")
	}
	if reflect.DeepEqual(one, inputs(2, 1000)) {
		t.Error("two seeds made the same inputs")
	}
	distinct := map[string]bool{}
	for _, in := range one {
		if got := fmt.Sprintf("%T %T %T %T %T", in...); got != "string []uint8 bool int int64" {
			t.Fatalf("an input of the types %s", got)
		}
		distinct[fmt.Sprintf("%q", in)] = true
	}
	if len(distinct) < 500 {
		t.Errorf("%d of 1000 inputs are distinct", len(distinct))
	}
}

// What is given stays as it is.
func TestGivenStays(t *testing.T) {
	m := &mutator{rand.New(rand.NewPCG(1, 1)), [][]any{{[]byte("abcdef"), "ghi"}}}
	for range 1000 {
		m.input()
	}
	if want := [][]any{{[]byte("abcdef"), "ghi"}}; !reflect.DeepEqual(m.given, want) {
		t.Errorf("given became %q", m.given)
	}
}
