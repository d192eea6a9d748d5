package execution_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/braise-run/braise/adapters/retriever"
	"github.com/braise-run/braise/adapters/script"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/jsonl"
	"github.com/braise-run/braise/checkpoint/postgres"
	"github.com/braise-run/braise/checkpoint/sqlite"
	"github.com/braise-run/braise/internal/failpoint"
	"github.com/braise-run/braise/internal/ledger"
	"github.com/braise-run/braise/internal/local"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// The process that is killed is this test program, started once more for TestCrashChild. It does what is left
// to do of one run, answers its pauses, and prints a crashResult.
const (
	crashVar     = "BRAISE_CRASH"        // a crashJob in JSON
	failpointVar = "BRAISE_FAILPOINT"    // name:n, the n-th time; any:n, the n-th of all; "" for none
	failActVar   = "BRAISE_FAILPOINT_DO" // kill (also ""), stop or cut
)

// crashJob is what a child is told.
type crashJob struct {
	Recipe string        // its name
	Store  string        // jsonl, sqlite, postgres
	Place  string        // the folder, file or URL of the store
	Run    string        // the run's id
	Dir    string        // of the effect log and the tokens
	Tokens []string      // to be tried at first, with approval
	Lease  time.Duration // 0: as usual, else it is not renewed
	Late   bool          // each record is late at once
	Psql   []string      // the command that cuts the connections to the store
	Seed   uint64        // says which pause is answered next; 0: the first in plan order
	Turns  []string      // the steps whose pauses this process ends; nil: all
}

// crashResult is what a child prints.
type crashResult struct {
	Status   workflow.Status
	Code     string // of the error
	Output   any
	Artefact map[string]any
	Pauses   []string // the steps that wait
	Tried    []string // the codes for Tokens, "" for one that was taken
	Hits     []string // name:n, in the order in which they came
}

// effect is a line of the effect log, which stands for the world outside: "external" and "idempotent" are
// what tools did to it; "read" and "model" left nothing there.
type effect struct{ What, Path, Key string }

const usualLease = 15 * time.Second

func TestCrashChild(t *testing.T) {
	text := os.Getenv(crashVar)
	if text == "" {
		t.Skip("this is what the other tests of crashes start")
	}
	var job crashJob
	if err := json.Unmarshal([]byte(text), &job); err != nil {
		t.Fatal(err)
	}
	store, err := openWorld(job.Store, job.Place)
	if err != nil {
		t.Fatal(err)
	}
	c := &crashChild{job: job, recipe: crashRecipeNamed(job.Recipe), at: os.Getenv(failpointVar), do: os.Getenv(failActVar), store: store}
	c.setTimes(usualLease)
	failpoint.Hook = c.reached
	result := c.run(t.Context(), c.recipe.load(t))
	failpoint.Hook = nil
	line, err := json.Marshal(result)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Println(string(line))
	os.Exit(0)
}

func openWorld(kind, place string) (checkpoint.Store, error) {
	switch kind {
	case "jsonl":
		return jsonl.Open(place)
	case "sqlite":
		return sqlite.Open(context.Background(), place, nil)
	}
	return postgres.Open(context.Background(), place, nil)
}

type crashChild struct {
	job    crashJob
	recipe *crashRecipe
	at, do string
	store  checkpoint.Store
	rt     *runtime.Runtime

	mutex sync.Mutex
	times map[string]int
	hits  []string
}

// setTimes sets how long a lease lasts. A record that is late may have a write of its own, and how many of
// these there are is a matter of luck; so usually none is.
func (c *crashChild) setTimes(lease time.Duration) {
	record := time.Hour
	if c.job.Late {
		record = time.Nanosecond
	}
	ledger.LeaseTime, local.RecordTime = lease, record
}

