package openai_test

import (
	"strings"
	"testing"
	"time"

	"github.com/braise-run/braise/adapters/openai"
	"github.com/braise-run/braise/internal/batchtest"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

func openBatches(t *testing.T, url string, settle time.Duration) runtime.PolledModel {
	t.Helper()
	m, err := openai.NewBatches(openai.Options{BaseURL: url, Model: "big", APIKey: "sk-0123456789"})
	if err != nil {
		t.Fatal(err)
	}
	m.Settle = settle
	return m
}

func TestBatches(t *testing.T) {
	batchtest.Suite(t, openBatches, "POST /v1/batches", "GET /v1/batches")
}

// Nothing was sent while the file was not uploaded. A batch that fails as a whole is tried again if too much waits.
func TestBatchFails(t *testing.T) {
	s := batchtest.New(t)
	s.Set(func() { s.Status = func(int, int) string { return "failed" } })
	m := openBatches(t, s.URL, 0)
	b := &runtime.Batch{Key: "k", Begun: time.Now(), IDs: []string{"k1"},
		Requests: []*runtime.Request{{Messages: []runtime.Message{{Role: runtime.User, Text: "a"}}}}}
	id, err := m.Submit(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	state, err := m.Poll(t.Context(), id)
	if err != nil || !state.Over || len(state.Answers) != 0 {
		t.Fatalf("%+v, %v", state, err)
	}
	if f := retry.FailureOf(state.Err); f.Reason != retry.RateLimit || !strings.Contains(f.Error(), "enqueued token limit") {
		t.Errorf("%q: %v", f.Reason, f)
	}
	for _, fault := range []batchtest.Fault{{Lost: true}, {Status: 500, Body: "no"}, {Status: 413, Body: "large"}, {Body: "{}"}} {
		faults := func(request string, _ int) batchtest.Fault {
			if request == "POST /v1/files" {
				return fault
			}
			return batchtest.Fault{}
		}
		s.Set(func() { s.Fault = faults })
		if _, err := m.Submit(t.Context(), b); err == nil || !retry.FailureOf(err).Unsent() && retry.FailureOf(err).Status != fault.Status {
			t.Errorf("%+v: %v", fault, err)
		}
	}
	if n := len(s.Batches()); n != 1 {
		t.Errorf("%d batches", n)
	}
}

// The Responses API is asked in batches, too.
func TestBatchesOfResponses(t *testing.T) {
	s := batchtest.New(t)
	lines := func(_ int, lines []string) []string {
		if len(lines) == 0 {
			return nil
		}
		return []string{`{"custom_id":"k1","response":{"status_code":200,"body":{"model":"big-1","status":"completed",` +
			`"output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"ok"}]}],"usage":{"input_tokens":3,"output_tokens":1}}}}`}
	}
	s.Set(func() { s.Lines = lines })
	m, err := openai.NewBatches(openai.Options{BaseURL: s.URL, Model: "big", API: openai.ResponsesAPI})
	if err != nil {
		t.Fatal(err)
	}
	req := &runtime.Request{Messages: []runtime.Message{{Role: runtime.User, Text: "a"}}}
	id, err := m.Submit(t.Context(), &runtime.Batch{Key: "k", IDs: []string{"k1"}, Requests: []*runtime.Request{req}})
	if err != nil {
		t.Fatal(err)
	}
	if body := s.Batches()[0].Bodies[0]; !strings.Contains(body, `"store":false`) {
		t.Errorf("body %s", body)
	}
	state, err := m.Poll(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := state.Answers["k1"](t.Context(), req)
	if err != nil || resp.Text != "ok" || resp.Usage.InputTokens != 3 {
		t.Errorf("%+v, %v", resp, err)
	}
}
