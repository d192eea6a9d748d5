package worker_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/worker"
	"github.com/braise-run/braise/workflow"
)

const hookSecret = "whsec_MDEyMzQ1Njc4OWFiY2RlZg==" // of 0123456789abcdef

// hook is what a target got.
type hook struct {
	id, kind string
	data     map[string]any
}

// readHook checks the signature of a webhook, as a receiver does.
func readHook(t *testing.T, req *http.Request) hook {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		t.Error(err)
	}
	id := req.Header.Get("webhook-id")
	mac := hmac.New(sha256.New, []byte("0123456789abcdef"))
	fmt.Fprintf(mac, "%s.%s.%s", id, req.Header.Get("webhook-timestamp"), body)
	if got, want := req.Header.Get("webhook-signature"), "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)); got != want {
		t.Errorf("the signature is %s, want %s", got, want)
	}
	var message struct {
		Type string
		Data map[string]any
	}
	if err := json.Unmarshal(body, &message); err != nil {
		t.Errorf("%s: %v", body, err)
	}
	return hook{id, message.Type, message.Data}
}

func compile(t *testing.T, text string) *workflow.Workflow {
	t.Helper()
	return mustCompile(text)
}

func mustCompile(text string) *workflow.Workflow {
	r, err := recipe.Parse("recipe.yaml", []byte(text))
	if err != nil {
		panic(err)
	}
	wf, err := workflow.Compile(r, nil)
	if err != nil {
		panic(err)
	}
	return wf
}

const asks = `
apiVersion: braise/v1
name: asks
steps:
  ask: {uses: human, with: {prompt: Send it?, decisions: [approve, reject]}}
`

// paused runs a recipe that asks, and returns the run's id.
func paused(t *testing.T, store checkpoint.Store) string {
	t.Helper()
	out, err := compile(t, asks).Run(t.Context(), nil, &runtime.Runtime{Store: store, Resume: resume.PassThrough{}})
	if err != nil || out.Status != workflow.StatusPaused {
		t.Fatalf("%s %v", out.Status, err)
	}
	return out.RunID
}

