package soak

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/resume"
)

// flood is runs that begin at a rate, whatever becomes of those before.
type flood struct {
	*fleet
	servers  []*server
	recipes  []*recipe
	lasts    time.Duration // of the starts
	rate     int           // starts a second
	every    time.Duration // time from one disturbance of a server to the next
	clients  sync.WaitGroup
	begun    int
	answered int // questions

	killed, ended, stopped atomic.Int32 // servers
	repeated               atomic.Int32 // starts that were sent once more

	lock     sync.Mutex        // guards the rest
	accepted map[string]string // key of the start -> id of the run
	keys     map[string]string // and back
	took     latencies         // of all starts, from when they were to be sent until they were accepted
	direct   latencies         // of those that the first server accepted
}

// latencies are how long something took, each time.
type latencies []time.Duration

// String returns the median and the 99th percentile.
func (l latencies) String() string {
	if len(l) == 0 {
		return "none"
	}
	sorted := slices.Sorted(slices.Values(l))
	at := func(percent int) time.Duration { return sorted[len(l)*percent/100].Round(time.Millisecond / 10) }
	return fmt.Sprintf("p50 %v, p99 %v", at(50), at(99))
}

// newFlood starts three servers on one store, which have recipes.
func newFlood(t *testing.T, place string, of []*recipe, args ...string) *flood {
	t.Helper()
	f := &flood{fleet: newFleet(t, place, ""), recipes: of, accepted: map[string]string{}, keys: map[string]string{}}
	for _, r := range of {
		f.writeRecipe(r)
		args = append(args, r.name+".yaml")
	}
	for range 3 {
		f.servers = append(f.servers, f.serves(args...))
	}
	return f
}

// Three servers share a store while runs of every kind begin at a steady rate, and one of the servers is killed, told to
// end, or stopped for longer than a lease, again and again.
func TestServersKilled(t *testing.T) {
	t.Parallel()
	var all []*recipe
	for i := range recipes {
		if recipes[i].name != "agent" { // whose model knows its run
			all = append(all, &recipes[i])
		}
	}
	for _, place := range []string{"sqlite", "postgres"} {
		t.Run("serve 12.3/"+place, func(t *testing.T) {
			t.Parallel()
			f := newFlood(t, place, all, "--max-runs", "8")
			f.lasts, f.rate = within(8*time.Second, min(*duration, time.Minute)), 6
			f.every = within(2*time.Second, 5*time.Second)
			f.run()
		})
	}
}

// sale is a run of one call that has an effect.
var sale = recipe{name: "sale", text: "steps:\n  pay: {" + request("pay", "") + "}\noutput: ${{ steps.pay.output.body }}\n",
	effects: []string{"pay"}, status: "ok", output: "did pay"}

// The same with many short runs, so that each moment of many of them meets the end of a server.
func TestFleet(t *testing.T) {
	if *rate == 0 { // else it measures, one store after the other
		t.Parallel()
	}
	for _, place := range []string{"sqlite", "postgres"} {
		t.Run("serve 12.3/"+place, func(t *testing.T) {
			if *rate == 0 {
				t.Parallel()
			}
			f := newFlood(t, place, []*recipe{&sale})
			f.lasts, f.rate, f.every = within(8*time.Second, 20*time.Second), 25, within(2*time.Second, 5*time.Second)
			if *rate > 0 {
				f.lasts, f.rate = *duration, *rate
			}
			f.run()
		})
	}
}

// run begins runs and disturbs servers. Each start that was accepted is one run. Each run ends, and no effect happens
// twice. Somebody is asked about calls of servers that were killed, and says what the log of effects says.
func (f *flood) run() {
	began := time.Now()
	var answering sync.WaitGroup
	over := make(chan struct{})
	answering.Go(func() { f.answerAll(over) })
	f.flow()
	accepted, open := time.Since(began), f.open()
	f.t.Logf("%s: %d starts in %v, %d of the runs have not ended", f.place.name, f.begun, accepted.Round(time.Millisecond), open)
	close(over)
	answering.Wait()
	ended := time.Since(began)
	f.compare()
	f.t.Logf("%s: %d runs, %.0f starts/s accepted; all starts: %v; the %d that the first server accepted: %v; "+
		"%d times a start was sent once more; all runs ended after %v, %.0f/s; "+
		"servers: %d killed, %d ended, %d stopped past their leases; %d questions",
		f.place.name, f.begun, float64(f.begun)/accepted.Seconds(), f.took, len(f.direct), f.direct,
		f.repeated.Load(), ended.Round(time.Second), float64(f.begun)/ended.Seconds(),
		f.killed.Load(), f.ended.Load(), f.stopped.Load(), f.answered)
}

