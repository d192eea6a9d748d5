package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

// onceRow is a step x of a kind, or a construct, that comes before a payment.
type onceRow struct {
	kind, name string
	x          string // the step
	top        string // more of the recipe
}

// onceRows has a row for each kind of step, and for each construct that records something.
var onceRows = []onceRow{
	{"set", "", "{uses: set, with: 1}", ""},
	{"model", "", "{uses: model, with: {model: m, prompt: hi}}", ""},
	{"model", "it mends its answer", "{uses: model, on_error: continue, with: {model: m, prompt: hi}, output: {check: [{that: 'output.text == \"\"', else: no}], repairs: 3}}", ""},
	{"agent", "it mends its answer", "{uses: agent, on_error: continue, with: {agent: plain, prompt: hi}, output: {check: [{that: 'output.text == \"\"', else: no}], repairs: 3}}", agentsOnce},
	{"set", "its output breaks a rule", "{uses: set, on_error: continue, with: 1, output: {check: [{that: output == 2, else: no}]}}", ""},
	{"", "the output of a call breaks a rule", "{uses: test.act, on_error: continue, output: {check: [{that: output == 2, else: no}]}}", ""},
	{"model", "it fails", "{uses: model, on_error: continue, with: {model: none, prompt: hi}}", ""},
	{"recipe", "a call", "{uses: recipe, with: {steps: {c: {uses: test.act}}}}", ""},
	{"recipe", "a wait", "{uses: recipe, with: {steps: {w: {uses: wait, with: {duration: 1h}}}}}", ""},
	{"recipe", "a person", "{uses: recipe, with: {steps: {h: {uses: human, with: {prompt: Go?}}}}}", ""},
	{"recipe", "it fails inside", "{uses: recipe, on_error: continue, with: {steps: {c: {uses: test.bad}}}}", ""},
	{"recipe", "its time is over", "{uses: recipe, timeout: 10s, on_error: continue, with: {steps: {c: {uses: test.slow}, d: {uses: test.act}}}}", ""},
	{"recipe", "its time is over while it waits", "{uses: recipe, timeout: 10s, on_error: continue, with: {steps: {w: {uses: wait, with: {duration: 1s}}, c: {uses: test.slow, needs: [w]}}}}", ""},
	{"fail", "", "{uses: fail, on_error: continue, with: {message: no}}", ""},
	{"fail", "replaced", "{uses: fail, on_error: {set: 1}, with: {message: no}}", ""},
	{"human", "", "{uses: human, with: {prompt: Go?}}", ""},
	{"human", "a value", "{uses: human, with: {prompt: Who?, answer: {type: string, default: Ada}}}", ""},
	{"human", "items", "{uses: human, foreach: {in: [1, 2]}, with: {prompt: 'Go ${{ item }}?'}}", ""},
	{"human", "expired, replaced", "{uses: human, with: {prompt: Late, expires: 1h, on_expire: {set: {decision: none}}}}", ""},
	{"human", "expired, rejected", "{uses: human, with: {prompt: Late, expires: 1h, on_expire: reject}}", ""},
	{"human", "expired, failed", "{uses: human, on_error: continue, with: {prompt: Late, expires: 1h, on_expire: fail}}", ""},
	{"say", "", "{uses: say, with: {text: hello}}", ""},
	{"wait", "inline", "{uses: wait, with: {duration: 300ms}}", ""},
	{"wait", "long", "{uses: wait, with: {duration: 1h}}", ""},
	{"wait", "at", "{uses: wait, with: {at: '2000-01-02T00:00:00Z'}}", ""},
	{"wait", "an event", "{uses: wait, with: {event: go}}", ""},
	{"wait", "no event", "{uses: wait, on_error: continue, with: {event: late, timeout: 1h}}", ""},
	{"wait", "items", "{uses: wait, foreach: {in: [1, 2]}, with: {duration: '${{ string(item) }}h'}}", ""},
	{"wait", "no time", "{uses: wait, on_error: continue, with: {duration: '${{ \"soon\" }}'}}", ""},
	{"agent", "", "{uses: agent, with: {agent: plain, prompt: hi}}", agentsOnce},
	{"agent", "a call", "{uses: agent, with: {agent: caller, prompt: hi}}", agentsOnce},
	{"agent", "an approval", "{uses: agent, with: {agent: asker, prompt: hi}}", agentsOnce},
	{"agent", "a delegate", "{uses: agent, with: {agent: chief, prompt: hi}}", agentsOnce},
	{"agent", "a tool of the recipe", "{uses: agent, with: {agent: booker, prompt: hi}}", agentsOnce},
	{"agent", "it fails", "{uses: agent, on_error: continue, with: {agent: short, prompt: hi}}", agentsOnce},
	{"loop", "", "{uses: loop, with: {max_iterations: 2, steps: {c: {uses: test.act}}}}", ""},
	{"loop", "a wait", "{uses: loop, with: {max_iterations: 2, steps: {w: {uses: wait, with: {duration: 1h}}}}}", ""},
	{"loop", "a wait between rounds", "{uses: loop, with: {max_iterations: 3, wait: '${{ string(iteration) }}h', steps: {c: {uses: test.act}}}}", ""},
	{"loop", "a short wait between rounds", "{uses: loop, with: {max_iterations: 3, wait: 300ms, steps: {c: {uses: test.act}}}}", ""},
	{"loop", "no wait", "{uses: loop, on_error: continue, with: {max_iterations: 2, wait: '${{ last ?? \"soon\" }}s', steps: {c: {uses: test.act}}}}", ""},
	{"loop", "its time is over while it waits", "{uses: loop, timeout: 10s, on_error: continue, with: {max_iterations: 2, wait: 20s, steps: {c: {uses: test.act}}}}", ""},
	{"loop", "a person", "{uses: loop, with: {max_iterations: 2, steps: {h: {uses: human, with: {prompt: Go?}}}}}", ""},
	{"loop", "a round fails", "{uses: loop, with: {max_iterations: 2, on_error: continue, steps: {c: {uses: test.bad}}}}", ""},
	{"loop", "it comes to its limit", "{uses: loop, on_error: continue, with: {max_iterations: 1, on_limit: fail, until: 'false', steps: {c: {uses: test.act}}}}", ""},
	{"fork", "", "{uses: fork, with: {branches: {a: {steps: {c: {uses: test.act}}}, b: {steps: {w: {uses: wait, with: {duration: 1h}}}}}}}", ""},
	{"fork", "a race", "{uses: fork, with: {mode: race, branches: {a: {steps: {c: {uses: test.slow}}}, b: {steps: {w: {uses: wait, with: {duration: 1s}}}}, c: {steps: {h: {uses: human, with: {prompt: Late, expires: 9h}}}}}}}", ""},
	{"fork", "it settles", "{uses: fork, with: {mode: settle, branches: {a: {steps: {c: {uses: test.bad}}}, b: {steps: {c: {uses: test.act}}}}}}", ""},
	{"fork", "it fails", "{uses: fork, on_error: continue, with: {branches: {a: {steps: {c: {uses: test.bad}}}, b: {steps: {c: {uses: test.slow}}}}}}", ""},
	{"switch", "", "{uses: switch, with: {cases: [{name: a, when: 'true', steps: {w: {uses: wait, with: {duration: 1h}}}}]}}", ""},
	{"send", "", "{uses: send, with: {channel: box, value: 1}}", "channels: {box: queue}\n"},
	{"receive", "from a step", "{uses: recipe, with: {steps: {s: {uses: send, with: {channel: box, value: 1}}, r: {uses: receive, needs: [s], with: {channel: box}}}}}", "channels: {box: queue}\n"},
	{"receive", "from outside", "{uses: receive, with: {channel: go}}", "channels: {go: queue}\n"},
	{"receive", "nothing, at once", "{uses: receive, on_error: continue, with: {channel: late, timeout: 1s}}", "channels: {late: queue}\n"},
	{"receive", "nothing", "{uses: receive, on_error: continue, with: {channel: late, timeout: 1h}}", "channels: {late: queue}\n"},
	{"retrieve", "", "{uses: retrieve, with: {query: q}}", ""},
	{"index", "", "{uses: index, with: {into: cellar, documents: [{source: a, text: a}]}}", ""},
	{"", "a call", "{uses: test.act}", ""},
	{"", "state is kept", "{uses: state.put, with: {key: k, value: 1}}", ""},
	{"", "state is read", "{uses: state.get, with: {key: k}}", ""},
	{"", "a call for each item", "{uses: test.act, foreach: {in: [1, 2]}}", ""},
	{"", "a call that fails", "{uses: test.bad, on_error: continue}", ""},
	{"", "a call that fails, replaced", "{uses: test.bad, on_error: {set: 1}}", ""},
	{"", "items that fail", "{uses: test.bad, on_error: continue, foreach: {in: [1, 2]}}", ""},
	{"", "a call that takes too long", "{uses: test.slow, timeout: 10s, on_error: continue}", ""},
	{"", "a call that is tried again", "{uses: test.flaky, retry: {max_attempts: 2, backoff: 1s}}", ""},
	{"", "a call that is tried again later", "{uses: test.flaky, retry: {max_attempts: 2, backoff: 1h, mode: pause}}", ""},
	{"", "a call that asks", "{uses: test.gate, with: {n: 1}}", ""},
	{"", "a condition", "{uses: test.act, when: 'false'}", ""},
	{"", "a tool of the recipe", "{uses: own.book}", agentsOnce},
	{"set", "at breakpoints: x pay", "{uses: set, with: 1}", ""},
	{"model", "at breakpoints: x pay", "{uses: model, with: {model: m, prompt: hi}}", ""},
	{"human", "at breakpoints: x pay", "{uses: human, with: {prompt: Go?}}", ""},
	{"wait", "at breakpoints: x pay", "{uses: wait, with: {duration: 1h}}", ""},
	{"say", "at breakpoints: x pay", "{uses: say, with: {text: hello}}", ""},
	{"agent", "at breakpoints: x pay", "{uses: agent, with: {agent: caller, prompt: hi}}", agentsOnce},
	{"receive", "at breakpoints: x pay", "{uses: receive, with: {channel: go}}", "channels: {go: queue}\n"},
	{"recipe", "at breakpoints: x x/c x/h pay", "{uses: recipe, with: {steps: {c: {uses: test.act}, h: {uses: human, needs: [c], with: {prompt: Go?}}}}}", ""},
	{"loop", "at breakpoints: x x/c pay", "{uses: loop, with: {max_iterations: 2, steps: {c: {uses: test.act}}}}", ""},
	{"loop", "at breakpoints: x#2/c", "{uses: loop, with: {max_iterations: 2, wait: 1h, steps: {c: {uses: test.act}}}}", ""},
	{"fork", "at breakpoints: x/a/c x/b/w pay", "{uses: fork, with: {branches: {a: {steps: {c: {uses: test.act}}}, b: {steps: {w: {uses: wait, with: {duration: 1h}}}}}}}", ""},
	{"fork", "a race, at breakpoints: x/b/d pay", "{uses: fork, with: {mode: race, branches: {a: {steps: {c: {uses: test.act}}}, b: {steps: {d: {uses: test.slow}}}}}}", ""},
	{"switch", "at breakpoints: x/a/w pay", "{uses: switch, with: {cases: [{name: a, when: 'true', steps: {w: {uses: wait, with: {duration: 1h}}}}]}}", ""},
	{"", "a call, at breakpoints: x pay", "{uses: test.act}", ""},
	{"", "items, at breakpoints: x x[1] pay", "{uses: test.act, foreach: {in: [1, 2, 3], max_parallel: 1}}", ""},
	{"", "items that fail, at breakpoints: x[1] pay", "{uses: test.bad, on_error: continue, foreach: {in: [1, 2, 3]}}", ""},
	{"", "a call that asks, at breakpoints: x pay", "{uses: test.gate, with: {n: 1}}", ""},
	{"", "a condition, at breakpoints: x pay", "{uses: test.act, when: 'false'}", ""},
}

