package serve_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// wire passes bytes between a store and its server on, until somebody cuts it.
type wire struct {
	net.Listener
	target string

	mu    sync.Mutex
	conns []net.Conn
	cut   bool // new connections end at once
	dead  bool // nothing is passed on, and nobody is told
	woken *sync.Cond
}

func newWire(t *testing.T, target string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{Listener: l, target: target}
	w.woken = sync.NewCond(&w.mu)
	var passing sync.WaitGroup
	passing.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", target)
			if err != nil || !w.keep(from, to) {
				from.Close()
				continue
			}
			passing.Go(func() { w.pass(from, to) })
			passing.Go(func() { w.pass(to, from) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		w.set(true, false)
		passing.Wait()
	})
	return w
}

func (w *wire) keep(conns ...net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns = append(w.conns, conns...)
	if w.cut {
		w.end()
	}
	return !w.cut
}

func (w *wire) end() {
	for _, c := range w.conns {
		c.Close()
	}
	w.conns = nil
}

// pass passes bytes on, unless the wire is dead.
func (w *wire) pass(from, to net.Conn) {
	defer to.Close()
	defer from.Close()
	for buf := make([]byte, 32<<10); ; {
		n, err := from.Read(buf)
		w.mu.Lock()
		for w.dead {
			w.woken.Wait()
		}
		w.mu.Unlock()
		if _, failed := to.Write(buf[:n]); err != nil || failed != nil {
			return
		}
	}
}

func (w *wire) set(cut, dead bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.cut, w.dead = cut, dead; cut {
		w.end()
	}
	w.woken.Broadcast()
}

// While the database is away, whether that is told or not, each request is answered within 5 s; a busy machine may need
// more, so that the test allows a minute. Streams and those who wait for a run are answered, too.
func TestStoreIsAway(t *testing.T) {
	t.Parallel()
	var via *wire
	l := labOf(t, openPostgres(t, func(server string) string {
		via = newWire(t, server)
		return via.Addr().String()
	}), nil)
	paused := l.run(l.refund, map[string]any{"order": 1})
	for _, how := range []struct{ cut, dead bool }{{cut: true}, {dead: true}} {
		via.set(how.cut, how.dead)
		began := time.Now()
		var asked sync.WaitGroup
		ask := func(method, path, body string) {
			asked.Go(func() {
				r := l.send(method, "/api/v1"+path, request{token: operator, body: body})
				took := time.Since(began)
				if r.status != http.StatusServiceUnavailable || !strings.Contains(r.text, `"store.failed"`) || r.header.Get("Retry-After") == "" {
					t.Errorf("%+v: %s %s: %d %s", how, method, path, r.status, r.text)
				}
				if took > time.Minute {
					t.Errorf("%+v: %s %s took %v", how, method, path, took)
				}
			})
		}
		for i := range 5 { // one after the other would take longer
			ask("POST", "/recipes/hello/runs", fmt.Sprintf(`{"inputs": {"who": "Ada"}, "runId": "r%d"}`, i))
		}
		ask("GET", "/runs", "")
		ask("GET", "/pauses", "")
		ask("GET", "/runs/"+paused, "")
		ask("GET", "/runs/"+paused+"/events", "")
		ask("POST", "/runs/"+paused+"/cancel", "{}")
		ask("POST", "/runs/"+paused+"/pauses/ask/answer", `{"decision": "approve"}`)
		asked.Wait()
		via.set(false, false)
		l.post(starter, "/api/v1/recipes/hello/runs", `{"inputs": {"who": "Ada"}}`).is(202)
	}
}
