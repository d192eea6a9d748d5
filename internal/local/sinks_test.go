package local_test

import (
	"encoding/json"
	"fmt"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// A run whose trace nobody reads and one that ten sinks read come to the same, to the byte: outcome, trace and journal. So it is on
// one processor too. All sinks of one kind are told the same, and those that want no more are told the outcome's trace.
func TestTenSinksAndNone(t *testing.T) {
	wf := runtest.Load(t, []byte(runtest.Head+`steps:
  make: {uses: test.echo, with: {list: [1, 2, 3]}}
  nap: {uses: test.after, foreach: {in: "${{ steps.make.output.list }}", max_parallel: 3}, with: {s: "${{ item }}"}}
  fails: {uses: test.break, needs: [nap], on_error: continue}
  ask: {uses: model, needs: [fails], trigger: all_done, with: {model: talk, prompt: Say hello.}}
  agent: {uses: agent, needs: [ask], with: {agent: {model: m, tools: [test.echo]}, prompt: go}}
  skipped: {uses: set, needs: [agent], when: "false", with: 1}
output: {nap: "${{ steps.nap.output }}", said: "${{ steps.ask.output.text }}", answer: "${{ steps.agent.output.text }}"}
`))
	run := func(t *testing.T, sinks ...trace.Sink) (outcome, journal string, events []string) {
		store := &checkpoint.Memory{}
		out, err := wf.Run(t.Context(), nil, &runtime.Runtime{Store: store, Trace: sinks, NewRunID: func() string { return "r1" },
			Tools: []runtime.Tool{runtest.Echo, after, runtest.Broken},
			Models: map[string]runtime.Model{"talk": pieces{"hello you"},
				"m": runtest.Rounds([]runtime.ToolCall{runtest.Wants("test.echo", `{"n": 1}`)}, []runtime.ToolCall{runtest.Wants("test.echo", `{"n": 2}`)})}})
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(out)
		if err != nil {
			t.Fatal(err)
		}
		return string(text), runtest.JournalOf(t, store, "r1"), sorted(out.Trace)
	}
	for _, procs := range []int{goruntime.GOMAXPROCS(0), 1} {
		defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(procs))
		var outcome, journal string
		synctest.Test(t, func(t *testing.T) { outcome, journal, _ = run(t) })
		if !strings.Contains(outcome, `"answer":"done"`) {
			t.Fatal(outcome)
		}
		synctest.Test(t, func(t *testing.T) {
			var sinks []trace.Sink
			for i := range 10 {
				sinks = append(sinks, &runtest.Watcher{Level: trace.Detail{Content: i%4 == 1 || i%4 == 3, Deltas: i%4 >= 2}})
			}
			got, records, events := run(t, sinks...)
			if diff := cmp.Diff(outcome, got); diff != "" {
				t.Errorf("%d processors: outcome (-without +with sinks)\n%s", procs, diff)
			}
			if diff := cmp.Diff(journal, records); diff != "" {
				t.Errorf("%d processors: journal (-without +with sinks)\n%s", procs, diff)
			}
			for i, s := range sinks {
				told := sorted(s.(*runtest.Watcher).Events())
				if diff := cmp.Diff(sorted(sinks[i%4].(*runtest.Watcher).Events()), told); diff != "" {
					t.Errorf("%d processors: sink %d (-as sink %d +got)\n%s", procs, i, i%4, diff)
				}
				if i == 0 {
					if diff := cmp.Diff(events, told); diff != "" {
						t.Errorf("%d processors: what a sink is told (-trace +got)\n%s", procs, diff)
					}
				}
			}
		})
	}
}

// sorted are events as lines. A sink gets them as they happen, the outcome has them in the order of the plan.
func sorted(events []trace.Event) (list []string) {
	for _, e := range events {
		list = append(list, fmt.Sprint(e.At.UnixNano(), " ", e.Line()))
	}
	slices.Sort(list)
	return list
}
