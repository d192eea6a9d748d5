package mcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/braise-run/braise/internal/procgroup"
)

const (
	grace       = time.Second // for each way to end a process, and for its output after its end
	stderrBytes = 64 << 10    // kept of stderr: more than is shown, for secrets are found only whole
	framing     = 4           // how much longer than the result a line with it may be, escaped
)

var hostEnv = []string{"PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ", "USER"}

// process is a server that is a program. It is the transport and the connection of one session.
//
//	running ──▶ ending (its stdin is closed; a signal; another) ──▶ exited ──▶ gone
//	   └───────────────────────────────────────────────────────────────┘
type process struct {
	cmd    *exec.Cmd
	group  *procgroup.Group
	limit  int // bytes of a line
	stdin  *os.File
	stdout *os.File
	lines  *bufio.Reader // of stdout
	stderr tail
	noise  tail // what came on stdout and is no message

	writing chan struct{} // holds one while a message is written
	end     func()        // begins the end
	ending  chan struct{} // closed by end
	read    chan struct{} // closed when nothing comes on stdout any more
	cause   error         // why not; nil: it has ended. To be read once read is closed
	gone    chan struct{} // closed when its group has ended too, and its output is read
}

// newProcess starts the program of a server. all waits until it is gone.
func newProcess(cfg Config, all *sync.WaitGroup) (*process, error) {
	cmd := exec.Command(cfg.Command[0], cfg.Command[1:]...)
	if cmd.Err != nil {
		return nil, cmd.Err
	}
	cmd.Dir = cfg.Dir
	cmd.Env = []string{}
	for _, name := range hostEnv {
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Env)) {
		cmd.Env = append(cmd.Env, name+"="+cfg.Env[name]) // of two with one name the last counts
	}
	p := &process{
		cmd:     cmd,
		limit:   framing * cfg.MaxBytes,
		writing: make(chan struct{}, 1),
		ending:  make(chan struct{}),
		read:    make(chan struct{}),
		gone:    make(chan struct{}),
	}
	p.end = sync.OnceFunc(func() { close(p.ending) })
	return p, p.start(all, cfg.Guard)
}

// start starts the program, with pipes of our own: exec.Cmd's would have Wait wait for every process
// that holds them.
func (p *process) start(all *sync.WaitGroup, guard []string) error {
	var theirs, ours []*os.File
	pipe := func() (r, w *os.File, err error) {
		if r, w, err = os.Pipe(); err == nil {
			theirs, ours = append(theirs, r), append(ours, w)
		}
		return r, w, err
	}
	stdin, toStdin, err1 := pipe()
	fromStdout, stdout, err2 := pipe()
	fromStderr, stderr, err3 := pipe()
	err := errors.Join(err1, err2, err3)
	if err != nil {
		closeAll(slices.Concat(theirs, ours)...)
		return err
	}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = stdin, stdout, stderr
	p.stdin, p.stdout, p.lines = toStdin, fromStdout, bufio.NewReader(fromStdout)

	p.group, err = procgroup.Start(p.cmd, guard)
	closeAll(stdin, stdout, stderr)
	if err != nil {
		closeAll(toStdin, fromStdout, fromStderr)
		return err
	}
	told := make(chan struct{})
	go func() {
		_, _ = io.Copy(&p.stderr, fromStderr) // ends at the end, or when watch closes it
		close(told)
	}()
	all.Go(func() { p.watch(fromStderr, told) })
	return nil
}

// watch sees to the end of the process:
//  1. wait until it has ended, or is to end;
//  2. make it end;
//  3. end what is left of its group, take in the rest of its output.
func (p *process) watch(stderr *os.File, told chan struct{}) {
	select {
	case <-p.group.Exited():
	case <-p.ending:
		for _, push := range []func(){func() { p.stdin.Close() }, func() { p.group.Terminate() }} {
			push()
			if within(p.group.Exited(), grace) {
				break
			}
		}
		p.group.Kill()
		<-p.group.Exited()
	}
	p.group.Close()
	if within(told, grace) { // else a process that left the group holds the pipes
		within(p.read, grace)
	}
	closeAll(p.stdin, p.stdout, stderr)
	<-told
	close(p.gone)
}

