package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

// trust 8.18: a hook before a step may deny it, whatever its kind: nothing of it runs, and the error says who denied it.
func TestStepsAreDenied(t *testing.T) {
	for _, row := range onceRows {
		if row.name != "denied" {
			continue
		}
		t.Run(row.kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := row.payer()
				text := strings.Replace(row.recipe(), "output: done", `output: "${{ steps.x.error.code }}: ${{ steps.x.error.message }}"`, 1)
				rt := p.runtime(p.store)
				wf := runtest.Load(t, []byte(text))
				out, _ := wf.Run(t.Context(), nil, rt)
				out = p.goOn(t, out, rt, "")
				if want := `hook.denied: plugin "guard" denies the step: not x`; out.Output != want {
					t.Errorf("%v, %v, want %s", out.Output, out.Err, want)
				}
				for _, e := range out.Trace {
					if strings.HasPrefix(e.Step, "x/") || strings.HasPrefix(e.Step, "x[") || strings.HasPrefix(e.Step, "x#") {
						t.Errorf("%s of %s", e.Kind, e.Step)
					}
				}
			})
		})
	}
}

func TestDeniedPaths(t *testing.T) {
	const each = "steps:\n  each: {uses: test.act, foreach: {in: [1, 2], on_error: collect}}\noutput: ${{ steps.each.output }}\n"
	const body = "steps:\n  part: {uses: recipe, with: {steps: {a: {uses: set, with: 1}, b: {uses: test.act, needs: [a]}}}}\n"
	for _, tt := range []struct {
		name, recipe, denies, want, asked string
	}{
		{"an item", each, "each[1]", "[map[output:1 status:succeeded] map[error:map[category:confirmation code:hook.denied message:plugin \"guard\" denies the step: closed today] status:failed]] <nil>", "each each[0] each[1]"},
		{"a step of a body", body, "part/b", `<nil> step "part/b": plugin "guard" denies the step: closed today`, "part part/a part/b"},
		{"a condition that fails", "steps:\n  a: {uses: set, when: fromJSON(\"1\").x, with: 1}\n", "a", `<nil> step "a": plugin "guard" denies the step: closed today`, "a"},
		{"a step that is skipped", "steps:\n  a: {uses: set, when: 'false', with: 1}\noutput: 1\n", "a", "1 <nil>", ""},
		{"a step at the end", "steps:\n  a: {uses: set, with: 1}\nfinally: {z: {uses: test.act}}\noutput: 1\n", "z", "1 <nil>", "a z"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, g := (&onceRow{}).payer(), &runtest.Gatekeeper{Denies: []string{tt.denies}}
			rt := p.runtime(p.store)
			rt.Plugins, rt.Limits.MaxParallel = g.Plugin(), 1
			out, err := runtest.Load(t, []byte(runtest.Head+tt.recipe)).Run(t.Context(), nil, rt)
			if got := fmt.Sprint(out.Output, " ", err); got != tt.want {
				t.Errorf("%s\nwant %s", got, tt.want)
			}
			if got := strings.Join(g.Asked, " "); got != tt.asked {
				t.Errorf("asked about %s, want %s", got, tt.asked)
			}
		})
	}
}

const guarded = runtest.Head + `steps:
  read: {uses: test.read}
  each: {uses: recipe, needs: [read], on_error: {set: none}, with: {steps: {a: {uses: test.pay}}, output: paid}}
  stop: {uses: human, needs: [each], with: {prompt: Last?}}
output: ${{ steps.each.output }}
`

