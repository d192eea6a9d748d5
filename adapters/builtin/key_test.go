package builtin_test

import (
	"net/http"
	"testing"

	"github.com/braise-run/braise/adapters/builtin"
	"github.com/braise-run/braise/resume"
)

// The key of a call reaches servers and processes.
func TestIdempotencyKey(t *testing.T) {
	ctx := &resume.CallContext{Context: t.Context(), RunID: "r", Generation: 1, Path: "send", Ordinal: 1}
	key := resume.Key("r", 1, "send", 1, "")
	var got string
	s := serve(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Get("Idempotency-Key") })
	for _, tt := range []struct {
		args args
		want string
	}{
		{args{"url": s.URL, "method": "POST"}, key},
		{args{"url": s.URL, "method": "post", "headers": args{"Idempotency-Key": "own"}}, "own"},
		{args{"url": s.URL}, ""}, // it changes nothing
	} {
		if _, err := call(ctx, t, private, tt.args); err != nil || got != tt.want {
			t.Errorf("%v: key %q, want %q; %v", tt.args, got, tt.want, err)
		}
	}
	sh := builtin.ExecRun(builtin.ExecOptions{Allow: []string{"sh"}})
	out, err := call(ctx, t, sh, args{"argv": []string{"sh", "-c", `printf %s "$BRAISE_IDEMPOTENCY_KEY"`}})
	if err != nil {
		t.Fatal(err)
	}
	if out["stdout"] != key {
		t.Errorf("the process got %v", out)
	}
	if _, err := call(t.Context(), t, private, args{"url": s.URL, "method": "POST"}); err != nil || got != "" {
		t.Errorf("outside of a run: key %q, %v", got, err)
	}
}
