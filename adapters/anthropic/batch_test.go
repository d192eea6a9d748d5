package anthropic_test

import (
	"strings"
	"testing"
	"time"

	"github.com/braise-run/braise/adapters/anthropic"
	"github.com/braise-run/braise/internal/batchtest"
	"github.com/braise-run/braise/runtime"
)

func openBatches(t *testing.T, url string, settle time.Duration) runtime.PolledModel {
	t.Helper()
	m, err := anthropic.NewBatches(anthropic.Options{BaseURL: url, Model: "big", APIKey: "sk-0123456789"})
	if err != nil {
		t.Fatal(err)
	}
	m.Settle = settle
	return m
}

func TestBatches(t *testing.T) {
	batchtest.Suite(t, openBatches, "POST /v1/messages/batches", "GET /v1/messages/batches")
}

// Which requests a batch has can be told when it has ended: until then, nobody can say that none was sent.
func TestFindInProgress(t *testing.T) {
	s := batchtest.New(t)
	state := "in_progress"
	s.Set(func() { s.Status = func(int, int) string { return state } })
	m := openBatches(t, s.URL, 0)
	b := &runtime.Batch{Key: "k", Begun: time.Now(), IDs: []string{"k1"},
		Requests: []*runtime.Request{{Messages: []runtime.Message{{Role: runtime.User, Text: "a"}}}}}
	id, err := m.Submit(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := m.Find(t.Context(), b); err == nil || got != "" || !strings.Contains(err.Error(), id) {
		t.Errorf("in progress: %q, %v", got, err)
	}
	s.Set(func() { state = "completed" })
	if got, err := m.Find(t.Context(), b); err != nil || got != id {
		t.Errorf("%q, %v", got, err)
	}
	other := *b
	other.IDs = []string{"l1"}
	if got, err := m.Find(t.Context(), &other); err != nil || got != "" {
		t.Errorf("another one: %q, %v", got, err)
	}
}
