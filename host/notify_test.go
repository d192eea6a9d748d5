package host_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/host"
)

// openNotify opens a host with a configuration.
func openNotify(t *testing.T, config string) (h *host.Host, dir string) {
	t.Helper()
	dir = t.TempDir()
	path := filepath.Join(dir, host.FileName)
	err := os.WriteFile(path, []byte(config), 0o600)
	if err == nil {
		h, err = host.Open(t.Context(), &host.Options{Config: path})
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	return h, dir
}

func TestNotifyConfig(t *testing.T) {
	t.Setenv("HOOK", "whsec_MDEyMzQ1Njc4OWFiY2RlZg==")
	h, dir := openNotify(t, `
notify:
  - {url: "https://hooks.test/b", secret: "${HOOK}", on: [paused], recipes: [refund], link: true, remind: 4h}
  - {exec: [./notify.sh, now]}
  - {exec: [mail]}
`)
	got, in, err := h.Notify()
	want := []host.Notify{
		{URL: "https://hooks.test/b", Secret: "whsec_MDEyMzQ1Njc4OWFiY2RlZg==", On: []string{"paused"}, Recipes: []string{"refund"},
			Link: true, Remind: 4 * time.Hour},
		{Exec: []string{filepath.Join(dir, "notify.sh"), "now"}},
		{Exec: []string{"mail"}},
	}
	if diff := cmp.Diff(want, got); diff != "" || in != dir || err != nil {
		t.Errorf("in %s, %v (-want +got)\n%s", in, err, diff)
	}
}

func TestNotifyConfigMistakes(t *testing.T) {
	env := environ(map[string]string{"OK": "0123456789abcdef", "SHORT": "0123"})
	for _, tt := range []struct{ text, want string }{
		{`notify: [{url: "https://x.test", secret: "${OK}", on: [pause]}]`, `did you mean "paused"?`},
		{`notify: [{url: "https://x.test", secret: abcdefghijklmnop}]`, `the secret "secret" may not stand in the file`},
		{`notify: [{url: "https://x.test", secret: "${SHORT}"}]`, `"secret" needs at least 16 bytes`},
		{`notify: [{url: "https://x.test"}]`, `secret`},
		{`notify: [{url: x.test, secret: "${OK}"}]`, `"url" is not the URL of a server`},
		{`notify: [{url: "https://x.test", secret: "${OK}", exec: [a]}]`, "an entry has url and secret, or exec"},
		{`notify: [{exec: []}]`, `"exec" names no program`},
		{`notify: [{exec: ["", a]}]`, `"exec" names no program`},
		{`notify: [{exec: mail}]`, `exec`},
		{`notify: [{exec: [mail], remind: 0s}]`, `"remind" must be more than 0`},
		{`notify: {exec: [mail]}`, `notify`},
	} {
		_, err := host.ParseConfig("braise.yaml", []byte(tt.text), env)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.text, err, tt.want)
		}
	}
}

// A variable that is not set leaves notify out, and the rest works.
func TestNotifyWithoutItsSecret(t *testing.T) {
	h, _ := openNotify(t, "notify: [{url: \"https://x.test\", secret: \"${UNSET_HOOK}\"}]\n")
	if _, _, err := h.Notify(); err == nil || !strings.Contains(err.Error(), "UNSET_HOOK") {
		t.Error(err)
	}
}
