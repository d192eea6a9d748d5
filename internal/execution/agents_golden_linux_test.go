package execution_test

import (
	"fmt"
	"regexp"
	goruntime "runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// Equal runs with agents have equal traces, snapshots, outcomes and, unless calls overlap, journals, to the byte: in
// all executions, whatever runs side by side. Where calls overlap, the journals come to the same.
func TestAgentsAreDeterministic(t *testing.T) {
	defer goruntime.GOMAXPROCS(goruntime.GOMAXPROCS(0))
	times := 100
	if testing.Short() {
		times = 24
	}
	for _, scenes := range [][]string{{"one", "eight"}, {"bodies"}} {
		var want, journal []string
		var cameTo agentRun
		for n := range times {
			scene, parallel, procs := scenes[n%len(scenes)], 1+7*(n/2%2), 1+n/4%2
			name := fmt.Sprintf("run %d, scene %s, max_parallel %d, GOMAXPROCS %d", n, scene, parallel, procs)
			goruntime.GOMAXPROCS(procs)
			h := newAgentHost(t, scene)
			h.rt.Limits = runtime.Limits{MaxParallel: parallel}
			out, _ := h.scene.load(t).Run(t.Context(), nil, h.rt)
			var got []string
			out = h.drive(t, out, func(out *workflow.Outcome) { got = append(got, strings.Split(agentBytes(t, out), "\n")...) })
			run, recs := h.cameTo(t, out), h.journal(t)
			if want == nil {
				want, journal, cameTo = got, recs, run
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("%s: outcomes (-want +got)\n%s", name, diff)
			}
			if diff := cmp.Diff(cameTo, run); diff != "" {
				t.Fatalf("%s: what it came to (-want +got)\n%s", name, diff)
			}
			if diff := cmp.Diff(journal, recs); diff != "" && scene == "one" {
				t.Fatalf("%s: journal (-want +got)\n%s", name, diff)
			}
		}
	}
}

var digests = regexp.MustCompile(`digest=sha256:\w+`) // tool_concurrency is a part of the recipe

// agentBytes is bytesOf without digests, tokens, and when pauses were opened.
func agentBytes(t *testing.T, out *workflow.Outcome) string {
	t.Helper()
	c := *out
	c.Token = ""
	c.Pauses = nil
	text := digests.ReplaceAllString(runtest.BytesOf(t, &c), "")
	for _, p := range out.Pauses {
		text += fmt.Sprintf("\n%s %s %s %v %v %v", p.ID, p.Kind, p.Prompt, p.Show, p.Schema, p.Decisions)
	}
	return text
}

// journal returns the records of the run without times, and what is random in them.
func (h *agentHost) journal(t *testing.T) []string {
	t.Helper()
	_, recs, err := h.kept.Load(t.Context(), "r1", 0)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, rec := range recs {
		if rec.Kind == "call.open" { // of a call that is under way for long, which depends on how busy the machine is
			continue
		}
		var data any
		if rec.Data != nil {
			if data, err = value.Decode(rec.Data); err != nil {
				t.Fatal(err)
			}
		}
		text, err := value.JSON(timeless(data))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprintf("%s %s %s", rec.Kind, rec.Path, text))
	}
	return list
}

// timeless returns decoded JSON without times, durations, hashes of tokens, and how many calls there may be at once.
func timeless(v any) any {
	switch v := v.(type) {
	case []any:
		for i := range v {
			v[i] = timeless(v[i])
		}
	case map[string]any:
		for _, name := range []string{"hash", "createdAt", "startedAt", "worked", "expiresAt", "began", "parallel", "at", "owner", "ms"} {
			delete(v, name)
		}
		for name := range v {
			v[name] = timeless(v[name])
		}
	}
	return v
}
