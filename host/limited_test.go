package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/limit"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

const fanRecipe = `apiVersion: braise/v1
name: fan
limits: {max_parallel: 50}
inputs: {n: {type: array}}
steps:
  each: {uses: model, foreach: {in: "${{ inputs.n }}", as: n}, retry: {max_attempts: 1}, with: {model: fast, prompt: "${{ n }}"}}
output: ${{ len(steps.each.output) }}
`

// runTwo runs the fan twice at the same time, with n items each, and expects both to succeed.
func runTwo(t *testing.T, wf *workflow.Workflow, rt *runtime.Runtime, n int) (outs [2]*workflow.Outcome) {
	t.Helper()
	items := make([]any, n)
	for i := range items {
		items[i] = i
	}
	var both sync.WaitGroup
	for i := range outs {
		both.Go(func() {
			out, err := wf.Run(t.Context(), map[string]any{"n": items}, rt)
			if err != nil || out.Output != int64(n) {
				t.Errorf("run %d: %v, %v; want %d answers", i, out.Output, err, n)
			}
			outs[i] = out
		})
	}
	both.Wait()
	return outs
}

// models.md 2: two runs of 200 calls each meet no limit of their model, and show that they wait.
func TestFansOfOneModel(t *testing.T) {
	r, err := recipe.Parse("fan.yaml", []byte(fanRecipe))
	if err != nil {
		t.Fatal(err)
	}
	wf, err := workflow.Compile(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var came []time.Time
		m := &runtimetest.Model{Func: func(context.Context, *runtime.Request) (*runtime.Response, error) {
			mu.Lock()
			defer mu.Unlock()
			now := time.Now()
			came = slices.DeleteFunc(came, func(at time.Time) bool { return now.Sub(at) >= time.Minute })
			if came = append(came, now); len(came) > 100 {
				return nil, errors.New("429 slow down")
			}
			return &runtime.Response{Text: "ok"}, nil
		}}
		rt := &runtime.Runtime{Models: map[string]runtime.Model{"fast": limit.New(m, limit.Limits{RPM: 100})}}
		began := time.Now()
		outs := runTwo(t, wf, rt, 200)
		if took, want := time.Since(began), 3*(time.Minute+time.Second); took != want {
			t.Errorf("400 calls at 100 a minute took %v, want %v", took, want)
		}
		names := map[any]int{}
		for _, out := range outs {
			for _, e := range out.Trace {
				names[e.Data.Get("name")]++
			}
		}
		// each minute but the first begins with the calls that one run waits for, at least
		if waits := names["model.wait"]; waits < 3*50 || waits != names["model.waited"] {
			t.Errorf("%d calls waited, and %d have waited; want at least 150, and equal counts", waits, names["model.waited"])
		}
	})
}

// busyEndpoint is a server for models that counts the calls under way: it answers none of a model before as many are as the
// model may have and one more had time to come, and then those of a with 503.
func busyEndpoint(t *testing.T, most map[string]int) (url string, peak map[string]int) {
	var mu sync.Mutex
	busy, peak, full := map[string]int{}, map[string]int{}, map[string]chan struct{}{}
	open := map[string]*sync.Once{}
	for model := range most {
		full[model], open[model] = make(chan struct{}), new(sync.Once)
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Model string }
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			t.Error(err)
		}
		mu.Lock()
		busy[asked.Model]++
		if peak[asked.Model] = max(peak[asked.Model], busy[asked.Model]); busy[asked.Model] == most[asked.Model] {
			open[asked.Model].Do(func() { time.AfterFunc(300*time.Millisecond, func() { close(full[asked.Model]) }) })
		}
		mu.Unlock()
		<-full[asked.Model] // as many as may be are under way
		mu.Lock()
		busy[asked.Model]--
		mu.Unlock()
		if asked.Model == "a" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, `{"choices": [{"message": {"content": "ok"}}]}`)
	}))
	t.Cleanup(srv.Close)
	return srv.URL, peak
}

// The runs of a host share the limits of a model; those of its fallback are its own.
func TestLimitsOfModels(t *testing.T) {
	most := map[string]int{"a": 3, "b": 2}
	url, peak := busyEndpoint(t, most)
	h, _ := install(t, host.Options{Store: "memory:"}, map[string]string{"recipe.yaml": fanRecipe, "braise.yaml": strings.ReplaceAll(`
models:
  fast: {provider: openai, model: a, base_url: URL, max_parallel: 3, fallback: [mini]}
  mini: {provider: openai, model: b, base_url: URL, max_parallel: 2, rpm: 1000, tpm: 1000000}
`, "URL", url)})
	wf, rt, err := h.Look(h.ConfigPath()[:len(h.ConfigPath())-len("braise.yaml")] + "recipe.yaml")
	if err != nil {
		t.Fatal(err)
	}
	runTwo(t, wf, rt, 12)
	if diff := cmp.Diff(most, peak); diff != "" {
		t.Errorf("calls under way (-want +got):\n%s", diff)
	}
}

// Two hosts that have one store share the limits of a model.
func TestLimitsOfAStore(t *testing.T) {
	most := map[string]int{"b": 3}
	url, peak := busyEndpoint(t, most)
	store := "sqlite:" + filepath.Join(t.TempDir(), "runs.db")
	var both sync.WaitGroup
	for range 2 {
		h, _ := install(t, host.Options{Store: store}, map[string]string{"recipe.yaml": fanRecipe,
			"braise.yaml": "models: {fast: {provider: openai, model: b, base_url: \"" + url + "\", max_parallel: 3}}\n"})
		wf, _, err := h.Look(filepath.Join(filepath.Dir(h.ConfigPath()), "recipe.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		rt, err := h.Runtime(t.Context(), wf)
		if err != nil {
			t.Fatal(err)
		}
		both.Go(func() { runTwo(t, wf, rt, 6) })
	}
	both.Wait()
	if diff := cmp.Diff(most, peak); diff != "" {
		t.Errorf("calls under way (-want +got):\n%s", diff)
	}
}

func TestLimitsOfModelsRefused(t *testing.T) {
	for value, code := range map[string]string{"0": "recipe.invalid", "-1": "recipe.invalid", "2147483648": "recipe.invalid", "99999999999999999999": "recipe.invalid",
		"0.5": "recipe.wrongType", `"5"`: "recipe.wrongType", "many": "recipe.wrongType", "true": "recipe.wrongType", "null": "recipe.wrongType", "[1]": "recipe.wrongType", `"${N}"`: "recipe.wrongType"} {
		for _, key := range []string{"max_parallel", "rpm", "tpm"} {
			text := "models:\n  m:\n    provider: openai\n    model: x\n    " + key + ": " + value + "\n"
			_, err := host.ParseConfig("braise.yaml", []byte(text), environ(map[string]string{"N": "5"}))
			var got []string
			if list, ok := errors.AsType[*diagnostics.Error](err); ok {
				for _, d := range list.List {
					got = append(got, d.String())
				}
			}
			want := []string{fmt.Sprintf("braise.yaml:5:%d: %q must be an integer from 1 to 2147483647 [%s]\n  hint: leave it out for no limit", 7+len(key), key, code)}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %s (-want +got):\n%s", key, value, diff)
			}
		}
	}
}
