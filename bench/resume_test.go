package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cloudwego/eino/compose"
	"github.com/cschleiden/go-workflows/client"
	"github.com/dbos-inc/dbos-transact-golang/dbos"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/sqlite"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// In W7 a run is left half done by one process, and another process goes on with it. Both are this
// test program, told by a variable in the environment whose turn it is.

const w7Steps = 100

// resumed is something that can go on with what another process began. Both work in a folder that
// they alone use. half may end the process by itself; it returns what rest needs to know.
type resumed struct {
	name string
	half func(dir string) (handle string, err error)
	rest func(dir, handle string) (value, error)
}

var resumers = []resumed{
	{"braise", braisePause, resumeWith("full")},
	{"braise-normal", braisePause, resumeWith("normal")},
	{"braise-recover", braiseDie, recoverWith("full")},
	{"braise-recover-normal", braiseDie, recoverWith("normal")},
	{"dbos", dbosDie, dbosRecover},
	{"go-workflows", goWorkflowsPause, goWorkflowsResume},
	{"eino", einoPause, einoResume},
}

const turnOf = "BRAISE_BENCH_TURN" // name of the resumer, a slash, half or rest

func TestMain(m *testing.M) {
	began := time.Now()
	turn, ok := os.LookupEnv(turnOf)
	if !ok {
		os.Exit(m.Run())
	}
	if err := takeTurn(turn, began); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// takeTurn does a half of the work in the folder where the process is. It prints how long rest took.
func takeTurn(turn string, began time.Time) error {
	name, which, _ := strings.Cut(turn, "/")
	for _, r := range resumers {
		if r.name != name {
			continue
		}
		if which == "half" {
			handle, err := r.half(".")
			if err == nil {
				err = os.WriteFile("handle", []byte(handle), 0o600)
			}
			return err
		}
		handle, err := os.ReadFile("handle")
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		v, err := r.rest(".", string(handle))
		took := time.Since(began)
		if err == nil && v["n"] != int64(w7Steps) {
			err = fmt.Errorf("the result is %v", v)
		}
		fmt.Println(took.Nanoseconds())
		return err
	}
	return fmt.Errorf("nobody has the name %q", name)
}

// child runs this program in a folder, and returns what it printed.
func child(dir, turn string) (string, error) {
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), turnOf+"="+turn)
	out, err := cmd.Output()
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, e.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

// handOver has one process do half of the work, and returns what measures another one that does
// the rest: each time on a copy of what the first has left.
func handOver(tb testing.TB, r resumed) func() (time.Duration, error) {
	left := tb.TempDir()
	if _, err := child(left, r.name+"/half"); err != nil {
		tb.Fatal(err)
	}
	return func() (time.Duration, error) {
		dir := tb.TempDir()
		if err := os.CopyFS(dir, os.DirFS(left)); err != nil {
			return 0, err
		}
		out, err := child(dir, r.name+"/rest")
		if err != nil {
			return 0, err
		}
		ns, err := strconv.ParseInt(out, 10, 64)
		return time.Duration(ns), err
	}
}

// BenchmarkW7 is from the first line of the second process's main to the outcome.
func BenchmarkW7(b *testing.B) {
	for _, r := range resumers {
		b.Run(r.name, func(b *testing.B) {
			goOn := handOver(b, r)
			var times []float64
			for b.Loop() {
				took, err := goOn()
				if err != nil {
					b.Fatal(err)
				}
				times = append(times, float64(took))
			}
			b.ReportMetric(median(times), "ns/op")
		})
	}
}

func TestResumers(t *testing.T) {
	for _, r := range resumers {
		t.Run(r.name, func(t *testing.T) {
			if _, err := handOver(t, r)(); err != nil {
				t.Error(err)
			}
		})
	}
}

