package checkpointtest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/braise-run/braise/checkpoint"
)

// What a worker process is told.
const (
	jobVar   = "BRAISE_CHECKPOINTTEST_JOB"
	placeVar = "BRAISE_CHECKPOINTTEST_PLACE"
)

// Main is the TestMain of a package that calls RunProcesses: it makes the test program a worker when
// it was started as one. open opens the store at a place, a folder or a URL.
func Main(m *testing.M, open func(place string) (checkpoint.Store, error)) {
	job := os.Getenv(jobVar)
	if job == "" {
		os.Exit(m.Run())
	}
	s, err := open(os.Getenv(placeVar))
	if err == nil {
		err = errors.Join(jobs[job](context.Background(), s), s.Close())
	}
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// jobs are what workers do with the run "run", or the documents in "c". They print what the store has accepted.
var jobs = map[string]func(context.Context, checkpoint.Store) error{
	// contend takes the run again and again, adds a record and gives it back.
	"contend": func(ctx context.Context, s checkpoint.Store) error {
		for i := range 60 {
			l, err := s.Claim(ctx, "run", checkpoint.NewOwner(), long)
			if errors.Is(err, checkpoint.ErrBusy) {
				continue
			}
			if err != nil {
				return err
			}
			sum, _, err := s.Load(ctx, "run", 0)
			if err != nil {
				return err
			}
			text := fmt.Sprintf("%d.%d", os.Getpid(), i)
			if err := s.Append(ctx, l, sum.Seq, note(text), note(text+"+")); err != nil {
				return err
			}
			fmt.Println(text)
			if err := s.Release(ctx, l); err != nil {
				return err
			}
		}
		return nil
	},
	// hold takes the run and adds records until it is killed.
	"hold": func(ctx context.Context, s checkpoint.Store) error {
		l, err := s.Claim(ctx, "run", checkpoint.NewOwner(), long)
		for seq := int64(1); err == nil; seq += 2 {
			err = s.Append(ctx, l, seq, note("a"), note("b"))
			if err == nil {
				fmt.Println(seq + 2)
			}
		}
		return err
	},
	// linger does the same with a lease that has run out, until somebody takes it.
	"linger": func(ctx context.Context, s checkpoint.Store) error {
		l, err := s.Claim(ctx, "run", checkpoint.NewOwner(), 0)
		for seq := int64(1); err == nil; seq++ {
			err = s.Append(ctx, l, seq, note("worker"))
			if err == nil {
				fmt.Println(seq + 1)
			}
		}
		if errors.Is(err, checkpoint.ErrFenced) {
			fmt.Println("fenced")
			return nil
		}
		return err
	},
	"audit": audit,
	// signal leaves signals that others leave too, and prints those that it left.
	"signal": func(ctx context.Context, s checkpoint.Store) error {
		for i := range 40 {
			id := strconv.Itoa(i)
			err := s.(checkpoint.Signals).PutSignal(ctx, "run", cancelling(id))
			if err == nil {
				fmt.Println(id)
			} else if !errors.Is(err, checkpoint.ErrExists) {
				return err
			}
		}
		return nil
	},
	// put adds documents.
	"put": func(ctx context.Context, s checkpoint.Store) error {
		for i := range 20 {
			name := fmt.Sprint(os.Getpid(), "-", i)
			d := checkpoint.Document{Name: name, Text: whole(name)}
			if err := s.(checkpoint.Documents).PutDocument(ctx, "c", d); err != nil {
				return err
			}
			fmt.Println(name)
		}
		return nil
	},
	// replace changes a document until it is killed.
	"replace": func(ctx context.Context, s checkpoint.Store) error {
		for i := 1; ; i++ {
			d := checkpoint.Document{Name: "shared", Text: whole(strconv.Itoa(i))}
			if err := s.(checkpoint.Documents).PutDocument(ctx, "c", d); err != nil {
				return err
			}
			fmt.Println(i)
		}
	},
}

// worker is a process that does a job.
type worker struct {
	*exec.Cmd
	lines *bufio.Scanner
}

func startWorker(t *testing.T, job, place string) *worker {
	t.Helper()
	return startWith(t, (*exec.Cmd).Start, job, place)
}

func startWith(t *testing.T, start func(*exec.Cmd) error, job, place string) *worker {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", jobVar+"="+job, placeVar+"="+place)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = start(cmd)
	}
	if err != nil {
		t.Fatal(err)
	}
	return &worker{cmd, bufio.NewScanner(out)}
}

