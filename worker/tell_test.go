package worker_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/worker"
	"github.com/braise-run/braise/workflow"
)

// A target that is down for a day gets the message when it is back, the same once.
func TestNotifierTargetDownForADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store checkpoint.Memory
		paused(t, &store)
		began := time.Now()
		accepted := 0
		ids, at := notify(t, &store, 72*time.Hour, func(int) (int, error) {
			if time.Since(began) < 24*time.Hour {
				return 503, nil
			}
			accepted++
			return 204, nil
		})
		if n := len(ids); accepted != 1 || ids[0] != ids[n-1] || at[n-1] > 48*time.Hour || n > 20 {
			t.Errorf("accepted %d times, the last of %d attempts after %v", accepted, n, at[n-1])
		}
	})
}

// A target that does not answer is given up after 15 s, and does not keep others from being told.
func TestNotifierSlowTarget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store checkpoint.Memory
		out := pausedAs(t, &store, asks)
		began := time.Now()
		var quick time.Duration
		n := &worker.Notifier{Store: &store,
			Targets: []worker.Target{{URL: "http://slow.test/", Secret: hookSecret}, {URL: "http://quick.test/", Secret: hookSecret}},
			Client: &http.Client{Transport: transport(func(req *http.Request) (*http.Response, error) {
				if req.URL.Host == "slow.test" {
					<-req.Context().Done()
					return nil, req.Context().Err()
				}
				quick = time.Since(began)
				return &http.Response{StatusCode: 204, Body: http.NoBody, Request: req}, nil
			})}}
		err := n.Tell(t.Context(), out)
		if err == nil || !strings.Contains(err.Error(), "http://slow.test/: ") || quick != 0 || time.Since(began) != 15*time.Second {
			t.Errorf("after %v, the quick one after %v: %v", time.Since(began), quick, err)
		}
	})
}

// pausedAs runs a recipe that asks.
func pausedAs(t *testing.T, store checkpoint.Store, text string) *workflow.Outcome {
	t.Helper()
	out, err := compile(t, text).Run(t.Context(), nil, &runtime.Runtime{Store: store, Resume: resume.PassThrough{}})
	if err != nil || out.Status != workflow.StatusPaused {
		t.Fatalf("%s %v", out.Status, err)
	}
	return out
}

// A pause is told of once more before it expires, unless it was answered, whatever process works then.
func TestNotifierReminds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store checkpoint.Memory
		began := time.Now()
		text := strings.Replace(asks, "decisions: [approve, reject]", "decisions: [approve, reject], expires: 24h", 1)
		first := pausedAs(t, &store, text)
		answered := pausedAs(t, &store, text)
		pausedAs(t, &store, asks) // it does not expire
		pausedAs(t, &store, strings.Replace(text, "24h", "1h", 1))
		var got []string
		n := func() *worker.Notifier {
			return &worker.Notifier{Store: &store, Targets: []worker.Target{{URL: "http://hooks.test/", Secret: hookSecret, Remind: 4 * time.Hour}},
				Client: &http.Client{Transport: transport(func(req *http.Request) (*http.Response, error) {
					if h := readHook(t, req); h.data["runId"] == first.RunID || h.kind != "run.paused" {
						got = append(got, h.kind+" after "+time.Since(began).Round(time.Minute).String())
					}
					return &http.Response{StatusCode: 204, Body: http.NoBody, Request: req}, nil
				})}}
		}
		work := func(d time.Duration) {
			ctx, cancel := context.WithTimeout(t.Context(), d)
			defer cancel()
			if err := n().Run(ctx); err != nil {
				t.Error(err)
			}
		}
		work(time.Hour)
		if _, err := workflow.Resume(t.Context(), answered.Token, map[string]any{"decision": "approve"},
			&runtime.Runtime{Store: &store, Resume: resume.PassThrough{}}, nil); err != nil {
			t.Fatal(err)
		}
		work(48 * time.Hour)
		work(time.Hour)
		if diff := cmp.Diff([]string{"run.paused after 0s", "run.reminder after 20h0m0s"}, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
}

