package files_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/files"
)

// What a run has shown a model, kept for as long as the run is.
func Example() {
	ctx, store := context.Background(), &checkpoint.Memory{}
	lease, err := store.Create(ctx, checkpoint.Run{ID: "r1", Recipe: "receipts", Digest: "d", StartedAt: time.Now()}, "me", time.Minute)
	if err != nil {
		log.Fatal(err)
	}
	sum, err := files.Put(ctx, store, "r1", []byte("# Price list"))
	if err != nil {
		log.Fatal(err)
	}
	text, err := files.Get(ctx, store, sum)
	fmt.Println(sum[:8], string(text), err)

	store.Release(ctx, lease)
	store.Delete(ctx, "r1")
	fmt.Println(files.DeleteUnused(ctx, store)) // not yet: the run was given it just now
	// Output:
	// 4e935ca6 # Price list <nil>
	// 0 <nil>
}

// printf hi | sha256sum
const hi = "8f434346648f6b96df89dda901c5176b10a6d83961dd3c1ac88b59b2dc327aa4"

func store(t *testing.T, runs ...string) *checkpoint.Memory {
	t.Helper()
	s := &checkpoint.Memory{}
	for _, id := range runs {
		if _, err := s.Create(t.Context(), checkpoint.Run{ID: id, Recipe: "r", Digest: "d", StartedAt: time.Now()}, "me", 0); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func put(t *testing.T, s *checkpoint.Memory, run, content string) (sum string) {
	t.Helper()
	sum, err := files.Put(t.Context(), s, run, []byte(content))
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// holds checks which collections there are, with X for a place.
func holds(t *testing.T, s *checkpoint.Memory, want ...string) {
	t.Helper()
	names, err := s.Collections(t.Context(), "")
	for i, name := range names {
		if rest, ok := strings.CutPrefix(name, "content/"); ok {
			sum, _, _ := strings.Cut(rest, "/")
			names[i] = "content/" + sum + "/X"
		}
	}
	if diff := cmp.Diff(want, names); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
}

func TestContentIsKeptOnce(t *testing.T) {
	s := store(t, "a", "b")
	if sum := put(t, s, "a", "hi"); sum != hi || files.Sum([]byte("hi")) != hi {
		t.Errorf("got %s", sum)
	}
	put(t, s, "a", "hi")
	put(t, s, "b", "hi")
	holds(t, s, "content/"+hi+"/X", "files/"+hi)
	if got, err := files.Get(t.Context(), s, hi); err != nil || string(got) != "hi" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := files.Put(t.Context(), s, "a", make([]byte, files.MaxBytes+1)); !errors.Is(err, checkpoint.ErrInvalid) ||
		!strings.Contains(err.Error(), "20971521 bytes, 20971520 are allowed") {
		t.Error(err)
	}
}

// races is a store in which other processes come first.
type races struct {
	*checkpoint.Memory
	beforeSwap func()
}

func (r *races) SwapDocument(ctx context.Context, collection, name string, old, text *string) error {
	if f := r.beforeSwap; f != nil {
		r.beforeSwap = nil
		f()
	}
	return r.Memory.SwapDocument(ctx, collection, name, old, text)
}

func TestWritersAtOnce(t *testing.T) {
	s := store(t, "a", "b")
	r := &races{Memory: s, beforeSwap: func() { put(t, s, "b", "hi") }}
	if _, err := files.Put(t.Context(), r, "a", []byte("hi")); err != nil {
		t.Fatal(err)
	}
	holds(t, s, "content/"+hi+"/X", "files/"+hi) // that of a is gone again
	given(t, s, hi, "a", "b")
}

// given checks which runs have a content.
func given(t *testing.T, s *checkpoint.Memory, sum string, want ...string) {
	t.Helper()
	all, err := s.Documents(t.Context(), "files/"+sum)
	got := []string{}
	for _, d := range all {
		if run, ok := strings.CutPrefix(d.Name, "run "); ok {
			got = append(got, run)
		}
	}
	slices.Sort(got)
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
}

func TestUnusedContentGoes(t *testing.T) {
	for _, tt := range []struct {
		name string
		then func(t *testing.T, s *checkpoint.Memory)
		age  time.Duration
		want int
	}{
		{"a run that is there", nil, time.Hour, 0},
		{"a run that may come", func(t *testing.T, s *checkpoint.Memory) { remove(t, s, "a") }, time.Minute, 0},
		{"a run that is gone", func(t *testing.T, s *checkpoint.Memory) { remove(t, s, "a") }, time.Hour, 1},
		{"one of two", func(t *testing.T, s *checkpoint.Memory) {
			put(t, s, "b", "hi")
			remove(t, s, "a")
		}, time.Hour, 0},
		{"both", func(t *testing.T, s *checkpoint.Memory) {
			if err := files.Share(t.Context(), s, "b", hi); err != nil {
				t.Error(err)
			}
			remove(t, s, "a")
			remove(t, s, "b")
		}, time.Hour, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := store(t, "a", "b")
				put(t, s, "a", "hi")
				if tt.then != nil {
					tt.then(t, s)
				}
				time.Sleep(tt.age)
				n, err := files.DeleteUnused(t.Context(), s)
				if n != tt.want || err != nil {
					t.Errorf("%d went, %v; want %d", n, err, tt.want)
				}
				if tt.want == 1 {
					holds(t, s)
				} else if got, err := files.Get(t.Context(), s, hi); err != nil || string(got) != "hi" {
					t.Errorf("%q, %v", got, err)
				}
			})
		})
	}
}

