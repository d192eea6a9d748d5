package openai_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/openai"
	"github.com/braise-run/braise/runtime"
)

// Answers that tell the key, or a secret of the base URL, are handed on without it, whole and in pieces; what is as
// short as a placeholder stays.
func TestAnswersTellNoSecrets(t *testing.T) {
	const key, tenant = "sk-0123456789abcdef", "tenant-4711-0815-xyz"
	const call = `"tool_calls": [{"index": 0, "id": "c1", "function": {"name": "look", "arguments": "{\"at\": \"` + key + `\", \"n\": 1}"}, "sign": "` + tenant + `"}]`
	const whole = `{"model": "m-` + tenant + `", "choices": [{"finish_reason": "tool_calls", "message": {"content": "My key is ` + key + `, yes", "reasoning": "` + key + `", ` + call + `}}]}`
	want := &runtime.Response{Text: "My key is ***, yes", Finish: runtime.FinishCalls, Model: "m-***",
		Parts: []runtime.Part{{Of: "127.0.0.1/m", Name: "reasoning", Data: json.RawMessage(`"***"`)}},
		ToolCalls: []runtime.ToolCall{{ID: "c1", Name: "look", Arguments: json.RawMessage(`{"at":"***","n":1}`),
			Parts: []runtime.Part{{Of: "127.0.0.1/m", Name: "sign", Data: json.RawMessage(`"***"`)}}}}}
	for name, body := range map[string]string{
		"whole": whole,
		"stream": events(`{"model": "m-`+tenant+`", "choices": [{"delta": {"content": "My key is sk-0123"}}]}`, chunk(`{"content": "456789ab"}`), chunk(`{"content": "cdef, yes", "reasoning": "sk-0123"}`), chunk(`{"reasoning": "456789abcdef"}`),
			chunk(`{`+call+`}`), `{"choices": [{"delta": {}, "finish_reason": "tool_calls"}]}`),
	} {
		m := connect(t, serve(t, answer(200, body)), openai.Options{APIKey: key, Secrets: []string{tenant}})
		shown := map[string]string{}
		got, err := m.Stream(t.Context(), &runtime.Request{Messages: user("hi"), Tools: []runtime.ToolSpec{{Name: "look"}}}, func(d runtime.Delta) { shown[d.Kind] += d.Text })
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" || shown[runtime.DeltaText] != want.Text {
			t.Errorf("%s: shown %q (-want +got)\n%s", name, shown, diff)
		}
		if name == "stream" && (shown[runtime.DeltaThinking] != "***" || shown[runtime.DeltaToolCall] != "look") {
			t.Errorf("shown %q", shown)
		}
	}

	m := connect(t, serve(t, answer(200, `{"choices": [{"message": {"content": "anything goes"}}]}`)), openai.Options{APIKey: "anything"})
	if got, err := m.Generate(t.Context(), &runtime.Request{Messages: user("hi")}); err != nil || got.Text != "anything goes" {
		t.Errorf("with a placeholder for a key: %v, %v", got, err)
	}
}

// Failures show the base URL without the secrets in its path, and quote servers without them.
func TestFailuresHideThePath(t *testing.T) {
	srv := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "/elsewhere"+r.URL.EscapedPath())
		w.WriteHeader(http.StatusTemporaryRedirect)
		_, _ = w.Write([]byte(`{"error": {"message": "no ` + r.URL.Path + `"}}`))
	})
	m, err := openai.New(openai.Options{Model: "m", BaseURL: srv.URL + "/a%20b%2Fsecret/k3y/v1", Secrets: []string{"a b/secret", "k3y"}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Generate(t.Context(), &runtime.Request{Messages: user("hi")})
	want := `model "m": ` + srv.URL + "/***/***/v1/chat/completions: status 307 Temporary Redirect: no /***/k3y/v1/chat/completions\n" +
		"  hint: it redirects to " + srv.URL + "/elsewhere/***/***/v1/chat/completions; redirects are not followed, change the base URL"
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}
