package soak

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/braise-run/braise/checkpoint"
)

// brief is a run of two calls of a second.
var brief = recipe{name: "brief", text: "steps:\n  a: {" + request("a", ", delay: 1000") + "}\n" +
	"  b: {needs: [a], " + request("b", ", delay: 1000") + "}\noutput: ${{ steps.b.output.body }}\n"}

// The database of a server is away for a while. The server says so, lives on, and afterwards takes up all that was
// under way: no run is lost, and no effect happens twice.
func TestStoreIsAway(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "postgres", "")
	f.writeRecipe(&brief)
	s := f.serves("brief.yaml")
	ids := make([]string, 20) // more than are executed at a time
	for i := range ids {
		ids[i] = fmt.Sprintf("r%d", i)
		s.begins("brief", ids[i])
	}
	if !f.await(time.Minute, func() bool { return f.requested() >= 5 }) {
		t.Fatal("the runs do not begin")
	}
	var viewers sync.WaitGroup
	for i := range 5 {
		viewers.Go(func() { f.follow([]*server{s}, 0, ids[i*4]) })
	}
	f.place.via.cut(true)
	away := time.Now()
	f.awaitReady(s, http.StatusServiceUnavailable)
	noticed := time.Since(away)
	asked := make(chan answer, 1)
	go func() { // a start is tried until the database is back, for 5 s
		a, err := s.send(operator, "POST", "/api/v1/recipes/brief/runs",
			map[string]any{"inputs": map[string]any{"run": "meanwhile", "url": f.world.url}, "runId": "meanwhile"})
		if err != nil {
			t.Error(err)
		}
		asked <- a
	}()
	for _, path := range []string{"/api/v1/runs/r0", "/api/v1/runs", "/api/v1/pauses", "/api/v1/runs/r0/events"} {
		f.unavailable(s.must(http.StatusServiceUnavailable, "GET", path, nil, nil), path)
	}
	s.must(http.StatusOK, "GET", "/livez", nil, nil)
	pause(time.Until(away.Add(within(5*time.Second, 30*time.Second)))) // the last is longer than a lease
	f.place.via.open()
	back := time.Now()
	f.awaitReady(s, http.StatusOK)
	t.Logf("not ready after %v, ready again after %v; %d connections were tried", noticed, time.Since(back), f.place.via.tried())
	if a := <-asked; a.status != http.StatusAccepted {
		f.unavailable(a, "a start")
		s.begins("brief", "meanwhile")
	}
	ids = append(ids, "meanwhile")
	questions := f.allEnd(s, ids, long()) // then calls outlive their leases
	if n, err := f.journal.Count(t.Context(), checkpoint.Filter{}, 1000); err != nil || total(n) != len(ids) {
		t.Errorf("serve 11: there are %v runs, %v; want %d", n, err, len(ids))
	}
	viewers.Wait()
	t.Logf("%d questions", questions)
}

// The disk of a server is full for a while. It refuses what it cannot record, lives on, and afterwards takes up all that
// was under way: no run is lost, and no effect happens twice.
func TestDiskIsFull(t *testing.T) {
	if !long() { // leases have to run out
		return
	}
	t.Parallel()
	disk := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=8m"); err != nil {
		t.Skipf("there is no disk to fill: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	f := newFleet(t, "sqlite:"+filepath.Join(disk, "runs.db"), "")
	f.writeRecipe(&brief)
	s := f.serves("brief.yaml")
	ids := make([]string, 20)
	for i := range ids {
		ids[i] = fmt.Sprintf("r%d", i)
		s.begins("brief", ids[i])
	}
	if !f.await(time.Minute, func() bool { return f.requested() >= 5 }) {
		t.Fatal("the runs do not begin")
	}
	ballast := filepath.Join(disk, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 16<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	accepted := 0
	for try := 0; try < 1000; try++ { // what is free in files of the database is used first
		id := fmt.Sprintf("more%d", try)
		a, err := s.send(operator, "POST", "/api/v1/recipes/brief/runs",
			map[string]any{"inputs": map[string]any{"run": id, "url": f.world.url}, "runId": id})
		if err != nil {
			t.Fatal(err)
		}
		if a.status != http.StatusAccepted {
			f.unavailable(a, "a start")
			break
		}
		ids, accepted = append(ids, id), accepted+1
	}
	s.must(http.StatusOK, "GET", "/api/v1/runs", nil, nil)
	pause(2 * time.Second) // the calls under way end
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	questions := f.allEnd(s, ids, true)
	t.Logf("%d runs were accepted on a full disk; %d questions", accepted, questions)
}

// unavailable checks a response that says that the store is away.
func (f *fleet) unavailable(a answer, about string) {
	f.t.Helper()
	var body struct{ Error struct{ Code string } }
	n, err := strconv.Atoi(a.header.Get("Retry-After"))
	if json.Unmarshal(a.body, &body) != nil || a.status != 503 || body.Error.Code != "store.failed" || err != nil || n < 1 {
		f.t.Errorf("serve 11: %s: %d %v %s", about, a.status, a.header, a.body)
	}
}

// allEnd waits until runs of the recipe brief have ended, and checks their effects. It answers questions, if there may be
// some, and returns how many there were.
func (f *fleet) allEnd(s *server, ids []string, may bool) (questions int) {
	f.t.Helper()
	for _, id := range ids {
		var v view
		for {
			v = s.awaits(id, "it ends or asks", func(v view) bool { return v.Phase == "ok" || v.Phase == "error" || len(v.Pending) > 0 })
			if len(v.Pending) == 0 || !may {
				break
			}
			questions++
			f.confirm(s, id, v)
		}
		all := f.effects(id)
		if a, b := count(all, "a"), count(all, "b"); v.Phase != "ok" || v.Output != "did b" || a != 1 || b != 1 {
			f.t.Errorf("serve 11: run %s: %d and %d effects, %+v", id, a, b, v)
		}
	}
	return questions
}

// awaitReady waits until /readyz has a status.
func (f *fleet) awaitReady(s *server, status int) {
	f.t.Helper()
	for range 600 {
		if a, err := s.send("", "GET", "/readyz", nil); err == nil && a.status == status {
			return
		}
		pause(50 * time.Millisecond)
	}
	f.t.Fatalf("/readyz never has status %d", status)
}

// confirm answers a question about a call with what the server of the world knows.
func (f *fleet) confirm(s *server, id string, v view) {
	f.settle(id)
	for _, p := range v.Pending {
		body := map[string]any{"decision": "retry"}
		if count(f.effects(id), p.Step) > 0 {
			body = map[string]any{"decision": "result",
				"form": map[string]any{"status": 200, "headers": map[string]any{}, "body": "did " + p.Step, "json": nil}}
		}
		s.must(http.StatusAccepted, "POST", "/api/v1/runs/"+id+"/pauses/"+p.ID+"/answer", body, nil)
	}
}