// within reports whether a channel is closed in time.
func within(c <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c:
		return true
	case <-timer.C:
		return false
	}
}

func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// fate says what has become of a process whose messages have ended.
func (p *process) fate(quote func(said string, cut bool) string) string {
	how := "it has closed its stdout"
	over := within(p.gone, grace)
	switch {
	case p.broken() != nil:
		how = quote(p.broken().Error(), false)
	case over:
		if code := p.cmd.ProcessState.ExitCode(); code >= 0 {
			how = fmt.Sprintf("it exited with code %d", code)
		} else {
			how = "it was ended by " + p.cmd.ProcessState.String() // signal: …
		}
	}
	return how + p.said(quote)
}

// broken is why its messages have ended, if not by their end.
func (p *process) broken() error {
	select {
	case <-p.read:
		return p.cause
	default:
		return nil
	}
}

// said is what a process has printed beside its messages, for errors.
func (p *process) said(quote func(said string, cut bool) string) string {
	said := ""
	if text := quote(p.stderr.text()); text != "" {
		said += "\n  stderr: " + text
	}
	if text := quote(p.noise.text()); text != "" {
		said += "\n  on stdout, but no message: " + text
	}
	return said
}

// Connect implements sdk.Transport.
func (p *process) Connect(context.Context) (sdk.Connection, error) { return p, nil }

// SessionID implements sdk.Connection.
func (p *process) SessionID() string { return "" }

// Close implements sdk.Connection. It does not wait: gone is closed when all is over.
func (p *process) Close() error {
	p.end()
	return nil
}

// Read implements sdk.Connection: a message is a line. Lines that do not begin like one are left out,
// as other clients do: some servers greet on stdout.
func (p *process) Read(context.Context) (jsonrpc.Message, error) {
	msg, err := p.next()
	if err != nil {
		if err != io.EOF && !errors.Is(err, os.ErrClosed) {
			p.cause = err
		}
		close(p.read)
		p.end()
	}
	return msg, err
}

func (p *process) next() (jsonrpc.Message, error) {
	for {
		line, err := readLine(p.lines, p.limit)
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] == '{' {
			msg, decodeErr := jsonrpc.DecodeMessage(line)
			if decodeErr == nil {
				return msg, nil
			}
			if err == nil {
				return nil, fmt.Errorf("it sent something that is not a message: %w", decodeErr)
			}
		}
		if len(line) > 0 && err != errLongLine {
			_, _ = p.noise.Write(append(line, '\n'))
		}
		if err != nil {
			return nil, err
		}
	}
}

var errLongLine = errors.New("it sent a line that is too long")

// readLine reads up to a line feed, at most limit bytes.
func readLine(r *bufio.Reader, limit int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > limit {
			return nil, errLongLine
		}
		line = append(line, part...)
		if err != bufio.ErrBufferFull {
			return line, err
		}
	}
}

// Write implements sdk.Connection. If ctx is done after only a part of the message was taken, the connection cannot be
// used any more.
func (p *process) Write(ctx context.Context, msg jsonrpc.Message) error {
	line, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return err
	}
	select {
	case p.writing <- struct{}{}:
		defer func() { <-p.writing }()
	case <-p.ending:
		return errEnded
	case <-ctx.Done():
		return ctx.Err()
	}
	stop := context.AfterFunc(ctx, p.end)
	defer stop()
	n, err := p.stdin.Write(append(line, '\n'))
	if n > 0 {
		callOf(ctx).note(func(k *knowledge) { k.sent = true })
	}
	return err
}

var errEnded = errors.New("it has ended")

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	kept []byte
	cut  bool
}

// Write implements io.Writer.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, b...)
	if over := len(t.kept) - stderrBytes; over > 0 {
		t.kept, t.cut = append([]byte(nil), t.kept[over:]...), true
	}
	return len(b), nil
}

// text returns what is kept, and whether the beginning is not.
func (t *tail) text() (text string, cut bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.kept), t.cut
}
