package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// A retrieve step asks the retriever of the Runtime.
func ExampleWorkflow_Run_retrieve() {
	rt := &runtime.Runtime{Retriever: runtest.Shelf(func(_ context.Context, query string, topK int) ([]runtime.Document, error) {
		return []runtime.Document{{ID: "faq#1", Text: "Refunds take five days.", Source: "faq.md", Score: 1.5}}, nil
	})}
	r := must(recipe.Parse("answer.yaml", []byte(`apiVersion: braise/v1
name: answer
inputs: {question: string}
steps:
  docs: {uses: retrieve, with: {query: "${{ inputs.question }}", top_k: 3}}
output: ${{ steps.docs.output.documents[0].text }}
`)))
	out, err := must(workflow.Compile(r, nil)).Run(context.Background(), map[string]any{"question": "How long do refunds take?"}, rt)
	fmt.Println(out.Output, err)
	// Output: Refunds take five days. <nil>
}

const asks = runtest.Head + `inputs: {q: {}}
steps:
  docs: {uses: retrieve, with: {query: "${{ inputs.q }}", top_k: 2}%s}
output: ${{ steps.docs.output }}
`

func TestRetrieve(t *testing.T) {
	many := runtest.Shelf(func(_ context.Context, query string, topK int) ([]runtime.Document, error) {
		return []runtime.Document{
			{ID: "a", Text: query, Score: float64(topK), Source: "a.md", Metadata: map[string]any{"line": 7, "tags": []string{"x"}}},
			{ID: "b"}, {ID: "c"},
		}, nil
	})
	returns := func(found []runtime.Document, err error) runtest.Shelf {
		return func(context.Context, string, int) ([]runtime.Document, error) { return found, err }
	}
	whole := map[string]any{"documents": []any{
		map[string]any{"id": "a", "text": "why?", "score": 2.0, "source": "a.md", "metadata": map[string]any{"line": int64(7), "tags": []any{"x"}}},
		map[string]any{"id": "b", "text": "", "score": 0.0},
	}}
	for _, tt := range []struct {
		name     string
		more     string // of the step
		q        any
		from     runtime.Retriever
		limit    int
		want     any
		category runtime.Category
		code     string
		message  string
	}{
		{name: "what is too much is left out", q: "why?", from: many, want: whole},
		{name: "nothing", q: "why?", from: returns(nil, nil), want: map[string]any{"documents": []any{}}},
		{name: "an empty query", q: "", from: returns(nil, nil), want: map[string]any{"documents": []any{}}},
		{name: "no string", q: int64(1), from: many, category: "config", code: "retriever.arguments", message: "recipe.yaml:5:16: query of a retrieve step must be a string, not a number"},
		{name: "null", from: many, category: "config", code: "retriever.arguments", message: "recipe.yaml:5:16: query of a retrieve step must be a string, not null"},
		{name: "it fails", q: "why?", from: returns(nil, errors.New("no index")), category: "retriever", code: "retriever.failed", message: "no index"},
		{name: "it says what failed", q: "why?", from: returns(nil, &runtime.Error{Category: "limit", Code: "shelf.full", Err: errors.New("full")}),
			category: "limit", code: "shelf.full", message: "full"},
		{name: "no JSON", q: "why?", from: returns([]runtime.Document{{ID: "a", Score: math.NaN()}}, nil),
			category: "retriever", code: "retriever.failed", message: "the retriever returned what is not JSON: /documents/0/score: NaN is not a JSON number"},
		{name: "it panics", q: "why?", from: runtest.Shelf(func(context.Context, string, int) ([]runtime.Document, error) { panic("ouch") }),
			category: "retriever", code: "step.panic", message: "panic in the retriever: ouch"},
		{name: "it is not there", q: "why?", category: "config", code: "retriever.missing", message: "recipe.yaml:5:16: there is no retriever"},
		{name: "its output does not match", q: "why?", from: many, more: ", output: {schema: {properties: {documents: {maxItems: 1}}}}", category: "config", code: "output.invalid"},
		{name: "its output matches", q: "why?", from: many, more: ", output: {schema: {required: [documents]}}", want: whole},
		{name: "over max_bytes", q: "why?", from: many, more: ", output: {max_bytes: 20}", category: "config", code: "output.invalid"},
		{name: "too large", q: "why?", from: many, limit: 40, category: "limit", code: "output.tooLarge"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wf := runtest.Load(t, fmt.Appendf(nil, asks, tt.more))
			rt := &runtime.Runtime{Limits: runtime.Limits{MaxOutputBytes: tt.limit}}
			if tt.from != nil {
				rt.Retriever = tt.from
			}
			out, err := wf.Run(t.Context(), map[string]any{"q": tt.q}, rt)
			if tt.code == "" {
				if diff := cmp.Diff(tt.want, out.Output); err != nil || diff != "" {
					t.Fatalf("%v (-want +got)\n%s", err, diff)
				}
				return
			}
			e := out.Failure()
			if e == nil || e.Category != tt.category || e.Code != tt.code || e.Step != "docs" || tt.message != "" && e.Err.Error() != tt.message {
				t.Errorf("got %+v, want %s %s: %s", e, tt.category, tt.code, tt.message)
			}
		})
	}
}

