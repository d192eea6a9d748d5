package trace_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/trace"
)

func ExampleEventSchema() {
	var s struct {
		Title    string
		Required []string
	}
	if err := json.Unmarshal(trace.EventSchema(), &s); err != nil {
		fmt.Println(err)
	}
	fmt.Println(s.Title, s.Required)
	// Output:
	// Braise trace event [at kind]
}

// Every kind of event, as it is encoded, fits the schema.
func TestEventSchemaTakesEvents(t *testing.T) {
	s, err := schema.Compile(trace.EventSchema())
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
	for _, e := range []trace.Event{
		{Kind: trace.RunStart, Data: trace.Data{{Key: "digest", Value: "sha256:0"}, {Key: "recipe", Value: "r"}}},
		{Kind: trace.RunStart, Data: trace.Data{{Key: "digest", Value: "sha256:0"}, {Key: "recipe", Value: "r"}, {Key: "version", Value: "1"}}},
		{Kind: trace.RunSuccess},
		{Kind: trace.RunError, Data: trace.Data{{Key: "code", Value: "c"}, {Key: "message", Value: "m"}, {Key: "step", Value: "s"}}},
		{Kind: trace.RunCancelled, Data: trace.Data{{Key: "reason", Value: "r"}}},
		{Kind: trace.RunEnd, Seq: 9, Data: trace.Data{{Key: "status", Value: "cancelled"}}},
		{Kind: trace.StepStart, Step: "a[2]/b"},
		{Kind: trace.StepEnd, Step: "a", Data: trace.Data{{Key: "durationMs", Value: int64(0)}, {Key: "status", Value: "succeeded"}}},
		{Kind: trace.StepEnd, Step: "a", Data: trace.Data{{Key: "code", Value: "step.panic"}, {Key: "durationMs", Value: int64(3)},
			{Key: "message", Value: "m"}, {Key: "stack", Value: "s"}, {Key: "status", Value: "failed"}}},
		{Kind: trace.StepSkip, Step: "a", Data: trace.Data{{Key: "reason", Value: "upstream"}}},
		{Kind: trace.AdapterCall, Step: "a", Data: trace.Data{{Key: "kind", Value: "tool"}, {Key: "name", Value: "http.request"}}},
		{Kind: trace.AdapterCall, Step: "a", Data: trace.Data{{Key: "kind", Value: "model"}, {Key: "model", Value: "gpt-5-mini"}, {Key: "name", Value: "fast"}, {Key: "provider", Value: "openai"}}},
		{Kind: trace.RunStart, Data: trace.Data{{Key: "digest", Value: "sha256:0"}, {Key: "recipe", Value: "r"}, {Key: "resume", Value: true}}},
		{Kind: trace.RunPaused, Data: trace.Data{{Key: "pauseKind", Value: "human"}, {Key: "step", Value: "a"}}},
		{Kind: trace.RunOutput, Data: trace.Data{{Key: "type", Value: "artefact"}}},
		{Kind: trace.RunEnd, Data: trace.Data{{Key: "status", Value: "paused"}}},
		{Kind: trace.StepWaiting, Step: "a", Data: trace.Data{{Key: "pauseKind", Value: "system"}}},
		{Kind: trace.StepReplayed, Step: "a"},
		{Kind: trace.StepRollback, Step: "a!rollback", Data: trace.Data{{Key: "ok", Value: true}}},
		{Kind: trace.AdapterRetry, Step: "a", Data: trace.Data{{Key: "adapterKind", Value: "model"}, {Key: "attempt", Value: int64(1)}, {Key: "delayMs", Value: int64(100)},
			{Key: "maxAttempts", Value: int64(3)}, {Key: "method", Value: "generate"}, {Key: "reason", Value: "rate_limit"}}},
		{Kind: trace.ModelEnd, Step: "a", Data: trace.Data{{Key: "finish", Value: "stop"}, {Key: "usage", Value: map[string]any{"input_tokens": int64(3), "output_tokens": int64(0)}}}},
		{Kind: trace.ModelDelta, Step: "a", Data: trace.Data{{Key: "text", Value: "Hel"}}},
		{Kind: trace.ModelDelta, Step: "a", Data: trace.Data{{Key: "thinking", Value: "Hm"}}},
		{Kind: trace.ModelDelta, Step: "a", Data: trace.Data{{Key: "tool", Value: "crm.lookup"}}},
	} {
		e.At = at
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		v, err := value.Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		if problems := s.Check(v); problems != nil {
			t.Errorf("%s: %s", text, schema.Describe(problems))
		}
	}
}

func TestEventSchemaRefuses(t *testing.T) {
	s, err := schema.Compile(trace.EventSchema())
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		`[]`,
		`{}`,
		`{"at": "2026-01-02T03:04:05Z"}`,
		`{"kind": "run.success"}`,
		`{"at": "yesterday", "kind": "run.success"}`,
		`{"at": "2026-01-02T03:04:05+01:00", "kind": "run.success"}`,
		`{"at": "2026-01-02T03:04:05Z", "kind": "run.success", "seq": 0}`,
		`{"at": "2026-01-02T03:04:05Z", "kind": "run.success", "extra": 1}`,
		`{"at": "2026-01-02T03:04:05Z", "kind": "run.success", "data": {}}`,
		`{"at": "2026-01-02T03:04:05Z", "kind": "run.success", "step": "a"}`,
		`{"at": "2026-01-02T03:04:05Z", "kind": "run.finished"}`,
		`{"at": "2026-01-02T03:04:05Z", "kind": "run.end"}`,
		`{"at": "2026-01-02T03:04:05Z", "kind": "run.end", "data": {"status": "waiting"}}`,
		`{"at": "2026-01-02T03:04:05Z", "kind": "step.start"}`,
		`{"at": "2026-01-02T03:04:05Z", "kind": "step.end", "step": "a", "data": {"status": "failed"}}`,
		`{"at": "2026-01-02T03:04:05Z", "kind": "step.skip", "step": "a", "data": {"reason": "upstream", "extra": 1}}`,
		`{"at": "2026-01-02T03:04:05Z", "kind": "adapter.call", "step": "a", "data": {"kind": "memory", "name": "m"}}`,
		`{"at": "2026-01-02T03:04:05Z", "kind": "model.end", "step": "a", "data": {"finish": "stop"}}`,
		`{"at": "2026-01-02T03:04:05Z", "kind": "model.end", "step": "a", "data": {"usage": {"input_tokens": 1.5, "output_tokens": 2}}}`,
	} {
		v, err := value.Decode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if s.Check(v) == nil {
			t.Errorf("%s fits the schema", text)
		}
	}
}
