package host_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/script"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// Each item is classified with a schema; the answer to item b is wrong once and then mended.
const classify = `apiVersion: braise/v1
name: classify
steps:
  sort:
    uses: model
    foreach: {in: [a, b, c, d, e, f]}
    with: {model: fast, prompt: "Which kind is ${{ item }}?"}
    output: {schema: {type: object, properties: {kind: {type: string}}, required: [kind]}}
  pick:
    uses: model
    with: {model: "${{ run.recipe == 'classify' ? 'slow' : 'fast' }}", prompt: "Pick of ${{ steps.sort.output }}."}
output:
  kinds: ${{ steps.sort.output }}
  pick: ${{ steps.pick.output.text }}
`

const classifyScript = `
steps:
  sort[0]: [{json: {kind: A}}]
  sort[1]: [{text: "no JSON"}, {json: {kind: B}}]
  sort[2]: [{json: {kind: C}}]
  sort[3]: [{json: {kind: D}}]
  sort[4]: [{json: {kind: E}}]
  sort[5]: [{json: {kind: F}}]
  pick: [{text: all}]
`

func compileRecipe(t testing.TB, text string) *workflow.Workflow {
	t.Helper()
	r, err := recipe.Parse("r.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	wf, err := workflow.Compile(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return wf
}

// record runs a workflow and returns its outcome and the path of its cassette.
func record(t testing.TB, wf *workflow.Workflow, rt *runtime.Runtime) (*workflow.Outcome, string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "run.jsonl")
	recorded, recorder, err := host.Record(t.Context(), rt, file, wf.Plan())
	if err != nil {
		t.Fatal(err)
	}
	out, _ := wf.Run(t.Context(), nil, recorded)
	if err := recorder.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return out, file
}

func read(t testing.TB, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// events lists what a run did, without times.
func events(out *workflow.Outcome) []string {
	var list []string
	for _, e := range out.Trace {
		if e.Kind != trace.RunEnd {
			list = append(list, string(e.Kind)+" "+e.Step)
		}
	}
	return list
}

func TestRecordAndReplay(t *testing.T) {
	model, err := script.Parse("s.yaml", []byte(classifyScript))
	if err != nil {
		t.Fatal(err)
	}
	wf := compileRecipe(t, classify)
	var first string
	for _, parallel := range []int{1, 8} {
		rt := &runtime.Runtime{
			Models: map[string]runtime.Model{"fast": model, "slow": model},
			Limits: runtime.Limits{MaxParallel: parallel}, NewRunID: func() string { return "r" },
		}
		recorded, file := record(t, wf, rt)
		if recorded.Status != workflow.StatusOK {
			t.Fatalf("got %v", recorded.Err)
		}
		text := read(t, file)
		if first == "" {
			first = text
		}
		if diff := cmp.Diff(first, text); diff != "" {
			t.Errorf("cassettes at max_parallel 1 and %d differ:\n%s", parallel, diff)
		}
		if got, want := strings.Count(text, "\n"), 1+6+1+1; got != want { // header, items, the repair, pick
			t.Errorf("the cassette has %d lines, want %d", got, want)
		}

		bare := *rt
		bare.Models = nil
		replay, err := host.Replay(&bare, file, wf.Plan())
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // a second run starts from the beginning
			replay.NewRunID = nil
			out, err := wf.Run(t.Context(), nil, replay)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(recorded.Output, out.Output); diff != "" {
				t.Errorf("output (-recorded +replayed):\n%s", diff)
			}
			if diff := cmp.Diff(recorded.Artefact, out.Artefact); diff != "" {
				t.Errorf("artefact (-recorded +replayed):\n%s", diff)
			}
			if diff := cmp.Diff(events(recorded), events(out)); diff != "" {
				t.Errorf("events (-recorded +replayed):\n%s", diff)
			}
		}
	}
}