// lacking is a retriever that needs what is not there.
type lacking struct{ runtest.Shelf }

func (lacking) Metadata() runtime.Metadata {
	return runtime.Metadata{Requires: []runtime.Requirement{{Kind: runtime.RequireModel, Name: "embed"}}}
}

func TestRetrieverThatIsNotReady(t *testing.T) {
	wf := runtest.Load(t, fmt.Appendf(nil, asks, ""))
	list, err := wf.Check(t.Context(), nil)
	want := diagnostics.List{{Level: diagnostics.Warn, Kind: diagnostics.KindContract, Code: diagnostics.CodeMissingRetriever,
		Message: `there is no retriever; step "docs" needs it`, Position: diagnostics.Position{File: "recipe.yaml", Line: 5, Column: 16}, Step: "docs"}}
	if diff := cmp.Diff(want, list); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	list, err = wf.Check(t.Context(), &runtime.Runtime{Retriever: lacking{}})
	if err != nil || len(list) != 1 || list[0].Message != `the retriever requires model "embed", which is not configured` {
		t.Errorf("got %v, %v", list, err)
	}
}

func TestRetrieverSecretsStayOut(t *testing.T) {
	wf := runtest.Load(t, []byte(runtest.Head+`steps:
  a: {uses: test.echo, with: {key: "${{ secrets.TOKEN }}"}}
  docs: {uses: retrieve, needs: [a], with: {query: x}}
  bad: {uses: retrieve, needs: [docs], on_error: continue, with: {query: y}}
output: ${{ [steps.docs.output.documents[0].text, steps.docs.output.documents[0].metadata.key, steps.bad.error.message] }}
`))
	const secret = "open sesame"
	rt := &runtime.Runtime{Tools: []runtime.Tool{runtest.Echo}, Secrets: runtime.SecretMap{"TOKEN": secret},
		Retriever: runtest.Shelf(func(_ context.Context, query string, _ int) ([]runtime.Document, error) {
			if query == "y" {
				return nil, errors.New("not " + secret)
			}
			return []runtime.Document{{ID: "1", Text: "say " + secret + "!", Metadata: map[string]any{"key": secret}}}, nil
		})}
	out, err := wf.Run(t.Context(), nil, rt)
	if diff := cmp.Diff([]any{"say ***!", "***", "not ***"}, out.Output); err != nil || diff != "" {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
}

// impatient is a retriever that asks for two attempts.
type impatient struct{ runtest.Shelf }

func (impatient) Metadata() runtime.Metadata {
	return runtime.Metadata{Retry: &retry.Metadata{Policy: retry.Policy{MaxAttempts: 2, Backoff: time.Second, Jitter: retry.NoJitter}}}
}

// An attempt that fails is followed by another, as the adapter, the recipe or the step says, and the
// events tell of it.
func TestRetrieverIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		flaky := runtest.Shelf(func(context.Context, string, int) ([]runtime.Document, error) {
			if calls++; calls == 1 {
				return nil, &retry.Failure{Reason: retry.Network, Err: errors.New("gone")}
			}
			return nil, nil
		})
		out, err := runtest.Load(t, fmt.Appendf(nil, asks, "")).Run(t.Context(), map[string]any{"q": "x"}, &runtime.Runtime{Retriever: impatient{flaky}})
		var got []string
		for _, e := range out.Trace {
			if e.Step == "docs" {
				got = append(got, e.Line())
			}
		}
		want := []string{"step.start docs",
			"adapter.call docs kind=retriever name=retriever",
			"adapter.retry docs adapterKind=retriever attempt=1 delayMs=1000 maxAttempts=2 method=retrieve reason=network",
			"adapter.call docs kind=retriever name=retriever",
			"step.end docs status=succeeded"}
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v (-want +got)\n%s", err, diff)
		}
	})
}

// What was found is in the journal: a run that goes on does not look again.
func TestRetrievedIsInTheJournal(t *testing.T) {
	calls := 0
	rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Retriever: runtest.Shelf(func(context.Context, string, int) ([]runtime.Document, error) {
		calls++
		return []runtime.Document{{ID: fmt.Sprint("call ", calls)}}, nil
	})}
	wf := runtest.Load(t, []byte(runtest.Head+`steps:
  docs: {uses: retrieve, with: {query: x}}
  ok: {uses: human, needs: [docs], with: {prompt: "?"}}
output: ${{ steps.docs.output.documents[0].id }}
`))
	out, _ := wf.Run(t.Context(), nil, rt)
	if out.Status != workflow.StatusPaused {
		t.Fatalf("got %s, %v", out.Status, out.Err)
	}
	again, err := wf.Recover(t.Context(), out.RunID, rt)
	if again.Status != workflow.StatusPaused || calls != 1 {
		t.Errorf("got %s, %v after %d calls", again.Status, err, calls)
	}
}
