package soak

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// delayed are recipes whose process is taken from its run in a back-off that is longer than a lease.
var delayed = []recipe{
	{
		name:    "pay",
		text:    "steps:\n  pay: {retry: {max_attempts: 2, backoff: 22s}, " + request("pay", ", fail: 1, status: 503") + "}\n",
		effects: []string{"pay"},
	},
	{
		name: "undo",
		text: "steps:\n  hold: {retry: {max_attempts: 2, backoff: 22s}, " + request("hold", "") +
			", rollback: {" + request("undo", ", fail: 1, status: 503") + "}}\n" +
			"  no: {uses: fail, needs: [hold], with: {message: no, code: no}}\n",
		undone: []string{"undo"},
	},
}

// A process is stopped, or cut off from its store, between two attempts of a payment and for longer than a lease.
// Another one recovers the run, and somebody answers. Then the first one comes back: it pays nothing.
func TestOwnerThatLostItsRun(t *testing.T) {
	if !long() { // it waits for leases
		return
	}
	t.Parallel()
	w := newWorld(t)
	for i := range delayed {
		w.writeRecipe(&delayed[i])
	}
	rng := rand.New(rand.NewPCG(*seed, hash("owner")))
	for _, place := range []string{"jsonl", "sqlite", "postgres", "pgbouncer"} {
		decision := []string{"retry", "result", "fail"}[rng.IntN(3)]
		s := &soak{world: w, t: t, place: openStore(t, w, place)}
		for _, r := range delayed {
			ways := []string{"stopped"}
			if s.place.via != nil {
				ways = append(ways, "cut off")
			}
			for _, way := range ways {
				t.Run(fmt.Sprintf("trust 6.1/%s/%s/%s/%s", place, r.name, way, decision), func(t *testing.T) {
					t.Parallel()
					s := &soak{world: w, t: t, place: s.place}
					s.loseOwner(s.newRun(fmt.Sprintf("%s-%s-%s", place, r.name, way[:3]), &r), way, decision)
				})
			}
		}
	}
}

func (w *world) writeRecipe(r *recipe) {
	w.write(r.name+".yaml", fmt.Sprintf(head, r.name)+r.text, 0o644)
}

// newRun makes a run to which nothing happens by chance.
func (s *soak) newRun(id string, r *recipe) *run {
	s.world.write(id+".turns", turns, 0o644)
	made := &run{soak: s, id: id, recipe: r, rng: rand.New(rand.NewPCG(*seed, hash(id))), store: s.place,
		tokens: map[string]string{}}
	if s.place.via != nil {
		made.store = s.place.with(newProxy(s.t, s.place.via.target))
	}
	return made
}

// first starts the first process of the run.
func (r *run) first() *process {
	return r.start("run", r.recipe.name+".yaml", "--run-id", r.id, "--input", "run="+r.id, "--input", "url="+r.url)
}

func (s *soak) loseOwner(r *run, way, decision string) {
	a := r.first()
	path := append(slices.Clone(r.recipe.effects), r.recipe.undone...)[0]
	refused := func() bool {
		return s.busy[r.id] == 0 && slices.ContainsFunc(s.requests[r.id], func(e effect) bool { return e.path == path })
	}
	if !s.await(time.Minute, refused) {
		r.errorf("no request came")
	}
	pause(500 * time.Millisecond) // it has taken the answer, and waits to pay again
	if way == "stopped" {
		a.signal(syscall.SIGSTOP)
	} else {
		r.store.via.cut(true)
	}
	pause(leaseTime)
	b := s.newRun(r.id, r.recipe)
	out := b.recoverSoon()
	want := 1 // requests
	if path == "pay" {
		if len(out.Pauses) != 1 {
			r.errorf("it is not asked about the call in back-off: %s %v", out.Status, out.Error)
		}
		answer := []string{"runs", "answer", r.id, "pay", "--decision", decision}
		if decision == "result" {
			answer = append(answer, "--inputs-json", `{"status": 200, "headers": {}, "body": "did pay", "json": null}`)
		}
		out = b.say(answer...)
		if decision == "retry" {
			want = 2
		}
	} else if !slices.ContainsFunc(out.Found, func(d struct{ Code, Step string }) bool { return d.Code == "rollback.failed" }) {
		r.errorf("no diagnostic reports the rollback: %v", out.Found)
	}
	if end := map[bool]string{true: "error", false: "ok"}[path == "undo" || decision == "fail"]; out.Status != end {
		r.errorf("it ended with %s %v, want %s", out.Status, out.Error, end)
	}
	if way == "stopped" {
		a.signal(syscall.SIGCONT)
	}
	if code := r.end(a); code != 7 {
		r.errorf("the first process ended with %d, want 7: %s", code, a.stdout.String())
	}
	n := 0
	for _, e := range s.effects(r.id) {
		if e.path == path {
			n++
		}
	}
	if n != want {
		r.errorf("%s was requested %d times, want %d", path, n, want)
	}
}

// recoverSoon recovers the run, as soon as the lease of the first process has run out.
func (r *run) recoverSoon() outcome {
	for range 20 {
		if out := r.say("runs", "recover", r.id); out.Error.Code != "run.busy" {
			return out
		}
		pause(500 * time.Millisecond)
	}
	r.errorf("the lease of a process that does not move does not run out")
	return outcome{}
}

// say runs the command to its end and returns the outcome.
func (r *run) say(args ...string) (out outcome) {
	p := r.start(args...)
	r.end(p)
	if err := json.Unmarshal(p.stdout.Bytes(), &out); err != nil {
		r.errorf("%v: %v: %s", args, err, strings.TrimSpace(p.stderr.String()))
	}
	return out
}
