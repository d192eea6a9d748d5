//go:build unix

package temporal

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/braise-run/braise/cluster/temporal/servertest"
	"github.com/braise-run/braise/runtime"
)

// BenchmarkSteps measures runs beside workflows by hand that make the same calls as activities, in turn on one server. Workers
// and client are this process. It reports medians: what a step takes by hand and how many times that on Braise, and how much
// more of the processor this process needs for a step. -benchtime 5x makes five turns.
func BenchmarkSteps(b *testing.B) {
	for _, tt := range []struct {
		name                 string
		runs, chain, abreast int // of each run: a chain, then calls beside each other, 64 at a time
	}{
		{"one-chain", 1, 100, 0},
		{"chains", 20, 50, 0},
		{"items", 5, 1, 200},
	} {
		b.Run(tt.name, func(b *testing.B) {
			m := newMeasured(b, tt.chain, tt.abreast)
			steps := float64(tt.runs * (tt.chain + tt.abreast))
			var raw, ratio, cpu []float64
			m.raw(tt.runs) // connections, caches
			m.braise(tt.runs)
			for b.Loop() {
				byHand, braise := m.cost(func() { m.raw(tt.runs) }), m.cost(func() { m.braise(tt.runs) })
				raw = append(raw, float64(byHand.elapsed.Milliseconds())/steps)
				ratio = append(ratio, float64(braise.elapsed)/float64(byHand.elapsed))
				cpu = append(cpu, float64((braise.cpu-byHand.cpu).Microseconds())/1000/steps)
			}
			b.ReportMetric(median(raw), "raw-ms/step")
			b.ReportMetric(median(ratio), "×elapsed")
			b.ReportMetric(median(cpu), "more-cpu-ms/step")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// measured is a server with a worker of Braise and one of workflows by hand.
type measured struct {
	b              *testing.B
	client         client.Client // without a codec
	engine         *Engine
	recipe         string
	chain, abreast int
	begun          int
}

func newMeasured(b *testing.B, chain, abreast int) *measured {
	server := servertest.Start(b)
	codec := newCodec(b)
	m := &measured{b: b, client: server.Client(client.Options{}), chain: chain, abreast: abreast}
	m.engine = &Engine{Client: server.Client(codec.Options(client.Options{}))}
	add := func(_ context.Context, in map[string]any) (map[string]any, error) {
		return map[string]any{"n": in["n"].(float64) + 1}, nil
	}
	rt := &runtime.Runtime{Tools: []runtime.Tool{runtime.NewTool(runtime.ToolSpec{Name: "bench.add", Effect: runtime.Idempotent}, add)}}
	working(b, m.engine.Client, rt, nil)
	w := worker.New(m.client, "raw", worker.Options{DeadlockDetectionTimeout: 10 * time.Second})
	w.RegisterActivityWithOptions(add, activity.RegisterOptions{Name: "add"})
	w.RegisterWorkflowWithOptions(m.byHand, workflow.RegisterOptions{Name: "raw"})
	if err := w.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(w.Stop)

	var text strings.Builder
	text.WriteString("apiVersion: braise/v1\nname: bench\nsteps:\n  s1: {uses: bench.add, with: {n: 0}}\n")
	for i := 2; i <= chain; i++ {
		fmt.Fprintf(&text, "  s%d: {uses: bench.add, with: {n: \"${{ steps.s%d.output.n }}\"}}\n", i, i-1)
	}
	if abreast > 0 {
		fmt.Fprintf(&text, "  each: {needs: [s%d], foreach: {in: \"${{ 1..%d }}\", as: i, max_parallel: 64}, uses: bench.add, with: {n: \"${{ i }}\"}}\n",
			chain, abreast)
	}
	fmt.Fprintf(&text, "output: ${{ steps.s%d.output.n }}\n", chain)
	m.recipe = text.String()
	return m
}

// byHand is the workflow by hand.
func (m *measured) byHand(ctx workflow.Context) (float64, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute, HeartbeatTimeout: heartbeat})
	out := map[string]any{"n": 0.0}
	for range m.chain {
		if err := workflow.ExecuteActivity(ctx, "add", out).Get(ctx, &out); err != nil {
			return 0, err
		}
	}
	open, failed := 0, error(nil)
	for i := range m.abreast {
		_ = workflow.Await(ctx, func() bool { return open < 64 })
		open++
		workflow.Go(ctx, func(ctx workflow.Context) {
			if err := workflow.ExecuteActivity(ctx, "add", map[string]any{"n": float64(i)}).Get(ctx, nil); err != nil {
				failed = err
			}
			open--
		})
	}
	_ = workflow.Await(ctx, func() bool { return open == 0 })
	return out["n"].(float64), failed
}

// raw executes workflows by hand.
func (m *measured) raw(runs int) {
	var all []client.WorkflowRun
	for range runs {
		m.begun++
		run, err := m.client.ExecuteWorkflow(m.b.Context(), client.StartWorkflowOptions{ID: fmt.Sprint("raw-", m.begun), TaskQueue: "raw"}, "raw")
		if err != nil {
			m.b.Fatal(err)
		}
		all = append(all, run)
	}
	for _, run := range all {
		var n float64
		if err := run.Get(m.b.Context(), &n); err != nil || n != float64(m.chain) {
			m.b.Fatalf("the workflow ends with %v, %v, want %d", n, err, m.chain)
		}
	}
}

// braise executes runs, and waits for them as raw does: Engine.Wait looks for pauses besides.
func (m *measured) braise(runs int) {
	wf := compiled(m.b, m.recipe)
	var ids []string
	for range runs {
		id, err := m.engine.Start(m.b.Context(), wf, nil, nil)
		if err != nil {
			m.b.Fatal(err)
		}
		ids = append(ids, id)
	}
	for _, id := range ids {
		var e ended
		if err := m.engine.Client.GetWorkflow(m.b.Context(), id, "").Get(m.b.Context(), &e); err != nil {
			m.b.Fatal(err)
		}
		out, err := m.engine.Wait(m.b.Context(), id)
		if err != nil || fmt.Sprint(out.Output) != fmt.Sprint(m.chain) {
			m.b.Fatalf("the run ends with %v, %v, want %d", out.Output, err, m.chain)
		}
	}
}

type cost struct{ elapsed, cpu time.Duration }

// cost is what f takes of time, and of the processor in this process.
func (m *measured) cost(f func()) cost {
	began, before := time.Now(), m.used()
	f()
	return cost{time.Since(began), m.used() - before}
}

func (m *measured) used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		m.b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func median(list []float64) float64 {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}
