package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/trace"
)

func ExampleNewTool() {
	type query struct {
		Ticket string `json:"ticket" jsonschema:"the ticket's id"`
		Deep   bool   `json:"deep,omitempty"`
	}
	type found struct {
		Title string `json:"title"`
	}
	lookup := runtime.NewTool(runtime.ToolSpec{
		Name:        "crm.lookup",
		Description: "Find a ticket.",
		Effect:      runtime.ReadOnly,
	}, func(_ context.Context, q query) (found, error) {
		return found{Title: "about " + q.Ticket}, nil
	})

	result, err := lookup.Call(context.Background(), json.RawMessage(`{"ticket": "T-1"}`))
	fmt.Println(string(result), err)
	fmt.Println(string(lookup.Spec().Parameters))
	// Output:
	// {"title":"about T-1"} <nil>
	// {"type":"object","properties":{"ticket":{"type":"string","description":"the ticket's id"},"deep":{"type":"boolean"}},"required":["ticket"],"additionalProperties":false}
}

func ExampleRuntime_Validate() {
	rt := runtime.Runtime{
		Models: map[string]runtime.Model{"fast": nil},
		Tools:  []runtime.Tool{runtimetest.NewTool("lookup", nil)},
	}
	fmt.Println(rt.Validate())
	// Output:
	// runtime: model "fast" is nil
	// runtime: tool "lookup": a tool's name contains a dot, like "crm.lookup"
}

func ExampleSecretMap() {
	secrets := runtime.SecretMap{"CRM_TOKEN": "correct horse"}
	_, err := secrets.Secret(context.Background(), "CRM_TOKE")
	fmt.Println(err, errors.Is(err, runtime.ErrNoSecret))
	// Output:
	// "CRM_TOKE": no such secret true
}

// tool is a tool of this spec.
func tool(spec runtime.ToolSpec) []runtime.Tool {
	return []runtime.Tool{&runtimetest.Tool{ToolSpec: spec}}
}

func TestValidate(t *testing.T) {
	for _, tt := range []struct {
		name string
		rt   runtime.Runtime
		want string // a line of the error for each of its lines; "": none
	}{
		{"the zero value", runtime.Runtime{}, ""},
		{"a model", runtime.Runtime{Models: map[string]runtime.Model{"m": runtimetest.Texts()}}, ""},
		{"a nil model", runtime.Runtime{Models: map[string]runtime.Model{"m": nil}}, `model "m" is nil`},
		{"a model without a name", runtime.Runtime{Models: map[string]runtime.Model{"": runtimetest.Texts()}}, "a model without a name"},
		{"a tool", runtime.Runtime{Tools: tool(runtime.ToolSpec{Name: "a.b"})}, ""},
		{"two tools of one name", runtime.Runtime{Tools: append(tool(runtime.ToolSpec{Name: "a.b"}), tool(runtime.ToolSpec{Name: "a.b"})...)}, ""},
		{"a nil tool", runtime.Runtime{Tools: []runtime.Tool{nil}}, "tool 0 is nil"},
		{"a tool without a name", runtime.Runtime{Tools: tool(runtime.ToolSpec{})}, `tool "": a tool's name contains a dot`},
		{"a tool without a dot", runtime.Runtime{Tools: tool(runtime.ToolSpec{Name: "ab"})}, `tool "ab": a tool's name contains a dot`},
		{"a tool with a dot at its end", runtime.Runtime{Tools: tool(runtime.ToolSpec{Name: ".ab."})}, `tool ".ab.": a tool's name contains a dot`},
		{"effects", runtime.Runtime{Tools: tool(runtime.ToolSpec{Name: "a.b", Effect: runtime.Idempotent})}, ""},
		{"an unknown effect", runtime.Runtime{Tools: tool(runtime.ToolSpec{Name: "a.b", Effect: "none"})}, `tool "a.b": unknown effect "none"`},
		{"parameters", runtime.Runtime{Tools: tool(runtime.ToolSpec{Name: "a.b", Parameters: json.RawMessage(`{"type": "object"}`)})}, ""},
		{"parameters that are not JSON", runtime.Runtime{Tools: tool(runtime.ToolSpec{Name: "a.b", Parameters: json.RawMessage(`{`)})}, `tool "a.b": parameters: `},
		{"parameters that are no schema", runtime.Runtime{Tools: tool(runtime.ToolSpec{Name: "a.b", Parameters: json.RawMessage(`{"type": "object", "required": 1}`)})}, `tool "a.b": parameters: `},
		{"parameters of no object", runtime.Runtime{Tools: tool(runtime.ToolSpec{Name: "a.b", Parameters: json.RawMessage(`{"type": "string"}`)})}, `says "type": "object"`},
		{"parameters without a type", runtime.Runtime{Tools: tool(runtime.ToolSpec{Name: "a.b", Parameters: json.RawMessage(`true`)})}, `says "type": "object"`},
		{"a nil sink", runtime.Runtime{Trace: []trace.Sink{nil}}, "trace sink 0 is nil"},
		{"policies", runtime.Runtime{Retry: retry.Policies{retry.Model: {MaxAttempts: 2, Backoff: retry.None}}}, ""},
		{"a policy of no kind", runtime.Runtime{Retry: retry.Policies{"models": {}}}, `Retry: unknown kind "models"`},
		{"a policy without sense", runtime.Runtime{RetryDefaults: retry.Policies{retry.Tool: {MaxAttempts: -1}}}, "RetryDefaults: tool: max_attempts is -1"},
		{"an adapter's policy without sense", runtime.Runtime{Models: map[string]runtime.Model{"m": eager{}}}, `model "m": retry: unknown mode "now"`},
		{"a retriever's policy without sense", runtime.Runtime{Retriever: eager{}}, `the retriever: retry: unknown mode "now"`},
		{"a negative limit", runtime.Runtime{Limits: runtime.Limits{Grace: -1}}, "a limit is negative"},
		{"a negative budget", runtime.Runtime{Budget: runtime.Budget{WallTime: -1}}, "a budget is negative"},
		{"a budget that is no number", runtime.Runtime{Budget: runtime.Budget{CostUSD: math.NaN()}}, "a budget is negative, or not a number"},
		{"all at once", runtime.Runtime{
			Models: map[string]runtime.Model{"b": nil, "a": nil},
			Tools:  tool(runtime.ToolSpec{Name: "ab", Effect: "none"}),
		}, "model \"a\" is nil\nmodel \"b\" is nil\ntool \"ab\": a tool's name\ntool \"ab\": unknown effect"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.rt.Validate()
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil {
				t.Fatalf("no error, want %q", tt.want)
			}
			got, want := strings.Split(err.Error(), "\nruntime: "), strings.Split(tt.want, "\n")
			if len(got) != len(want) {
				t.Fatalf("%d errors, want %d:\n%v", len(got), len(want), err)
			}
			for i := range want {
				if !strings.Contains(got[i], want[i]) {
					t.Errorf("error %q does not say %q", got[i], want[i])
				}
			}
		})
	}
}

