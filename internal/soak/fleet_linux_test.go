package soak

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/host"
)

// operator is the token of somebody who may do everything.
const operator = "operator-0123456789abcdef"

// fleet is servers on one store.
type fleet struct {
	*world
	t       *testing.T
	place   *store
	journal interface { // of this process
		checkpoint.Store
		checkpoint.Querier
		checkpoint.Signals
	}
	env []string // of the servers, beside that of this process

	mu        sync.Mutex // guards responses
	keep      bool       // responses are kept
	responses strings.Builder
}

// server is one process of braise serve, or one after the other.
type server struct {
	*fleet
	args []string
	said said       // on stderr
	hit  sync.Mutex // held while something is done to the process

	mu    sync.Mutex // guards the rest
	url   string
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process has
}

// said is what a process says, for several goroutines.
type said struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// answer is a response of a server; the zero answer: there was none.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// newFleet makes a store, and what servers need. more is added to the configuration, and people may do everything, too.
func newFleet(t *testing.T, place, more string, people ...string) *fleet {
	t.Helper()
	w := newWorld(t)
	var conf strings.Builder
	f := &fleet{world: w, t: t, place: openStore(t, w, place)}
	conf.WriteString(config + more + "serve:\n  drain: 20s\n  max_queued: 1000000\n  tokens:\n")
	for _, name := range append(people, "operator") {
		fmt.Fprintf(&conf, "    %s: {token: \"${TOKEN_OF_%[1]s}\", roles: [operate]}\n", name)
		f.env = append(f.env, "TOKEN_OF_"+name+"="+tokenOf(name))
	}
	w.write("braise.yaml", conf.String(), 0o600)
	store, err := host.OpenStore(t.Context(), f.place.url, w.dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	f.journal = store.(interface {
		checkpoint.Store
		checkpoint.Querier
		checkpoint.Signals
	})
	return f
}

func tokenOf(name string) string { return name + "-0123456789abcdef" }

// serves starts a server of the recipes.
func (f *fleet) serves(args ...string) *server {
	f.t.Helper()
	s := &server{fleet: f, args: args}
	s.start()
	if s.at() == "" {
		f.t.Fatal(s.said.String())
	}
	f.t.Cleanup(func() {
		s.stop(syscall.SIGKILL)
		if f.t.Failed() {
			f.t.Logf("a server said: %s", last(s.said.String(), 3000))
		}
	})
	return s
}

// start starts the process, and waits until it listens. Like a supervisor it starts a process again that could not reach
// its store: on a busy machine a connection may take longer than a process waits for it.
func (s *server) start() {
	for began := time.Now(); ; pause(time.Second) {
		code, err := s.launch()
		if err == nil {
			return
		}
		if code != exitStore || time.Since(began) > time.Minute {
			s.t.Errorf("a server does not start, exit code %d: %v: %s", code, err, last(s.said.String(), 1000))
			return
		}
	}
}

// exitStore is the exit code of a process that could not open its store.
const exitStore = 9

// launch starts the process once. The error says that it does not listen; then it has ended, with the code.
func (s *server) launch() (code int, err error) {
	cmd := exec.Command(s.braise, append([]string{"serve", "--listen", "127.0.0.1:0", "--store", s.place.url, "--config", "braise.yaml",
		"--output", "json"}, s.args...)...)
	cmd.Dir, cmd.Stderr, cmd.Env = s.dir, &s.said, append(os.Environ(), s.env...)
	cmd.WaitDelay = time.Second // programs that a killed process left have its pipes
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return 0, err
	}
	var at struct{ URL string }
	if err := json.NewDecoder(out).Decode(&at); err != nil {
		cmd.Wait()
		return cmd.ProcessState.ExitCode(), err
	}
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cmd, s.url, s.ended = cmd, at.URL, ended
	return 0, nil
}

// signal sends a signal; the process may have ended.
func (s *server) signal(with syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.cmd.Process.Signal(with)
}

// stop sends a signal, waits for the end of the process, and returns its exit code.
func (s *server) stop(with syscall.Signal) int {
	s.mu.Lock()
	cmd, ended := s.cmd, s.ended
	s.mu.Unlock()
	if cmd == nil {
		return 0
	}
	s.signal(with)
	select {
	case <-ended:
	case <-time.After(time.Minute):
		s.t.Errorf("a server does not end after %v", with)
		_ = cmd.Process.Signal(syscall.SIGQUIT)
		<-ended
	}
	return cmd.ProcessState.ExitCode()
}

func (s *server) at() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.url
}

var client = &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 200}}