func remove(t *testing.T, s *checkpoint.Memory, run string) {
	t.Helper()
	if err := s.Delete(t.Context(), run); err != nil {
		t.Error(err)
	}
}

// turns is a store whose calls wait for their turn, so that a test says in which order those of two processes come.
type turns struct {
	*checkpoint.Memory
	next, done chan struct{}
}

func (s turns) turn() func() {
	<-s.next
	return func() { s.done <- struct{}{} }
}

func (s turns) PutDocument(ctx context.Context, collection string, d checkpoint.Document) error {
	defer s.turn()()
	return s.Memory.PutDocument(ctx, collection, d)
}

func (s turns) Documents(ctx context.Context, collection string) ([]checkpoint.Document, error) {
	defer s.turn()()
	return s.Memory.Documents(ctx, collection)
}

func (s turns) Document(ctx context.Context, collection, name string) (string, bool, error) {
	defer s.turn()()
	return s.Memory.Document(ctx, collection, name)
}

func (s turns) SwapDocument(ctx context.Context, collection, name string, old, text *string) error {
	defer s.turn()()
	return s.Memory.SwapDocument(ctx, collection, name, old, text)
}

func (s turns) DeleteDocuments(ctx context.Context, collection string) error {
	defer s.turn()()
	return s.Memory.DeleteDocuments(ctx, collection)
}

// interleave lets two processes use a store, whose calls come in an order that is given by the choices of false (the
// first one's) and true; where these end, the first one comes while it lasts. It returns the choices that there were.
func interleave(s *checkpoint.Memory, choices []bool, processes [2]func(files.Store)) (made []bool) {
	var of [2]turns
	var ended [2]chan struct{}
	for i, run := range processes {
		of[i], ended[i] = turns{s, make(chan struct{}), make(chan struct{})}, make(chan struct{})
		go func() {
			defer close(ended[i])
			run(of[i])
		}()
	}
	for over := [2]bool{}; !over[0] || !over[1]; {
		i, free := 0, !over[0] && !over[1]
		if over[0] || free && len(made) < len(choices) && choices[len(made)] {
			i = 1
		}
		select {
		case of[i].next <- struct{}{}:
			<-of[i].done
			if free {
				made = append(made, i == 1)
			}
		case <-ended[i]:
			over[i] = true
		}
	}
	return made
}

// A run gets a content while two processes, or one, remove it: it has it afterwards, in whatever order the calls of
// theirs come.
func TestContentThatIsWantedAgain(t *testing.T) {
	use := func(run string) func(s files.Store) {
		return func(s files.Store) {
			if _, err := files.Put(t.Context(), s, run, []byte("hi")); err != nil {
				t.Error(err)
			}
		}
	}
	clean := func(s files.Store) {
		if _, err := files.DeleteUnused(t.Context(), s); err != nil {
			t.Error(err)
		}
	}
	for _, tt := range []struct {
		name      string
		processes [2]func(files.Store)
		want      []string // the runs that have it
	}{
		{"used and removed", [2]func(files.Store){use("b"), clean}, []string{"b"}},
		{"used by a run that had it", [2]func(files.Store){use("a"), clean}, []string{"a"}},
		{"used twice", [2]func(files.Store){use("b"), use("c")}, []string{"a", "b", "c"}},
		{"removed twice", [2]func(files.Store){clean, clean}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			orders := 0
			for choices := []bool{}; choices != nil; orders++ {
				synctest.Test(t, func(t *testing.T) {
					s := store(t, "a", "b")
					put(t, s, "a", "hi")
					remove(t, s, "a")
					time.Sleep(time.Hour)
					choices = following(interleave(s, choices, tt.processes))
					if tt.want == nil {
						holds(t, s)
						return
					}
					holds(t, s, "content/"+hi+"/X", "files/"+hi)
					given(t, s, hi, tt.want...)
					if got, err := files.Get(t.Context(), s, hi); err != nil || string(got) != "hi" {
						t.Fatalf("%q, %v", got, err)
					}
				})
				if t.Failed() {
					t.Fatalf("before %v", choices)
				}
			}
			t.Log(orders, "orders")
		})
	}
}

// following returns the choices after these ones, in the order of numbers; nil after the last.
func following(choices []bool) []bool {
	for i, second := range slices.Backward(choices) {
		if !second {
			return append(slices.Clone(choices[:i]), true)
		}
	}
	return nil
}

