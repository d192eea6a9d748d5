package page_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/braise-run/braise/adapters/script"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/serve"
	"github.com/braise-run/braise/worker"
	"github.com/braise-run/braise/workflow"
)

// What a process left when it ended is resumed by a worker, once somebody asks for it.
func TestRecover(t *testing.T) {
	begun, again := make(chan bool, 1), atomic.Bool{}
	s := newSite(t, options{idle: true, recipes: map[string]string{"stops": `apiVersion: braise/v1
name: stops
steps: {look: {uses: test.look, with: {}}}
output: ${{ steps.look.output }}
`}, tools: []runtime.Tool{tool{"test.look", func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
		if again.Load() {
			return json.RawMessage(`"seen"`), nil
		}
		begun <- true
		<-ctx.Done()
		return nil, ctx.Err()
	}}}})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan *workflow.Outcome, 1)
	go func() {
		out, _ := s.recipes[0].Workflow.Run(ctx, nil, s.rt)
		done <- out
	}()
	<-begun
	stop()
	id := (<-done).RunID
	again.Store(true)
	b := s.open(olga, "#/runs/"+id+"/result")
	b.sees("h1 .state", "interrupted")
	b.sees(".why", "No process executes it any more.")
	b.axe("an interrupted run")
	s.work() // it takes nothing that a person stopped
	s.open(rita, "#/runs/"+id).sees("h1 .state", "interrupted")
	b.press("Recover")
	b.sees("h1 .state", "ok")
	b.sees(".result .json", "seen")
	b.gone(".why")
}

// A note reaches an agent at work, and stands in its conversation.
func TestTell(t *testing.T) {
	hold := make(chan string)
	model := slow{make(chan string)}
	s := newSite(t, options{recipes: map[string]string{"talker": talker}, idle: true, tools: []runtime.Tool{
		tool{"test.hold", func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
			select {
			case text := <-hold:
				return json.Marshal(text)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}}}})
	s.rt.Models = map[string]runtime.Model{"slow": model}
	s.enqueue("t1", nil, nil)
	s.work()
	b := s.open(olga, "#/runs/t1/steps?step=ask")
	b.sees(".detail", "calls test.hold")
	b.press("Tell an agent…")
	b.axe("a note")
	b.is("document.querySelector('dialog select').value", "ask")
	b.press("Tell") // without a note
	b.see("dialog textarea:invalid")
	b.fill("dialog textarea", "Mind the <b>lamp</b>.")
	b.press("Tell")
	b.gone("dialog")
	hold <- "first"
	b.sees(".said.user", "Mind the <b>lamp</b>.")
	hold <- "second"
	model.pieces <- "I do."
	model.pieces <- ""
	b.sees("h1 .state", "ok")
	b.sees(".said.assistant:last-of-type", "I do.")
}

// A run of which the outcome of a call is unknown ends only if somebody insists.
func TestCancelByForce(t *testing.T) {
	s := newSite(t, options{recipes: map[string]string{"charge": `apiVersion: braise/v1
name: charge
steps: {pay: {uses: test.charge, timeout: 100ms, with: {amount: 48}}}
`}, tools: []runtime.Tool{charge{}}})
	id := s.run("charge", nil)
	b := s.open(olga, "#/runs/"+id)
	b.sees("h1 .state", "waiting")
	b.press("Cancel…")
	b.press("Cancel the run")
	b.gone("dialog")
	// It was carried out, and still waits for what is unknown.
	told := func(cancels int) string {
		return value[string](b, fmt.Sprintf(`(async () => {
			for (;;) {
				const run = await (await fetch('api/v1/runs/%s')).json();
				if (run.acts.filter((one) => one.what === 'cancel').length === %d) return `+"`${run.phase} ${run.pending.length}`"+`;
				await new Promise((yes) => setTimeout(yes, 50));
			}
		})()`, id, cancels))
	}
	if got := told(1); got != "waiting 1" {
		t.Errorf("cancelled, it is %q", got)
	}
	b.sees("h1 .state", "waiting")
	b.press("Cancel…")
	b.press("Also if the outcome of a call is unknown")
	b.press("Cancel the run")
	b.gone("dialog")
	b.sees("h1 .state", "cancelled")
	if got := told(2); got != "cancelled 0" {
		t.Errorf("cancelled by force, it is %q", got)
	}
}

// What the worker lacks for a run stands on its page, until it has it.
func TestRefusedRun(t *testing.T) {
	model, err := script.Parse("answers.yaml", []byte(dear))
	if err != nil {
		t.Fatal(err)
	}
	var has atomic.Bool
	tried := make(chan *workflow.Outcome, 10)
	w := &worker.Worker{Queues: []string{"default"}, Ended: func(o *workflow.Outcome) { tried <- o }}
	s := newSite(t, options{recipes: map[string]string{"refund": refund}, idle: true, change: func(o *serve.Server) { o.Worker = w }})
	w.Runtime = s.rt
	w.Bind = func(context.Context, *workflow.Workflow) (*runtime.Runtime, error) {
		bound := *s.rt
		if has.Load() {
			bound.Models = map[string]runtime.Model{"fast": model}
		}
		return &bound, nil
	}
	s.enqueue("r1", map[string]any{"order": 7}, nil)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	<-tried
	b := s.open(olga, "#/runs/r1")
	b.sees("h1 .state", "queued")
	b.sees(".trouble", `no model named "fast" is configured`)
	b.sees(".trouble code", "model.missing")
	has.Store(true)
	s.post("/runs/r1/recover", "")
	b.sees("h1 .state", "waiting")
	b.is("!document.querySelector('main').innerText.includes('model.missing')", true)
}

// The screens that other tests do not look at, and the dialogs, can be used by everybody.
func TestOtherScreensForEverybody(t *testing.T) {
	s := newSite(t, options{recipes: map[string]string{"asks": asks}, idle: true})
	a, c := s.run("asks", map[string]any{"order": 1}), s.run("asks", map[string]any{"order": 2})
	s.answer(a, "approve")
	b := s.open(olga, "#/compare?a="+a+"&b="+c+"&all=1")
	b.sees("p[role=status]", "Inputs: 1 differs.")
	b.axe("compare")
	b.goTo("#/runs/" + a + "/trace")
	b.sees(".event", "run.end")
	b.axe("trace")
	b.goTo("#/runs/" + a + "/time?step=ask")
	b.see(".bars .bar")
	b.axe("time")
	b.goTo("#/runs/" + a + "/steps")
	b.see("[data-step=ask]")
	b.axe("steps")
	b.goTo("#/recipes/asks/source")
	b.see("[data-line='1']")
	b.axe("source")
	b.goTo("#/runs")
	b.rows(c, a)
	b.keys("jxjx")
	b.press("Cancel 1")
	b.see("dialog")
	b.axe("cancel several")
	b.press("Cancel 1 run")
	b.sees("dialog", "1 of 1 are recorded")
	b.axe("what came of it")
	b.press("Close")
	b.press("Recover 1")
	b.see("dialog")
	b.axe("recover several")
	b.press("Close")
	b.keys("?")
	b.sees("dialog", "of a plan")
	b.axe("keys")
	b.do(chromedp.KeyEvent("\x1b"))
	b.gone("dialog")
	b.goTo("#/runs/" + c)
	for _, button := range []string{"Cancel…", "Send to a channel…", "Delete…"} {
		b.press(button)
		b.see("dialog")
		b.axe(button)
		b.press("Close")
		b.gone("dialog")
	}
}