func TestNotifierTellsOfPausesAndEnds(t *testing.T) {
	var store checkpoint.Memory
	runID := paused(t, &store)
	got := make(chan hook, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { got <- readHook(t, req) }))
	defer server.Close()
	n := &worker.Notifier{Store: &store, Targets: []worker.Target{
		{URL: server.URL, Secret: hookSecret, On: []string{"paused", "ok"}, Recipes: []string{"asks"},
			Link: func(_ context.Context, run, pause string) (string, error) {
				return "https://b.test/#" + run + "/" + pause, nil
			}},
		{URL: server.URL + "/other", Secret: hookSecret, Recipes: []string{"other"}},
	}}
	ctx, cancel := context.WithCancel(t.Context())
	var working sync.WaitGroup
	working.Go(func() {
		if err := n.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	first := <-got
	pause, _ := first.data["pause"].(map[string]any)
	if first.kind != "run.paused" || first.data["runId"] != runID || pause["prompt"] != "Send it?" ||
		first.data["link"] != "https://b.test/#"+runID+"/ask" {
		t.Errorf("got %+v", first)
	}
	out, err := workflow.Answer(t.Context(), runID, "ask", map[string]any{"decision": "approve"},
		&runtime.Runtime{Store: &store, Resume: resume.PassThrough{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	n.Ended(out)
	if second := <-got; second.kind != "run.ok" || second.data["runId"] != runID || second.id == first.id {
		t.Errorf("got %+v", second)
	}
	cancel()
	working.Wait()
	if n.Failed() != 0 {
		t.Errorf("%d failed", n.Failed())
	}
}

// transport answers requests by a function.
type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// notify lets a notifier work for some time, and returns the ids of what it sent, and when. answer says what comes back.
func notify(t *testing.T, store checkpoint.Store, d time.Duration, answer func(n int) (status int, err error)) (ids []string, at []time.Duration) {
	t.Helper()
	began := time.Now()
	n := &worker.Notifier{Store: store, Targets: []worker.Target{{URL: "http://hooks.test/", Secret: hookSecret}},
		Client: &http.Client{Transport: transport(func(req *http.Request) (*http.Response, error) {
			ids, at = append(ids, readHook(t, req).id), append(at, time.Since(began))
			status, err := answer(len(ids))
			if err != nil {
				return nil, err
			}
			return &http.Response{StatusCode: status, Status: http.StatusText(status), Body: http.NoBody, Request: req,
				Header: http.Header{"Location": {"http://169.254.169.254/"}}}, nil
		})}}
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if err := n.Run(ctx); err != nil {
		t.Error(err)
	}
	return ids, at
}

func TestNotifierTellsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store checkpoint.Memory
		paused(t, &store)
		good := func(int) (int, error) { return 204, nil }
		if ids, _ := notify(t, &store, time.Hour, good); len(ids) != 1 {
			t.Errorf("%q", ids)
		}
		if ids, _ := notify(t, &store, time.Hour, good); len(ids) != 0 {
			t.Errorf("another process told it again: %q", ids)
		}
	})
}

// A target that does not accept a message gets it again: after 5, 10, 20 … seconds. A redirect is not accepted.
func TestNotifierTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store checkpoint.Memory
		paused(t, &store)
		ids, at := notify(t, &store, time.Hour, func(n int) (int, error) {
			switch n {
			case 1:
				return 302, nil
			case 2:
				return 500, nil
			case 3:
				return 0, errors.New("connection refused")
			}
			return 200, nil
		})
		if len(ids) != 4 || ids[0] != ids[3] {
			t.Fatalf("%q", ids)
		}
		for i, want := range []time.Duration{0, 5 * time.Second, 15 * time.Second, 35 * time.Second} {
			if at[i]-at[0] != want {
				t.Errorf("attempt %d came after %v, want %v", i+1, at[i]-at[0], want)
			}
		}
	})
}

// A pause that is over is not told any more.
func TestNotifierForgetsAnsweredPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var store checkpoint.Memory
		runID := paused(t, &store)
		go func() {
			time.Sleep(time.Minute)
			_, err := workflow.Answer(t.Context(), runID, "ask", map[string]any{"decision": "approve"},
				&runtime.Runtime{Store: &store, Resume: resume.PassThrough{}}, nil)
			if err != nil {
				t.Error(err)
			}
		}()
		_, at := notify(t, &store, 24*time.Hour, func(int) (int, error) { return 503, nil })
		if last := at[len(at)-1]; last > 2*time.Minute {
			t.Errorf("told after %v", last)
		}
	})
}

func TestNotifierCheck(t *testing.T) {
	for _, tt := range []struct {
		target worker.Target
		want   string
	}{
		{worker.Target{URL: "hooks.test", Secret: hookSecret}, "not the URL of a server"},
		{worker.Target{URL: "http://hooks.test", Secret: "short"}, "16 bytes"},
		{worker.Target{URL: "http://hooks.test", Secret: hookSecret, On: []string{"pause"}}, `unknown occasion "pause"`},
		{worker.Target{URL: "http://hooks.test", Secret: hookSecret, Exec: []string{"a"}}, "not both"},
		{worker.Target{Exec: []string{"a"}, Secret: hookSecret}, "not both"},
		{worker.Target{Exec: []string{"", "a"}}, "names no program"},
		{worker.Target{Exec: []string{}}, "names no program"},
		{worker.Target{Exec: []string{"a"}, On: []string{"pause"}}, `program a: unknown occasion "pause"`},
		{worker.Target{Exec: []string{"a"}, Remind: -1}, "Remind is -1ns"},
	} {
		err := (&worker.Notifier{Store: &checkpoint.Memory{}, Targets: []worker.Target{tt.target}}).Run(t.Context())
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
	if err := (&worker.Notifier{}).Run(t.Context()); err == nil {
		t.Error("no store")
	}
}
