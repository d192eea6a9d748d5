package soak

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/host"
)

var (
	duration = flag.Duration("soak", 3*time.Second, "how long runs begin; from 60s on -soak.leases is on, too")
	leases   = flag.Bool("soak.leases", false, "with PgBouncer, and with processes that are stopped for longer than a lease")
	seed     = flag.Uint64("soak.seed", 1, "decides what is done to which run")
	stops    = flag.Bool("soak.stops", true, "servers are stopped for longer than a lease, too; else they are only killed and told to end")
	rate     = flag.Int("soak.rate", 0, "starts a second of TestFleet, for as long as -soak says; 0: 25, for 20s at most")
	only     = flag.String("soak.only", "", "the one run to make, such as sqlite-7")
)

// long reports whether there is time to wait for leases.
func long() bool { return *leases || *duration >= time.Minute }

// soak is one store, and the runs on it.
type soak struct {
	*world
	t       *testing.T
	place   *store
	journal checkpoint.Store // of this process
	over    time.Time        // when no more runs begin, and nothing more is done to those under way

	active sync.Mutex // guards living and total
	living map[string]*run
	total  counts
}

// Runs of every kind on each store: their processes are killed, stopped, told to end and cut off from the store,
// several answer at the same time, and somebody recovers what needs it and what does not. What must hold is about what
// happened outside, whatever the timing: every run ends, each effect happens once, and the output is that of an
// undisturbed run.
func TestSoak(t *testing.T) {
	t.Parallel()
	places := []string{"jsonl", "sqlite", "postgres"}
	if long() {
		places = append(places, "pgbouncer")
	}
	var lines table
	t.Cleanup(func() { t.Logf("seed %d, %v\n%s", *seed, *duration, &lines) })
	w := newWorld(t)
	for _, place := range places {
		if name, _, one := strings.Cut(*only, "-"); one && name != place {
			continue
		}
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			s := &soak{world: w, t: t, place: openStore(t, w, place), living: map[string]*run{}}
			s.journal = s.open()
			s.over = time.Now().Add(*duration)
			if *only != "" {
				s.begin(*only)
			} else {
				s.all(2 + int(min(*duration/time.Minute, 2)))
			}
			lines.add(place, s.total)
		})
	}
}

// open opens the store in this process.
func (s *soak) open() checkpoint.Store {
	s.t.Helper()
	store, err := host.OpenStore(s.t.Context(), s.place.url, s.dir)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { store.Close() })
	return store
}

// calm reports whether runs are left alone now, so that they come to their end.
func (s *soak) calm() bool { return *only == "" && time.Now().After(s.over) }

// all makes runs, so many at a time, while others sweep and recover.
func (s *soak) all(workers int) {
	ctx, stop := context.WithCancel(s.t.Context())
	var around, runs sync.WaitGroup
	around.Go(func() { s.sweep(ctx) })
	around.Go(func() { s.recoverAny(ctx) })
	for worker := range workers {
		runs.Go(func() {
			for i := worker; !s.calm(); i += workers {
				s.begin(fmt.Sprintf("%s-%d", s.place.name, i))
			}
		})
	}
	runs.Wait()
	stop()
	around.Wait()
}

// begin makes the run of a name.
func (s *soak) begin(id string) {
	rng := rand.New(rand.NewPCG(*seed, hash(id)))
	r := &run{soak: s, id: id, rng: rng, recipe: &recipes[rng.IntN(len(recipes))], hits: 1 + rng.IntN(5), store: s.place,
		tokens: map[string]string{}}
	if s.place.via != nil {
		r.store = s.place.with(newProxy(s.t, s.place.via.target))
		r.cuts = rng.IntN(4) == 0 && long() && r.recipe.sent == "" // waiting runs are swept by processes that are killed
	}
	s.active.Lock()
	s.living[id] = r
	s.active.Unlock()
	r.live()
	s.active.Lock()
	defer s.active.Unlock()
	delete(s.living, id)
	s.total.add(r.n)
}

func hash(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}

// sweep has a process recover and sweep the store all the time, which is killed now and then.
func (s *soak) sweep(ctx context.Context) {
	rng := rand.New(rand.NewPCG(*seed, hash(s.place.name+" sweeper")))
	for ctx.Err() == nil {
		cmd := exec.Command(s.braise, "runs", "sweep", "--recover", "--watch", "--store", s.place.url, "--config", "braise.yaml", "--quiet")
		var swept bytes.Buffer // a line for each run
		cmd.Dir, cmd.Stdout, cmd.WaitDelay = s.dir, &swept, time.Second
		if err := cmd.Start(); err != nil {
			s.t.Error(err)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Duration(500+rng.IntN(3000)) * time.Millisecond):
		}
		cmd.Process.Signal([]os.Signal{syscall.SIGKILL, syscall.SIGTERM}[rng.IntN(2)])
		cmd.Wait()
		s.active.Lock()
		s.total.swept += bytes.Count(swept.Bytes(), []byte("\n"))
		s.active.Unlock()
	}
}

// recoverAny recovers runs that live, wait or are dead.
func (s *soak) recoverAny(ctx context.Context) {
	rng := rand.New(rand.NewPCG(*seed, hash(s.place.name+" recoverer")))
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(200+rng.IntN(600)) * time.Millisecond):
		}
		s.active.Lock()
		var ids []string
		for id := range s.living {
			ids = append(ids, id)
		}
		s.active.Unlock()
		if len(ids) == 0 {
			continue
		}
		slices.Sort(ids)
		id := ids[rng.IntN(len(ids))]
		cmd := exec.Command(s.braise, "runs", "recover", id, "--store", s.place.url, "--config", "braise.yaml", "--quiet",
			"--no-interactive", "--model", "m=script:"+id+".turns")
		cmd.Dir = s.dir
		_ = cmd.Run() // it may find nothing to do, or the run in other hands
	}
}