// eager is a model whose policy means nothing.
type eager struct{ runtime.Model }

func (eager) Retrieve(context.Context, string, int) ([]runtime.Document, error) { return nil, nil }

func (eager) Metadata() runtime.Metadata {
	return runtime.Metadata{Retry: &retry.Metadata{Policy: retry.Policy{Mode: "now"}}}
}

func TestNewToolReportsTypesWithoutASchema(t *testing.T) {
	for _, tt := range []struct {
		tool runtime.Tool
		want string
	}{
		{runtime.NewTool(runtime.ToolSpec{Name: "a.chan"}, func(context.Context, struct{ C chan int }) (int, error) { return 0, nil }), `tool "a.chan": no schema for its arguments`},
		{runtime.NewTool(runtime.ToolSpec{Name: "a.int"}, func(context.Context, int) (int, error) { return 0, nil }), `int is not a struct or map`},
	} {
		rt := runtime.Runtime{Tools: []runtime.Tool{tt.tool}}
		if err := rt.Validate(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Validate: error %v, want one that says %q", err, tt.want)
		}
		if _, err := tt.tool.Call(t.Context(), json.RawMessage(`{}`)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("Call: error %v, want one that says %q", err, tt.want)
		}
	}
}

func TestNewTool(t *testing.T) {
	type in struct {
		N int `json:"n"`
	}
	broken := errors.New("broken")
	half := runtime.NewTool(runtime.ToolSpec{Name: "math.half"}, func(_ context.Context, in in) (any, error) {
		if in.N%2 != 0 {
			return nil, broken
		}
		return in.N / 2, nil
	})
	if got, err := half.Call(t.Context(), json.RawMessage(`{"n": 4}`)); err != nil || string(got) != "2" {
		t.Errorf("half of 4: %s, %v", got, err)
	}
	if _, err := half.Call(t.Context(), json.RawMessage(`{"n": 5}`)); !errors.Is(err, broken) {
		t.Errorf("half of 5: %v", err)
	}
	if _, err := half.Call(t.Context(), json.RawMessage(`{"n": "x"}`)); err == nil || !strings.Contains(err.Error(), `arguments of "math.half"`) {
		t.Errorf("half of x: %v", err)
	}

	own := json.RawMessage(`{"type": "object", "properties": {"n": {"minimum": 0}}}`)
	kept := runtime.NewTool(runtime.ToolSpec{Name: "a.b", Parameters: own}, func(context.Context, map[string]any) (any, error) { return nil, nil })
	if got := kept.Spec().Parameters; string(got) != string(own) {
		t.Errorf("the given schema became %s", got)
	}
	if got, err := kept.Call(t.Context(), json.RawMessage(`{}`)); err != nil || string(got) != "null" {
		t.Errorf("a nil result: %s, %v", got, err)
	}
}