// halves is the chain with a step between its halves.
func halves(between string) string {
	text := string(yamlRecipe(chain(w7Steps)))
	next := fmt.Sprintf("  s%d: {", w7Steps/2)
	before := fmt.Sprintf("s%d", w7Steps/2-1)
	return strings.Replace(text, next, fmt.Sprintf("  between: {needs: [%s], %s}\n%sneeds: [between], ", before, between, next), 1)
}

// onFile is a runtime with a store in a file.
func onFile(dir, synchronous string, between func()) (*runtime.Runtime, error) {
	store, err := sqlite.Open(context.Background(), filepath.Join(dir, "runs.db"), &sqlite.Options{Synchronous: synchronous})
	return &runtime.Runtime{Store: store, Resume: resume.PassThrough{}, Tools: []runtime.Tool{increment{}, die{between}}}, err
}

// die is a tool whose call may end the process. As it only reads, it may be called again.
type die struct{ between func() }

func (die) Spec() runtime.ToolSpec {
	return runtime.ToolSpec{Name: "bench.die", Effect: runtime.ReadOnly}
}

func (d die) Call(context.Context, json.RawMessage) (json.RawMessage, error) {
	d.between()
	return json.RawMessage("true"), nil
}

// exit ends the process as a crash would: nothing is closed.
func exit() { os.Exit(0) }

func live() {}

func outcomeOf(out *workflow.Outcome, err error) (value, error) {
	if err != nil {
		return nil, err
	}
	v, ok := out.Output.(value)
	if !ok {
		return nil, fmt.Errorf("the run is %s", out.Status)
	}
	return v, nil
}

// braisePause asks a person, closes the store and leaves a token.
func braisePause(dir string) (string, error) {
	rt, err := onFile(dir, "full", live)
	if err != nil {
		return "", err
	}
	wf, err := parsed(halves("uses: human, with: {prompt: 'Ready?'}"))
	if err != nil {
		return "", err
	}
	out, err := wf.Run(context.Background(), nil, rt)
	return out.Token, errors.Join(err, rt.Store.Close())
}

// resumeWith answers the question. What "normal" does without is the sync of each commit, as DBOS does on SQLite.
func resumeWith(synchronous string) func(dir, token string) (value, error) {
	return func(dir, token string) (value, error) {
		rt, err := onFile(dir, synchronous, live)
		if err != nil {
			return nil, err
		}
		return outcomeOf(workflow.Resume(context.Background(), token, map[string]any{"decision": "approve"}, rt, nil))
	}
}

func braiseDie(dir string) (string, error) {
	rt, err := onFile(dir, "full", exit)
	if err != nil {
		return "", err
	}
	wf, err := parsed(halves("uses: bench.die"))
	if err == nil {
		_, err = wf.Run(context.Background(), nil, rt)
	}
	return "", errors.Join(err, errors.New("the process lives"))
}

func recoverWith(synchronous string) func(dir, _ string) (value, error) {
	return func(dir, _ string) (value, error) {
		ctx := context.Background()
		rt, err := onFile(dir, synchronous, live)
		if err != nil {
			return nil, err
		}
		runs, err := rt.Store.List(ctx, checkpoint.Filter{})
		if err != nil || len(runs) != 1 {
			return nil, fmt.Errorf("%d runs: %w", len(runs), err)
		}
		return outcomeOf(workflow.Recover(ctx, runs[0].ID, rt, nil))
	}
}

// dbosOnFile launches DBOS on a file with its own choice of pragmas.
func dbosOnFile(dir string, between func()) (dbos.Context, dbos.Workflow[int, typed], error) {
	ctx, err := dbosContext(context.Background(), dbos.Config{DatabaseURL: "sqlite:" + filepath.Join(dir, "dbos.db")})
	if err != nil {
		return nil, nil, err
	}
	wf := dbosSteps(w7Steps, between)
	dbos.RegisterWorkflow(ctx, wf, dbos.WithWorkflowName("chain"))
	return ctx, wf, dbos.Launch(ctx)
}

