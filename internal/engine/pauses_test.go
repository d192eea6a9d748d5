package engine_test

import (
	"fmt"
	goruntime "runtime"
	"slices"
	"testing"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/jsonl"
	"github.com/braise-run/braise/checkpoint/sqlite"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// trust 8.14: what a run with open pauses costs to begin, and what an answer to one of them costs, grows as they do.
func TestOpenPausesCostLinearly(t *testing.T) {
	const few, times = 250, 8
	for _, tt := range []struct {
		name string
		open func(t *testing.T) (checkpoint.Store, error)
	}{
		{"memory", func(*testing.T) (checkpoint.Store, error) { return &checkpoint.Memory{}, nil }},
		{"jsonl", func(t *testing.T) (checkpoint.Store, error) { return jsonl.Open(t.TempDir()) }},
		{"sqlite", func(t *testing.T) (checkpoint.Store, error) {
			s, err := sqlite.Open(t.Context(), t.TempDir()+"/runs.db", nil)
			if err == nil {
				t.Cleanup(func() { s.Close() })
			}
			return s, err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store, err := tt.open(t)
			if err != nil {
				t.Fatal(err)
			}
			rt := &runtime.Runtime{Store: store, Resume: resume.PassThrough{}}
			costs := func(n int) (begin, answer uint64) {
				wf := runtest.Load(t, fmt.Appendf(nil, "%ssteps:\n  f: {uses: human, foreach: {in: \"${{ 1..%d }}\"}, with: {prompt: \"${{ item }}?\"}}\n", runtest.Head, n))
				var out *workflow.Outcome
				begin = allocated(func() { out, _ = wf.Run(t.Context(), nil, rt) })
				if len(out.Pauses) != n {
					t.Fatalf("%d pauses: %v", len(out.Pauses), out.Failure())
				}
				var answers []uint64
				for i := range 3 {
					answers = append(answers, allocated(func() {
						name := fmt.Sprintf("f[%d]", i*n/4)
						out, _ = workflow.Answer(t.Context(), out.RunID, name, map[string]any{"decision": "approve"}, rt, nil)
					}))
					if len(out.Pauses) != n-1-i {
						t.Fatalf("%d pauses: %v", len(out.Pauses), out.Failure())
					}
				}
				return begin, slices.Min(answers)
			}
			begin, answer := costs(few)
			beginMany, answerMany := costs(few * times)
			if beginMany > 2*times*begin || answerMany > 2*times*answer {
				t.Errorf("bytes allocated: %d pauses %d, an answer %d; %d pauses %d, an answer %d",
					few, begin, answer, few*times, beginMany, answerMany)
			}
		})
	}
}

// trust 8.14: of many pauses that have tokens, the first get fresh ones; the earlier tokens of the others are good.
func TestFreshTokensOfManyPauses(t *testing.T) {
	rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}}
	wf := runtest.Load(t, []byte(runtest.Head+"steps:\n  f: {uses: human, foreach: {in: '${{ 1..150 }}'}, with: {prompt: 'Go?'}}\n"))
	out, _ := wf.Run(t.Context(), nil, rt)
	tokens := resume.Tokens{}
	for _, answer := range []struct {
		pause string
		fresh int // tokens in the outcome before
	}{{"f[149]", 150}, {"f[148]", 100}, {"f[0]", 100}} {
		fresh := 0
		for i, p := range out.Pauses {
			if p.Token != "" {
				fresh++
			}
			if (p.Token != "") != (i < answer.fresh) {
				t.Errorf("pause %d of %d: a token: %t", i, len(out.Pauses), p.Token != "")
			}
		}
		if fresh != answer.fresh || out.Token != out.Pauses[0].Token {
			t.Fatalf("%d pauses, %d fresh tokens, want %d", len(out.Pauses), fresh, answer.fresh)
		}
		tokens.Note(out.Pauses)
		out, _ = workflow.Resume(t.Context(), tokens[answer.pause], map[string]any{"decision": "approve"}, rt, nil)
		if out.Status != workflow.StatusPaused {
			t.Fatalf("%s: %s, %v", answer.pause, out.Status, out.Err)
		}
	}
	if len(out.Pauses) != 147 {
		t.Errorf("%d pauses are left", len(out.Pauses))
	}
}

// allocated is how many bytes are allocated while f runs.
func allocated(f func()) uint64 {
	var before, after goruntime.MemStats
	goruntime.ReadMemStats(&before)
	f()
	goruntime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
