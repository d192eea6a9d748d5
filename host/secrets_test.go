package host_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/braise-run/braise/host"
)

// What a variable in the path of a base_url holds, and a key that an endpoint tells, stand in no error, output or
// journal.
func TestEndpointsTellNoSecrets(t *testing.T) {
	const key, gate = "sk-0123456789abcdef", "gate-0815-4711-secret"
	status := http.StatusOK
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		said := r.Header.Get("Authorization") + " at " + r.URL.Path
		_, _ = io.WriteString(w, `{"choices": [{"message": {"content": "`+said+`"}}], "message": "`+said+`"}`)
	}))
	defer srv.Close()
	t.Setenv("GATE", gate)
	t.Setenv("KEY", key)
	dir := t.TempDir()
	t.Chdir(dir)
	write(t, "braise.yaml", "store: jsonl:runs\nmodels: {m: {provider: openai, model: m, api_key: \"${KEY}\", base_url: \""+srv.URL+"/${GATE}/v1\"}}\n")
	write(t, "recipe.yaml", "apiVersion: braise/v1\nname: r\nsteps: {ask: {uses: model, with: {model: m, prompt: hi}}}\noutput: ${{ steps.ask.output.text }}\n")
	h, wf := opened(t, &host.Options{Recipe: "recipe.yaml"})
	store, err := h.Store(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		status int
		want   string
	}{{200, "Bearer *** at /***/v1/chat/completions"}, {400, srv.URL + "/***/v1/chat/completions: status 400"}} {
		status = tt.status
		out := h.Run(t.Context(), wf, nil)
		said, _ := out.Output.(string)
		if out.Err != nil {
			said = out.Err.Error()
		}
		if !strings.Contains(said, tt.want) || strings.Contains(said, gate) || strings.Contains(said, key) {
			t.Errorf("%d: %s", tt.status, said)
		}
		_, recs, err := store.Load(t.Context(), out.RunID, 0)
		if err != nil || len(recs) == 0 {
			t.Fatalf("%d records, %v", len(recs), err)
		}
		for _, rec := range recs {
			if text := string(rec.Data); strings.Contains(text, gate) || strings.Contains(text, key) {
				t.Errorf("%d: the journal has %s", tt.status, text)
			}
		}
	}
}
