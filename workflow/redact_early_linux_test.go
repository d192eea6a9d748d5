package workflow_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/braise-run/braise/adapters/builtin"
	"github.com/braise-run/braise/adapters/openai"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// leak returns a part of a secret that stands in a text, of 8 bytes, white space apart; "" for none.
func leak(text, secret string) string {
	folded := strings.Join(strings.Fields(strings.ReplaceAll(text, `\n`, " ")), " ")
	secret = strings.Join(strings.Fields(secret), " ")
	for i := range len(secret) - 8 {
		if part := secret[i : i+8]; strings.Contains(folded, part) {
			return part
		}
	}
	return ""
}

// trust 6.7: secrets go before white space is folded and before a text is cut, in what programs print, endpoints
// answer and models' servers answer.
func TestSecretsGoBeforeTextIsCut(t *testing.T) {
	const key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSjAgEAAoIB\n-----END KEY-----\n"
	const line = "top-5512-abcdefghijklmnopqrstuvwxyz-0123456789"
	answer := "" // of the model's server; else the request's body comes back
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusBadRequest)
		if strings.HasSuffix(r.URL.Path, "/chat/completions") {
			_, _ = io.WriteString(w, answer)
			return
		}
		_, _ = w.Write(body)
	}))
	t.Cleanup(server.Close)
	for name, step := range map[string]string{
		"a program":        `{uses: exec.run, with: {argv: [sh, -c, "printf '%s' \"$1\" >&2; exit 3", sh, "${{ inputs.before }}${{ secrets.KEY }}${{ inputs.after }}"]}}`,
		"a server":         `{uses: http.request, with: {method: POST, url: "${{ inputs.url }}", body: "${{ inputs.before }}${{ secrets.KEY }}${{ inputs.after }}"}}`,
		"a model's server": `{uses: model, with: {model: m, prompt: hi}}`,
		"two in a row":     `{uses: exec.run, with: {argv: [sh, -c, "printf '%s  %s' \"$1\" \"$1\" >&2; exit 3", sh, "${{ secrets.KEY }}"]}}`,
	} {
		for _, secret := range []string{key, line} {
			for _, pad := range []int{0, 30, 440, 470, 480, 490, 500, 511} {
				t.Run(fmt.Sprintf("%s, %d of %d bytes", name, pad, len(secret)), func(t *testing.T) {
					rt := &runtime.Runtime{Store: &checkpoint.Memory{}, Secrets: runtime.SecretMap{"KEY": secret}, Tools: []runtime.Tool{
						builtin.ExecRun(builtin.ExecOptions{Allow: []string{"sh"}}), builtin.HTTPRequest(builtin.HTTPOptions{AllowPrivate: true})}}
					model, err := openai.New(openai.Options{BaseURL: server.URL, Model: "m"})
					if err != nil {
						t.Fatal(err)
					}
					rt.Models = map[string]runtime.Model{"m": model}
					answer = strings.Repeat("x ", pad/2) + secret
					wf := runtest.Load(t, []byte(runtest.Head+"inputs: {url: string, before: string, after: string}\nrequires: {secrets: [KEY]}\nsteps:\n  a: "+step+"\n"))
					in := map[string]any{"url": server.URL, "before": strings.Repeat("x ", pad/2), "after": strings.Repeat(" y", pad/2)}
					out, _ := wf.Run(t.Context(), in, rt)
					if out.Status != workflow.StatusError {
						t.Fatal(out.Status)
					}
					text, err := json.Marshal(out)
					if err != nil {
						t.Fatal(err)
					}
					if part := leak(string(text), secret); part != "" {
						t.Errorf("%q in the outcome: %v", part, out.Err)
					}
					if part := leak(runtest.JournalOf(t, rt.Store, out.RunID), secret); part != "" {
						t.Errorf("%q in the journal", part)
					}
				})
			}
		}
	}
}
