package temporal

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/braise-run/braise/cluster/temporal/servertest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	flow "github.com/braise-run/braise/workflow"
)

// The variables by which the process of a test is a worker: the address of the server, and the file for effects.
const (
	workerVariable = "BRAISE_TEST_WORKER"
	fileVariable   = "BRAISE_TEST_EFFECTS"
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(workerVariable); addr != "" {
		fmt.Fprintln(os.Stderr, workUntilKilled(addr, os.Getenv(fileVariable)))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// workUntilKilled is a worker whose tools write into a file what they do, and take their time.
func workUntilKilled(addr, file string) error {
	tool := func(name string, effect runtime.Effect, takes time.Duration) runtime.Tool {
		return runtime.NewTool(runtime.ToolSpec{Name: name, Effect: effect},
			func(ctx context.Context, in map[string]any) (any, error) {
				if err := note(file, fmt.Sprintf("%s %v %s", name, in["n"], resume.IdempotencyKey(ctx)[:8])); err != nil {
					return nil, err
				}
				select {
				case <-time.After(takes):
				case <-ctx.Done():
				}
				return in["n"], ctx.Err()
			})
	}
	c, err := client.Dial(client.Options{HostPort: addr, Logger: quiet{}})
	if err != nil {
		return err
	}
	w, err := NewWorker(c, &runtime.Runtime{Resume: resume.PassThrough{}, Tools: []runtime.Tool{
		tool("kill.work", runtime.Idempotent, 300*time.Millisecond), tool("kill.pay", runtime.External, 2*time.Second)}}, nil)
	if err != nil {
		return err
	}
	return w.Run(context.Background())
}

func note(file, text string) error {
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text + "\n")
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}

// When workers are killed, others continue: what may be made again is, under the same keys, and about an effect outside
// somebody is asked.
func TestServerWorkersKilled(t *testing.T) {
	s := servertest.Start(t)
	e := &Engine{Client: s.Client(client.Options{Logger: quiet{}})}
	file := t.TempDir() + "/effects"
	done := func() string {
		text, _ := os.ReadFile(file)
		return string(text)
	}
	start := func() (kill func()) {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), workerVariable+"="+s.Addr, fileVariable+"="+file)
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		kill = sync.OnceFunc(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		t.Cleanup(kill)
		return kill
	}
	until := func(text string, n int) {
		for strings.Count(done(), text) < n {
			select {
			case <-time.After(20 * time.Millisecond):
			case <-t.Context().Done():
				t.Fatal("it takes too long")
			}
		}
	}
	kill := start()
	wf := compiled(t, head+`steps:
  each: {uses: kill.work, foreach: {in: "${{ 1..6 }}", as: n, max_parallel: 2}, with: {n: "${{ n }}"}}
  pay: {uses: kill.pay, needs: [each], with: {n: 7}}
output: {each: "${{ steps.each.output }}", pay: "${{ steps.pay.output }}"}
`)
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	if _, err := e.Start(ctx, wf, nil, &Options{ID: "K1"}); err != nil {
		t.Fatal(err)
	}
	until("kill.work", 3)
	kill()
	kill = start()
	until("kill.pay", 1)
	kill()
	start()
	out, err := e.Wait(ctx, "K1")
	if out == nil || len(out.Pauses) != 1 || out.Pauses[0].Reason != "indeterminate" {
		t.Fatalf("%+v, %v", out, err)
	}
	out, err = e.Answer(ctx, "K1", "pay", object("decision", "result", "form", int64(7)), "ann")
	if err != nil || out.Status != flow.StatusOK || fmt.Sprint(out.Output) != "map[each:[1 2 3 4 5 6] pay:7]" {
		t.Errorf("%v, %v", out, err)
	}
	keys := map[string]string{}
	for _, line := range strings.Split(strings.TrimSpace(done()), "\n") {
		at := strings.LastIndex(line, " ")
		if was := keys[line[:at]]; was != "" && was != line[at:] {
			t.Errorf("%q has two keys: %s, %s", line[:at], was, line[at:])
		}
		keys[line[:at]] = line[at:]
	}
	if n := strings.Count(done(), "kill.pay"); n != 1 || len(keys) != 7 {
		t.Errorf("paid %d times; effects:\n%s", n, done())
	}
}
