package soak

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// world is what runs act on, and what outlives their processes.
type world struct {
	t      *testing.T
	dir    string // of recipes, configuration, effect program and its log
	braise string // the command, built once
	url    string // of the server that has effects

	mu       sync.Mutex
	requests map[string][]effect // by run
	new      map[net.Conn]bool   // connections of which no request was read yet
	busy     map[string]int      // requests of a run that were read and not answered
	changed  chan struct{}       // closed when any of this changes, and replaced
}

// effect is one thing that happened outside.
type effect struct {
	path, key string
	status    int       // of the answer; 0: the effect of a program
	at        time.Time // of a request
}

// done reports whether the effect happened, as opposed to having been refused.
func (e effect) done() bool { return e.status < 400 }

// effectProgram is the program that runs start: it takes the run and the path, has its effect and says so.
const effectProgram = `#!/bin/sh
printf '%s %s %s\n' "$1" "$2" "$BRAISE_IDEMPOTENCY_KEY" >>effects.log
sleep 0.02
printf 'did %s' "$2"
`

const config = `tools:
  exec: {allow: [./effect], dir: "."}
  http: {allow_private: true}
limits: {grace: 300ms}
`

// TestMain makes the test program a booker when it was started as one.
func TestMain(m *testing.M) {
	if about := os.Getenv(bookVar); about != "" {
		if err := book(about); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Parse()
	if testing.Short() {
		fmt.Println("not in short tests: what it does to processes, and when, is for minutes")
		return
	}
	flag.Set("test.parallel", "8") // they wait for leases and servers more than they compute
	code := m.Run()
	os.RemoveAll(filepath.Dir(command()))
	removeShared()
	os.Exit(code)
}

// command builds the command, once.
var command = sync.OnceValue(func() string {
	dir, err := os.MkdirTemp("", "soak-")
	if err != nil {
		panic(err)
	}
	braise := filepath.Join(dir, "braise")
	out, err := exec.Command("go", "build", "-o", braise, "github.com/braise-run/braise/cmd/braise").CombinedOutput()
	if err != nil {
		panic(fmt.Sprintf("go build: %v\n%s", err, out))
	}
	return braise
})

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), requests: map[string][]effect{}, new: map[net.Conn]bool{}, busy: map[string]int{},
		changed: make(chan struct{})}
	w.braise = command()
	w.write("effect", effectProgram, 0o755)
	w.write("braise.yaml", config, 0o644)
	w.write("part.yaml", part, 0o644)
	for _, r := range recipes {
		w.writeRecipe(&r)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(w.serve))
	server.Config.ConnState = w.connState
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	w.url = server.URL
	return w
}

func (w *world) write(name, text string, mode os.FileMode) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), mode); err != nil {
		w.t.Fatal(err)
	}
}

// update changes what mu guards, and tells those who wait for a change.
func (w *world) update(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *world) connState(c net.Conn, state http.ConnState) {
	w.update(func() {
		if state == http.StateNew {
			w.new[c] = true
		} else {
			delete(w.new, c)
		}
	})
}

// order is what a request asks the server for.
type order struct {
	Run    string `json:"run"`
	Path   string `json:"path"`
	Delay  int    `json:"delay"`  // ms between the effect and the answer
	Fail   int    `json:"fail"`   // so many requests are refused first
	Status int    `json:"status"` // with this status
}

// serve has the effect as soon as it has read the request, and answers later.
func (w *world) serve(rw http.ResponseWriter, req *http.Request) {
	text, err := io.ReadAll(req.Body)
	var o order
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	if err != nil { // the other side died in mid-request: nothing happens
		http.Error(rw, err.Error(), http.StatusBadRequest)
		return
	}
	status := http.StatusOK
	w.update(func() {
		n := 0
		for _, e := range w.requests[o.Run] {
			if e.path == o.Path {
				n++
			}
		}
		if n < o.Fail {
			status = o.Status
		}
		w.requests[o.Run] = append(w.requests[o.Run],
			effect{path: o.Path, key: req.Header.Get("Idempotency-Key"), status: status, at: time.Now()})
		w.busy[o.Run]++
	})
	if o.Delay > 0 {
		select {
		case <-req.Context().Done():
		case <-time.After(time.Duration(o.Delay) * time.Millisecond):
		}
	}
	rw.WriteHeader(status)
	fmt.Fprintf(rw, "did %s", o.Path)
	w.update(func() { w.busy[o.Run]-- })
}

// await waits until a condition holds, which is about what mu guards; it reports whether it did in time.
func (w *world) await(timeout time.Duration, holds func() bool) bool {
	over := time.After(timeout)
	for {
		w.mu.Lock()
		held, changed := holds(), w.changed
		w.mu.Unlock()
		if held {
			return true
		}
		select {
		case <-over:
			return false
		case <-changed:
		}
	}
}

// awaitRequests waits until the server has had so many requests of a run, or a while.
func (w *world) awaitRequests(run string, n int, timeout time.Duration) bool {
	return w.await(timeout, func() bool { return len(w.requests[run]) >= n })
}

// settle waits until nothing that dead processes of a run have begun can still have an effect: each connection that
// was open has brought its request or is gone, and no program of the run lives.
func (w *world) settle(run string) {
	w.mu.Lock()
	open := make([]net.Conn, 0, len(w.new))
	for c := range w.new {
		open = append(open, c)
	}
	w.mu.Unlock()
	w.await(5*time.Second, func() bool {
		for _, c := range open {
			if w.new[c] {
				return false
			}
		}
		return true
	})
	for range 500 {
		if !alive(run) {
			return
		}
		pause(10 * time.Millisecond)
	}
	w.t.Errorf("run %s: a program that it started lives on", run)
}

// alive reports whether a program of a run lives, by the arguments of all processes.
func alive(run string) bool {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range files {
		text, err := os.ReadFile(f) // of a process that has ended meanwhile there is none
		if err == nil && strings.Contains(string(text), "./effect\x00"+run+"\x00") {
			return true
		}
	}
	return false
}

// pause waits where nothing tells of a change: for another process, a lease.
func pause(d time.Duration) { <-time.After(d) }

// effects returns what happened outside for a run: refused requests too.
func (w *world) effects(run string) []effect {
	w.mu.Lock()
	all := append([]effect{}, w.requests[run]...)
	w.mu.Unlock()
	text, err := os.ReadFile(filepath.Join(w.dir, "effects.log"))
	if err != nil && !os.IsNotExist(err) {
		w.t.Error(err)
	}
	for line := range strings.Lines(string(text)) {
		if word := strings.Fields(line); len(word) == 3 && word[0] == run {
			all = append(all, effect{path: word[1], key: word[2]})
		}
	}
	return all
}

// count is how often an effect happened.
func count(all []effect, path string) (n int) {
	for _, e := range all {
		if e.path == path && e.done() {
			n++
		}
	}
	return n
}