// flow begins runs at their times, disturbs a server now and then, and waits until each start is accepted.
func (f *flood) flow() {
	rng := rand.New(rand.NewPCG(*seed, hash(f.place.name)))
	began := time.Now()
	for hits := 0; ; f.begun++ {
		at := time.Duration(f.begun) * time.Second / time.Duration(f.rate)
		if at >= f.lasts {
			break
		}
		pause(time.Until(began.Add(at)))
		n := f.begun
		f.clients.Go(func() { f.begin(n, began.Add(at)) })
		if int(at/f.every) > hits {
			f.disturb(f.servers[rng.IntN(len(f.servers))], hits)
			hits++
		}
	}
	f.clients.Wait()
}

// disturb kills a server, tells it to end, or stops it for longer than a lease: n chooses what.
func (f *flood) disturb(s *server, n int) {
	if !s.hit.TryLock() { // it is stopped, or not back yet
		return
	}
	f.clients.Go(func() {
		defer s.hit.Unlock()
		switch {
		case n%3 == 1:
			f.ended.Add(1)
			if code := s.stop(syscall.SIGTERM); code != 0 {
				f.t.Errorf("SIGTERM: exit code %d", code)
			}
			s.start()
		case n%3 == 2 && long() && *stops:
			f.stopped.Add(1)
			s.signal(syscall.SIGSTOP)
			pause(leaseTime)
			s.signal(syscall.SIGCONT)
		default:
			f.killed.Add(1)
			s.stop(syscall.SIGKILL)
			s.start()
		}
	})
}

// begin is a client that starts a run, at one server after the other until one accepts it.
func (f *flood) begin(n int, at time.Time) {
	key := fmt.Sprintf("%s-%d", f.place.name, n)
	path := "/api/v1/recipes/" + f.recipes[n%len(f.recipes)].name + "/runs"
	for try := range 100 {
		a, err := f.servers[(n+try)%len(f.servers)].send(operator, "POST", path,
			map[string]any{"inputs": map[string]any{"run": key, "url": f.world.url}}, "Idempotency-Key", key)
		var out struct{ RunID string }
		switch {
		case err != nil || a.status == http.StatusServiceUnavailable || a.status == http.StatusTooManyRequests:
			f.repeated.Add(1)
			pause(time.Duration(min(1+try, 20)) * 100 * time.Millisecond)
			continue
		case a.status != http.StatusAccepted && (try == 0 || a.status != http.StatusOK):
			f.t.Errorf("start %s, try %d: %d %s", key, try, a.status, a.body)
		case json.Unmarshal(a.body, &out) != nil || out.RunID == "":
			f.t.Errorf("start %s: %s", key, a.body)
		}
		f.lock.Lock()
		defer f.lock.Unlock()
		f.accepted[key], f.keys[out.RunID] = out.RunID, key
		took := time.Since(at)
		f.took = append(f.took, took)
		if try == 0 {
			f.direct = append(f.direct, took)
		}
		return
	}
	f.t.Errorf("start %s is not accepted", key)
}

// answerAll answers what is asked, at any server, until no more runs begin and all have ended.
func (f *flood) answerAll(over chan struct{}) {
	least, since, told := math.MaxInt, time.Now(), time.Now()
	for try := 0; ; try++ {
		s := f.servers[try%len(f.servers)]
		a, err := s.send(operator, "GET", "/api/v1/pauses?limit=200", nil)
		var list struct {
			Pauses []struct {
				RunID, Recipe, ID, Step, Reason string
				Kind                            resume.Kind
			}
		}
		if err == nil && a.status == http.StatusOK && json.Unmarshal(a.body, &list) == nil {
			for _, p := range list.Pauses {
				f.answer(s, p.RunID, p.Recipe, resume.Pause{ID: p.ID, Step: p.Step, Kind: p.Kind, Reason: p.Reason})
			}
		}
		pause(100 * time.Millisecond)
		select {
		default:
			since = time.Now()
			continue
		case <-over:
		}
		open := f.open()
		if open < least {
			least, since = open, time.Now()
		}
		switch {
		case open == 0:
			return
		case time.Since(since) > 2*time.Minute:
			f.t.Errorf("%d runs do not end: there were as many two minutes ago", open)
			return
		case time.Since(told) > 10*time.Second:
			told = time.Now()
			f.t.Logf("%s: %d runs have not ended", f.place.name, open)
		}
		pause(time.Duration(min(open, 3000)) * time.Millisecond) // counting many takes the database long
	}
}

