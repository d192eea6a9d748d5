package soak

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"
)

// slow is a recipe with three calls of three seconds, one after the other.
func slow() recipe {
	delay := fmt.Sprintf(", delay: %d", within(1500, 3000))
	return recipe{name: "slow", text: "steps:\n  a: {" + request("a", delay) + "}\n  b: {needs: [a], " + request("b", delay) + "}\n" +
		"  c: {needs: [b], " + request("c", delay) + "}\noutput: ${{ steps.c.output.body }}\n"}
}

// Two servers restart one after the other, twice, while their runs make calls of three seconds. Nobody is asked
// anything, each run ends, and those who watch see each event once.
func TestServersRestart(t *testing.T) {
	t.Parallel()
	for _, place := range []string{"sqlite", "postgres"} {
		t.Run("serve 12.4/"+place, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, place, "")
			slow := slow()
			f.writeRecipe(&slow)
			both := []*server{f.serves("slow.yaml", "--max-runs", "200"), f.serves("slow.yaml", "--max-runs", "200")}
			var viewers sync.WaitGroup
			runs := within(30, 200)
			ids := make([]string, runs)
			for i := range ids {
				ids[i] = fmt.Sprintf("%s-%d", place, i)
				both[i%2].begins("slow", ids[i])
				if i < 20 {
					viewers.Go(func() { f.follow(both, i, ids[i]) })
				}
			}
			if !f.await(time.Minute, func() bool { return f.requested() >= runs/2 }) {
				t.Errorf("the runs do not begin")
			}
			for _, s := range both {
				if code := s.stop(syscall.SIGTERM); code != 0 {
					t.Errorf("SIGTERM: exit code %d, want 0: %s", code, last(s.said.String(), 1000))
				}
				s.start()
			}
			for _, id := range ids {
				f.undisturbed(both[0], id)
			}
			viewers.Wait()
		})
	}
}

// undisturbed checks that a run ends without a question, and has each effect once.
func (f *fleet) undisturbed(s *server, id string) {
	f.t.Helper()
	v := s.awaits(id, "it ends or asks", func(v view) bool { return v.Phase == "ok" || v.Phase == "error" || len(v.Pending) > 0 })
	if v.Phase != "ok" || v.Output != "did c" {
		f.t.Errorf("run %s: %+v", id, v)
	}
	all := f.effects(id)
	for _, path := range []string{"a", "b", "c"} {
		if n := count(all, path); n != 1 {
			f.t.Errorf("run %s: %s happened %d times", id, path, n)
		}
	}
}

// follow watches a run by the streams of one server after the other. It sees each event once, the same that the run
// has in the end.
func (f *fleet) follow(servers []*server, first int, id string) {
	ctx, cancel := context.WithTimeout(f.t.Context(), 2*time.Minute)
	defer cancel()
	var got []string
	ended := false
	for try := first; !ended && ctx.Err() == nil; try++ {
		_ = servers[try%len(servers)].stream(ctx, id, int64(len(got)), func(m message) {
			switch {
			case m.kind == "end":
				ended = true
			case m.kind == "reset":
				f.t.Errorf("run %s: the stream leaves events out after %d", id, len(got))
			case m.id == 0:
			case m.id != int64(len(got))+1:
				f.t.Errorf("run %s: event %d comes after event %d", id, m.id, len(got))
			default:
				got = append(got, m.data)
			}
		}) // the connection may end at any time
		if !ended {
			pause(50 * time.Millisecond)
		}
	}
	var page struct{ Events []json.RawMessage }
	var failed []string
	for _, s := range servers {
		a, err := s.send(operator, "GET", "/api/v1/runs/"+id+"/events", nil)
		if err != nil || a.status != http.StatusOK || json.Unmarshal(a.body, &page) != nil {
			failed = append(failed, fmt.Sprintf("%v, %d %s", err, a.status, a.body))
			continue // it restarts
		}
		break
	}
	if !ended || len(got) != len(page.Events) {
		f.t.Errorf("run %s: %d events came, its end: %v; it has %d; %q", id, len(got), ended, len(page.Events), failed)
	}
	for i := range min(len(got), len(page.Events)) {
		if got[i] != string(page.Events[i]) {
			f.t.Errorf("run %s: event %d was\n%s\nand is\n%s", id, i+1, got[i], page.Events[i])
			return
		}
	}
}