// reached is the failpoint.
func (c *crashChild) reached(name string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.times == nil {
		c.times = map[string]int{}
	}
	c.times[name]++
	hit := fmt.Sprintf("%s:%d", name, c.times[name])
	c.hits = append(c.hits, hit)
	switch {
	case c.job.Lease == 0:
	case name == "create.before" || name == "claim.before":
		c.setTimes(c.job.Lease)
	case name == "create.after" || name == "claim.after":
		c.setTimes(time.Hour) // who is stopped while it renews its lease may have the store locked
	}
	if hit != c.at && fmt.Sprintf("any:%d", len(c.hits)) != c.at {
		return
	}
	switch c.do {
	case "cut":
		if out, err := exec.Command(c.job.Psql[0], c.job.Psql[1:]...).CombinedOutput(); err != nil {
			panic(fmt.Sprintf("psql: %v: %s", err, out))
		}
	case "stop":
		woken := make(chan os.Signal, 1)
		signal.Notify(woken, syscall.SIGCONT)
		syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		<-woken // the other threads may stop first
	default:
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

// run does what is left to do.
func (c *crashChild) run(ctx context.Context, wf *workflow.Workflow) (result crashResult) {
	c.rt = &runtime.Runtime{
		Store: c.store, Resume: resume.PassThrough{}, Interrupt: c.recipe.interrupt, Breakpoints: c.recipe.breaks, By: "ada", Reporter: &runtest.Quiet{}, NewRunID: func() string { return c.job.Run },
		Tools:     []runtime.Tool{c.tool("read", runtime.ReadOnly), c.tool("idempotent", runtime.Idempotent), c.tool("external", ""), c.tool("gate", "")},
		Retriever: runtest.Shelf(c.retrieve),
		OnPause:   c.noteToken,
		Files:     crashFolder{},
		Fallbacks: map[string][]string{"busy": {"m"}},
		Limits:    runtime.Limits{InlineWait: 5 * time.Millisecond, Grace: c.recipe.grace},
	}
	if c.recipe.script != "" {
		model, err := script.Parse("script.yaml", []byte(c.recipe.script))
		if err != nil {
			panic(err)
		}
		c.rt.Models = map[string]runtime.Model{"m": loggedModel{model, c}, "busy": busyModel{}}
	}
	c.rt.Searchers = map[string]runtime.Searcher{"cellar": retriever.SQLite(filepath.Join(c.job.Dir, "cellar.db"), retriever.DatabaseOptions{})} // of this run alone
	for _, token := range c.job.Tokens {
		out, _ := workflow.Resume(ctx, token, map[string]any{"decision": "approve"}, c.rt, nil)
		result.Tried = append(result.Tried, runtest.ErrorCode(out))
	}
	out, _ := workflow.Recover(ctx, c.job.Run, c.rt, nil)
	for runtest.ErrorCode(out) == "run.busy" {
		<-time.After(5 * time.Millisecond)
		out, _ = workflow.Recover(ctx, c.job.Run, c.rt, nil)
	}
	if runtest.ErrorCode(out) == "run.notFound" {
		out, _ = wf.Run(ctx, nil, c.rt)
	}
	for out.Status == workflow.StatusPaused {
		p, ok := c.choose(out.Pauses)
		if !ok {
			break
		}
		out = c.goOn(ctx, p)
	}
	c.mutex.Lock()
	defer c.mutex.Unlock()
	result.Status, result.Code, result.Output, result.Artefact, result.Hits = out.Status, runtest.ErrorCode(out), out.Output, out.Artefact, c.hits
	for _, p := range out.Pauses {
		result.Pauses = append(result.Pauses, p.Step)
	}
	if out.Err != nil {
		fmt.Fprintln(os.Stderr, out.Err)
	}
	return result
}

// choose chooses the pause that ends next; none is left to other processes.
func (c *crashChild) choose(open []resume.Pause) (p resume.Pause, ok bool) {
	open = slices.DeleteFunc(slices.Clone(open), func(p resume.Pause) bool {
		return c.job.Turns != nil && p.Reason != "indeterminate" && !slices.Contains(c.job.Turns, p.Step)
	})
	switch {
	case len(open) == 0:
		return p, false
	case c.job.Seed == 0:
		return open[0], true
	}
	return open[rand.New(rand.NewPCG(c.job.Seed, uint64(len(open)))).IntN(len(open))], true
}

// goOn ends a pause: with what the recipe's answers say, and of a call whose end is unknown with what the
// effect log says. Before that it sends what is to be sent early, unless that is in the journal.
func (c *crashChild) goOn(ctx context.Context, p resume.Pause) *workflow.Outcome {
	recs := runtest.RecordsIn(ctx, c.store, c.job.Run)
	for channel, v := range c.recipe.early {
		if !slices.ContainsFunc(recs, func(rec checkpoint.Record) bool { return rec.Kind == "value.sent" }) {
			out, _ := workflow.Send(ctx, c.job.Run, channel, v, c.rt, nil)
			return out
		}
	}
	if c.recipe.signals || c.recipe.cancels != "" {
		if s, ok := c.signal(p); ok {
			if err := workflow.Signal(ctx, c.job.Run, s, c.store, nil); err != nil && runtest.CodeOf(err) != "signal.exists" {
				panic(err)
			}
			out, _ := workflow.Recover(ctx, c.job.Run, c.rt, nil)
			return out
		}
	}
	var out *workflow.Outcome
	switch channel := c.recipe.channels[p.Step]; {
	case p.Reason == "indeterminate":
		answer := map[string]any{"decision": "retry"}
		switch stands := standing(recs, effectsIn(c.job.Dir), c.job.Run)[p.Step] > 0; {
		case stands && slices.Contains(c.recipe.fails, p.Step), !stands && !slices.Contains(p.Decisions, "retry"):
			answer["decision"] = "fail"
		case stands:
			answer = map[string]any{"decision": "result", "form": resultOf(p.Step)}
			if planned, ok := c.recipe.answers[p.Step].(map[string]any); ok && c.recipe.breaks == nil { // of a tool that asked before
				answer["form"] = planned["decision"]
			}
		}
		out, _ = workflow.Resume(ctx, p.Token, answer, c.rt, nil)
	case channel != "":
		out, _ = workflow.Send(ctx, c.job.Run, channel, c.recipe.answers[p.Step], c.rt, nil)
	case !p.RetryAt.IsZero():
		<-time.After(time.Until(p.RetryAt))
		out, _ = workflow.Recover(ctx, c.job.Run, c.rt, nil)
	default:
		c.noteToken(p)
		answer, ok := c.recipe.answers[p.ID]
		if !ok {
			answer = c.recipe.answers[p.Step]
		}
		out, _ = workflow.Resume(ctx, p.Token, answer, c.rt, nil)
	}
	return out
}

// answers leaves the answer to a pause, once it is open, and waits until the run has taken it.
func (c *crashChild) answers(ctx context.Context, pause string) {
	for ctx.Err() == nil {
		_ = workflow.Signal(ctx, c.job.Run, answerOf(pause, "ada", c.recipe.answers[pause]), c.store, nil)
		if slices.ContainsFunc(runtest.RecordsIn(ctx, c.store, c.job.Run), func(rec checkpoint.Record) bool {
			return rec.Kind == checkpoint.PauseAnswered && rec.Path == pause
		}) {
			return
		}
		<-time.After(5 * time.Millisecond)
	}
}

// signal is the signal that ends a pause; false: none does.
func (c *crashChild) signal(p resume.Pause) (checkpoint.Signal, bool) {
	switch channel := c.recipe.channels[p.Step]; {
	case p.Reason == "indeterminate":
		return checkpoint.Signal{}, false
	case p.Step == c.recipe.cancels:
		return checkpoint.Signal{ID: "c", Kind: checkpoint.SignalCancel, By: "ada"}, true
	case channel != "":
		return signalOf(checkpoint.SignalSend, "ada", map[string]any{"channel": channel, "value": c.recipe.answers[p.Step]}), true
	}
	c.noteToken(p)
	return answerOf(p.ID, "ada", c.recipe.answers[p.Step]), true
}

// noteToken notes the tokens of the pauses that people answer.
func (c *crashChild) noteToken(p resume.Pause) {
	if p.Kind == resume.Human {
		c.add("tokens", p.Token)
	}
}

// resultOf is what a tool returns.
func resultOf(path string) any { return map[string]any{"did": path} }

func (c *crashChild) tool(what string, effects runtime.Effect) runtime.Tool {
	return worldTool{runtime.ToolSpec{Name: "fx." + what, Effect: effects}, what, c}
}

// worldTool writes to the effect log.
type worldTool struct {
	spec  runtime.ToolSpec
	what  string
	child *crashChild
}

func (t worldTool) Spec() runtime.ToolSpec { return t.spec }

func (t worldTool) Call(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
	var a struct {
		As    string
		MS    int
		Hangs bool
		Fails bool

		Answers string // the pause that a signal of the tool answers, before it returns
	}
	if err := json.Unmarshal(args, &a); err != nil {
		return nil, err
	}
	result := resultOf(a.As)
	if t.what == "gate" {
		answer, ok := resume.Answer(ctx)
		if !ok {
			return nil, resume.Suspend(resume.Pause{Kind: resume.Human, Prompt: "Go on?", Decisions: []string{"approve", "reject"}})
		}
		t.what, result = "external", answer.(map[string]any)["decision"]
	}
	if ctx.Err() != nil { // nobody wants it any more
		return nil, ctx.Err()
	}
	t.child.add("effects", effect{t.what, a.As, resume.IdempotencyKey(ctx)})
	if a.Hangs { // until it is stopped
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if a.Fails {
		return nil, errors.New("refused")
	}
	if a.Answers != "" {
		t.child.answers(ctx, a.Answers)
	}
	takes := time.Duration(a.MS) * time.Millisecond
	select {
	case <-ctx.Done():
		<-time.After(takes) // so long it takes to stop, too
		return nil, ctx.Err()
	case <-time.After(takes):
	}
	return json.Marshal(result)
}

func (c *crashChild) retrieve(_ context.Context, query string, _ int) ([]runtime.Document, error) {
	c.add("effects", effect{What: "read", Path: query})
	return []runtime.Document{{ID: query, Text: "found"}}, nil
}

type loggedModel struct {
	runtime.Model
	child *crashChild
}

func (loggedModel) Metadata() runtime.Metadata { return runtime.Metadata{Options: []string{"files"}} }

func (m loggedModel) Generate(ctx context.Context, req *runtime.Request) (*runtime.Response, error) {
	m.child.add("effects", effect{What: "model", Path: req.Step})
	return m.Model.Generate(ctx, req)
}

// busyModel always has too much to do.
type busyModel struct{}

func (busyModel) Generate(context.Context, *runtime.Request) (*runtime.Response, error) {
	return nil, &retry.Failure{Reason: retry.RateLimit, Err: errors.New("slow down")}
}

// crashFolder has the same text in each file.
type crashFolder struct{ runtime.Files }

func (crashFolder) Read(context.Context, string, int64) ([]byte, error) { return []byte("hi"), nil }

// add appends a line to a file, in one write.
func (c *crashChild) add(file string, v any) {
	line, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	f, err := os.OpenFile(filepath.Join(c.job.Dir, file), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err == nil {
		_, err = f.Write(append(line, '\n'))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		panic(err)
	}
}

// effectsIn reads the effect log.
func effectsIn(dir string) []effect { return readLines[effect](filepath.Join(dir, "effects")) }

// readLines reads a file of JSON lines; none is an empty one.
func readLines[T any](file string) (all []T) {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		panic(err)
	}
	for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
		var v T
		if err := json.Unmarshal(s.Bytes(), &v); err != nil {
			panic(err)
		}
		all = append(all, v)
	}
	return all
}

// started is a child under way.
type started struct {
	*exec.Cmd
	out, err bytes.Buffer
}

func startChild(t *testing.T, job crashJob, at, do string) *started {
	t.Helper()
	return startTest(t, "TestCrashChild", crashVar, job, at, do)
}

// startTest starts a test in a process of its own, and tells it a job.
func startTest(t *testing.T, test, variable string, job any, at, do string) *started {
	t.Helper()
	text, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	p := &started{Cmd: exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+test+"$", "-test.timeout=90s")}
	// A process with the race detector would sleep for a second before it exits.
	p.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", variable+"="+string(text), failpointVar+"="+at, failActVar+"="+do)
	p.Stdout, p.Stderr = &p.out, &p.err
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// killed waits for a child, and reports whether it killed itself.
func (p *started) killed() bool {
	_ = p.Wait()
	status := p.ProcessState.Sys().(syscall.WaitStatus)
	return status.Signaled() && status.Signal() == syscall.SIGKILL
}

// kill lets a child run until it kills itself at a point.
func kill(t *testing.T, job crashJob, at string) {
	t.Helper()
	if p := startChild(t, job, at, ""); !p.killed() {
		t.Fatalf("%s was not reached (%v)\n%s%s", at, p.ProcessState, &p.out, &p.err)
	}
}

// result waits for a child that comes to its end.
func (p *started) result(t *testing.T) crashResult {
	t.Helper()
	_ = p.Wait()
	return p.read(t)
}

// read is result for a child that was waited for.
func (p *started) read(t *testing.T) (r crashResult) {
	t.Helper()
	if err := json.Unmarshal(p.out.Bytes(), &r); err != nil || !p.ProcessState.Success() {
		t.Fatalf("%v, %v\n%s%s", p.ProcessState, err, &p.out, &p.err)
	}
	return r
}

// stops waits for a child that stops itself.
func (p *started) stops(t *testing.T) {
	t.Helper()
	var status syscall.WaitStatus
	_, err := syscall.Wait4(p.Process.Pid, &status, syscall.WUNTRACED, nil)
	if err != nil || !status.Stopped() {
		t.Fatalf("the process did not stop: %v, %v\n%s%s", err, status, &p.out, &p.err)
	}
}
