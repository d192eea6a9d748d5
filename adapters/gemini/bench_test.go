package gemini_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/braise-run/braise/adapters/gemini"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
)

// replying makes a model that a body answers, without a network.
func replying(tb testing.TB, body string) *gemini.Model {
	m, err := gemini.New(gemini.Options{Model: "gemini-3.8-flash", HTTPClient: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	})}})
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// A stream of 10,000 pieces.
func BenchmarkStream(b *testing.B) {
	reply := &runtimetest.Reply{Text: strings.Repeat("five.", 10_000), Finish: runtime.FinishStop}
	m := replying(b, strings.Join(geminiWire{}.Stream(nil, reply), ""))
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		if _, err := m.Stream(b.Context(), &runtime.Request{Messages: []runtime.Message{user("hi")}}, func(runtime.Delta) { n++ }); err != nil || n < 9999 {
			b.Fatal(n, err)
		}
	}
}

// A request of a conversation with 200 turns, whose results have 2 KB.
func BenchmarkLongConversation(b *testing.B) {
	messages := []runtime.Message{system("Be brief."), user("hi")}
	for i := range 200 {
		id := fmt.Sprintf("c%d", i)
		messages = append(messages, assistant("", call(id, "look", `{"a":1}`)), result(id, strings.Repeat("x", 2048)))
	}
	m := replying(b, `{"candidates": [{"content": {"parts": [{"text": "x"}]}, "finishReason": "STOP"}]}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Generate(b.Context(), &runtime.Request{Messages: messages, Tools: []runtime.ToolSpec{{Name: "look"}}}); err != nil {
			b.Fatal(err)
		}
	}
}
