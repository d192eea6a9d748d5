package openai_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/braise-run/braise/adapters/openai"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
)

// A stream of 10,000 pieces.
func BenchmarkStream(b *testing.B) {
	reply := &runtimetest.Reply{Text: strings.Repeat("five.", 10_000), Finish: runtime.FinishStop}
	for _, bb := range []struct {
		name string
		wire runtimetest.Wire
		api  string
	}{{"chat", chatWire{}, ""}, {"responses", responsesWire{}, openai.ResponsesAPI}} {
		body := strings.Join(bb.wire.Stream(nil, reply), "")
		b.Run(bb.name, func(b *testing.B) {
			m, err := openai.New(openai.Options{Model: "m", API: bb.api, APIKey: key, HTTPClient: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
			})}})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				n := 0
				if _, err := m.Stream(b.Context(), &runtime.Request{Messages: user("hi")}, func(runtime.Delta) { n++ }); err != nil || n < 9999 {
					b.Fatal(n, err)
				}
			}
		})
	}
}

// A request of a conversation with 200 turns, whose results have 2 KB.
func BenchmarkLongConversation(b *testing.B) {
	messages := []runtime.Message{{Role: runtime.System, Text: "Be brief."}, {Role: runtime.User, Text: "hi"}}
	for i := range 200 {
		id := fmt.Sprintf("c%d", i)
		messages = append(messages, runtime.Message{Role: runtime.Assistant, ToolCalls: []runtime.ToolCall{{ID: id, Name: "look", Arguments: []byte(`{"a":1}`)}}},
			runtime.Message{Role: runtime.ToolRole, ToolCallID: id, Text: strings.Repeat("x", 2048)})
	}
	for _, api := range []string{"", openai.ResponsesAPI} {
		body := `{"choices": [{"message": {"content": "x"}, "finish_reason": "stop"}], "status": "completed", "output": []}`
		b.Run("api "+api, func(b *testing.B) {
			m, err := openai.New(openai.Options{Model: "m", API: api, APIKey: key, HTTPClient: &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
			})}})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := m.Generate(b.Context(), &runtime.Request{Messages: messages, Tools: []runtime.ToolSpec{{Name: "look"}}}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