// trust 8.18: a fork asks the hooks about what it runs itself, about a body as a whole too, and takes over what they
// denied in what it shares.
func TestForksAskHooks(t *testing.T) {
	for _, tt := range []struct {
		before string // denied in the run
		at     string // the fork
		now    string // denied in the fork
		want   string
		asked  string // in the fork
		paid   int    // by both
	}{
		{"", "read", "read", `<nil> step "read": plugin "guard" denies the step: closed today`, "read", 1},
		{"", "each", "each", "none <nil>", "each stop", 1},
		{"", "each", "", "paid <nil>", "each each/a stop", 2},
		{"", "stop", "stop", `<nil> step "stop": plugin "guard" denies the step: closed today`, "stop", 1},
		{"", "stop", "each", "paid <nil>", "stop", 1},
		{"each", "each", "", "paid <nil>", "each each/a stop", 1},
		{"each", "stop", "", "none <nil>", "stop", 0},
	} {
		t.Run(fmt.Sprintf("%s, fork at %s, %s", tt.before, tt.at, tt.now), func(t *testing.T) {
			p, g := (&onceRow{}).payer(), &runtest.Gatekeeper{Denies: []string{tt.before}}
			rt := p.runtime(p.store)
			rt.Tools = append(rt.Tools, runtest.Tool("test.read", func(context.Context, map[string]any) (any, error) { return 1, nil }))
			rt.Plugins = g.Plugin()
			out, _ := runtest.Load(t, []byte(guarded)).Run(t.Context(), nil, rt)
			if out.Status != workflow.StatusPaused {
				t.Fatalf("%s, %v", out.Status, out.Err)
			}
			g.Denies, g.Asked = []string{tt.now}, nil
			f, _ := workflow.Fork(t.Context(), out.RunID, tt.at, workflow.Edits{}, rt, nil)
			f = p.goOn(t, f, rt, "")
			if got := fmt.Sprint(f.Output, " ", f.Err); got != tt.want || p.paid != tt.paid {
				t.Errorf("%s, paid %d times\nwant %s, %d", got, p.paid, tt.want, tt.paid)
			}
			if got := strings.Join(g.Asked, " "); got != tt.asked {
				t.Errorf("asked about %s, want %s", got, tt.asked)
			}
		})
	}
}

// trust 8.18: who recovers a run asks about a step in which nothing has happened, but not about a call that may have had
// its effect.
func TestRecoveryAsksHooks(t *testing.T) {
	for _, tt := range []struct {
		effect runtime.Effect
		want   workflow.Status
	}{{runtime.ReadOnly, workflow.StatusError}, {runtime.Idempotent, workflow.StatusOK}} {
		t.Run(string(tt.effect), func(t *testing.T) {
			memory, both := &checkpoint.Memory{}, make(chan struct{})
			store := &runtest.Dead{Store: memory, After: 100}
			act := func(name string, effect runtime.Effect, f func()) *runtimetest.Tool {
				tool := runtimetest.NewTool(name, func(context.Context, json.RawMessage) (any, error) { f(); return 1, nil })
				tool.ToolSpec.Effect = effect
				return tool
			}
			rt := &runtime.Runtime{Store: runtest.Claimed{Dead: store}, Tools: []runtime.Tool{
				act("test.first", tt.effect, func() { // it is in progress when the other call is recorded
					<-both
					store.Mutex.Lock()
					defer store.Mutex.Unlock()
					store.After = 0
				}),
				act("test.other", runtime.Idempotent, sync.OnceFunc(func() { close(both) })),
			}}
			out, err := runtest.Load(t, []byte(runtest.Head+"steps:\n  a: {uses: test.first}\n  b: {uses: test.other}\n")).Run(t.Context(), nil, rt)
			if e := out.Failure(); e == nil || e.Code != "store.failed" {
				t.Fatal(err)
			}
			g := &runtest.Gatekeeper{Denies: []string{"a"}}
			rt.Store, rt.Plugins = memory, g.Plugin()
			out, err = workflow.Recover(t.Context(), out.RunID, rt, nil)
			if out.Status != tt.want {
				t.Errorf("%s, %v; asked about %v", out.Status, err, g.Asked)
			}
			log := runtest.Must(history.Load(t.Context(), memory, out.RunID))
			if s := log.Steps[0]; s.Status == "failed" != (tt.want == workflow.StatusError) || s.Status == "failed" && s.Error.Code != "hook.denied" {
				t.Errorf("the journal has %+v", s)
			}
		})
	}
}
