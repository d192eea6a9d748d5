package worker_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/worker"
	"github.com/braise-run/braise/workflow"
)

const triggerSecret = "It's a Secret to Everybody"

// begun is what a trigger has begun.
type begun struct {
	inputs map[string]any
	opts   workflow.EnqueueOptions
	err    error
}

func (b *begun) start(_ context.Context, inputs map[string]any, o *workflow.EnqueueOptions) (string, error) {
	if b.err != nil {
		return "", b.err
	}
	b.inputs, b.opts = inputs, *o
	return "run-1", nil
}

func trigger(t *testing.T, c worker.TriggerConfig) *worker.Trigger {
	t.Helper()
	tr, err := worker.NewTrigger(c)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// The example of GitHub's documentation: the body "Hello, World!" with this secret. It is no JSON, so the signature is
// good and the body is not.
func TestTriggerKnowsGitHubsSignature(t *testing.T) {
	tr := trigger(t, worker.TriggerConfig{Name: "t", Start: new(begun).start, Signature: worker.SignedGitHub, Secret: triggerSecret})
	h := http.Header{"X-Hub-Signature-256": {"sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"}}
	_, err := tr.Accept(t.Context(), h, []byte("Hello, World!"))
	if e, ok := errors.AsType[*runtime.Error](err); !ok || e.Code != "hook.body" {
		t.Errorf("%v, want hook.body", err)
	}
}

func gitHub(body string) http.Header {
	mac := hmac.New(sha256.New, []byte(triggerSecret))
	mac.Write([]byte(body))
	return http.Header{"X-Hub-Signature-256": {"sha256=" + hex.EncodeToString(mac.Sum(nil))}, "X-Github-Delivery": {"d-1"}}
}

func TestTriggerBeginsARun(t *testing.T) {
	var b begun
	tr := trigger(t, worker.TriggerConfig{Name: "tickets", Start: b.start, Queue: "q", Labels: map[string]string{"from": "github"},
		Signature: worker.SignedGitHub, Secret: triggerSecret,
		Inputs: map[string]any{"ticket": "${{ body.issue.body }}", "all": []any{"${{ len(body.list) }}", int64(2)}},
		Key:    "${{ headers['x-github-delivery'] }}"})
	body := `{"issue": {"body": "It is broken."}, "list": [1, 2, 3]}`
	id, err := tr.Accept(t.Context(), gitHub(body), []byte(body))
	if err != nil || id != "run-1" {
		t.Fatalf("%q %v", id, err)
	}
	want := map[string]any{"ticket": "It is broken.", "all": []any{int64(3), int64(2)}}
	if diff := cmp.Diff(want, b.inputs); diff != "" {
		t.Error(diff)
	}
	sum := sha256.Sum256([]byte("d-1"))
	wantOpts := workflow.EnqueueOptions{RunID: "tickets-" + hex.EncodeToString(sum[:16]), Queue: "q",
		Labels: map[string]string{"from": "github"}, By: "trigger tickets"}
	if diff := cmp.Diff(wantOpts, b.opts); diff != "" {
		t.Error(diff)
	}
	b.err = &runtime.Error{Category: runtime.CategoryInfra, Code: "run.exists", Err: checkpoint.ErrExists}
	if id, err = tr.Accept(t.Context(), gitHub(body), []byte(body)); err != nil || id != wantOpts.RunID {
		t.Errorf("the same request again: %q %v, want the run that it has", id, err)
	}
}

var signing = []byte("0123456789abcdef")

// standard signs a request as Standard Webhooks say.
func standard(id string, at time.Time, body string) http.Header {
	mac := hmac.New(sha256.New, signing)
	fmt.Fprintf(mac, "%s.%d.%s", id, at.Unix(), body)
	h := http.Header{}
	h.Set("webhook-id", id)
	h.Set("webhook-timestamp", fmt.Sprint(at.Unix()))
	h.Set("webhook-signature", "v1,bm9uc2Vuc2U= v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return h
}

func TestTriggerRefuses(t *testing.T) {
	now := time.Now()
	for _, tt := range []struct {
		what, signature string
		header          http.Header
		body, code      string
	}{
		{"good", worker.SignedStandard, standard("m1", now, `{"a": 1}`), `{"a": 1}`, ""},
		{"another body", worker.SignedStandard, standard("m1", now, `{"a": 1}`), `{"a": 2}`, "hook.signature"},
		{"replayed after six minutes", worker.SignedStandard, standard("m1", now.Add(-6*time.Minute), `{"a": 1}`), `{"a": 1}`, "hook.signature"},
		{"from the future", worker.SignedStandard, standard("m1", now.Add(6*time.Minute), `{"a": 1}`), `{"a": 1}`, "hook.signature"},
		{"four minutes late", worker.SignedStandard, standard("m1", now.Add(-4*time.Minute), `{"a": 1}`), `{"a": 1}`, ""},
		{"no headers", worker.SignedStandard, http.Header{}, `{"a": 1}`, "hook.signature"},
		{"the wrong kind", worker.SignedGitHub, standard("m1", now, `{"a": 1}`), `{"a": 1}`, "hook.signature"},
		{"no JSON", worker.SignedStandard, standard("m1", now, `{"a": }`), `{"a": }`, "hook.body"},
		{"a member twice", worker.SignedStandard, standard("m1", now, `{"a": 1, "a": 2}`), `{"a": 1, "a": 2}`, "hook.body"},
		{"what the inputs read is missing", worker.SignedStandard, standard("m1", now, `{"b": 1}`), `{"b": 1}`, "expr.failed"},
	} {
		secret := triggerSecret
		if tt.signature == worker.SignedStandard {
			secret = "whsec_" + base64.StdEncoding.EncodeToString(signing)
		}
		tr := trigger(t, worker.TriggerConfig{Name: "t", Start: new(begun).start, Signature: tt.signature, Secret: secret,
			Inputs: map[string]any{"a": "${{ body.a }}"}})
		_, err := tr.Accept(t.Context(), tt.header, []byte(tt.body))
		code := ""
		if e, ok := errors.AsType[*runtime.Error](err); ok {
			code = e.Code
		}
		if code != tt.code || (err == nil) != (tt.code == "") {
			t.Errorf("%s: %v, want %q", tt.what, err, tt.code)
		}
		if code == "expr.failed" && !strings.HasPrefix(err.Error(), `trigger "t", inputs/a: `) {
			t.Errorf("%s: %v, want the place", tt.what, err)
		}
	}
}

func TestNewTriggerRefuses(t *testing.T) {
	good := worker.TriggerConfig{Name: "t", Start: new(begun).start, Signature: worker.SignedGitHub, Secret: triggerSecret}
	for _, tt := range []struct {
		change func(*worker.TriggerConfig)
		want   string
	}{
		{func(c *worker.TriggerConfig) { c.Name = "a b" }, "letters, digits"},
		{func(c *worker.TriggerConfig) { c.Start = nil }, "no Start"},
		{func(c *worker.TriggerConfig) { c.Signature = "none" }, `unknown signature "none"`},
		{func(c *worker.TriggerConfig) { c.Secret = "short" }, "its secret has 5 bytes"},
		{func(c *worker.TriggerConfig) { c.Signature, c.Secret = worker.SignedStandard, "whsec_0123456789ab==!" }, "whsec_"},
		{func(c *worker.TriggerConfig) { c.Inputs = map[string]any{"a": "${{ bdy.a }}"} }, `trigger "t", inputs/a: unknown name "bdy"`},
		{func(c *worker.TriggerConfig) { c.Key = "${{ body. }}" }, `trigger "t", key: `},
		{func(c *worker.TriggerConfig) {
			c.Inputs = map[string]any{"a": []any{"b", "${{ bdy.a }}"}}
			c.Positions = map[string]diagnostics.Position{"inputs/a/1": {File: "braise.yaml", Line: 4, Column: 9}}
		}, `braise.yaml:4:9: unknown name "bdy"`},
	} {
		c := good
		tt.change(&c)
		_, err := worker.NewTrigger(c)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
	}
}