// send sends a request; headers are pairs. The error says that there was no response.
func (s *server) send(token, method, path string, body any, headers ...string) (answer, error) {
	var text io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			s.t.Fatal(err)
		}
		text = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(context.WithoutCancel(s.t.Context()), method, s.at()+path, text)
	if err != nil {
		return answer{}, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	a := answer{status: resp.StatusCode, header: resp.Header}
	if a.body, err = io.ReadAll(resp.Body); err != nil {
		return answer{}, err
	}
	s.fleet.mu.Lock()
	defer s.fleet.mu.Unlock()
	if s.keep {
		fmt.Fprintf(&s.responses, "%s %s: %d %v %s\n", method, path, a.status, a.header, a.body)
	}
	return a, nil
}

// must sends a request of the operator that is answered with a status, and decodes the body into v; nil: it is not read.
func (s *server) must(status int, method, path string, body, v any, headers ...string) answer {
	s.t.Helper()
	a, err := s.send(operator, method, path, body, headers...)
	if err != nil {
		s.t.Fatalf("%s %s: %v", method, path, err)
	}
	if a.status != status {
		s.t.Fatalf("%s %s: %d, want %d: %s", method, path, a.status, status, a.body)
	}
	if v != nil {
		if err := json.Unmarshal(a.body, v); err != nil {
			s.t.Fatalf("%s %s: %v: %s", method, path, err, a.body)
		}
	}
	return a
}

// begins starts a run with an id, of a recipe whose inputs are the run and the URL of the world.
func (s *server) begins(recipe, id string) {
	s.t.Helper()
	s.must(http.StatusAccepted, "POST", "/api/v1/recipes/"+recipe+"/runs",
		map[string]any{"inputs": map[string]any{"run": id, "url": s.world.url}, "runId": id}, nil)
}

// view is what is read of a run.
type view struct {
	Phase  string
	Output any
	Error  *struct{ Code, Message string }
	Steps  []struct {
		Step, Status       string
		StartedAt, EndedAt time.Time
	}
	Pending    []struct{ ID, Step, Reason string }
	Executions []struct{ Owner string }
}

// looks returns a run.
func (s *server) looks(id string) (v view) {
	s.t.Helper()
	s.must(http.StatusOK, "GET", "/api/v1/runs/"+id, nil, &v)
	return v
}

// awaits waits until a run is such as holds says.
func (s *server) awaits(id, what string, holds func(view) bool) view {
	s.t.Helper()
	for began := time.Now(); ; pause(20 * time.Millisecond) {
		v := s.looks(id)
		if holds(v) {
			return v
		}
		if time.Since(began) > time.Minute {
			s.t.Fatalf("run %s: %s: not after a minute: %+v", id, what, v)
		}
	}
}

// ends waits until a run has ended.
func (s *server) ends(id string) view {
	s.t.Helper()
	return s.awaits(id, "it ends", func(v view) bool { return v.Phase == "ok" || v.Phase == "error" || v.Phase == "cancelled" })
}

// records are the records of a run, and its signals.
func (f *fleet) records(id string) ([]checkpoint.Record, []checkpoint.Signal) {
	f.t.Helper()
	_, recs, err := f.journal.Load(f.t.Context(), id, 0)
	if err != nil {
		f.t.Fatal(err)
	}
	signals, err := f.journal.Signals(f.t.Context(), id, false)
	if err != nil {
		f.t.Fatal(err)
	}
	return recs, signals
}

// message is one of a stream.
type message struct {
	id   int64 // 0: none
	kind string
	data string
	at   time.Time
}

// stream reads the events of a run behind one, until the stream ends or ctx does. get gets each message.
func (s *server) stream(ctx context.Context, run string, after int64, get func(message)) error {
	req, err := http.NewRequestWithContext(ctx, "GET", s.at()+"/api/v1/runs/"+run+"/events", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+operator)
	req.Header.Set("Accept", "text/event-stream")
	if after > 0 {
		req.Header.Set("Last-Event-ID", strconv.FormatInt(after, 10))
	}
	resp, err := (&http.Client{Transport: client.Transport}).Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(resp.Body)
		return fmt.Errorf("status %d: %s", resp.StatusCode, text)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 4<<20)
	var m message
	for lines.Scan() {
		name, text, _ := strings.Cut(lines.Text(), ": ")
		switch {
		case lines.Text() == "":
			if m.at = time.Now(); m.data != "" {
				get(m)
			}
			m = message{}
		case name == "id":
			m.id, _ = strconv.ParseInt(text, 10, 64)
		case name == "event":
			m.kind = text
		case name == "data":
			m.data = text
		}
	}
	return lines.Err()
}

// within chooses how long something lasts, or how much of it there is: by default, or where there is time for leases.
func within[T any](normal, longest T) T {
	if long() {
		return longest
	}
	return normal
}
