package postgres

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/checkpointtest"
	"github.com/braise-run/braise/internal/guard"
)

func TestMain(m *testing.M) {
	if job := os.Getenv("BRAISE_POSTGRES_JOB"); job != "" {
		if err := child(context.Background(), job, os.Getenv("BRAISE_POSTGRES_URL")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	flag.Set("test.parallel", "8") // tests wait more than they work
	checkpointtest.Main(m, openPlace)
}

// child is what another process does; it says on its output what it achieved.
func child(ctx context.Context, job, url string) error {
	s, err := Open(ctx, url, nil)
	if err != nil {
		return err
	}
	defer s.Close()
	owner := checkpoint.NewOwner()
	switch job {
	case "compete":
		in := bufio.NewReader(os.Stdin)
		fmt.Println("open")
		if _, err := in.ReadString('\n'); err != nil {
			return err
		}
		for i := range competed {
			id := fmt.Sprintf("run-%d", i)
			if _, err := s.Create(ctx, makeRun(id), owner, 0); err != nil && !errors.Is(err, checkpoint.ErrExists) {
				return err
			}
			l, err := s.Claim(ctx, id, owner, long)
			if err == nil {
				err = s.Append(ctx, l, 1, note("won"))
			}
			if err == nil {
				fmt.Println(id)
			} else if !errors.Is(err, checkpoint.ErrBusy) {
				return err
			}
		}
		fmt.Println("done")
		in.ReadString('\n') // a process that is gone holds nothing
	case "hold":
		if _, err := s.Create(ctx, makeRun("held"), owner, long, note("a")); err != nil {
			return err
		}
		fmt.Println("held")
		select {}
	}
	return nil
}

const competed = 30

// start runs this test binary as another process.
func (m *medium) start(job string) (*exec.Cmd, io.Writer, *bufio.Scanner) {
	m.t.Helper()
	cmd := exec.CommandContext(m.t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "BRAISE_POSTGRES_JOB="+job, "BRAISE_POSTGRES_URL="+m.url)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		m.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		m.t.Fatal(err)
	}
	return cmd, in, bufio.NewScanner(out)
}

// Processes open an empty database, create and claim the same runs at the same time: each run has one winner.
func TestProcesses(t *testing.T) {
	m := newMedium(t)
	const processes = 3
	var cmds [processes]*exec.Cmd
	var ins [processes]io.Writer
	var outs [processes]*bufio.Scanner
	for i := range processes {
		cmds[i], ins[i], outs[i] = m.start("compete")
	}
	for _, out := range outs {
		if !out.Scan() {
			t.Fatal("a process ended early")
		}
	}
	for _, in := range ins {
		io.WriteString(in, "go\n")
	}
	wins := map[string]int{}
	for _, out := range outs {
		for out.Scan() && out.Text() != "done" {
			wins[out.Text()]++
		}
	}
	for i, in := range ins {
		io.WriteString(in, "end\n")
		if err := cmds[i].Wait(); err != nil {
			t.Error(err)
		}
	}
	s := m.open()
	for i := range competed {
		id := fmt.Sprintf("run-%d", i)
		if wins[id] != 1 {
			t.Errorf("%d processes won %s, want 1", wins[id], id)
		}
		if diff := cmp.Diff([]string{`{"text":"won"}`}, m.texts(s, id)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", id, diff)
		}
	}
}

// A process that was killed does not keep its runs, however long its lease.
func TestKilledProcess(t *testing.T) {
	m := newMedium(t)
	s := m.open()
	cmd, _, out := m.start("hold")
	if !out.Scan() {
		t.Fatal("the process ended early")
	}
	if _, err := s.Claim(t.Context(), "held", "me", long); !errors.Is(err, checkpoint.ErrBusy) {
		t.Errorf("Claim: %v, want ErrBusy", err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	l, err := s.Claim(t.Context(), "held", "me", long)
	if err != nil && runtime.GOOS != "linux" {
		t.Skipf("this system does not tell who is gone: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	if err := s.Append(t.Context(), l, 2, note("b")); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff([]string{`{"text":"a"}`, `{"text":"b"}`}, m.texts(s, "held")); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
}

// isSentinel reports whether an error is one of package checkpoint's, and so not that of a lost connection.
func isSentinel(err error) bool {
	for _, e := range []error{checkpoint.ErrExists, checkpoint.ErrNotFound, checkpoint.ErrBusy, checkpoint.ErrFenced, checkpoint.ErrConflict,
		checkpoint.ErrToken, checkpoint.ErrInvalid, checkpoint.ErrCorrupt, checkpoint.ErrVersion, checkpoint.ErrClosed} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// trust 6.5: connections are killed while runs go on. No write fails, and in the end each journal has every record once.
func TestKilledConnections(t *testing.T) {
	const runs, steps = 8, 40
	m := newMedium(t)
	s := m.open()
	ctx := t.Context()
	var leases []checkpoint.Lease
	for i := range runs {
		leases = append(leases, m.create(s, fmt.Sprintf("run-%d", i)))
	}
	var all sync.WaitGroup
	kill := make(chan struct{}, runs*steps)
	for _, l := range leases {
		all.Go(func() {
			for after := int64(1); after <= steps; after++ {
				if err := s.Append(ctx, l, after, note(fmt.Sprint(after))); err != nil {
					t.Error(err)
					return
				}
				kill <- struct{}{}
			}
		})
	}
	done := make(chan struct{})
	go func() { all.Wait(); close(done) }()
	killed := 0
	for n := 0; ; n++ {
		select {
		case <-kill:
			if n%40 == 0 {
				m.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = $1", m.name)
				killed++
			}
			continue
		case <-done:
		}
		break
	}
	if killed == 0 {
		t.Error("nothing was killed")
	}
	var want []string
	for i := range steps {
		want = append(want, fmt.Sprintf(`{"text":"%d"}`, i+1))
	}
	for _, l := range leases {
		if diff := cmp.Diff(want, m.texts(s, l.RunID)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", l.RunID, diff)
		}
	}
}

// proxy stands between a store and the server. It can lose what is asked or answered next, or be away.
type proxy struct {
	listener net.Listener
	server   string
	refused  chan struct{} // has room for what tests wait for
	mu       sync.Mutex
	away     bool
	turned   int // connections that were refused
	deaf     int // the question of that number from now on is lost, and its connection; 0: none
	mute     int // the answer is
	conns    []net.Conn
	all      sync.WaitGroup
}

func startProxy(t *testing.T, m *medium) *proxy {
	t.Helper()
	u, err := url.Parse(m.url)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{listener: l, server: u.Host, refused: make(chan struct{}, 3)}
	u.Host = l.Addr().String()
	m.url = u.String()
	p.all.Go(p.serve)
	t.Cleanup(func() { l.Close(); p.set(true); p.all.Wait() })
	return p
}

func (p *proxy) serve() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		var s net.Conn
		if !p.away {
			s, err = net.Dial("tcp", p.server)
		}
		if p.away || err != nil {
			c.Close()
			p.turned++
			p.mu.Unlock()
			select {
			case p.refused <- struct{}{}:
			default:
			}
			continue
		}
		p.conns = append(p.conns, c, s)
		p.mu.Unlock()
		p.all.Go(func() { p.pass(s, c, &p.deaf); s.Close() })
		p.all.Go(func() { p.pass(c, s, &p.mute); c.Close() })
	}
}

// pass passes on what comes in until some of it is to be lost. An answer means that the statement is done.
func (p *proxy) pass(to, from net.Conn, lose *int) {
	buf := make([]byte, 1<<16)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		p.mu.Lock()
		lost := *lose == 1
		*lose = max(0, *lose-1)
		p.mu.Unlock()
		if lost {
			return
		}
		to.Write(buf[:n])
	}
}

// cut makes the proxy lose the next question or answer.
func (p *proxy) cut(answer bool) { p.cutAt(1, answer) }

// cutAt makes the proxy lose the n-th question or answer from now on.
func (p *proxy) cutAt(n int, answer bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.deaf, p.mute = n, 0; answer {
		p.deaf, p.mute = 0, n
	}
}

// set makes the proxy refuse connections and cut the open ones.
func (p *proxy) set(away bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.away = away
	if away {
		for _, c := range p.conns {
			c.Close()
		}
		p.conns = nil
	}
}

// trust 6.5: the server goes away and comes back. A write waits for it as long as the lease lasts.
func TestServerAway(t *testing.T) {
	m := newMedium(t)
	p := startProxy(t, m)
	s := m.open()
	ctx := t.Context()
	l := m.create(s, "run", note("a"))
	p.set(true)
	if _, _, err := s.Load(ctx, "run", 0); err == nil || isSentinel(err) {
		t.Errorf("Load: %v", err)
	}
	done := make(chan error)
	go func() { done <- s.Append(ctx, l, 2, note("b")) }()
	for range cap(p.refused) {
		<-p.refused
	}
	p.set(false)
	if err := <-done; err != nil {
		t.Errorf("Append: %v", err)
	}
	if diff := cmp.Diff([]string{`{"text":"a"}`, `{"text":"b"}`}, m.texts(s, "run")); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
	l, err := s.Renew(ctx, l, 200*time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	p.set(true)
	if err := s.Append(ctx, l, 3, note("lost")); err == nil || isSentinel(err) {
		t.Errorf("Append: %v", err)
	}
	p.set(false)
	if err := s.Append(ctx, l, 3, note("c")); err != nil {
		t.Error(err)
	}
}

// A swap happens once, wherever the connection is lost: before the document is read, before it is written, after that.
func TestSwapLostAnswer(t *testing.T) {
	m := newMedium(t)
	p := startProxy(t, m)
	s := m.open()
	quiet(s)
	for at := 1; at <= 6; at++ {
		for _, answer := range []bool{false, true} {
			var old *string
			for _, text := range []*string{new("1"), new("2"), nil} {
				p.cutAt(at, answer)
				if err := s.SwapDocument(t.Context(), "c", "a", old, text); err != nil {
					t.Errorf("cut %d, answer %v: %v", at, answer, err)
				}
				p.cutAt(0, false)
				got, ok, err := s.Document(t.Context(), "c", "a")
				if err != nil || ok != (text != nil) || ok && got != *text {
					t.Errorf("cut %d, answer %v: %q %v %v", at, answer, got, ok, err)
				}
				old = text
			}
		}
	}
}

// trust 6.5: while the server is away, many callers make few connections, and all get an error soon. When it is back, so are they.
func TestFewConnectionsWhileAway(t *testing.T) {
	t.Parallel()
	m := newMedium(t)
	p := startProxy(t, m)
	m.url += "&pool_max_conns=4"
	s := m.open()
	m.create(s, "run", note("a"))
	p.set(true)
	away, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	var callers sync.WaitGroup
	for range 20 {
		callers.Go(func() {
			for away.Err() == nil {
				if _, _, err := s.Load(away, "run", 0); err == nil || isSentinel(err) && away.Err() == nil {
					t.Errorf("Load: %v", err)
				}
				sleep(away, time.Millisecond)
			}
		})
	}
	callers.Wait()
	p.mu.Lock()
	// Pauses of 20 ms and of half as much again each time fit ten times into it. Before the first, each caller may have tried. pgx
	// dials twice in each try.
	if most := 2 * (20 + 11); p.turned > most {
		t.Errorf("%d connections were tried, want %d at most", p.turned, most)
	}
	p.mu.Unlock()
	p.set(false)
	for back := time.Now(); ; sleep(t.Context(), time.Millisecond) {
		if _, _, err := s.Load(t.Context(), "run", 0); err == nil {
			break
		} else if time.Since(back) > 2*time.Minute {
			t.Fatal(err)
		}
	}
}

// trust 6.5: a write is done, but its answer is lost, and the server is away until the lease is over: the error says so, and Load tells.
func TestLostAnswer(t *testing.T) {
	m := newMedium(t)
	p := startProxy(t, m)
	m.url += "&pool_max_conns=1" // the one on which the statement is prepared
	s := m.open()
	ctx := t.Context()
	l := m.create(s, "run")
	if err := s.Append(ctx, l, 1, note("a")); err != nil { // the first time, the statement is prepared
		t.Fatal(err)
	}
	l, err := s.Renew(ctx, l, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	quiet(s)
	p.cut(true)
	err = s.Append(ctx, l, 2, note("b"))
	if err == nil || isSentinel(err) || !strings.Contains(err.Error(), "may have happened") {
		t.Errorf("Append: %v", err)
	}
	if diff := cmp.Diff([]string{`{"text":"a"}`, `{"text":"b"}`}, m.texts(s, "run")); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
	if err := s.Append(ctx, l, 2, note("b")); !errors.Is(err, checkpoint.ErrConflict) {
		t.Errorf("Append again: %v, want ErrConflict", err)
	}
	if err := s.Append(ctx, l, 3, note("c")); err != nil {
		t.Error(err)
	}
}

// trust 6.5: while a write whose connection was lost waits to be made again, somebody else takes the run. It is not made then.
func TestFencedWhileAway(t *testing.T) {
	m := newMedium(t)
	direct := m.open()
	p := startProxy(t, m)
	s := m.open()
	l := m.create(s, "run")
	p.set(true)
	done := make(chan error)
	go func() { done <- s.Append(t.Context(), l, 1, note("mine")) }()
	for range cap(p.refused) {
		<-p.refused
	}
	m.exec("UPDATE SCHEMA.runs SET until = now() WHERE id = 'run'")
	other, err := direct.Claim(t.Context(), "run", "other", long)
	if err == nil {
		err = direct.Append(t.Context(), other, 1, note("theirs"))
	}
	if err != nil {
		t.Fatal(err)
	}
	p.set(false)
	if err := <-done; !errors.Is(err, checkpoint.ErrFenced) {
		t.Errorf("Append: %v, want ErrFenced", err)
	}
	if diff := cmp.Diff([]string{`{"text":"theirs"}`}, m.texts(s, "run")); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
}

// trust 6.5: a store that is closed does not wait for a server that is away.
func TestClosedWhileAway(t *testing.T) {
	m := newMedium(t)
	p := startProxy(t, m)
	s := m.open()
	l := m.create(s, "run")
	p.set(true)
	done := make(chan error)
	go func() { done <- s.Append(t.Context(), l, 1, note("a")) }()
	for range cap(p.refused) {
		<-p.refused
	}
	s.Close()
	if err := <-done; err == nil || isSentinel(err) {
		t.Errorf("Append: %v", err)
	}
}

// A write waits behind a lock: those with it in the queue give up, and what has begun is left behind, and happens.
func TestCancelledWhileWaiting(t *testing.T) {
	before := goleak.IgnoreCurrent()
	m := newMedium(t)
	s, err := Open(t.Context(), m.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	l := m.create(s, "run")
	other := m.create(s, "other")
	m.exec("BEGIN")
	m.exec("SELECT * FROM SCHEMA.runs WHERE id = 'run' FOR UPDATE")
	ctx, cancel := context.WithCancel(t.Context())
	begun := make(chan error)
	go func() { begun <- s.Append(ctx, l, 1, note("begun")) }()
	m.locked()
	queued := make(chan error)
	go func() { queued <- s.Append(ctx, other, 1, note("queued")) }()
	closed := make(chan error)
	cancel()
	if err := <-queued; !errors.Is(err, context.Canceled) {
		t.Errorf("queued: %v, want context.Canceled", err)
	}
	if err := <-begun; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "may still happen") {
		t.Errorf("begun: %v, want context.Canceled, and that it may still happen", err)
	}
	go func() { closed <- s.Close() }()
	m.exec("COMMIT")
	if err := <-closed; err != nil {
		t.Errorf("Close: %v", err)
	}
	again := m.open()
	if diff := cmp.Diff([]string{`{"text":"begun"}`}, m.texts(again, "run")); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
	if got := m.texts(again, "other"); got != nil {
		t.Errorf("the other journal: %v", got)
	}
	again.Close()
	goleak.VerifyNone(t, before)
}

// A write that has the writer for itself ends with its context, and the next one gets another connection.
func TestCancelledAlone(t *testing.T) {
	m := newMedium(t)
	s := m.open()
	l := m.create(s, "run")
	m.exec("BEGIN")
	m.exec("SELECT * FROM SCHEMA.runs WHERE id = 'run' FOR UPDATE")
	ctx, cancel := context.WithTimeout(t.Context(), guard.StoreTime)
	done := make(chan error)
	go func() { done <- s.Append(ctx, l, 1, note("a")) }()
	m.locked()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "may have happened") {
		t.Errorf("Append: %v, want context.Canceled, and that it may have happened", err)
	}
	m.exec("COMMIT")
	for { // the server may still be at it
		if err := s.Append(t.Context(), l, 1, note("a")); err == nil || errors.Is(err, checkpoint.ErrConflict) {
			break
		} else if t.Context().Err() != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{`{"text":"a"}`}, m.texts(s, "run")); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
}

// locked returns when a write waits for a lock.
func (m *medium) locked() {
	for m.column("SELECT pg_stat_clear_snapshot()::text || count(*)::text FROM pg_stat_activity WHERE wait_event_type = 'Lock' "+
		"AND application_name = $1", m.name)[0] == "0" {
		runtime.Gosched()
	}
}

// The server takes too long: that is not the caller's context.
func TestNoAnswer(t *testing.T) {
	m := newMedium(t)
	s := m.open()
	l := m.create(s, "run")
	l.Length = time.Millisecond
	giveUp := s.patience.End
	m.exec("BEGIN")
	m.exec("SELECT * FROM SCHEMA.runs WHERE id = 'run' FOR UPDATE")
	failed := make(chan error)
	go func() { failed <- s.Append(t.Context(), l, 1, note("a")) }()
	m.locked()
	giveUp()
	err := <-failed
	if err == nil || isSentinel(err) || errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "may have happened") {
		t.Errorf("Append: %v", err)
	}
	m.exec("ROLLBACK")
	sum, _, err := s.Load(t.Context(), "run", 0)
	if err != nil {
		t.Fatal(err)
	}
	// What the server was told may yet happen; the journal has it once at most.
	if err := s.Append(t.Context(), l, sum.Seq, note("b")); err != nil && !errors.Is(err, checkpoint.ErrConflict) {
		t.Error(err)
	}
}

// Eight stores answer the same pause.
func TestAnswersByManyStores(t *testing.T) {
	m := newMedium(t)
	record := func(kind checkpoint.Kind, data string) checkpoint.Record {
		return checkpoint.Record{At: start, Kind: kind, Path: "ask", Data: []byte(data)}
	}
	l := m.create(m.open(), "run", record(checkpoint.PauseOpened, `{"kind":"human","pause":"p"}`),
		record(checkpoint.TokenMinted, `{"hash":"6f6e65","pause":"p"}`))
	errs := make(chan error, 8)
	for range cap(errs) {
		s := m.open()
		go func() {
			errs <- s.AnswerPause(t.Context(), l, 3, []byte("one"), record(checkpoint.PauseAnswered, `{"pause":"p"}`))
		}()
	}
	won := 0
	for range cap(errs) {
		if err := <-errs; err == nil {
			won++
		} else if !errors.Is(err, checkpoint.ErrConflict) {
			t.Error(err)
		}
	}
	if won != 1 {
		t.Errorf("%d answers won, want 1", won)
	}
}

// Two stores append to their own runs and signal those of the other: nobody waits for long, and nothing fails.
func TestSignalsAcross(t *testing.T) {
	const runs, rounds = 8, 30
	m := newMedium(t)
	stores := []*Store{m.open(), m.open()}
	var all sync.WaitGroup
	for i, s := range stores {
		for j := range runs {
			l := m.create(s, fmt.Sprintf("run-%d-%d", j, i))
			all.Go(func() {
				for n := range int64(rounds) {
					if err := s.Append(t.Context(), l, n+1, note("a")); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	for i, s := range stores {
		for j := range runs {
			all.Go(func() {
				id := fmt.Sprintf("run-%d-%d", j, 1-i)
				for n := range rounds {
					signal := checkpoint.Signal{ID: fmt.Sprint(n), Kind: checkpoint.SignalTake, At: start}
					if err := s.PutSignal(t.Context(), id, signal); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
}
