package worker_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/worker"
)

// verified reports whether Braise has signed a message with the secret, in the last five minutes.
func verified(h http.Header, body []byte, secret string) bool {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	sent, err2 := strconv.ParseInt(h.Get("webhook-timestamp"), 10, 64)
	if err != nil || err2 != nil || time.Since(time.Unix(sent, 0)).Abs() > 5*time.Minute {
		return false
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%d.%s", h.Get("webhook-id"), sent, body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	return slices.ContainsFunc(strings.Fields(h.Get("webhook-signature")), func(given string) bool {
		return hmac.Equal([]byte(given), []byte(want))
	})
}

// A service receives a message about a pause, and checks who has signed it.
func ExampleNotifier() {
	const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	service := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Println("verified:", verified(r.Header, body, secret))
		fmt.Println("about a pause:", strings.Contains(string(body), `"type":"run.paused"`))
		cancel()
	}))
	defer service.Close()

	rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Resume: resume.PassThrough{}}
	wf := mustCompile(`
apiVersion: braise/v1
name: refund
steps: {approve: {uses: human, with: {prompt: Refund it?}}}
`)
	if _, err := wf.Run(ctx, nil, rt); err != nil {
		fmt.Println(err)
	}
	n := &worker.Notifier{Store: rt.Store, Targets: []worker.Target{{URL: service.URL, Secret: secret}}}
	if err := n.Run(ctx); err != nil {
		fmt.Println(err)
	}
	// Output:
	// verified: true
	// about a pause: true
}
