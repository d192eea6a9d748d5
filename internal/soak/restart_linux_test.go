package soak

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/resume"
)

// booking is a run of external calls.
var booking = recipe{
	name: "booking",
	text: "steps:\n  a: {" + request("a", ", delay: 1000") + "}\n  b: {needs: [a], " + request("b", ", delay: 1500") + "}\n" +
		"  c: {needs: [b], " + request("c", ", delay: 1000") + "}\noutput: ${{ steps.c.output.body }}\n",
	effects: []string{"a", "b", "c"}, status: "ok", output: "did c",
}

const (
	bookings   = 200 // runs under a restart
	bookers    = 5   // processes that make them, all at the same time
	eachBooker = bookings / bookers
)

// keepsRuns is how long a restart may take for living processes to keep their runs: a lease has at least 10 s left when it
// begins, and a process needs up to 1 s to find that the server is back.
const keepsRuns = 8 * time.Second

// bookVar has the test program be a booker: the number of its first run, and what the runs need.
const bookVar = "BRAISE_SOAK_BOOK"

// book is what a booker does: its runs, all at once. Those that the store loses are left for others.
func book(about string) error {
	var first int
	var mode, store, url string
	if _, err := fmt.Sscan(about, &first, &mode, &store, &url); err != nil {
		return err
	}
	ctx := context.Background()
	h, err := host.Open(ctx, &host.Options{Config: "braise.yaml", Store: store})
	if err != nil {
		return err
	}
	defer h.Close()
	wf, err := h.Load(ctx, booking.name+".yaml")
	if err != nil {
		return err
	}
	rt, err := h.Runtime(ctx, wf)
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	for i := first; i < first+eachBooker; i++ {
		all.Go(func() {
			id := fmt.Sprintf("%s-%d", mode, i)
			mine := *rt
			mine.NewRunID = func() string { return id }
			wf.Run(ctx, map[string]any{"run": id, "url": url}, &mine)
		})
	}
	all.Wait()
	return nil
}

// The server restarts three times while two hundred runs make external calls, and one of their five processes is killed.
// Each run ends by itself or by sweep --recover, each effect happens once, and somebody is asked only about calls that
// died with the process, unless a restart took so long that leases ran out.
func TestPostgresRestarts(t *testing.T) {
	if !long() {
		return
	}
	t.Parallel()
	for _, mode := range []string{"fast", "immediate"} {
		t.Run("trust 6.5/"+mode, func(t *testing.T) {
			t.Parallel()
			c, err := newCluster()
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(c.remove)
			w := newWorld(t)
			w.writeRecipe(&booking)
			s := &soak{world: w, t: t, place: &store{name: mode, url: c.url}}
			s.journal = s.open()
			killed, longest := s.book(c, mode)
			s.sweepUp()
			var all sync.WaitGroup
			slots := make(chan struct{}, 8)
			for i := range bookings {
				slots <- struct{}{}
				all.Go(func() {
					r := s.newRun(fmt.Sprintf("%s-%d", mode, i), &booking)
					s.afterRestart(r, longest < keepsRuns, func(call *resume.Call) bool {
						return i < eachBooker && call != nil && madeBy(call.Owner, killed)
					})
					<-slots
				})
			}
			all.Wait()
			n := s.total
			t.Logf("%s: %d runs, %d effects, %d ended by sweep --recover, %d questions, %d lost, %d doubled; the longest restart took %v",
				mode, n.runs, n.effects, n.recoveries, n.questions, n.lost, n.doubled, longest)
		})
	}
}

// book has the bookers make all runs while the server restarts, and kills the first booker. It returns its process id, and
// how long the longest restart took.
func (s *soak) book(c *cluster, mode string) (killed int, longest time.Duration) {
	var all []*exec.Cmd
	for i := range bookers {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s %s %s", bookVar, i*eachBooker, mode, c.url, s.world.url))
		cmd.Dir, cmd.Stderr = s.dir, s.t.Output()
		if err := cmd.Start(); err != nil {
			s.t.Fatal(err)
		}
		all = append(all, cmd)
	}
	for i, requests := range []int{bookings / 4, bookings * 5 / 4, bookings * 9 / 4} { // while the first, second, third step runs
		if !s.await(2*time.Minute, func() bool { return s.requested() >= requests && s.allBook(mode) }) {
			s.t.Errorf("%d requests do not come", requests)
		}
		if i == 1 {
			all[0].Process.Kill()
		}
		began := time.Now()
		if err := c.ctl("restart", "-m", mode); err != nil {
			s.t.Error(err)
		}
		longest = max(longest, time.Since(began))
	}
	for i, cmd := range all {
		if err := cmd.Wait(); i > 0 && err != nil {
			s.t.Errorf("a process that makes runs: %v", err)
		}
	}
	return all[0].Process.Pid, longest
}

// allBook reports whether each booker has the store open: one of its runs has made a request; mu is locked.
func (w *world) allBook(mode string) bool {
	for first := 0; first < bookings; first += eachBooker {
		begun := false
		for i := range eachBooker {
			begun = begun || len(w.requests[fmt.Sprintf("%s-%d", mode, first+i)]) > 0
		}
		if !begun {
			return false
		}
	}
	return true
}

// requested is how many requests of all runs the server of the world has had; mu is locked.
func (w *world) requested() (n int) {
	for _, of := range w.requests {
		n += len(of)
	}
	return n
}

// sweepUp recovers what the bookers have left.
func (s *soak) sweepUp() {
	list, err := history.List(s.t.Context(), s.journal, history.Filter{Statuses: []history.Status{history.Interrupted}})
	if err != nil {
		s.t.Fatal(err)
	}
	s.total.recoveries = len(list)
	s.command("runs", "sweep", "--recover", "--max-runs", "20")
}

// command runs the command once.
func (s *soak) command(args ...string) {
	cmd := exec.Command(s.braise, append(args, "--store", s.place.url, "--config", "braise.yaml", "--quiet")...)
	cmd.Dir = s.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		s.t.Errorf("%v: %v\n%s", args, err, last(string(out), 2000))
	}
}

// afterRestart answers what a run asks, and checks how it has ended. Where leases are kept, a run asks only about calls of the
// killed process.
func (s *soak) afterRestart(r *run, kept bool, ofKilled func(*resume.Call) bool) {
	now, err := history.Load(s.t.Context(), s.journal, r.id)
	for err == nil && now.Status == history.Paused {
		p := now.Pauses[0]
		if p.Reason != "indeterminate" || kept && !ofKilled(p.Call) {
			r.errorf("it asks about %s, and the process that was killed did not call it: %+v", p.Step, p)
		}
		r.settleCall(p)
		now, err = history.Load(s.t.Context(), s.journal, r.id)
	}
	switch {
	case errors.Is(err, checkpoint.ErrNotFound) && len(s.effects(r.id)) == 0: // its process was killed before it began
		r.end(r.first())
	case err != nil:
		r.errorf("its journal cannot be read: %v", err)
	case now.Status != history.OK:
		r.errorf("it is %s, want ok", now.Status)
	}
	r.n.runs++
	for _, path := range r.recipe.effects {
		r.once(s.effects(r.id), path, false)
	}
	s.active.Lock()
	defer s.active.Unlock()
	s.total.add(r.n)
}

// madeBy reports whether an owner of leases is a process.
func madeBy(owner string, pid int) bool {
	parts := strings.Split(owner, "/")
	return len(parts) == 6 && parts[3] == strconv.Itoa(pid)
}
