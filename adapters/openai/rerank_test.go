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

func TestRerank(t *testing.T) {
	var asked, answer string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		asked = r.URL.Path + " " + string(body)
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	r, err := openai.NewReranker(openai.Options{BaseURL: server.URL + "/v1", Model: "cross"}, "best")
	if err != nil {
		t.Fatal(err)
	}
	docs := []runtime.Document{{ID: "1", Text: "one", Score: 9}, {ID: "2", Text: "two"}, {ID: "3", Text: "three"}}
	for _, tt := range []struct {
		answer, want, fails string
		used                int
	}{
		{`{"results": [{"index": 0, "relevance_score": 0.1}, {"index": 2, "relevance_score": 0.9}], "usage": {"total_tokens": 12}}`, "3 1", "", 12},
		{`{"results": []}`, "", "", 4}, // 3 for each of the queries "q", and 11 of the texts: 14 bytes
		{`{"results": [{"index": 3, "relevance_score": 0.1}]}`, "", "a document 3 of 3", 4},
		{`{"results": [{"index": 1}, {"index": 1}]}`, "", "a document 1 of 3", 4},
	} {
		answer = tt.answer
		found, err := r.Rerank(t.Context(), "q", docs)
		if asked != `/v1/rerank {"documents":["one","two","three"],"model":"cross","query":"q"}` {
			t.Errorf("asked %s", asked)
		}
		if diff := cmp.Diff([]runtime.Spent{{Name: "best", Usage: runtime.Usage{InputTokens: tt.used}}}, found.Used); diff != "" {
			t.Error(diff)
		}
		if tt.fails != "" {
			if _, ok := errors.AsType[*retry.Failure](err); !ok || !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("got %v", err)
			}
			continue
		}
		var ids []string
		for _, d := range found.Documents {
			ids = append(ids, d.ID)
		}
		if got := strings.Join(ids, " "); err != nil || got != tt.want {
			t.Errorf("got %s, %v", got, err)
		}
	}
	if docs[0].Score != 9 || r.Metadata().Spends[0] != "best" {
		t.Errorf("%+v %+v", docs, r.Metadata())
	}
}