// Tell tells of pauses once, of an end, and of nothing where a run was only interrupted or never began.
func TestNotifierTell(t *testing.T) {
	var store checkpoint.Memory
	var got []hook
	n := &worker.Notifier{Store: &store, Targets: []worker.Target{{URL: "http://hooks.test/", Secret: hookSecret, On: []string{"paused", "ok", "error", "cancelled"}}},
		Client: &http.Client{Transport: transport(func(req *http.Request) (*http.Response, error) {
			got = append(got, readHook(t, req))
			return &http.Response{StatusCode: 204, Body: http.NoBody, Request: req}, nil
		})}}
	tell := func(out *workflow.Outcome) (kinds []string) {
		t.Helper()
		got = nil
		if err := n.Tell(t.Context(), out); err != nil {
			t.Error(err)
		}
		for _, h := range got {
			kinds = append(kinds, h.kind)
		}
		return kinds
	}
	out := pausedAs(t, &store, asks)
	if kinds := tell(out); len(kinds) != 1 || kinds[0] != "run.paused" {
		t.Fatalf("%q", kinds)
	}
	pause, _ := got[0].data["pause"].(map[string]any)
	if _, leaked := pause["token"]; leaked || pause["prompt"] != "Send it?" || got[0].data["runId"] != out.RunID {
		t.Errorf("%v", got[0].data)
	}
	if kinds := tell(out); kinds != nil {
		t.Errorf("told again: %q", kinds)
	}
	rt := &runtime.Runtime{Store: &store, Resume: resume.PassThrough{}}
	interrupted := *out
	interrupted.Status = workflow.StatusCancelled
	if kinds := tell(&interrupted); kinds != nil {
		t.Errorf("of an interruption: %q", kinds)
	}
	if kinds := tell(&workflow.Outcome{Status: workflow.StatusError, RunID: "none"}); kinds != nil {
		t.Errorf("of a run that never began: %q", kinds)
	}
	end, err := workflow.Answer(t.Context(), out.RunID, "ask", map[string]any{"decision": "approve"}, rt, nil)
	if err != nil {
		t.Fatal(err)
	}
	if kinds := tell(end); len(kinds) != 1 || kinds[0] != "run.ok" {
		t.Errorf("%q", kinds)
	}
}

// A program reads the message on stdin, in its folder. What it says on stderr is the error when it fails.
func TestNotifierTellsPrograms(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("there is no shell")
	}
	dir := t.TempDir()
	for _, tt := range []struct{ script, want string }{
		{"cat >got.json", ""},
		{"echo no route to host >&2; exit 3", "program " + sh + ": exit status 3: no route to host"},
		{"i=0; while [ $i -lt 200 ]; do echo 0123456789 >&2; i=$((i+1)); done; exit 1", "0123456789\n0123456789"},
		{"kill -9 $$", "signal: killed"},
	} {
		var store checkpoint.Memory
		n := &worker.Notifier{Store: &store, Targets: []worker.Target{{Exec: []string{sh, "-c", tt.script}, Dir: dir}}}
		err := n.Tell(t.Context(), pausedAs(t, &store, asks))
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) || err != nil && len(err.Error()) > 700 {
			t.Errorf("%s: %v, want %q", tt.script, err, tt.want)
		}
	}
	var message struct {
		Type string
		Data struct {
			Status string
			Pause  resume.Pause
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "got.json"))
	if err == nil {
		err = json.Unmarshal(text, &message)
	}
	if err != nil || message.Type != "run.paused" || message.Data.Pause.Prompt != "Send it?" {
		t.Errorf("%v: %s", err, text)
	}
	var store checkpoint.Memory
	n := &worker.Notifier{Store: &store, Targets: []worker.Target{{Exec: []string{filepath.Join(dir, "none")}}}}
	if err := n.Tell(t.Context(), pausedAs(t, &store, asks)); err == nil || !strings.Contains(err.Error(), "none: no such file") {
		t.Errorf("a program that is missing: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n.Targets[0].Exec = []string{sh, "-c", "sleep 600"}
	if err := n.Tell(ctx, pausedAs(t, &store, asks)); err == nil {
		t.Error("the context has ended, and the program has not")
	}
}