// open is how many runs have not ended.
func (f *flood) open() (open int) {
	n, err := f.journal.Count(f.t.Context(), checkpoint.Filter{Phases: []checkpoint.Phase{checkpoint.PhaseQueued,
		checkpoint.PhaseRunning, checkpoint.PhaseWaiting, checkpoint.PhaseInterrupted}}, 1e6)
	if err != nil {
		f.t.Error(err)
	}
	return total(n)
}

// total is how many runs there are in all phases.
func total(n map[checkpoint.Phase]int) (all int) {
	for _, some := range n {
		all += some
	}
	return all
}

// answer answers one pause: about calls, somebody looks first into what really happened.
func (f *flood) answer(s *server, id, name string, p resume.Pause) {
	r := f.recipes[slices.IndexFunc(f.recipes, func(r *recipe) bool { return r.name == name })]
	path := "/api/v1/runs/" + id + "/pauses/" + url.PathEscape(p.ID) + "/answer"
	var body map[string]any
	f.lock.Lock()
	key := f.keys[id]
	f.lock.Unlock()
	switch {
	case key == "": // who started it has not heard of it
		return
	case p.Reason == "indeterminate":
		f.answered++
		f.settle(key)
		if all := f.effects(key); count(all, p.Step) == 0 {
			body = map[string]any{"decision": "retry"}
		} else {
			body = map[string]any{"decision": "result", "form": resultOf(all, p.Step)}
		}
	case p.Kind == resume.Human && r.answers[p.Step] != "":
		body = map[string]any{"decision": r.answers[p.Step]}
	case p.Kind == resume.External && p.Reason == r.sent && r.sent != "":
		path, body = "/api/v1/runs/"+id+"/channels/"+r.sent, map[string]any{"value": "a letter"}
	default:
		return
	}
	a, err := s.send(operator, "POST", path, body)
	if err == nil && a.status >= 400 && a.status < 500 && a.status != http.StatusConflict { // an answer before whose response was lost
		f.t.Errorf("answer %v to %s of run %s: %d %s", body, p.Step, id, a.status, a.body)
	}
}

// compare compares what was accepted with what the store has, and with what happened outside.
func (f *flood) compare() {
	if len(f.keys) != f.begun || len(f.accepted) != f.begun {
		f.t.Errorf("%d starts: %d were accepted, and are %d runs", f.begun, len(f.accepted), len(f.keys))
	}
	if n, err := f.journal.Count(f.t.Context(), checkpoint.Filter{}, 1e6); err != nil || total(n) != f.begun {
		f.t.Errorf("the store has %v runs, %v; want %d", n, err, f.begun)
	}
	var readers sync.WaitGroup
	for reader := range 8 {
		readers.Go(func() {
			for n := reader; n < f.begun; n += 8 {
				f.compareRun(n)
			}
		})
	}
	readers.Wait()
}

// compareRun compares what one start has become with what it should have.
func (f *flood) compareRun(n int) {
	key, r := fmt.Sprintf("%s-%d", f.place.name, n), f.recipes[n%len(f.recipes)]
	var out struct {
		Status        string
		Output, Error any
	}
	a, err := f.servers[n%3].send(operator, "GET", "/api/v1/runs/"+f.accepted[key]+"/output", nil)
	if err != nil || a.status != http.StatusOK || json.Unmarshal(a.body, &out) != nil {
		f.t.Errorf("run %s of start %s: %v, %d %s", f.accepted[key], key, err, a.status, a.body)
		return
	}
	if out.Status != r.status || !equal(out.Output, r.output) {
		f.t.Errorf("run %s of start %s of %s: %s %v %v", f.accepted[key], key, r.name, out.Status, out.Output, out.Error)
	}
	all := f.effects(key)
	for _, path := range append(slices.Clone(r.effects), r.undone...) {
		mayFail := slices.Contains(r.undone, path) && strings.Contains(string(a.body), "rollback.failed")
		if n := count(all, path); n > 1 || n == 0 && !mayFail {
			f.t.Errorf("run %s of start %s of %s: %s happened %d times", f.accepted[key], key, r.name, path, n)
		}
	}
	if r.known != "" && count(all, r.known) == 0 {
		f.t.Errorf("run %s of start %s: %s is lost", f.accepted[key], key, r.known)
	}
}