// A hook denies a step of each kind, and one step with items. The run continues without them.
func init() {
	var list []onceRow
	for _, row := range onceRows {
		there := slices.ContainsFunc(list, func(r onceRow) bool { return r.kind == row.kind })
		if !there && !strings.Contains(row.x, "on_error") {
			row.x, row.name = strings.Replace(row.x, "{", "{on_error: continue, ", 1), "denied"
			list = append(list, row)
		}
	}
	list = append(list, onceRow{"", "denied", "{uses: test.act, on_error: continue, foreach: {in: [1, 2]}}", ""})
	onceRows = append(onceRows, list...)
}

const agentsOnce = `defaults: {model: m}
tools:
  own.book: {description: Book., steps: {c: {uses: test.act}, w: {uses: wait, needs: [c], with: {duration: 1h}}}, output: booked}
agents:
  plain: {tools: []}
  caller: {tools: [test.act]}
  asker: {tools: [test.act], approval: {test.act: pause}}
  chief: {tools: [], delegates: [caller]}
  booker: {tools: [own.book]}
  short: {tools: [test.act], max_steps: 1, on_limit: fail}
`

const onceRest = `  pay: {uses: test.pay, needs: [x], trigger: all_done}
  next: {uses: test.act, needs: [pay]}
  stop: {uses: human, needs: [next], with: {prompt: Last?}}
  last: {uses: test.last, needs: [stop], with: {n: OLD}}
output: done
`

