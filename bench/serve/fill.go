package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// queue has none of the runs that a store is filled with, so that workers leave them alone.
const queue = "load"

// start is when the first run of a filled store began; each next one began a second later.
var start = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// far is when the first pause expires: nothing is due before.
var far = time.Date(2040, 1, 1, 0, 0, 0, 0, time.UTC)

func at(i int) time.Time { return start.Add(time.Duration(i) * time.Second) }

// phases of 200 runs: 140 are ok, 20 failed, 10 were cancelled, 20 wait, 8 are queued, one is running and one is
// interrupted.
func phaseOf(i int) checkpoint.Phase {
	switch k := i * 37 % 200; { // 37 has no divisor in common with 200: the phases are mixed
	case k < 140:
		return checkpoint.PhaseOK
	case k < 160:
		return checkpoint.PhaseFailed
	case k < 170:
		return checkpoint.PhaseCancelled
	case k < 190:
		return checkpoint.PhaseWaiting
	case k < 198:
		return checkpoint.PhaseQueued
	case k < 199:
		return checkpoint.PhaseRunning
	}
	return checkpoint.PhaseInterrupted
}

// fill fills a store with n runs of 50 recipes and a rare one, and with the runs that are viewed.
func fill(ctx context.Context, s checkpoint.Store, n int) error {
	const writers = 64
	failed := make([]error, writers)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := w; i < n && failed[w] == nil; i += writers {
				failed[w] = put(ctx, s, i)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	for _, steps := range viewed {
		if err := execute(ctx, s, steps); err != nil {
			return err
		}
	}
	return nil
}

// put puts one run into a store.
func put(ctx context.Context, s checkpoint.Store, i int) error {
	phase := phaseOf(i)
	run := checkpoint.Run{ID: fmt.Sprintf("run-%06d", i), Recipe: fmt.Sprint("recipe-", i%50), Digest: "sha256:0123456789abcdef",
		Queue: []string{"", "default", "slow", "fast"}[i/7%4], StartedAt: at(i), Queued: phase == checkpoint.PhaseQueued,
		Labels: map[string]string{"team": fmt.Sprint("team-", i/3%10), "customer": fmt.Sprint(i / 20)}, By: "ada"}
	if i%20_000 == 17 {
		run.Recipe = "rare"
	}
	if i%100 == 9 {
		run.Parent = fmt.Sprintf("run-%06d", i/1000)
	}
	var ttl time.Duration
	var recs []checkpoint.Record
	add := func(kind checkpoint.Kind, path string, data map[string]any) {
		rec, err := checkpoint.NewRecord(at(i+1), kind, path, data)
		if err != nil {
			panic(err) // it is our own data
		}
		recs = append(recs, rec)
	}
	switch phase {
	case checkpoint.PhaseOK, checkpoint.PhaseCancelled:
		add(checkpoint.RunEnded, "", map[string]any{"status": string(phase)})
	case checkpoint.PhaseFailed:
		add(checkpoint.RunEnded, "", map[string]any{"status": "error", "error": map[string]any{"code": "tool.failed",
			"message": "the server answered 503", "step": "fetch"}})
	case checkpoint.PhaseWaiting:
		opened := map[string]any{"pause": "approve", "kind": "human", "prompt": "Send this?"}
		if i%2 == 0 {
			opened["expiresAt"] = far.Add(time.Duration(i) * time.Second).Format(time.RFC3339)
		}
		add(checkpoint.PauseOpened, "approve", opened)
		add(checkpoint.RunPaused, "", nil)
	case checkpoint.PhaseRunning:
		ttl = 10_000 * time.Hour
	}
	if _, err := s.Create(ctx, run, "somebody", ttl, recs...); err != nil {
		return err
	}
	if i%5003 != 0 || phase == checkpoint.PhaseOK || phase == checkpoint.PhaseFailed || phase == checkpoint.PhaseCancelled {
		return nil
	}
	return s.(checkpoint.Signals).PutSignal(ctx, run.ID, checkpoint.Signal{ID: "x", Kind: checkpoint.SignalTake, At: start})
}

// viewed are how many steps the runs have whose views are measured, and copies is how many such runs there are: more than
// the server keeps.
var viewed = []int{200, 2000}

const copies = 20

// execute executes runs of a chain, one a copy.
func execute(ctx context.Context, s checkpoint.Store, steps int) error {
	wf, err := compile(chain("chain", steps))
	if err != nil {
		return err
	}
	failed := make([]error, copies)
	var wg sync.WaitGroup
	for i := range copies {
		wg.Go(func() {
			failed[i] = run(ctx, wf, s, viewedID(steps, i), &pace{})
		})
	}
	wg.Wait()
	return errors.Join(failed...)
}

// run executes a run with an id.
func run(ctx context.Context, wf *workflow.Workflow, s checkpoint.Store, id string, tool runtime.Tool) error {
	rt := &runtime.Runtime{Store: s, Tools: []runtime.Tool{tool}, NewRunID: func() string { return id }}
	_, err := wf.Run(ctx, nil, rt)
	return err
}

func viewedID(steps, i int) string { return fmt.Sprintf("view-%d-%02d", steps, i) }

func compile(text string) (*workflow.Workflow, error) {
	r, err := recipe.Parse("load.yaml", []byte(text))
	if err != nil {
		return nil, err
	}
	return workflow.Compile(r, nil)
}

// chain is a recipe whose steps are executed one after the other, by the tool load.pace.
func chain(name string, steps int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: braise/v1\nname: %s\nsteps:\n  s0: {uses: load.pace, with: {n: 0}}\n", name)
	for i := 1; i < steps; i++ {
		fmt.Fprintf(&b, "  s%d: {uses: load.pace, with: {n: \"${{ steps.s%d.output.n }}\"}}\n", i, i-1)
	}
	fmt.Fprintf(&b, "output: ${{ steps.s%d.output.n }}\n", steps-1)
	return b.String()
}

// pace is a tool whose call n ends at a time that was settled before, and gives n+1.
type pace struct {
	from  time.Time // when call 0 ends; zero: calls end at once
	every time.Duration
}

// Spec implements runtime.Tool.
func (p *pace) Spec() runtime.ToolSpec {
	return runtime.ToolSpec{Name: "load.pace", Description: "Waits."}
}

// Call implements runtime.Tool.
func (p *pace) Call(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
	var in struct{ N int }
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	if !p.from.IsZero() {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Until(p.from.Add(time.Duration(in.N) * p.every))):
		}
	}
	return json.Marshal(map[string]any{"n": in.N + 1, "text": "As an answer of a model would be: some words that say what was found."})
}
