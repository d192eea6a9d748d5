package command

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/braise-run/braise/host"
)

// A signal that comes while the store is opened is a cancelled run, for machines too.
func TestSignalWhileTheStoreOpens(t *testing.T) {
	t.Chdir(t.TempDir())
	var stdout, stderr bytes.Buffer
	a := &app{stdout: &stdout, stderr: &stderr}
	a.output, a.store = "json", "sqlite:"+filepath.Join(t.TempDir(), "runs.db")
	s, err := a.open(t.Context(), host.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(terminated)
	_, err = s.openStore(ctx)
	exit, _ := err.(*exitError)
	var out struct {
		Status string
		Error  struct{ Code string }
	}
	if exit == nil || exit.code != host.ExitCancelled {
		t.Errorf("exit %v", err)
	}
	if err := json.Unmarshal(stdout.Bytes(), &out); err != nil || out.Status != "cancelled" || out.Error.Code != "run.cancelled" {
		t.Errorf("%v: %s", err, stdout.String())
	}
}