func (r *onceRow) recipe() string {
	return runtest.Head + r.top + "steps:\n  x: " + r.x + "\n" + onceRest
}

// payer is what the recipe of the row calls.
func (r *onceRow) payer() *payer {
	_, breaks, _ := strings.Cut(r.name, "at breakpoints: ")
	return &payer{store: &checkpoint.Memory{}, pass: time.Sleep, denied: r.name == "denied", breaks: strings.Fields(breaks)}
}

// payer is what the recipes of onceRows call, and counts the payments.
type payer struct {
	paid, ended, flaky int
	denied             bool // a hook denies x
	breaks             []string
	store              *checkpoint.Memory
	pass               func(time.Duration) // in the time of a bubble
}

// runtime is that of a process whose writes go to store.
func (p *payer) runtime(store checkpoint.Store) *runtime.Runtime {
	slow := runtimetest.NewTool("test.slow", func(ctx context.Context, _ json.RawMessage) (any, error) {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(time.Minute):
			return nil, nil
		}
	})
	slow.ToolSpec.Effect = runtime.Idempotent
	act := runtimetest.NewTool("test.act", func(context.Context, json.RawMessage) (any, error) { return 1, nil })
	act.ToolSpec.Effect = runtime.Idempotent
	rt := &runtime.Runtime{Store: store, Resume: resume.PassThrough{}, Breakpoints: p.breaks, Tools: []runtime.Tool{
		runtest.Tool("test.pay", func(context.Context, map[string]any) (any, error) { p.paid++; return "paid", nil }),
		runtest.Tool("test.last", func(context.Context, map[string]any) (any, error) { p.ended++; return nil, nil }),
		runtest.Tool("test.bad", func(context.Context, map[string]any) (any, error) { return nil, errors.New("bad") }),
		runtest.Tool("test.flaky", func(context.Context, map[string]any) (any, error) {
			if p.flaky++; p.flaky%2 == 1 {
				return nil, runtest.Throttled
			}
			return 1, nil
		}),
		act, slow, runtest.Gate,
	}, Models: map[string]runtime.Model{"m": &runtimetest.Model{Func: onceModel}},
		Searchers: map[string]runtime.Searcher{"cellar": new(cellar)},
		Reporter:  &runtest.Quiet{}, Retriever: runtest.Shelf(func(context.Context, string, int) ([]runtime.Document, error) { return nil, nil })}
	if p.denied {
		rt.Plugins = []runtime.Plugin{runtest.Hook("guard", runtime.StepBefore, func(_ context.Context, m runtime.Moment) error {
			if m.Step == "x" {
				return errors.New("not x")
			}
			return nil
		})}
	}
	return rt
}

