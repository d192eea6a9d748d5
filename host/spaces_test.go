package host_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/host"
)

// A variable that was read from a file may end as the file does, with a line end: a key, a header and a URL are what
// is inside.
func TestKeysWithLineEnds(t *testing.T) {
	got := map[string]string{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for _, name := range []string{"Authorization", "X-Api-Key"} {
			got[name] = r.Header.Get(name)
		}
		_, _ = w.Write([]byte(`{"choices": [{"message": {"content": "ok"}}]}`))
	}))
	t.Cleanup(srv.Close)
	for _, end := range []string{"\n", "\r\n", "\r", " \t"} {
		rt, err := build(t, "", `
models:
  m: {provider: openai, model: m, base_url: "${URL}", api_key: "${KEY}", headers: {X-Api-Key: "${KEY}"}}
`, map[string]string{"URL": srv.URL + end, "KEY": " sk-0123456789" + end})
		if err != nil {
			t.Fatalf("%q: %v", end, err)
		}
		ask(t, rt, "m")
		if diff := cmp.Diff(map[string]string{"Authorization": "Bearer sk-0123456789", "X-Api-Key": "sk-0123456789"}, got); diff != "" {
			t.Errorf("%q: headers (-want +got):\n%s", end, diff)
		}
		c, err := host.ParseConfig("braise.yaml", []byte(`
mcp: {docs: {url: "http://docs.test/mcp", headers: {Authorization: "Bearer ${KEY}"}}}
telemetry: {otlp: "${URL}", headers: {api-key: "${KEY}"}}
`), environ(map[string]string{"URL": "http://otlp.test" + end, "KEY": "sk-0123456789" + end}))
		if err != nil {
			t.Fatalf("%q: %v", end, err)
		}
		text, err := json.Marshal([]any{c.MCP["docs"].Headers, c.MCP["docs"].Secrets, c.OTLP.Endpoint, c.OTLP.Headers})
		const want = `[{"Authorization":"Bearer sk-0123456789"},["sk-0123456789"],"http://otlp.test",{"api-key":"sk-0123456789"}]`
		if string(text) != want || err != nil {
			t.Errorf("%q: got %s, %v\nwant %s", end, text, err, want)
		}
	}
}
