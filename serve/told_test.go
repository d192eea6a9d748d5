package serve_test

import (
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/serve"
)

// The error of a run is what the outcome in Go has, with its category.
func TestErrorHasItsCategory(t *testing.T) {
	l := newLab(t, nil)
	for steps, category := range map[string]string{
		"  a: {uses: fail, with: {message: No, code: out.of.stock}}\n": "tool",
		"  a: {uses: set, with: \"${{ int('x') }}\"}\n":                "config",
		"  a: {uses: test.gone, with: {}}\n":                           "config",
	} {
		out, err := compile(t, "apiVersion: braise/v1\nname: wrong\nsteps:\n"+steps).Run(t.Context(), nil, l.rt)
		if err == nil {
			t.Error(steps, "is ok")
			continue
		}
		want := map[string]any{"category": category, "code": out.Failure().Code, "message": out.Failure().Err.Error(), "step": "a"}
		path := "/api/v1/runs/" + out.RunID
		l.get(reader, path+"/output").is(200).has(map[string]any{"error": want})
		l.get(reader, path).is(200).has(map[string]any{"error": want})
		l.get(reader, "/api/v1/runs?q="+out.RunID).is(200).has(map[string]any{"runs.0.error": want})
	}
}

// A server that is made from a configuration has the schema of that.
func TestConfigSchema(t *testing.T) {
	l := newLab(t, func(s *serve.Server) { s.ConfigSchema = []byte(`{"title": "braise.yaml"}`) })
	got := l.get("", "/api/v1/schemas/config").is(200)
	if diff := cmp.Diff(map[string]any{"title": "braise.yaml"}, got.json()); diff != "" || got.header.Get("Content-Type") != "application/json" {
		t.Error(diff, got.header)
	}
	l.get("", "/api/v1/schemas/konfig").fails(http.StatusNotFound, "schema.unknown", "config")
}