// A failure of one step stops its siblings in the replay as it did in the recording.
func TestReplayOfAFailure(t *testing.T) {
	const text = `apiVersion: braise/v1
name: two
steps:
  hang: {uses: model, with: {model: hang, prompt: x}}
  slow: {uses: model, timeout: 50ms, on_error: continue, with: {model: hang, prompt: y}}
  refuse: {uses: model, needs: [slow], trigger: all_done, with: {model: refuse, prompt: x}}
`
	refuse, err := script.Parse("s.yaml", []byte("turns: [{error: {status: 400, message: go away}}]"))
	if err != nil {
		t.Fatal(err)
	}
	wf := compileRecipe(t, text)
	soon := runtime.Limits{Grace: time.Millisecond} // for calls under way when a step fails
	recorded, file := record(t, wf, &runtime.Runtime{Limits: soon, Models: map[string]runtime.Model{"refuse": refuse, "hang": hanging{}}})
	replay, err := host.Replay(&runtime.Runtime{Limits: soon, Models: map[string]runtime.Model{"hang": panicking{}}}, file, wf.Plan())
	if err != nil {
		t.Fatal(err)
	}
	out, _ := wf.Run(t.Context(), nil, replay)
	want, got := recorded.Failure(), out.Failure()
	if want == nil || want.Step != "refuse" || got == nil || got.Step != want.Step || got.Code != want.Code || got.Error() != want.Error() {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if diff := cmp.Diff(recorded.Artefact, out.Artefact); diff != "" {
		t.Errorf("artefact (-recorded +replayed):\n%s", diff)
	}
}

// hanging is a model that never answers.
type hanging struct{}

func (hanging) Generate(ctx context.Context, _ *runtime.Request) (*runtime.Response, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// panicking is a model that may not be called.
type panicking struct{}

func (panicking) Generate(context.Context, *runtime.Request) (*runtime.Response, error) {
	panic("a live call in a replay")
}

// A recipe that changed is answered as far as its requests are the same.
func TestReplayOfAnotherRecipe(t *testing.T) {
	model, err := script.Parse("s.yaml", []byte(classifyScript))
	if err != nil {
		t.Fatal(err)
	}
	rt := &runtime.Runtime{Models: map[string]runtime.Model{"fast": model, "slow": model}}
	_, file := record(t, compileRecipe(t, classify), rt)

	edited := compileRecipe(t, strings.Replace(classify, "output.text }}", "output.text + '!' }}", 1))
	replay, err := host.Replay(rt, file, edited.Plan())
	if err != nil {
		t.Fatal(err)
	}
	out, err := edited.Run(t.Context(), nil, replay)
	if err != nil || out.Output.(map[string]any)["pick"] != "all!" {
		t.Errorf("got %v, %v, want the pick all!", out.Output, err)
	}

	asked := compileRecipe(t, strings.Replace(classify, "Pick of", "Take of", 1))
	out, err = asked.Run(t.Context(), nil, replay)
	if err == nil || out.Failure().Step != "pick" || !strings.Contains(err.Error(), `message 1 (user) differs at character 1: recorded "Pick of `) {
		t.Errorf("got %v, want a miss of the step pick", err)
	}

	renamed := compileRecipe(t, strings.Replace(classify, "name: classify", "name: other", 1))
	if _, err := host.Replay(rt, file, renamed.Plan()); err == nil || !strings.Contains(err.Error(), `the cassette is of the recipe "classify", not of "other"`) {
		t.Errorf("another name: got %v", err)
	}
	if _, err := host.Replay(rt, filepath.Join(t.TempDir(), "no.jsonl"), edited.Plan()); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("no file: got %v", err)
	}
}

func TestOpenForReplay(t *testing.T) {
	file := filepath.Join(t.TempDir(), "braise.yaml")
	text := "models:\n  fast: {provider: openai, model: m, api_key: '${BRAISE_TEST_NO_SUCH_KEY}'}\n  canned: {provider: script, file: gone.yaml}\nlimits: {max_parallel: 3}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := host.Open(t.Context(), &host.Options{Config: file}); err == nil || !strings.Contains(err.Error(), "gone.yaml") {
		t.Errorf("not for a replay: got %v, want that the script is gone", err)
	}
	h, err := host.Open(t.Context(), &host.Options{Config: file, Replay: true})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	rt := h.Bare()
	if rt.Validate() != nil || len(rt.Models) != 2 || rt.Limits.MaxParallel != 3 {
		t.Fatalf("got %+v, want both models and the limits", rt)
	}
	if _, err := rt.Models["fast"].Generate(t.Context(), &runtime.Request{Step: "s"}); err == nil {
		t.Error("a model without a cassette answered")
	}
}
