package soak

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/braise-run/braise/history"
)

// cluster is a PostgreSQL server of the test's own.
type cluster struct {
	t   *testing.T
	bin string // of the server's programs
	dir string
	url string
}

// newCluster makes and starts a server.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/pg_ctl")
	if len(found) == 0 {
		t.Fatal("pg_ctl is not there: install postgresql")
	}
	dir, err := os.MkdirTemp("", "soak-postgres-") // not t.TempDir, which other users may not enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	c := &cluster{t: t, bin: filepath.Dir(slices.Max(found)), dir: filepath.Join(dir, "data"),
		url: fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", port)}
	c.run("initdb", "-D", c.dir, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
	conf := fmt.Sprintf("port = %d\nlisten_addresses = '127.0.0.1'\nunix_socket_directories = ''\nmax_connections = 400\n", port)
	c.run("sh", "-c", `printf '%s' "$1" >>"$0"`, filepath.Join(c.dir, "postgresql.conf"), conf)
	c.ctl("start")
	t.Cleanup(func() { c.ctl("stop", "-m", "immediate") })
	return c
}

// ctl has pg_ctl do something, and waits until it is done.
func (c *cluster) ctl(args ...string) {
	c.t.Helper()
	c.run("pg_ctl", append([]string{"-D", c.dir, "-l", filepath.Join(c.dir, "log"), "-s", "-w"}, args...)...)
}

// run runs a program of the server as the user postgres.
func (c *cluster) run(name string, args ...string) {
	c.t.Helper()
	if name != "sh" {
		name = filepath.Join(c.bin, name)
	}
	cmd := asPostgres(exec.Command(name, args...))
	cmd.SysProcAttr.Pdeathsig = 0 // the server outlives pg_ctl, which starts it
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		c.t.Errorf("%s %v: %v", name, args, err)
	}
}

// booking is a run of external calls.
var booking = recipe{
	name: "booking",
	text: "steps:\n  a: {" + request("a", ", delay: 200") + "}\n  b: {needs: [a], " + request("b", ", delay: 300") + "}\n" +
		"  c: {needs: [b], " + request("c", ", delay: 200") + "}\noutput: ${{ steps.c.output.body }}\n",
	effects: []string{"a", "b", "c"}, status: "ok", output: "did c",
}

// The server restarts while two hundred runs make external calls. No process dies: so nobody is asked about anything,
// and each effect happens once. A run that its process gave up is recovered.
func TestPostgresRestarts(t *testing.T) {
	if !long() {
		return
	}
	const runs, together = 200, 12
	for _, mode := range []string{"fast", "immediate"} {
		t.Run("trust 6.5/"+mode, func(t *testing.T) {
			c := newCluster(t)
			w := newWorld(t)
			w.writeRecipe(&booking)
			s := &soak{world: w, t: t, place: &store{name: mode, url: c.url}, living: map[string]*run{}}
			s.journal = s.open()
			made := make([]*run, runs)
			slots := make(chan int)
			var all sync.WaitGroup
			for range together {
				all.Go(func() {
					for i := range slots {
						made[i] = s.newRun(fmt.Sprintf("%s-%d", mode, i), &booking)
						made[i].end(made[i].first())
					}
				})
			}
			for i := range runs {
				if i == runs/4 || i == runs/2 || i == runs*3/4 {
					c.ctl("restart", "-m", mode)
				}
				slots <- i
			}
			close(slots)
			all.Wait()
			for _, r := range made {
				r.afterRestart()
				s.total.add(r.n)
			}
			t.Logf("%s: %d runs, %d effects, %d recoveries, %d questions, %d lost, %d doubled", mode, runs, s.total.effects,
				s.total.recoveries, s.total.questions, s.total.lost, s.total.doubled)
		})
	}
}

// afterRestart recovers the run if it was given up, and answers what it asks.
func (r *run) afterRestart() {
	for range endless {
		now, err := history.Load(r.t.Context(), r.journal, r.id)
		switch {
		case err != nil: // it never began
			r.n.recoveries++
			r.end(r.first())
		case now.Status == history.Paused:
			r.errorf("it asks about %s, though no process died", now.Pauses[0].Step)
			r.n.questions++
			r.settleCall(now.Pauses[0])
		case now.Status == history.Interrupted:
			r.n.recoveries++
			r.end(r.start("runs", "recover", r.id))
		case now.Status == history.Running:
			pause(time.Second)
		default:
			r.check()
			return
		}
	}
	r.errorf("it does not end")
}