// onceModel calls the first tool that it has, once.
func onceModel(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
	for _, m := range req.Messages {
		if m.Role == runtime.ToolRole {
			return &runtime.Response{Text: "done"}, nil
		}
	}
	if len(req.Tools) == 0 {
		return &runtime.Response{Text: "hi"}, nil
	}
	name, args := req.Tools[0].Name, "{}"
	if strings.Contains(name, "delegate") || strings.Contains(name, "caller") {
		args = `{"prompt": "go", "task": "go"}`
	}
	return &runtime.Response{ToolCalls: []runtime.ToolCall{{ID: "c", Name: name, Arguments: []byte(args)}}}, nil
}

// goOn answers, and lets time pass, until the run is over, or until the step waits. rt may be that of a process that
// dies: then another one recovers the run.
func (p *payer) goOn(t *testing.T, out *workflow.Outcome, rt *runtime.Runtime, until string) *workflow.Outcome {
	t.Helper()
	for range 50 {
		if out.Err != nil && slices.Contains([]string{"store.failed", "run.busy", "run.fenced"}, out.Failure().Code) {
			rt = p.runtime(p.store)
			p.pass(time.Minute) // a lease ends
			out, _ = workflow.Recover(t.Context(), out.RunID, rt, nil)
			continue
		}
		if out.Status != workflow.StatusPaused {
			return out
		}
		q := out.Pauses[0]
		switch i := slices.IndexFunc(out.Pauses, func(q resume.Pause) bool { return q.Reason == "indeterminate" }); {
		case i >= 0:
			answer := map[string]any{"decision": "retry"}
			switch q = out.Pauses[i]; { // who answers has looked
			case q.Step == "pay" && p.paid > 0, q.Step == "last" && p.ended > 0:
				answer = map[string]any{"decision": "result", "form": "paid"}
			case !slices.Contains(q.Decisions, "retry"):
				answer["decision"] = "fail"
			}
			out, _ = workflow.Resume(t.Context(), q.Token, answer, rt, nil)
		case q.Step == until:
			return out
		case !q.RetryAt.IsZero(), !q.ExpiresAt.IsZero() && (q.Prompt == "Late" || q.Reason == "late"):
			due := q.RetryAt
			if due.IsZero() {
				due = q.ExpiresAt
			}
			p.pass(time.Until(due))
			next, _ := workflow.Recover(t.Context(), out.RunID, rt, nil)
			out = next
		case q.Reason == "breakpoint":
			out, _ = workflow.Resume(t.Context(), q.Token, map[string]any{"decision": "continue"}, rt, nil)
		case q.Kind == resume.External:
			out, _ = workflow.Resume(t.Context(), q.Token, "it", rt, nil)
		case q.Decisions == nil:
			out, _ = workflow.Resume(t.Context(), q.Token, "Ada", rt, nil)
		default:
			out, _ = workflow.Resume(t.Context(), q.Token, runtest.Yes, rt, nil)
		}
	}
	t.Fatalf("%s, %v, %+v", out.Status, out.Err, out.Pauses)
	return nil
}

