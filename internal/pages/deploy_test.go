//go:build unix

package pages_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/internal/yamlnode"
)

// The files in deploy are what docs/serve.md says of them: systemd takes the unit, the configuration is valid, and the
// two servers of the Compose file are alike and get more time to stop than they may take.
func TestDeploy(t *testing.T) {
	t.Setenv("BRAISE_STORE", "postgres://braise@postgres/braise")
	t.Setenv("OPS_TOKEN", "a-token-of-the-test")
	conf, err := host.LoadConfig("../../deploy/braise.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if conf.Serve.Drain != 0 || conf.Serve.Tokens["ops"].Token != "a-token-of-the-test" {
		t.Errorf("%+v", conf.Serve)
	}

	text, err := os.ReadFile("../../deploy/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	compose, problems := yamlnode.Parse("compose.yaml", text, nil)
	if len(problems) > 0 {
		t.Fatal(problems.Err())
	}
	services := compose.Decoded().(map[string]any)["services"].(map[string]any)
	server := services["braise-1"].(map[string]any)
	want := map[string]any{"command": []any{"serve", "--insecure"}, "stop_grace_period": "60s"}
	for key, v := range want {
		if diff := cmp.Diff(v, server[key]); diff != "" {
			t.Errorf("%s (-want +got)\n%s", key, diff)
		}
	}
	if diff := cmp.Diff(server, services["braise-2"]); diff != "" || len(services) != 4 {
		t.Errorf("%d services; the servers differ:\n%s", len(services), diff)
	}
	verifyUnit(t)
}

// The Compose file of a Temporal cluster names what there is: services that reach each other by their names, with one
// password, versions that do not move, and a worker whose configuration is valid and that gets more time to stop than its calls.
func TestDeployTemporal(t *testing.T) {
	const dir = "../../deploy/temporal/"
	if _, err := host.LoadConfig(dir + "braise.yaml"); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(dir + "compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	compose, problems := yamlnode.Parse("compose.yaml", text, nil)
	if len(problems) > 0 {
		t.Fatal(problems.Err())
	}
	var file struct {
		Services map[string]struct {
			Image       string
			Command     []string
			Environment map[string]string
			Build       struct{ Context, Dockerfile string }
			StopGrace   string `json:"stop_grace_period"`
		}
	}
	data, err := json.Marshal(compose.Decoded())
	if err == nil {
		err = json.Unmarshal(data, &file)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range file.Services {
		if _, version, ok := strings.Cut(s.Image, ":"); !ok || version == "latest" {
			t.Errorf("%s has the image %q, without a version", name, s.Image)
		}
	}
	temporal, worker := file.Services["temporal"], file.Services["worker"]
	if seeds := temporal.Environment["POSTGRES_SEEDS"]; file.Services[seeds].Image != "postgres:17" ||
		file.Services[seeds].Environment["POSTGRES_USER"] != temporal.Environment["POSTGRES_USER"] {
		t.Errorf("Temporal's database is %q", seeds)
	}
	for _, address := range []string{worker.Command[2], file.Services["ui"].Environment["TEMPORAL_ADDRESS"]} {
		if address != "temporal:7233" {
			t.Errorf("the server is at temporal:7233, not at %s", address)
		}
	}
	want := []string{"worker", "--temporal", "temporal:7233", "--codec-key-env", "BRAISE_CODEC_KEY", "--drain", "30s"}
	if diff := cmp.Diff(want, worker.Command); diff != "" || worker.Environment["BRAISE_CODEC_KEY"] == "" || worker.StopGrace != "60s" {
		t.Errorf("the worker stops within %s and is started by (-want +got)\n%s", worker.StopGrace, diff)
	}
	if _, err := os.Stat(filepath.Join(dir, worker.Build.Context, worker.Build.Dockerfile)); err != nil {
		t.Error(err)
	}
}

// verifyUnit has systemd read the unit, with programs and folders that this machine has.
func verifyUnit(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd")
	}
	text, err := os.ReadFile("../../deploy/braise.service")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	unit := filepath.Join(dir, "braise.service")
	here := strings.NewReplacer("/usr/local/bin/", bin+"/", "=/srv/braise\n", "="+dir+"\n").Replace(string(text))
	if err := os.WriteFile(unit, []byte(here), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(analyze, "verify", unit).CombinedOutput(); err != nil || strings.Contains(string(out), unit) {
		t.Errorf("%v: %s", err, out)
	}
}