func TestLimitsWithDefaults(t *testing.T) {
	want := runtime.Limits{MaxParallel: 8, Grace: 5 * time.Second, InlineWait: time.Second, MaxItems: 10_000, MaxSteps: 100_000, MaxOutputBytes: 4 << 20, MaxRunBytes: 64 << 20}
	if diff := cmp.Diff(want, runtime.Limits{}.WithDefaults()); diff != "" {
		t.Errorf("defaults (-want +got)\n%s", diff)
	}
	set := runtime.Limits{MaxParallel: 1, Grace: 2, InlineWait: 7, MaxItems: 3, MaxSteps: 6, MaxOutputBytes: 4, MaxRunBytes: 5}
	if diff := cmp.Diff(set, set.WithDefaults()); diff != "" {
		t.Errorf("limits that are set (-want +got)\n%s", diff)
	}
}

func TestUsageClamped(t *testing.T) {
	of := func(n [5]int) runtime.Usage {
		return runtime.Usage{InputTokens: n[0], CachedTokens: n[1], CacheWriteTokens: n[2], OutputTokens: n[3], ReasoningTokens: n[4]}
	}
	for _, tt := range []struct{ counted, want [5]int }{
		{[5]int{}, [5]int{}},
		{[5]int{10, 4, 6, 3, 3}, [5]int{10, 4, 6, 3, 3}},
		{[5]int{10, 8, 6, 3, 5}, [5]int{10, 8, 2, 3, 3}},
		{[5]int{10, 20, 20, 0, 1}, [5]int{10, 10, 0, 0, 0}},
		{[5]int{-1, 2, 3, -4, 5}, [5]int{}},
		{[5]int{10, -4, -6, 3, -3}, [5]int{10, 0, 0, 3, 0}},
	} {
		if got, want := of(tt.counted).Clamped(), of(tt.want); got != want {
			t.Errorf("%v: %+v, want %+v", tt.counted, got, want)
		}
	}
}

// models 2: what is read from the provider's cache, or written to it, has a price of its own.
func TestPriceMicros(t *testing.T) {
	used := runtime.Usage{InputTokens: 1000, CachedTokens: 700, CacheWriteTokens: 200, OutputTokens: 50, ReasoningTokens: 40}
	for _, tt := range []struct {
		price runtime.Price
		want  float64
	}{
		{runtime.Price{}, 0},
		{runtime.Price{Input: 3, Output: 15}, 3000 + 750},
		{runtime.Price{Input: 3, CachedRead: 0.5, Output: 15}, 300*3 + 700*0.5 + 750},
		{runtime.Price{Input: 3, CacheWrite: 4, Output: 15}, 800*3 + 200*4 + 750},
		{runtime.Price{Input: 3, CachedRead: 0.5, CacheWrite: 4, Output: 15}, 100*3 + 700*0.5 + 200*4 + 750},
	} {
		if got := tt.price.Micros(used); got != tt.want {
			t.Errorf("%+v: %v, want %v", tt.price, got, tt.want)
		}
	}
}

func TestError(t *testing.T) {
	err := error(&runtime.Error{Category: runtime.CategoryTool, Code: "tool.failed", Step: "fetch", Err: fmt.Errorf("read: %w", fs.ErrNotExist)})
	if got, want := err.Error(), `step "fetch": read: file does not exist`; got != want {
		t.Errorf("message %q, want %q", got, want)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		t.Error("errors.Is does not reach the cause")
	}
}

func TestSecretMap(t *testing.T) {
	m := runtime.SecretMap{"A": "value"}
	if got, err := m.Secret(t.Context(), "A"); err != nil || got != "value" {
		t.Errorf("A: %q, %v", got, err)
	}
	for _, m := range []runtime.SecretMap{m, nil} {
		if _, err := m.Secret(t.Context(), "B"); !errors.Is(err, runtime.ErrNoSecret) {
			t.Errorf("B: %v", err)
		}
	}
}
