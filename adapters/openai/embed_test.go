package openai_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/openai"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

func TestEmbed(t *testing.T) {
	var asked, answer string
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = r.Method + " " + r.URL.Path + " " + r.Header.Get("Authorization") + " " + string(body)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	e, err := openai.NewEmbedder(openai.Options{BaseURL: server.URL + "/v1", Model: "small", APIKey: "sk-0123456789"}, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, answer string
		status       int
		want         [][]float32
		used         int
		fails        string
		reason       retry.Reason
	}{
		{name: "in any order", answer: `{"data": [{"index": 1, "embedding": [0, 1]}, {"index": 0, "embedding": [1, 0.5]}], "usage": {"prompt_tokens": 7, "total_tokens": 7}}`,
			want: [][]float32{{1, 0.5}, {0, 1}}, used: 7},
		{name: "without usage", answer: `{"data": [{"index": 0, "embedding": [1, 0]}, {"index": 1, "embedding": [0, 1]}]}`, want: [][]float32{{1, 0}, {0, 1}}, used: 1},
		{name: "one is missing", answer: `{"data": [{"index": 0, "embedding": [1]}]}`, used: 1, fails: "no vector for text 2 of 2", reason: retry.Unknown},
		{name: "one too many", answer: `{"data": [{"index": 2, "embedding": [1]}]}`, used: 1, fails: "a vector 2 of 2", reason: retry.Unknown},
		{name: "no numbers", answer: `{"data": [{"index": 0, "embedding": "abc"}]}`, fails: "does not keep to the protocol"},
		{name: "too often", answer: `{"error": {"message": "slow down"}}`, status: 429, fails: "slow down", reason: retry.RateLimit},
	} {
		t.Run(tt.name, func(t *testing.T) {
			answer, status = tt.answer, http.StatusOK
			if tt.status != 0 {
				status = tt.status
			}
			got, used, err := e.Embed(t.Context(), []string{"one", " "})
			if want := `POST /v1/embeddings Bearer sk-0123456789 {"model":"small","input":["one","-"],"dimensions":2,"encoding_format":"float"}`; asked != want {
				t.Errorf("asked %s", asked)
			}
			if tt.fails != "" {
				f, ok := errors.AsType[*retry.Failure](err)
				if !ok || !strings.Contains(err.Error(), tt.fails) || f.Reason != tt.reason {
					t.Errorf("got %v", err)
				}
			} else if diff := cmp.Diff(tt.want, got); err != nil || diff != "" {
				t.Errorf("%v\n%s", err, diff)
			}
			if used != (runtime.Usage{InputTokens: tt.used}) {
				t.Errorf("used %+v", used)
			}
		})
	}
	if m := e.Metadata(); m.Model != "small" || m.Retry == nil {
		t.Errorf("%+v", m)
	}
	if _, err := openai.NewEmbedder(openai.Options{}, 0); err == nil {
		t.Error("a model is required")
	}
}
