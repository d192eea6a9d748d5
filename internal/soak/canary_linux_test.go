package soak

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// canary is a secret of the installation.
const canary = "canary-5f0c1b7e9d"

// telling is a recipe whose calls send back the secret that they get, in a result and in an error.
var telling = recipe{
	name: "telling",
	text: "steps:\n  tell: {" + strings.Replace(request("tell", ""), `"tell"`, `"${{ secrets.CANARY }}"`, 1) + "}\n" +
		"  ask: {uses: human, needs: [tell], with: {prompt: \"${{ steps.tell.output.body }}?\", show: \"${{ steps.tell.output }}\", decisions: [approve]}}\n" +
		"  run: {needs: [ask], uses: exec.run, with: {argv: [./effect, \"${{ inputs.run }}\", \"${{ secrets.CANARY }}\"]}}\n" +
		"  fail: {needs: [run], " + strings.Replace(request("fail", ", fail: 9, status: 400"), `"fail"`, `"${{ secrets.CANARY }}"`, 1) + "}\n",
}

// Whatever a server answers, streams, logs and stores, no secret is in it: neither the tokens of its API, nor those of
// pauses, nor those of the recipes. The one response that makes a token of a pause has it.
func TestServerKeepsSecrets(t *testing.T) {
	for _, place := range []string{"sqlite", "jsonl"} {
		t.Run("serve 12.10/"+place, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, place, "secrets: {from_env: [CANARY]}\n", "ada")
			f.env, f.keep = append(f.env, "CANARY="+canary), true
			f.writeRecipe(&telling)
			s := f.serves("telling.yaml")
			var streamed strings.Builder
			s.begins("telling", "r")
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			streams := make(chan error, 1)
			go func() {
				streams <- s.stream(ctx, "r", 0, func(m message) { streamed.WriteString(m.data + "\n") })
			}()
			if v := s.awaits("r", "it asks", func(v view) bool { return v.Phase != "queued" && v.Phase != "running" }); v.Phase != "waiting" {
				t.Fatalf("%+v", v)
			}
			f.reads(s)
			token := f.mints(s)
			s.must(http.StatusOK, "POST", "/api/v1/token/look", map[string]any{"token": token}, nil)
			f.reads(s)
			s.must(http.StatusAccepted, "POST", "/api/v1/token/answer", map[string]any{"token": token, "decision": "approve"}, nil)
			if v := s.ends("r"); v.Phase != "error" || v.Steps[2].Status != "succeeded" {
				t.Errorf("%+v", v)
			}
			if err := <-streams; err != nil {
				t.Error(err)
			}
			s.must(http.StatusConflict, "POST", "/api/v1/token/look", map[string]any{"token": token}, nil)
			f.reads(s)
			if code := s.stop(syscall.SIGTERM); code != 0 {
				t.Errorf("exit code %d", code)
			}
			kept := map[string]string{"a response": f.responses.String(), "a stream": streamed.String(), "the log": s.said.String(),
				"the store": f.stored()}
			f.clean(kept, canary, token, token[strings.LastIndex(token, ".")+1:], operator, tokenOf("ada"))
		})
	}
}

// clean fails if a text has a secret, or nothing was put out that could have one.
func (f *fleet) clean(kept map[string]string, secrets ...string) {
	for about, text := range kept {
		for _, secret := range secrets {
			if i := strings.Index(text, secret); i >= 0 && len(secret) > 8 {
				f.t.Errorf("%s has the secret %q: …%s…", about, secret, text[max(0, i-200):min(len(text), i+100)])
			}
		}
		if about != "the log" && !strings.Contains(text, "***") {
			f.t.Errorf("%s has no *** in place of a secret", about)
		}
	}
}

// mints makes a token, whose response is not kept.
func (f *fleet) mints(s *server) string {
	f.t.Helper()
	f.keep = false
	defer func() { f.keep = true }()
	var made struct{ Token string }
	s.must(http.StatusOK, "POST", "/api/v1/runs/r/pauses/ask/tokens", nil, &made)
	if len(made.Token) < 20 {
		f.t.Fatalf("the token is %q", made.Token)
	}
	return made.Token
}

// reads asks for everything that can be read of the run, and makes mistakes.
func (f *fleet) reads(s *server) {
	f.t.Helper()
	for _, path := range []string{"/me", "/recipes", "/recipes/telling", "/runs", "/runs/r", "/runs/r/steps/tell", "/runs/r/steps/ask",
		"/runs/r/output", "/runs/r/events", "/runs/r/journal", "/pauses", "/openapi.json", "/schemas/outcome"} {
		s.must(http.StatusOK, "GET", "/api/v1"+path, nil, nil)
	}
	for _, path := range []string{"/livez", "/readyz", "/metrics", "/", "/?token=" + url.QueryEscape("a wrong one")} {
		if _, err := s.send("", "GET", path, nil); err != nil {
			f.t.Error(err)
		}
	}
	for _, token := range []string{tokenOf("nobody"), operator + "x", tokenOf("ada")} {
		for _, path := range []string{"/api/v1/me", "/api/v1/runs/r/pauses/none/tokens"} {
			if _, err := s.send(token, "GET", path, nil); err != nil {
				f.t.Error(err)
			}
		}
	}
}

// stored is all that the store has in files.
func (f *fleet) stored() string {
	var all strings.Builder
	err := filepath.WalkDir(f.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(path, "/runs") {
			return err
		}
		text, err := os.ReadFile(path)
		all.Write(text)
		return err
	})
	if err != nil {
		f.t.Error(err)
	}
	return all.String()
}