// once goes on with a run to its end, which must be good, and checks that it pays once.
func (p *payer) once(t *testing.T, what string, out *workflow.Outcome, rt *runtime.Runtime) *workflow.Outcome {
	t.Helper()
	out = p.goOn(t, out, rt, "")
	if out.Status != workflow.StatusOK || p.paid != 1 || p.ended != 1 {
		t.Errorf("%s: %s, %v; paid %d times, ended %d times", what, out.Status, out.Err, p.paid, p.ended)
		p.paid = 1
	}
	p.ended = 0
	return out
}

// trust 8.1: whatever kind of step comes before a payment, the payment is made once: in the run, in forks behind it and
// in forks of those, of a run that has ended or waits, and under a definition that differs behind it.
func TestPaidOnce(t *testing.T) {
	for _, k := range recipe.Kinds() {
		if !slices.ContainsFunc(onceRows, func(r onceRow) bool { return r.kind == k.Name }) {
			t.Errorf("no row of onceRows is of the kind %s", k.Name)
		}
	}
	for _, row := range onceRows {
		t.Run(row.kind+" "+row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := row.payer()
				rt, wf := p.runtime(p.store), runtest.Load(t, []byte(row.recipe()))
				start := func() *workflow.Outcome {
					p.paid = 0
					out, _ := wf.Run(t.Context(), nil, rt)
					return p.goOn(t, out, rt, "stop")
				}
				fork := func(what string, of *workflow.Outcome) {
					for _, at := range []string{"next", "stop", "last"} {
						f, _ := workflow.Fork(t.Context(), of.RunID, at, workflow.Edits{}, rt, nil)
						f = p.once(t, fmt.Sprintf("%s, fork at %s", what, at), f, rt)
						g, _ := workflow.Fork(t.Context(), f.RunID, "last", workflow.Edits{}, rt, nil)
						p.once(t, fmt.Sprintf("%s, fork at %s, fork of it", what, at), g, rt)
					}
				}
				waits := start()
				fork("waiting", waits)
				fork("ended", p.once(t, "the run", waits, rt))

				changed := runtest.Load(t, []byte(strings.Replace(row.recipe(), "OLD", "NEW", 1)))
				waits = start()
				out, _ := workflow.Recover(t.Context(), waits.RunID, rt, &workflow.ResumeOptions{Workflow: changed, AcceptChanged: true})
				out = p.once(t, "another definition", out, rt)
				fork("another definition", out)

				again := p.runtime(p.store)
				again.Interrupt = resume.Restart
				p.paid = 0
				out, _ = runtest.Load(t, []byte(strings.Replace(row.recipe(), "  stop: {uses: human, needs: [next], with: {prompt: Last?}}", "  stop: {uses: set, needs: [next], with: 1}", 1))).Run(t.Context(), nil, again)
				p.once(t, "restarted", out, again)
			})
		})
	}
}

