package host_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/braise-run/braise/host"
)

// What a variable in the user, the path or the query of a base_url holds, and a key that an endpoint tells, stand in no
// error, output or journal; neither do these parts of one that begins the URL, or is all of it. Versions are shown.
func TestEndpointsTellNoSecrets(t *testing.T) {
	const key, gate, word = "sk-0123456789abcdef", "gate-0815-4711-secret", "pass-0815-4711-word"
	status := http.StatusOK
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		said := r.Header.Get("Authorization") + " at " + r.URL.Path + " with " + r.URL.Query().Get("k")
		_, _ = io.WriteString(w, `{"choices": [{"message": {"content": "`+said+`"}}], "message": "`+said+`"}`)
	}))
	defer srv.Close()
	address := strings.TrimPrefix(srv.URL, "http://")
	for name, value := range map[string]string{"GATE": gate, "KEY": key, "WORD": word, "ADDRESS": address, "SCHEME": "http",
		"URL": srv.URL, "ALL": srv.URL + "/" + gate + "/v1", "MORE": srv.URL + "/v1beta/" + gate + "/?k=" + word,
		"DEEP": address + "/" + gate} {
		t.Setenv(name, value)
	}
	t.Chdir(t.TempDir())
	write(t, "recipe.yaml", "apiVersion: braise/v1\nname: r\nsteps: {ask: {uses: model, with: {model: m, prompt: hi}}}\noutput: ${{ steps.ask.output.text }}\n")
	for _, tt := range []struct{ url, path, query string }{
		{srv.URL + "/${GATE}/v1", "/***/v1", ""},
		{srv.URL + "/${GATE}?k=${WORD}", "/***", "***"},
		{srv.URL + "?k=${WORD}", "", "***"},
		{"http://me:${WORD}@${ADDRESS}/v1", "/v1", ""},
		{"${URL}/v1?k=open", "/v1", "open"},
		{"${ALL}", "/***/v1", ""},
		{"${MORE}", "/v1beta/***", "***"},
		{"http://${DEEP}/v1", "/***/v1", ""},
		{"${SCHEME}://${ADDRESS}/v1/${GATE}", "/v1/***", ""},
	} {
		write(t, "braise.yaml", "store: jsonl:runs\nmodels: {m: {provider: openai, model: m, api_key: \"${KEY}\", base_url: \""+tt.url+"\"}}\n")
		h, wf := opened(t, &host.Options{Recipe: "recipe.yaml"})
		store, err := h.Store(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for code, want := range map[int]string{
			200: "Bearer *** at " + tt.path + "/chat/completions with " + tt.query,
			400: srv.URL + tt.path + "/chat/completions: status 400",
		} {
			status = code
			out := h.Run(t.Context(), wf, nil)
			said, _ := out.Output.(string)
			if out.Err != nil {
				said = out.Err.Error()
			}
			_, recs, err := store.Load(t.Context(), out.RunID, 0)
			if err != nil || len(recs) == 0 {
				t.Fatalf("%d records, %v", len(recs), err)
			}
			if !strings.Contains(said, want) {
				t.Errorf("%s: %d: %s\ndoes not say %s", tt.url, code, said, want)
			}
			for _, rec := range recs {
				said += string(rec.Data)
			}
			for _, secret := range []string{gate, key, word} {
				if strings.Contains(said, secret) {
					t.Errorf("%s: %d: %s is in %s", tt.url, code, secret, said)
				}
			}
		}
	}
}
