package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// server is a process of the built command.
type server struct {
	cmd        *exec.Cmd
	dir        string // of its recipes and configuration
	url, token string
	client     *http.Client
	errors     bytes.Buffer
	cpu        time.Duration // when it was last looked at
	at         time.Time
}

// serve starts a server on a store, which has the given recipes by name.
func (b *bench) serve(what string, recipes map[string]string, args ...string) (_ *server, err error) {
	s := &server{}
	if s.dir, err = os.MkdirTemp("", "braise-load-"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			os.RemoveAll(s.dir)
		}
	}()
	// Without a worker all starts stay in the queue.
	files := map[string]string{"braise.yaml": "serve: {max_queued: 1000000}\n"}
	for name, text := range recipes {
		files["recipes/"+name+".yaml"] = text
	}
	if err := os.Mkdir(filepath.Join(s.dir, "recipes"), 0o755); err != nil {
		return nil, err
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o644); err != nil {
			return nil, err
		}
	}
	s.cmd = exec.CommandContext(b.ctx, b.braise, append([]string{"serve", "recipes", "--output", "json",
		"--listen", "127.0.0.1:0", "--store", b.media.url(), "--queue", queue}, args...)...)
	s.cmd.Dir, s.cmd.Stderr = s.dir, &s.errors
	s.cmd.Cancel = func() error { return s.cmd.Process.Signal(syscall.SIGTERM) }
	if b.profiles != "" {
		name := strings.ReplaceAll(b.table.store+"-"+what+".cpu", " ", "-")
		s.cmd.Env = append(os.Environ(), "BRAISE_LOAD_PROFILE="+filepath.Join(b.profiles, name))
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	var said struct{ URL, Token string }
	if err := json.NewDecoder(out).Decode(&said); err != nil {
		return nil, fmt.Errorf("the server did not start: %v\n%s", err, s.errors.String())
	}
	s.url, s.token = said.URL+"/api/v1", said.Token
	dialer := &net.Dialer{}
	s.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2000, MaxIdleConns: 2000,
		DialContext: dialer.DialContext, ReadBufferSize: 4 << 10, WriteBufferSize: 1 << 10, DisableCompression: true}}
	return s, s.mark()
}

// stop ends the server.
func (s *server) stop() error {
	s.client.CloseIdleConnections()
	if s.cmd.Env != nil { // it writes a profile, which takes some time
		if err := s.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
			return err
		}
		time.Sleep(time.Second)
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	err := s.cmd.Wait()
	os.RemoveAll(s.dir)
	if err != nil {
		return fmt.Errorf("the server: %w\n%s", err, s.errors.String())
	}
	if text := s.errors.String(); text != "" {
		fmt.Fprintf(os.Stderr, "the server said:\n%.2000s\n", text)
	}
	return nil
}

// request makes a request with the server's token.
func (s *server) request(ctx context.Context, method, path string, body []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, s.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+s.token)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return r, nil
}

// do sends a request and returns the body of its response.
func (s *server) do(ctx context.Context, method, path string, body []byte) (status int, text []byte, err error) {
	r, err := s.request(ctx, method, path, body)
	if err != nil {
		return 0, nil, err
	}
	resp, err := s.client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	text, err = io.ReadAll(resp.Body)
	return resp.StatusCode, text, err
}

// get is how long a GET takes, from the call to the last byte of its response.
func (s *server) get(ctx context.Context, path string) (time.Duration, []byte, error) {
	begin := time.Now()
	status, text, err := s.do(ctx, http.MethodGet, path, nil)
	took := time.Since(begin)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%s: status %d: %.300s", path, status, text)
	}
	return took, text, err
}

// mark begins to count the processor's time that the server takes.
func (s *server) mark() (err error) {
	s.at = time.Now()
	s.cpu, err = s.used()
	return err
}

// cores is the share of the processor's time since mark.
func (s *server) cores() (float64, error) {
	now, err := s.used()
	return float64(now-s.cpu) / float64(time.Since(s.at)), err
}

// tick is what Linux counts in.
const tick = 10 * time.Millisecond

// used is the processor's time that the process has taken.
func (s *server) used() (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name of the program may have spaces
	fields := strings.Fields(rest)
	user, err := strconv.Atoi(fields[11])
	if err != nil {
		return 0, err
	}
	system, err := strconv.Atoi(fields[12])
	return time.Duration(user+system) * tick, err
}

// memory is the most that the process has held, in MB.
func (s *server) memory() (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if after, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, err := strconv.Atoi(strings.Fields(after)[0])
			return float64(kb) / 1024, err
		}
	}
	return 0, fmt.Errorf("process %d has no VmHWM", s.cmd.Process.Pid)
}
