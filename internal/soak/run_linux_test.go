package soak

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/resume"
)

// leaseTime is how long a process that does not move keeps its runs, and a little more.
const leaseTime = 16 * time.Second

// endless is the number of executions after which a run counts as one that does not end.
const endless = 80

// run is one run, and what is done to it. All that chance decides comes from its own numbers, so that the seed and its
// name say what happens to it, whatever happens to others.
type run struct {
	*soak
	id     string
	recipe *recipe
	rng    *rand.Rand
	store  *store // with a proxy of its own, where the store is a server
	hits   int    // how many processes may yet be disturbed
	cuts   bool   // connections are cut, and nothing else happens
	done   []string
	pids   []int             // of its processes, in which no sweep is
	tokens map[string]string // by pause, of the last outcome that was seen
	n      counts
}

// process is one process of the command at work on a run.
type process struct {
	cmd            *exec.Cmd
	stdout, stderr bytes.Buffer
	ended          chan struct{} // closed when it has
}

// outcome is what the command prints of one.
type outcome struct {
	Status string
	Output any
	Error  struct{ Code, Message string }
	Pauses []struct{ ID, Token string }
	Found  []struct{ Code, Step string } `json:"diagnostics"`
}

// note keeps what was done, for the message of a failure.
func (r *run) note(format string, args ...any) { r.done = append(r.done, fmt.Sprintf(format, args...)) }

func (r *run) errorf(format string, args ...any) {
	r.t.Helper()
	r.t.Errorf("%s of recipe %s: %s\n%s\nagain: go test ./internal/soak -soak %v -soak.seed %d -soak.only %s",
		r.id, r.recipe.name, fmt.Sprintf(format, args...), strings.Join(r.done, "\n"), *duration, *seed, r.id)
}