// What a process left that died between two writes goes after a day.
func TestLostContentGoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := store(t, "a")
		ctx, cancel := context.WithCancel(t.Context())
		r := &races{Memory: s, beforeSwap: cancel}
		if _, err := files.Put(ctx, dead{r}, "a", []byte("hi")); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		holds(t, s, "content/"+hi+"/X", "files/"+hi)
		put(t, s, "a", "hi")
		for _, want := range []int{0, 1, 0} {
			if n, err := files.DeleteUnused(t.Context(), s); n != want || err != nil {
				t.Errorf("%d went, %v; want %d", n, err, want)
			}
			time.Sleep(25 * time.Hour)
		}
		if got, err := files.Get(t.Context(), s, hi); err != nil || string(got) != "hi" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// dead is a store of a process that can remove nothing any more.
type dead struct{ *races }

func (dead) DeleteDocuments(context.Context, string) error { return errors.New("it is dead") }

// An earlier version had one document for all runs of a content.
func TestContentOfAnEarlierVersion(t *testing.T) {
	for name, does := range map[string]func(s *checkpoint.Memory) error{
		"get": func(s *checkpoint.Memory) error { _, err := files.Get(t.Context(), s, hi); return err },
		"delete": func(s *checkpoint.Memory) error {
			if n, err := files.DeleteUnused(t.Context(), s); n != 0 {
				return fmt.Errorf("%d went, %w", n, err)
			}
			return nil
		},
		"put":  func(s *checkpoint.Memory) error { _, err := files.Put(t.Context(), s, "a", []byte("hi")); return err },
		"copy": func(s *checkpoint.Memory) error { _, err := files.Copy(t.Context(), s, store(t, "b")); return err },
	} {
		t.Run(name, func(t *testing.T) {
			s := store(t, "a", "b")
			for _, d := range []checkpoint.Document{{Name: "made", Text: "2026-01-02T03:04:05Z"}, {Name: "data", Text: "aGk="}} {
				if err := s.PutDocument(t.Context(), "content/"+hi+"/1-x", d); err != nil {
					t.Fatal(err)
				}
			}
			err := s.PutDocument(t.Context(), "files/"+hi, checkpoint.Document{Name: "runs",
				Text: `{"in":"1-x","at":"2026-01-02T03:04:05Z","runs":["a","b"]}`})
			if err != nil {
				t.Fatal(err)
			}
			if err := does(s); err != nil {
				t.Error(err)
			}
			given(t, s, hi, "a", "b")
			if got, err := files.Get(t.Context(), s, hi); err != nil || string(got) != "hi" {
				t.Errorf("%q, %v", got, err)
			}
			if _, ok, err := s.Document(t.Context(), "files/"+hi, "runs"); ok || err != nil {
				t.Errorf("the document of the earlier version is there: %v, %v", ok, err)
			}
		})
	}
}

func TestDamagedContent(t *testing.T) {
	for _, tt := range []struct {
		name, collection, document, text string
		want                             error
	}{
		{"other bytes", "content", "data", "aG8=", checkpoint.ErrCorrupt},
		{"no base64", "content", "data", "~", checkpoint.ErrCorrupt},
		{"no JSON", "files", "place", "{", checkpoint.ErrCorrupt},
		{"no place", "files", "place", "{}", checkpoint.ErrCorrupt},
		{"another place", "files", "place", `{"in": "1-x"}`, checkpoint.ErrNotFound},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := store(t, "a")
			put(t, s, "a", "hi")
			in, err := s.Collections(t.Context(), tt.collection+"/")
			if err != nil || len(in) != 1 {
				t.Fatal(in, err)
			}
			if err := s.PutDocument(t.Context(), in[0], checkpoint.Document{Name: tt.document, Text: tt.text}); err != nil {
				t.Fatal(err)
			}
			if got, err := files.Get(t.Context(), s, hi); !errors.Is(err, tt.want) || !strings.Contains(err.Error(), hi) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

func TestCopy(t *testing.T) {
	from, to := store(t, "a", "b"), store(t, "b", "c")
	put(t, from, "a", "only a has it")
	put(t, from, "b", "hi")
	put(t, from, "b", "both have it")
	put(t, to, "c", "both have it")
	for _, want := range []int{1, 0} {
		if n, err := files.Copy(t.Context(), from, to); n != want || err != nil {
			t.Errorf("%d copied, %v; want %d", n, err, want)
		}
	}
	for content, want := range map[string]error{"only a has it": checkpoint.ErrNotFound, "hi": nil, "both have it": nil} {
		got, err := files.Get(t.Context(), to, files.Sum([]byte(content)))
		if !errors.Is(err, want) || want == nil && !bytes.Equal(got, []byte(content)) {
			t.Errorf("%s: %q, %v", content, got, err)
		}
	}
	given(t, to, files.Sum([]byte("both have it")), "b", "c")
}