func dbosDie(dir string) (string, error) {
	ctx, wf, err := dbosOnFile(dir, exit)
	if err != nil {
		return "", err
	}
	handle, err := dbos.RunWorkflow(ctx, wf, 0, dbos.WithWorkflowID("run"))
	if err == nil {
		_, err = handle.GetResult()
	}
	return "", errors.Join(err, errors.New("the process lives"))
}

// dbosRecover has Launch recover the run, and asks for the result as often as DBOS lets one.
func dbosRecover(dir, _ string) (value, error) {
	ctx, _, err := dbosOnFile(dir, live)
	if err != nil {
		return nil, err
	}
	handle, err := dbos.RetrieveWorkflow[typed](ctx, "run")
	if err != nil {
		return nil, err
	}
	v, err := handle.GetResult(dbos.WithHandlePollingInterval(time.Millisecond))
	return untyped(v), err
}

// goWorkflowsPause waits until the workflow waits for its signal: the last activity has been read then.
func goWorkflowsPause(dir string) (string, error) {
	ctx := context.Background()
	c, closeIt, err := goWorkflowsClient(ctx, filepath.Join(dir, "flows.db"))
	if err != nil {
		return "", err
	}
	instance, err := c.CreateWorkflowInstance(ctx, client.WorkflowInstanceOptions{InstanceID: "run"}, addChain, w7Steps, true)
	if err != nil {
		return "", err
	}
	<-paused
	time.Sleep(time.Second) // until that is written too
	return instance.ExecutionID, closeIt()
}

func goWorkflowsResume(dir, execution string) (value, error) {
	ctx := context.Background()
	c, _, err := goWorkflowsClient(ctx, filepath.Join(dir, "flows.db"))
	if err != nil {
		return nil, err
	}
	if err := c.SignalWorkflow(ctx, "run", "go on", true); err != nil {
		return nil, err
	}
	v, err := client.GetWorkflowResult[typed](ctx, c, flowInstance("run", execution), time.Minute)
	return untyped(v), err
}

// einoGraph stops between the halves, which is when eino writes a checkpoint.
func einoGraph(dir string) (compose.Runnable[value, value], error) {
	c := compose.NewGraph[value, value]()
	var errs []error
	last := compose.START
	for i := range w7Steps {
		errs = append(errs, c.AddLambdaNode(id(i), compose.InvokableLambda(func(_ context.Context, v value) (value, error) { return add1(v), nil })),
			c.AddEdge(last, id(i)))
		last = id(i)
	}
	errs = append(errs, c.AddEdge(last, compose.END))
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return c.Compile(context.Background(), compose.WithNodeTriggerMode(compose.AllPredecessor),
		compose.WithCheckPointStore(einoFile(dir)), compose.WithInterruptBeforeNodes([]string{id(w7Steps / 2)}))
}

// einoFile keeps checkpoints as files in a folder.
type einoFile string

func (dir einoFile) Get(_ context.Context, id string) ([]byte, bool, error) {
	data, err := os.ReadFile(filepath.Join(string(dir), id))
	if errors.Is(err, os.ErrNotExist) {
		return nil, false, nil
	}
	return data, err == nil, err
}

func (dir einoFile) Set(_ context.Context, id string, data []byte) error {
	f, err := os.Create(filepath.Join(string(dir), id))
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

func einoPause(dir string) (string, error) {
	run, err := einoGraph(dir)
	if err != nil {
		return "", err
	}
	_, err = run.Invoke(context.Background(), zero(), compose.WithCheckPointID("run"))
	if _, ok := compose.ExtractInterruptInfo(err); ok {
		err = nil
	}
	return "", err
}

func einoResume(dir, _ string) (value, error) {
	run, err := einoGraph(dir)
	if err != nil {
		return nil, err
	}
	return run.Invoke(context.Background(), nil, compose.WithCheckPointID("run"))
}
