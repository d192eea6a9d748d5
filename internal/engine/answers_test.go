package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

// A call that asks for several pauses, one after the other, finds all their answers, in every runtime, whatever else
// the step has waited for in between: its next attempt, or a time without an answer.
func TestEarlierAnswers(t *testing.T) {
	const (
		step  = "steps:\n  a: {uses: test.ask, retry: {max_attempts: 3, mode: pause}}\noutput: ${{ steps.a.output }}\n"
		agent = "steps:\n  a: {uses: agent, with: {agent: {model: m, tools: [test.ask]}, prompt: go}}\noutput: ${{ steps.a.output.text }}\n"
	)
	for _, tt := range []struct {
		name, text string
		interrupt  resume.Interrupt
		between    error // of the first call that has two answers
		pauses     []string
		calls      int
	}{
		{"step", step, "", nil, []string{"one", "two", "three"}, 4},
		{"agent", agent, "", nil, []string{"one", "two", "three"}, 4},
		{"a step restarts", step, resume.Restart, nil, []string{"one", "two", "three"}, 10}, // 1 + 2 + 3 + 4
		{"an agent restarts", agent, resume.Restart, nil, []string{"one", "two", "three"}, 10},
		{"a step is tried again", step, "", &retry.Failure{Reason: retry.RateLimit, Status: 429, After: time.Hour, Err: errors.New("busy")}, []string{"one", "two", "retry", "three"}, 5},
		{"a time passes", step, "", resume.Suspend(resume.Pause{Kind: resume.System, Reason: "later", RetryAt: time.Now().Add(time.Hour)}), []string{"one", "two", "later", "three"}, 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store, between, calls := new(checkpoint.Memory), tt.between, 0
			ask := func(ctx context.Context, _ json.RawMessage) (any, error) {
				calls++
				var said []string
				for i, question := range []string{"one", "two", "three"} {
					answer, ok := answerTo(ctx, question)
					if err := between; i == 2 && err != nil {
						between = nil
						return nil, err
					}
					if !ok {
						return nil, resume.Suspend(resume.Pause{Kind: resume.Human, Prompt: question + "?", Reason: question})
					}
					said = append(said, fmt.Sprint(answer))
				}
				return strings.Join(said, " "), nil
			}
			// every execution has what another process would have
			rt := func() *runtime.Runtime {
				return &runtime.Runtime{Store: store, Resume: resume.PassThrough{}, Interrupt: tt.interrupt,
					Tools: []runtime.Tool{runtimetest.NewTool("test.ask", ask)},
					Models: map[string]runtime.Model{"m": &runtimetest.Model{Func: func(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
						if last := req.Messages[len(req.Messages)-1]; last.Role == runtime.ToolRole {
							return &runtime.Response{Text: last.Text}, nil
						}
						return &runtime.Response{ToolCalls: []runtime.ToolCall{{Name: "test.ask", Arguments: json.RawMessage(`{}`)}}}, nil
					}}}}
			}
			out, _ := runtest.Load(t, []byte(runtest.Head+tt.text)).Run(t.Context(), nil, rt())
			var pauses []string
			for out.Status == workflow.StatusPaused && len(pauses) < 9 {
				reason := out.Pauses[0].Reason
				pauses = append(pauses, reason)
				out, _ = workflow.Resume(t.Context(), out.Pauses[0].Token, int64(len(pauses)), rt(), nil)
			}
			if !slices.Equal(pauses, tt.pauses) || calls != tt.calls {
				t.Errorf("pauses %q, want %q; %d calls, want %d", pauses, tt.pauses, calls, tt.calls)
			}
			want := "1 2 3"
			if between = tt.between; between != nil {
				want = "1 2 4"
			}
			if out.Status != workflow.StatusOK || out.Output != want {
				t.Errorf("%s, %v: output %v, want %s", out.Status, out.Err, out.Output, want)
			}
		})
	}
}

// An execution that ends during the call loses none of the answers: the next one makes the call with them.
func TestEarlierAnswersAreRecovered(t *testing.T) {
	store, calls := new(checkpoint.Memory), 0
	ctx, end := context.WithCancel(t.Context())
	tool := runtimetest.NewTool("test.ask", func(ctx context.Context, _ json.RawMessage) (any, error) {
		var said []any
		for _, question := range []string{"one", "two"} {
			answer, ok := answerTo(ctx, question)
			if !ok {
				return nil, resume.Suspend(resume.Pause{Kind: resume.Human, Prompt: question + "?", Reason: question})
			}
			said = append(said, answer)
		}
		if calls++; calls == 1 {
			end()
			return nil, ctx.Err()
		}
		return said, nil
	})
	tool.ToolSpec.Effect = runtime.ReadOnly
	rt := func() *runtime.Runtime {
		return &runtime.Runtime{Store: store, Resume: resume.PassThrough{}, Tools: []runtime.Tool{tool}}
	}
	out, _ := runtest.Load(t, []byte(runtest.Head+"steps:\n  a: {uses: test.ask}\noutput: ${{ steps.a.output }}\n")).Run(t.Context(), nil, rt())
	out, _ = workflow.Resume(t.Context(), out.Token, "yes", rt(), nil)
	out, _ = workflow.Resume(ctx, out.Token, "no", rt(), nil)
	if out.Status != workflow.StatusCancelled {
		t.Errorf("ended: %s, %v", out.Status, out.Err)
	}
	out, _ = workflow.Recover(t.Context(), out.RunID, rt(), nil)
	if diff := cmp.Diff([]any{"yes", "no"}, out.Output); diff != "" || calls != 2 {
		t.Errorf("%s, %v, %d calls: output (-want +got):\n%s", out.Status, out.Err, calls, diff)
	}
}

// answerTo finds the answer to a pause of a call by its reason.
func answerTo(ctx context.Context, reason string) (answer any, ok bool) {
	for _, r := range resume.Replies(ctx) {
		if r.To == reason {
			return r.Answer, true
		}
	}
	return nil, false
}
