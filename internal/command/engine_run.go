package command

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/internal/terminal"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// there does on an engine what there is to do about a run, and waits until the run has ended or waits for somebody.
type there = func(ctx context.Context, c *cluster, runID string, by Person) (*workflow.Outcome, error)

// me is who uses the command.
func (s *session) me() Person { return Person{s.host.By(), s.host.Groups()} }

// runThere runs a recipe on an engine. The worker knows models and tools, so only the recipe itself is checked here.
func (s *session) runThere(ctx context.Context, c *cluster, path string, readInputs inputReader) error {
	r, err := s.host.Recipe(path)
	if r == nil {
		return s.unready(err)
	}
	wf, err := workflow.Compile(r, nil)
	if err != nil {
		return s.unready(err)
	}
	inputs, err := readInputs(wf)
	if err != nil {
		return s.refuse(wf, err)
	}
	ctx, why := s.interruptible(ctx)
	runID, err := c.Start(ctx, wf, inputs, StartOptions{RunID: s.runID, By: s.me()})
	if err != nil {
		if err := s.stoppedEarly(ctx); err != nil {
			return err
		}
		out := host.Failed("", err)
		hintInputs(out, wf.Recipe().Inputs)
		return s.failed(out)
	}
	f := &follower{session: s, tail: (&history.Reader{Store: c}).Tail(runID)}
	return s.finishThere(ctx, runID, f.await(ctx, runID, c.Wait), why())
}

// resumeThere lets an engine do what there is to do about the run that find returns, and prints the result.
func (s *session) resumeThere(ctx context.Context, c *cluster, find finder, do there) error {
	ctx, why := s.interruptible(ctx)
	runID, err := find(c)
	if err != nil {
		return s.fail("", err)
	}
	f := &follower{session: s, tail: (&history.Reader{Store: c}).Tail(runID)}
	_, _, _ = f.tail.Next(ctx) // what is past is not shown again; who cannot read it does the rest all the same
	out := f.await(ctx, runID, func(ctx context.Context, runID string) (*workflow.Outcome, error) {
		return do(ctx, c, runID, s.me())
	})
	return s.finishThere(ctx, runID, out, why())
}

// finishThere prints how a run on an engine has ended, or that nobody waits for it any more: a signal came, or the
// engine does not answer, which says nothing of the run.
func (s *session) finishThere(ctx context.Context, runID string, out *workflow.Outcome, why *stopped) error {
	cause, code := "", 0
	switch e := out.Failure(); {
	case why != nil && out.Err != nil && out.Status != workflow.StatusCancelled:
		cause, code = why.Error(), why.code
	case e != nil && e.Code == unavailable:
		cause, code = terminal.Visible(e.Error()), exitCode(out, why)
	default:
		return s.finish(ctx, &runtime.Runtime{}, out, why)
	}
	if s.output != "human" {
		if err := s.printJSON(map[string]string{"runId": runID, "status": string(history.Running)}); err != nil {
			return err
		}
	}
	fmt.Fprintf(s.stderr, "braise: %s: run %s continues on the engine; to wait for it: braise runs recover "+
		"%[2]s%[3]s\n  to look at it: braise runs show %[2]s%[3]s\n", cause, runID, s.sameFlags())
	return exit(code)
}

// unavailable is the code of the error of an engine that does not answer.
const unavailable = "cluster.unavailable"

// follower shows what happens to a run on an engine while the command waits for it.
type follower struct {
	*session
	tail  *history.Tail
	sink  trace.Sink // nil: nothing is shown
	notes []string   // that were shown
}

// How often a follower looks for events, and for what keeps a run from continuing.
const (
	followTime = 300 * time.Millisecond
	notesTime  = 5 * time.Second // and how long it waits for these
)

// await waits for the outcome of a run. What is wrong with the journal meanwhile does not matter to the outcome.
func (f *follower) await(
	ctx context.Context, runID string, wait func(context.Context, string) (*workflow.Outcome, error),
) *workflow.Outcome {
	sink, done := f.show()
	defer done()
	f.sink = sink
	ended := make(chan *workflow.Outcome, 1)
	go func() {
		out, err := wait(ctx, runID)
		if out == nil {
			out = host.Failed(runID, cmp.Or(err, context.Cause(ctx)))
		}
		ended <- out
	}()
	events, notes := time.NewTicker(followTime), time.NewTicker(notesTime)
	defer events.Stop()
	defer notes.Stop()
	for {
		select {
		case out := <-ended:
			f.look(context.WithoutCancel(ctx))
			return out
		case <-events.C:
			f.look(ctx)
		case <-notes.C:
			f.note(ctx, runID)
		}
	}
}

// look shows the events since it looked last.
func (f *follower) look(ctx context.Context) {
	if f.sink == nil {
		return
	}
	if _, events, err := f.tail.Next(ctx); err == nil {
		for _, e := range events {
			f.sink.Emit(e)
		}
	}
}

// note says what keeps the run from continuing, each thing once.
func (f *follower) note(ctx context.Context, runID string) {
	if f.quiet {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, notesTime)
	defer cancel()
	notes, err := f.cluster.Notes(ctx, runID)
	if e := host.Failed(runID, err).Failure(); err != nil && e.Code == unavailable {
		notes = []string{"the engine does not answer; it is asked again"}
	} else if err != nil {
		return
	}
	for _, text := range notes {
		if slices.Contains(f.notes, text) {
			continue
		}
		f.notes = append(f.notes, text)
		if f.shown != nil {
			f.shown.Hold(true)
		}
		fmt.Fprintln(f.stderr, "braise: the run does not continue:", terminal.Visible(text))
		if f.shown != nil {
			f.shown.Hold(false)
		}
	}
}