// trust 8.1: the same holds for a fork in which a call that is made again has the one slot, while all else is shared.
func TestPaidOnceWithoutASlot(t *testing.T) {
	for _, row := range onceRows {
		t.Run(row.kind+" "+row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := row.payer()
				rt := p.runtime(p.store)
				rt.Limits.MaxParallel = 1
				text := strings.Replace(row.recipe(), "steps:\n  x:", "steps:\n  side: {uses: test.slow}\n  x:", 1)
				out, _ := runtest.Load(t, []byte(text)).Run(t.Context(), nil, rt)
				out = p.once(t, "the run", out, rt)
				f, _ := workflow.Fork(t.Context(), out.RunID, "side", workflow.Edits{}, rt, nil)
				if f = p.goOn(t, f, rt, ""); f.Status != workflow.StatusOK || p.paid != 1 || p.ended != 0 {
					t.Errorf("fork beside: %s, %v; paid %d times, ended %d times more", f.Status, f.Err, p.paid, p.ended)
				}
			})
		})
	}
}

// trust 8.1: the same holds for a run whose process dies at any record, and for forks of it.
func TestPaidOnceAfterDeaths(t *testing.T) {
	for _, row := range onceRows {
		t.Run(row.kind+" "+row.name, func(t *testing.T) {
			for dies := 0; ; dies++ {
				over := false
				synctest.Test(t, func(t *testing.T) {
					p := row.payer()
					store := &runtest.Dead{Store: p.store, After: dies}
					type documents interface{ checkpoint.Documents }
					rt := p.runtime(struct {
						runtest.Claimed
						documents
					}{runtest.Claimed{Dead: store}, p.store})
					rt.NewRunID = func() string { return "r1" }
					out, _ := runtest.Load(t, []byte(row.recipe())).Run(t.Context(), nil, rt)
					what := fmt.Sprintf("dead after %d writes", dies)
					out = p.once(t, what, out, rt)
					over = store.After >= 0
					rt = p.runtime(p.store)
					f, _ := workflow.Fork(t.Context(), out.RunID, "last", workflow.Edits{}, rt, nil)
					p.once(t, what+", fork", f, rt)
				})
				if over || t.Failed() {
					return
				}
			}
		})
	}
}