// start starts the command on the run.
func (r *run) start(args ...string) *process {
	p := &process{cmd: exec.Command(r.braise, append(args, "--store", r.store.url, "--config", "braise.yaml", "--quiet",
		"--no-interactive", "--output", "json", "--model", "m=script:"+r.id+".turns")...), ended: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = r.dir, &p.stdout, &p.stderr
	p.cmd.WaitDelay = time.Second // programs that a killed process left have its pipes
	if err := p.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.pids = append(r.pids, p.cmd.Process.Pid)
	go func() {
		p.cmd.Wait()
		close(p.ended)
	}()
	return p
}

// end waits for a process, kills one that hangs, and returns its exit code; -1: a signal ended it.
func (r *run) end(p *process) int {
	select {
	case <-p.ended:
	case <-time.After(90 * time.Second):
		p.cmd.Process.Kill()
		<-p.ended
		r.errorf("%v hangs: %s", p.cmd.Args[1:3], last(p.stderr.String(), 1000))
	}
	code := p.cmd.ProcessState.ExitCode()
	var out outcome
	if json.Unmarshal(p.stdout.Bytes(), &out) == nil {
		for _, pause := range out.Pauses {
			r.tokens[pause.ID] = pause.Token
		}
	}
	r.note("  %v ended with %d %s %s", p.cmd.Args[1:3], code, out.Status, last(strings.TrimSpace(out.Error.Message), 200))
	return code
}

// execute has a process work on the run, and disturbs it at random.
func (r *run) execute(args ...string) {
	p := r.start(args...)
	r.disturb(p)
	r.end(p)
}

// disturb waits for some moment of a process and does something to it there.
func (r *run) disturb(p *process) {
	what := r.pick()
	requests, wait := r.rng.IntN(3), time.Duration(r.rng.IntN(150))*time.Millisecond
	stopped, outage := time.Duration(50+r.rng.IntN(300))*time.Millisecond, time.Duration(r.rng.IntN(400))*time.Millisecond
	if what == "" {
		return
	}
	r.hits--
	r.mu.Lock()
	requests += len(r.requests[r.id])
	r.mu.Unlock()
	r.awaitRequests(r.id, requests, 300*time.Millisecond)
	select {
	case <-p.ended:
	case <-time.After(wait):
	}
	r.note("%s %v", what, p.cmd.Args[1:3])
	switch what {
	case "kill":
		r.n.kills++
		p.signal(syscall.SIGKILL)
	case "term":
		r.n.terms++
		p.signal(syscall.SIGTERM)
	case "cut":
		r.n.cuts++
		r.store.via.cut(true)
		pause(outage)
		r.store.via.open()
	case "stop":
		r.n.stops++
		p.signal(syscall.SIGSTOP)
		pause(stopped)
		p.signal(syscall.SIGCONT)
	case "outlive":
		r.n.outlived++
		p.signal(syscall.SIGSTOP)
		pause(leaseTime)
		r.end(r.start("runs", "recover", r.id))
		p.signal(syscall.SIGCONT)
	}
}

// pick says what is done to a process; "" is nothing.
func (r *run) pick() string {
	n := r.rng.IntN(100)
	switch {
	case r.hits <= 0 || r.calm():
		return ""
	case r.cuts:
		return "cut"
	case n < 35:
		return "kill"
	case n < 45:
		return "term"
	case n < 55:
		return "stop"
	case n < 70 && r.store.via != nil:
		return "cut"
	case n < 74 && long():
		return "outlive"
	}
	return ""
}

func (p *process) signal(s os.Signal) { _ = p.cmd.Process.Signal(s) } // it may have ended

// live takes the run from its beginning to its end.
func (r *run) live() {
	r.n.runs++
	turns := strings.ReplaceAll(turns, "RUN", r.id)
	if err := os.WriteFile(filepath.Join(r.dir, r.id+".turns"), []byte(turns), 0o644); err != nil {
		r.t.Fatal(err)
	}
	for executions := 0; ; executions++ {
		if executions > endless {
			r.errorf("it does not end")
			return
		}
		now, err := history.Load(r.t.Context(), r.journal, r.id)
		switch {
		case errors.Is(err, checkpoint.ErrNotFound):
			r.execute("run", r.recipe.name+".yaml", "--run-id", r.id, "--input", "run="+r.id, "--input", "url="+r.url)
			continue
		case err != nil:
			r.errorf("its journal cannot be read: %v", err)
			return
		}
		switch now.Status {
		case history.Running: // a sweeper or somebody who recovers has it
			pause(100 * time.Millisecond)
			executions--
		case history.Interrupted:
			r.n.recoveries++
			r.execute("runs", "recover", r.id)
		case history.Paused:
			r.answer(now.Pauses)
		default:
			r.check()
			return
		}
	}
}

// answer answers one of the open pauses, or has a sweep see to those that are due.
func (r *run) answer(open []resume.Pause) {
	i := r.rng.IntN(len(open))
	for range open {
		p := open[i]
		i = (i + 1) % len(open)
		switch {
		case p.Reason == "indeterminate":
			r.settleCall(p)
			return
		case p.Kind == resume.Human && r.recipe.answers[p.Step] != "":
			r.decide(p.ID, "--decision", r.recipe.answers[p.Step])
			return
		case p.Kind == resume.External && p.Reason == r.recipe.sent && p.Reason != "":
			r.execute("runs", "send", r.id, r.recipe.sent, "--inputs-json", `"a letter"`)
			return
		}
	}
	pause(200 * time.Millisecond)
	r.execute("runs", "sweep")
}

// settleCall is somebody who looks at what really happened before they answer.
func (r *run) settleCall(p resume.Pause) {
	r.n.questions++
	if r.cuts && (p.Call == nil || slices.ContainsFunc(r.pids, func(pid int) bool { return madeBy(p.Call.Owner, pid) })) {
		r.n.needless++
		r.errorf("trust 6.5: it asks about %s, though only connections to its store were cut", p.Step)
	}
	r.settle(r.id)
	all := r.effects(r.id)
	if count(all, p.Step) == 0 {
		r.n.retries++
		r.decide(p.ID, "--decision", "retry")
		return
	}
	text, err := json.Marshal(resultOf(all, p.Step))
	if err != nil {
		r.t.Fatal(err)
	}
	r.decide(p.ID, "--decision", "result", "--inputs-json", string(text))
}

// resultOf is the result of the call that had an effect.
func resultOf(all []effect, path string) map[string]any {
	if i := slices.IndexFunc(all, func(e effect) bool { return e.path == path }); all[i].status != 0 {
		return map[string]any{"status": 200, "headers": map[string]any{}, "body": "did " + path, "json": nil}
	}
	return map[string]any{"code": 0, "stdout": "did " + path, "stderr": ""}
}

// decide answers a pause: by its name, or by its token, in up to three processes at the same time.
func (r *run) decide(id string, answer ...string) {
	r.n.answers++
	by, processes := r.rng.IntN(3), 1+r.rng.IntN(3)
	if by > 0 && r.tokens[id] == "" {
		r.execute("runs", "recover", r.id)
	}
	token := r.tokens[id]
	if by == 0 || token == "" {
		r.execute(append([]string{"runs", "answer", r.id, id}, answer...)...)
		return
	}
	delete(r.tokens, id)
	r.note("%d processes answer %s: %v", processes, id, answer)
	var others []*process
	for range processes - 1 {
		others = append(others, r.start(append([]string{"resume", token}, answer...)...))
	}
	r.execute(append([]string{"resume", token}, answer...)...)
	for _, p := range others {
		r.end(p)
	}
}

// check compares what happened outside with what should have, and with what the run says.
func (r *run) check() {
	p := r.start("runs", "recover", r.id)
	r.end(p)
	var out outcome
	if err := json.Unmarshal(p.stdout.Bytes(), &out); err != nil {
		r.errorf("its outcome cannot be read: %v: %s", err, p.stderr.String())
		return
	}
	if out.Status != r.recipe.status || !equal(out.Output, r.recipe.output) {
		r.n.wrong++
		r.errorf("it ended with %s %v %v, want %s %v", out.Status, out.Output, out.Error, r.recipe.status, r.recipe.output)
	}
	all := r.effects(r.id)
	for _, path := range r.recipe.effects {
		r.once(all, path, false)
	}
	for _, path := range r.recipe.undone {
		step, _, _ := strings.Cut(path, "!")
		r.once(all, path, slices.ContainsFunc(out.Found, func(d struct{ Code, Step string }) bool {
			return d.Code == "rollback.failed" && strings.HasPrefix(cmp.Or(d.Step, step), step)
		}))
	}
	keys := map[string]string{}
	for _, e := range all {
		if keys[e.path] == "" {
			keys[e.path] = e.key
		}
		if e.key == "" || keys[e.path] != e.key {
			r.errorf("attempts of %s have keys %q and %q", e.path, keys[e.path], e.key)
		}
	}
	if r.recipe.known != "" && count(all, r.recipe.known) == 0 {
		r.n.lost++
		r.errorf("%s is lost", r.recipe.known)
	}
	r.checkAnswers()
}

// once checks that an effect happened once; may says that it may not have happened at all.
func (r *run) once(all []effect, path string, may bool) {
	n := count(all, path)
	r.n.effects += n
	switch {
	case n > 1:
		r.n.doubled++
		r.errorf("%s happened %d times", path, n)
	case n == 0 && !may:
		r.n.lost++
		r.errorf("%s is lost", path)
	}
}

// checkAnswers checks that no pause was answered more often than it was opened.
func (r *run) checkAnswers() {
	_, recs, err := r.journal.Load(context.WithoutCancel(r.t.Context()), r.id, 0)
	if err != nil {
		r.errorf("its journal cannot be read: %v", err)
	}
	open := map[string]int{}
	for _, rec := range recs {
		var about struct{ Pause string }
		if json.Unmarshal(rec.Data, &about) != nil {
			continue
		}
		switch rec.Kind {
		case checkpoint.PauseOpened:
			open[about.Pause]++
		case checkpoint.PauseAnswered:
			if open[about.Pause]--; open[about.Pause] < 0 {
				r.errorf("pause %s was answered twice", about.Pause)
			}
		}
	}
}

// equal compares values as JSON.
func equal(got, want any) bool {
	a, errA := json.Marshal(got)
	b, errB := json.Marshal(want)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

// counts are the figures of a line of the table.
type counts struct {
	runs, effects, kills, stops, outlived, terms, cuts, answers, recoveries, swept int
	questions, needless, retries, lost, doubled, wrong                             int
}

func (c *counts) add(more counts) {
	for _, f := range []struct {
		to *int
		n  int
	}{
		{&c.runs, more.runs}, {&c.effects, more.effects}, {&c.kills, more.kills}, {&c.stops, more.stops},
		{&c.outlived, more.outlived}, {&c.terms, more.terms}, {&c.cuts, more.cuts}, {&c.recoveries, more.recoveries},
		{&c.answers, more.answers}, {&c.swept, more.swept}, {&c.questions, more.questions}, {&c.needless, more.needless}, {&c.retries, more.retries}, {&c.lost, more.lost},
		{&c.doubled, more.doubled}, {&c.wrong, more.wrong},
	} {
		*f.to += f.n
	}
}

// table has a line of figures for each store.
type table struct {
	mu    sync.Mutex
	lines []string
}

const columns = "| store | runs | effects | kill -9 | SIGSTOP (past lease) | SIGTERM | cut off | answers | recovered (by sweeps) | questions (retry) | lost | doubled | wrong |"

func (t *table) add(store string, c counts) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, fmt.Sprintf("| %s | %d | %d | %d | %d (%d) | %d | %d | %d | %d (%d) | %d (%d) | %d | %d | %d |", store, c.runs, c.effects,
		c.kills, c.stops+c.outlived, c.outlived, c.terms, c.cuts, c.answers, c.recoveries+c.swept, c.swept, c.questions, c.retries, c.lost, c.doubled, c.wrong))
}

func (t *table) String() string {
	slices.Sort(t.lines)
	return columns + "\n" + strings.Join(t.lines, "\n")
}
