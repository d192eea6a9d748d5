package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/host"
)

// doctor asks endpoints: one that answers, one that does not exist.
func TestDoctorAsksEndpoints(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"data": [{"id": "tiny"}]}`)
	}))
	defer srv.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for _, tt := range []struct {
		url      string
		code     int
		worst    host.CheckStatus
		statuses map[string]host.CheckStatus
	}{
		{srv.URL, 0, host.CheckOK, map[string]host.CheckStatus{"here": host.CheckOK, "there": host.CheckOK}},
		{gone.URL, 8, host.CheckFail, map[string]host.CheckStatus{"here": host.CheckOK, "there": host.CheckFail}},
	} {
		path := filepath.Join(t.TempDir(), "braise.yaml")
		text := fmt.Sprintf("models:\n  here: {provider: openai, model: tiny, base_url: %q}\n  there: {provider: openai, model: tiny, base_url: %q}\n", srv.URL, tt.url)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var stdout, stderr bytes.Buffer
		a := &app{stdout: &stdout, stderr: &stderr}
		code, err := a.execute([]string{"doctor", "--config", path, "--output", "json"})
		if err != nil || code != tt.code || stderr.Len() > 0 {
			t.Errorf("exit %d, want %d: %v %s", code, tt.code, err, &stderr)
		}
		var got health
		if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if got.Status != tt.worst {
			t.Errorf("status %s, want %s", got.Status, tt.worst)
		}
		statuses := map[string]host.CheckStatus{}
		for _, c := range got.Checks {
			if c.Part == "model" {
				statuses[c.Name] = c.Status
			}
		}
		if diff := cmp.Diff(tt.statuses, statuses); diff != "" {
			t.Errorf("models (-want +got)\n%s", diff)
		}
	}
}
