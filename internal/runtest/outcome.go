package runtest

import (
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// ErrorCode is the code of the error that ended a run; "": there is none.
func ErrorCode(out *workflow.Outcome) string {
	if e := out.Failure(); e != nil {
		return e.Code
	}
	return ""
}

// Approval is a yes with a form.
func Approval(form map[string]any) any { return map[string]any{"decision": "approve", "form": form} }

// OnlyPause is the one pause of a run.
func OnlyPause(t *testing.T, out *workflow.Outcome, step, reason string) resume.Pause {
	t.Helper()
	if out.Status != workflow.StatusPaused || len(out.Pauses) != 1 ||
		out.Pauses[0].Step != step || out.Pauses[0].Reason != reason {
		t.Fatalf("%s, %v, pauses %+v; want one of %q because of %s",
			out.Status, out.Err, out.Pauses, step, reason)
	}
	return out.Pauses[0]
}

// Watcher is a sink that wants details.
type Watcher struct {
	trace.Recorder
	Level trace.Detail
}

// Detail tells a run which details it wants.
func (w *Watcher) Detail() trace.Detail { return w.Level }

// LinesOf is Lines without the recipe's name and digest.
func LinesOf(out *workflow.Outcome) []string {
	list := Lines(out)
	for i, line := range list {
		if strings.HasPrefix(line, "run.start") {
			list[i] = "run.start"
			for _, word := range []string{"resume=true", "recover=true"} {
				if strings.Contains(line, word) {
					list[i] += " " + word
				}
			}
		}
	}
	return list
}

// CodeOf is the code of an error of a run; "": it has none.
func CodeOf(err error) string {
	if e, ok := errors.AsType[*runtime.Error](err); ok {
		return e.Code
	}
	return ""
}

// Yes is an approval without a form.
var Yes = map[string]any{"decision": "approve"}

// Reported are the diagnostics about rollbacks that failed.
func Reported(out *workflow.Outcome) []string {
	var list []string
	for _, d := range out.Diagnostics {
		if d.Code == diagnostics.CodeRollbackFailed {
			list = append(list, d.Step+": "+d.Message)
		}
	}
	return list
}

// Quiet takes what a run tells the operator: diagnostics, which have a code, and what else there is to say.
type Quiet struct {
	mutex        sync.Mutex
	Texts, Coded []string
}

// Warn keeps the message.
func (q *Quiet) Warn(msg string, attrs ...slog.Attr) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if slices.ContainsFunc(attrs, func(a slog.Attr) bool { return a.Key == "code" }) {
		q.Coded = append(q.Coded, msg)
		return
	}
	q.Texts = append(q.Texts, msg)
}

// Lines returns the outcome's trace as trace.txt has it.
func Lines(out *workflow.Outcome) []string {
	list := make([]string, len(out.Trace))
	for i, e := range out.Trace {
		list[i] = Keyless(e)
	}
	return list
}

// Keyless is an event without the idempotency key of a call.
func Keyless(e trace.Event) string {
	if e.Kind == trace.AdapterCall {
		e.Data = slices.DeleteFunc(slices.Clone(e.Data), func(a trace.Attr) bool { return a.Key == "key" })
	}
	return e.Line()
}

// BytesOf returns what must be equal from run to run: the outcome without id, times and durations.
func BytesOf(t *testing.T, out *workflow.Outcome) string {
	t.Helper()
	c := *out
	c.RunID, c.Trace, c.StartedAt, c.EndedAt = "", nil, time.Time{}, time.Time{}
	text, err := json.Marshal(&c)
	if err != nil {
		t.Fatal(err)
	}
	return string(text) + "\n" + strings.Join(Lines(out), "\n")
}

// Called is a recipe that is called as a tool: it asks a person, and pays.
const Called = `apiVersion: braise/v1
name: refund
description: Refunds an order.
inputs: {order: {type: string}, cents: {type: integer, default: 100}}
steps:
  ask: {uses: human, with: {prompt: "Refund ${{ inputs.order }}?"}}
  pay:
    uses: test.pay
    needs: [ask]
    when: steps.ask.output.decision == "approve"
    with: {cents: "${{ inputs.cents }}"}
output: {decision: "${{ steps.ask.output.decision }}", paid: "${{ steps.pay.output }}"}
`
