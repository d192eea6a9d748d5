package history_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

const sixTimes = `["${{ inputs.text }}", "${{ inputs.text }}", "${{ inputs.text }}", "${{ inputs.text }}", "${{ inputs.text }}", "${{ inputs.text }}"]`

// A view shows what happened under the limits that the run had, which a process that reads it need not have: higher or
// lower ones, and others after each pause.
func TestViewUnderOtherLimits(t *testing.T) {
	const six = `inputs: {text: string}
steps:
  big: {uses: set, with: ` + sixTimes + `}
  ask: {uses: human, trigger: all_done, needs: [big], with: {prompt: "Go?"}}
  more: {uses: set, trigger: all_done, needs: [ask], with: ` + sixTimes + `}
`
	large, high := strings.Repeat("x", 900<<10), runtime.Limits{MaxOutputBytes: 8 << 20}
	for _, tt := range []struct {
		name          string
		text          string
		first, second runtime.Limits
		ends          workflow.Status
		want          []string
	}{
		{"higher", large, high, high, workflow.StatusOK,
			[]string{"big set succeeded", "ask human succeeded", "more set succeeded"}},
		{"higher at first", large, high, runtime.Limits{}, workflow.StatusError,
			[]string{"big set succeeded", "ask human succeeded", "more set failed output.tooLarge"}},
		{"higher in the end", large, runtime.Limits{}, high, workflow.StatusError,
			[]string{"big set failed output.tooLarge", "ask human succeeded", "more set succeeded"}},
		{"lower", "1234567890", runtime.Limits{MaxOutputBytes: 70}, runtime.Limits{MaxOutputBytes: 70}, workflow.StatusError,
			[]string{"big set failed output.tooLarge", "ask human succeeded", "more set failed output.tooLarge"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := &checkpoint.Memory{}
			rt := &runtime.Runtime{Store: store, Resume: resume.PassThrough{}, Limits: tt.first}
			wf := load(t, six)
			out, err := wf.Run(t.Context(), map[string]any{"text": tt.text}, rt)
			if err != nil || out.Status != workflow.StatusPaused {
				t.Fatalf("%s, %v", out.Status, err)
			}
			reader := &history.Reader{Store: store}
			if run, err := reader.Load(t.Context(), out.RunID); err != nil || !cmp.Equal(lines(run.Steps)[0], tt.want[0]) {
				t.Errorf("while it waits: %v, %v", lines(run.Steps), err)
			}
			rt.Limits = tt.second
			if out, _ = wf.Resume(t.Context(), out.Pauses[0].Token, map[string]any{"decision": "approve"}, rt); out.Status != tt.ends {
				t.Fatalf("%s, %v", out.Status, out.Err)
			}
			run, err := reader.Load(t.Context(), out.RunID)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, lines(run.Steps)); diff != "" || strings.Contains(fmt.Sprint(run.Diagnostics), "history.partial") {
				t.Errorf("steps (-want +got): %v\n%s", run.Diagnostics, diff)
			}
		})
	}
}

// The journals of earlier versions do not have the limits of the host. A run that did not fail by one had higher ones.
func TestViewWithoutLimits(t *testing.T) {
	store := &unlimited{}
	rt := &runtime.Runtime{Store: store, Limits: runtime.Limits{MaxOutputBytes: 8 << 20}}
	out, err := load(t, `inputs: {text: string}
steps:
  big: {uses: set, with: `+sixTimes+`}
output: "${{ len(steps.big.output) }}"
`).Run(t.Context(), map[string]any{"text": strings.Repeat("x", 900<<10)}, rt)
	if err != nil {
		t.Fatal(err)
	}
	run, err := history.Load(t.Context(), store, out.RunID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"big set succeeded"}, lines(run.Steps)); diff != "" || run.Output != int64(6) || store.took != 1 {
		t.Errorf("output %v, %d records with limits, steps (-want +got)\n%s", run.Output, store.took, diff)
	}
}

// Of such a run, an output may be too large for this process though the run goes on after any failure.
func TestViewOfALargeOutputWithoutLimits(t *testing.T) {
	big := runtime.NewTool(runtime.ToolSpec{Name: "test.big"}, func(context.Context, struct{}) (string, error) {
		return strings.Repeat("x", 5<<20), nil
	})
	for name, text := range map[string]string{
		"last":  "steps:\n  big: {uses: test.big, on_error: continue}\n",
		"items": "steps:\n  big: {uses: test.big, foreach: {in: [1, 2]}, on_error: continue}\n",
		"waits": "steps:\n  big: {uses: test.big, on_error: continue}\n  ask: {uses: human, trigger: all_done, needs: [big], with: {prompt: \"Go?\"}}\n",
	} {
		t.Run(name, func(t *testing.T) {
			store := &unlimited{}
			for limit, want := range map[int]string{64 << 20: "big test.big succeeded", 0: "big test.big failed output.tooLarge"} {
				rt := &runtime.Runtime{Store: store, Limits: runtime.Limits{MaxOutputBytes: limit}, Tools: []runtime.Tool{big},
					Resume: resume.PassThrough{}}
				out, err := load(t, text).Run(t.Context(), nil, rt)
				if err != nil {
					t.Fatal(err)
				}
				run, err := history.Load(t.Context(), store, out.RunID)
				if err != nil || !strings.HasPrefix(strings.Join(strings.Fields(lines(run.Steps)[0]), " "), want) {
					t.Errorf("with a limit of %d: %v, %v; want %q", limit, lines(run.Steps), err, want)
				}
			}
		})
	}
}

// unlimited is a store that leaves the limits out.
type unlimited struct {
	checkpoint.Memory
	took int
}

func (u *unlimited) Load(ctx context.Context, runID string, after int64) (checkpoint.Summary, []checkpoint.Record, error) {
	sum, recs, err := u.Memory.Load(ctx, runID, after)
	for i := range recs {
		var data map[string]json.RawMessage
		if recs[i].Kind != checkpoint.RunExecution || json.Unmarshal(recs[i].Data, &data) != nil || data["limits"] == nil {
			continue
		}
		delete(data, "limits")
		recs[i].Data, _ = json.Marshal(data)
		u.took++
	}
	return sum, recs, err
}