// next returns the next line that the worker prints, "" at the end.
func (w *worker) next() string {
	w.lines.Scan()
	return w.lines.Text()
}

// rest returns the lines that are still to come, once the worker has ended.
func (w *worker) rest(t *testing.T) []string {
	t.Helper()
	var all []string
	for line := w.next(); line != ""; line = w.next() {
		all = append(all, line)
	}
	if err := w.Wait(); err != nil {
		t.Fatalf("worker: %v; %q", err, all)
	}
	return all
}

// RunProcesses tests a durable store that several processes share. newPlace returns the place of an empty
// store, open is that of Main, which has to be the package's TestMain.
func RunProcesses(t *testing.T, newPlace func(t *testing.T) string, open func(place string) (checkpoint.Store, error)) {
	for name, test := range map[string]func(h *harness, place string){
		"contend": testContend, "kill": testKill, "linger": testLinger, "documents": testDocumentsOfMany,
		"signals": testSignalsOfMany,
	} {
		t.Run(name, func(t *testing.T) {
			place := newPlace(t)
			test(begin(t, place, open), place)
		})
	}
}

// begin returns the harness of the store at a place, with the run "run".
func begin(t *testing.T, place string, open func(place string) (checkpoint.Store, error)) *harness {
	t.Helper()
	s, err := open(place)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	h := &harness{T: t, ctx: t.Context(), s: s}
	h.create("run")
	return h
}

// testContend checks that what each of several processes was told to be written is there, once.
func testContend(h *harness, place string) {
	var workers []*worker
	for range 3 {
		workers = append(workers, startWorker(h.T, "contend", place))
	}
	want := map[string]int{}
	for _, w := range workers {
		for _, text := range w.rest(h.T) {
			want[text]++
			want[text+"+"]++
		}
	}
	if len(want) == 0 {
		h.Fatal("no worker ever got the run")
	}
	_, recs := h.load("run")
	got := map[string]int{}
	for _, r := range recs[1:] {
		got[strings.TrimSuffix(strings.TrimPrefix(string(r.Data), `{"text":"`), `"}`)]++
	}
	h.same("records", got, want)
}

// testKill kills a process while it writes. What the store had accepted exists, what it had not is
// there as a whole or not at all, and the run is free at once.
func testKill(h *harness, place string) {
	w := startWorker(h.T, "hold", place)
	var seq int64
	for seq < 21 {
		if _, err := fmt.Sscan(w.next(), &seq); err != nil {
			h.Fatalf("worker: %v", err)
		}
	}
	_, err := h.s.Claim(h.ctx, "run", "other", long)
	h.want("Claim of a run that a living process holds", err, checkpoint.ErrBusy)
	h.want("Kill", w.Process.Kill(), nil)
	for line := w.next(); line != ""; line = w.next() {
		fmt.Sscan(line, &seq)
	}
	w.Wait()
	l, err := h.s.Claim(h.ctx, "run", "other", long)
	if errors.Is(err, checkpoint.ErrBusy) && !canTell() {
		h.Skip("this system does not tell that a process is gone")
	}
	h.want("Claim of a run whose process was killed", err, nil)
	if r, ok := h.s.(checkpoint.Repairer); ok {
		_, err := h.s.Renew(h.ctx, l, 0)
		h.want("Renew", err, nil)
		_, err = r.Repair(h.ctx, "run")
		h.want("Repair", err, nil)
	}
	sum, _ := h.load("run")
	if sum.Seq < seq || sum.Seq > seq+2 || sum.Seq%2 != 1 {
		h.Errorf("the journal ends at %d; the last write that was accepted ended at %d", sum.Seq, seq)
	}
	h.append(l, sum.Seq, note("and on"))
}

func canTell() bool {
	parts := strings.Split(checkpoint.NewOwner(), "/")
	return !slices.Contains(parts, "")
}

// testLinger takes a run from a process that goes on writing.
func testLinger(h *harness, place string) {
	w := startWorker(h.T, "linger", place)
	for range 5 {
		w.next()
	}
	l := h.claim("run", long)
	sum, _ := h.load("run")
	h.append(l, sum.Seq, note("mine"))
	lines := w.rest(h.T)
	if len(lines) == 0 || lines[len(lines)-1] != "fenced" {
		h.Fatalf("the worker ended with %q, want fenced", lines)
	}
	_, recs := h.load("run")
	want := slices.Repeat([]string{string(note("worker").Data)}, int(sum.Seq)-1)
	var got []string
	for _, r := range recs[1:] {
		got = append(got, string(r.Data))
	}
	h.same("records", got, append(want, string(note("mine").Data)))
}
