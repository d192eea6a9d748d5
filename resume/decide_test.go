package resume_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/braise-run/braise/resume"
	"github.com/google/go-cmp/cmp"
)

// define reads a definition of words PATH=DIGEST<AFTER,AFTER.
func define(text string) (steps []resume.Step) {
	for _, word := range strings.Fields(text) {
		head, after, _ := strings.Cut(word, "<")
		path, digest, _ := strings.Cut(head, "=")
		s := resume.Step{Path: path, Digest: digest}
		if after != "" {
			s.After = strings.Split(after, ",")
		}
		steps = append(steps, s)
	}
	return steps
}

// record reads a record of words PATH=DIGEST.
func record(text string) map[string]string {
	recorded := map[string]string{}
	for _, s := range define(text) {
		recorded[s.Path] = s.Digest
	}
	return recorded
}

func TestDecide(t *testing.T) {
	for _, tt := range []struct {
		name, steps, recorded, again string
		want                         string // the paths that stand, sorted
	}{
		{"nothing", "", "", "", ""},
		{"nothing recorded", "a=1 b=1<a", "", "", ""},
		{"nothing changed", "a=1 b=1<a", "a=1 b=1", "", "a b"},
		{"unfinished", "a=1 b=1<a c=1<b", "a=1", "", "a"},
		{"changed at the end", "a=1 b=2<a", "a=1 b=1", "", "a"},
		{"changed at the start", "a=2 b=1<a c=1<b", "a=1 b=1 c=1", "", ""},
		{"changed beside", "a=1 b=2 c=1<a", "a=1 b=1 c=1", "", "a c"},
		{"one of two before", "a=1 b=2 c=1<a,b d=1<a", "a=1 b=1 c=1 d=1", "", "a d"},
		{"listed in any order", "c=1<b b=1<a a=2", "a=1 b=1 c=1", "", ""},
		{"added at the end", "a=1 b=1<a", "a=1", "", "a"},
		{"added before", "new=1 a=1<new b=1<a c=1", "a=1 b=1 c=1", "", "c"},
		{"removed", "b=1 c=1", "a=1 b=1 c=1", "", "b c"},
		{"removed, without a digest", "b=1", "a= b=1", "", "b"},
		{"before an unknown step", "a=1<gone b=1", "a=1 b=1", "", "b"},
		{"a cycle", "a=1<b b=1<a c=1", "a=1 b=2 c=1", "", "c"},

		{"items", "v=1 w=1<v", "v=1 v[0]=1 v[1]=1 w=1", "", "v v[0] v[1] w"},
		{"changed items", "v=2 w=1<v x=1", "v=1 v[0]=1 v[1]=1 w=1 x=1", "", "x"},
		{"an item recorded under another definition", "v=1 w=1<v", "v=1 v[0]=1 v[1]=2 w=1", "", ""},

		{"a body", "a=1 f=1<a f/left/x=1 f/left/y=1<f/left/x f/right/z=1 g=1<f",
			"a=1 f=1 f/left/x=1 f/left/y=1 f/right/z=1 g=1", "", "a f f/left/x f/left/y f/right/z g"},
		{"changed in a body", "a=1 f=1<a f/left/x=1 f/left/y=2<f/left/x f/right/z=1 g=1<f",
			"a=1 f=1 f/left/x=1 f/left/y=1 f/right/z=1 g=1", "", "a f/left/x f/right/z"},
		{"changed before a body", "a=2 f=1<a f/left/x=1 f/left/y=1<f/left/x f/right/z=1 g=1<f h=1",
			"a=1 f=1 f/left/x=1 f/left/y=1 f/right/z=1 g=1 h=1", "", "h"},
		{"the composite itself changed", "a=1 f=2<a f/left/x=1", "a=1 f=1 f/left/x=1", "", "a"},
		{"an unfinished body", "f=1 f/x=1 f/y=1<f/x g=1<f", "f=1 f/x=1", "", "f f/x"},
		{"a body in a body", "f=1 f/b/g=1 f/b/g/x=2 f/b/h=1 i=1<f", "f=1 f/b/g=1 f/b/g/x=1 f/b/h=1 i=1", "", "f/b/h"},
		{"from body to body", "f=1 f/x=2 g=1<f g/y=1 h=1", "f=1 f/x=1 g=1 g/y=1 h=1", "", "h"},
		{"a body of items", "v=1 v/a=1 v/b=2<v/a v/c=1", "v=1 v[0]=1 v[0]/a=1 v[0]/b=1 v[1]=1 v[1]/c=1", "", "v[0]/a v[1]/c"},
		{"a case that was not taken", "s=1 s/small/x=1 s/big/y=1 s/big/z=1<s/big/y t=1<s", "s=1 s/small/x=1 t=1", "", "s s/small/x t"},
		{"changed in a case that was not taken", "s=1 s/small/x=1 s/big/y=2 t=1<s", "s=1 s/small/x=1 t=1", "", "s s/small/x t"},

		{"rounds", "d=1 d/p=1 d/q=1<d/p e=1<d", "d=1 d#1/p=1 d#1/q=1 d#2/p=1 d#2/q=1 e=1", "", "d d#1/p d#1/q d#2/p d#2/q e"},
		{"a round depends on the one before", "d=1 d/p=1 d/q=2<d/p e=1<d", "d=1 d#1/p=1 d#1/q=1 d#2/p=1 d#2/q=1 e=1", "", "d#1/p"},
		{"rounds of items", "d=1 d/p=1 d/q=2", "d=1 d[0]=1 d[0]#1/p=1 d[0]#12/p=1 d[0]#2/q=1 d[1]#1/p=1", "", "d[0]#1/p d[1]#1/p"},
		{"a loop in a body", "f=1 f/d=1 f/d/p=1 f/d/q=2 f/x=1", "f=1 f/d=1 f/d#1/p=1 f/d#1/q=1 f/d#2/p=1 f/x=1", "", "f/d#1/p f/x"},
		{"a body in a loop", "d=1 d/f=1 d/f/b/x=1 d/f/b/y=2", "d=1 d#1/f=1 d#1/f/b/x=1 d#1/f/b/y=1 d#2/f=1 d#2/f/b/x=1", "", "d#1/f/b/x"},
		{"a changed body beside a loop", "f=1 f/d=1 f/d/p=1 f/x=2", "f=1 f/d=1 f/d#1/p=1 f/d#2/p=1 f/x=1", "", "f/d f/d#1/p f/d#2/p"},

		{"fork at the start", "a=1 b=1<a", "a=1 b=1", "a", ""},
		{"fork in the middle", "a=1 b=1<a c=1<b d=1<a", "a=1 b=1 c=1 d=1", "b", "a d"},
		{"fork at a step that did not begin", "a=1 b=1<a", "a=1", "b", "a"},
		{"fork in a body", "f=1 f/x=1 f/y=1<f/x g=1<f", "f=1 f/x=1 f/y=1 g=1", "f/y", "f/x"},
		{"fork at an item", "v=1 w=1", "v=1 v[0]=1 v[1]=1 w=1", "v[1]", "w"},
		{"fork at two steps", "a=1 b=1 c=1", "a=1 b=1 c=1", "a c", "b"},
		{"fork with an edit", "a=1 b=2 c=1 d=1<b,c", "a=1 b=1 c=1 d=1", "c", "a"},
		{"fork in a case that was not taken", "s=1 s/small/x=1 s/big/y=1 t=1<s", "s=1 s/small/x=1 t=1", "s/big/y", "s s/small/x t"},
		{"fork at no step", "a=1", "a=1", "x", "a"},
	} {
		stands := resume.Decide(define(tt.steps), record(tt.recorded), strings.Fields(tt.again)...)
		for path, ok := range stands {
			if !ok {
				t.Errorf("%s: %s is present and false", tt.name, path)
			}
		}
		if diff := cmp.Diff(strings.Fields(tt.want), slices.Sorted(maps.Keys(stands)), cmp.Transformer("join", func(p []string) string { return strings.Join(p, " ") })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestDefinitionPath(t *testing.T) {
	for _, tt := range []struct{ path, want string }{
		{"", ""},
		{"a", "a"},
		{"a/b/c", "a/b/c"},
		{"verify[2]/check", "verify/check"},
		{"draft#3/score", "draft/score"},
		{"d[0]#12/p[10]/q", "d/p/q"},
		{"each[1]!rollback", "each!rollback"}, // of an item, and of no step
		{"a[x]", "a[x]"},
		{"a#", "a#"},
		{"a[1", "a[1"},
	} {
		if got := resume.DefinitionPath(tt.path); got != tt.want {
			t.Errorf("DefinitionPath(%q) = %q, want %q", tt.path, got, tt.want)
		}
	}
}

// Whatever changed, nothing that stands follows from a step that does not, and a step falls only
// for a reason.
func TestDecideOnRandomGraphs(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 0))
		var steps []resume.Step
		recorded, changed := map[string]string{}, map[string]bool{}
		for i := range r.IntN(30) {
			s := resume.Step{Path: fmt.Sprint("s", i), Digest: "1"}
			for j := range i {
				if r.IntN(6) == 0 {
					s.After = append(s.After, fmt.Sprint("s", j))
				}
			}
			steps, recorded[s.Path] = append(steps, s), "1"
			if r.IntN(8) == 0 {
				recorded[s.Path], changed[s.Path] = "0", true
			}
		}
		stands := map[string]bool{}
		for _, s := range steps { // in order, so what is before a step is known
			if !changed[s.Path] && !slices.ContainsFunc(s.After, func(a string) bool { return !stands[a] }) {
				stands[s.Path] = true
			}
		}
		r.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
		if diff := cmp.Diff(stands, resume.Decide(steps, recorded)); diff != "" {
			t.Fatalf("seed %d (-want +got):\n%s", seed, diff)
		}
	}
}

func ExampleDecide() {
	steps := []resume.Step{
		{Path: "fetch", Digest: "f1"},
		{Path: "draft", Digest: "d2", After: []string{"fetch"}}, // it was d1 when the run began
		{Path: "send", Digest: "s1", After: []string{"draft"}},
	}
	stands := resume.Decide(steps, map[string]string{"fetch": "f1", "draft": "d1", "send": "s1"})
	fmt.Println(stands)
	// Output: map[fetch:true]
}

// A long chain, last step first.
func BenchmarkDecide(b *testing.B) {
	var steps []resume.Step
	recorded := map[string]string{"s0": "changed"}
	for i := range 10_000 {
		s := resume.Step{Path: fmt.Sprint("s", i), Digest: "1"}
		if i > 0 {
			s.After, recorded[s.Path] = []string{fmt.Sprint("s", i-1)}, "1"
		}
		steps = append(steps, s)
	}
	slices.Reverse(steps)
	for b.Loop() {
		if got := resume.Decide(steps, recorded); len(got) > 0 {
			b.Fatal(got)
		}
	}
}
