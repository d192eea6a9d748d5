package builtin_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/braise-run/braise/adapters/builtin"
	"github.com/braise-run/braise/internal/value"
)

const (
	token = "top-5512-abcdefghijkl-0123456789"
	pem   = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\n-----END PRIVATE KEY-----\n"
)

// withSecrets is the context of a call in a run that has these secrets.
func withSecrets(ctx context.Context, secrets ...string) context.Context {
	return value.WithRedactor(ctx, value.NewRedactor(secrets))
}

// checkHidden fails if a message has more than five characters of a secret in a row.
func checkHidden(t *testing.T, message, secret string) {
	t.Helper()
	for i := 0; i+6 <= len(secret); i++ {
		if part := secret[i : i+6]; !strings.Contains(part, "-----") && strings.Contains(message, part) {
			t.Fatalf("trust 6.7: %q of a secret stands in %q", part, message)
		}
	}
}

// What is in a message is redacted before it is folded and cut.
func TestErrorsAreRedactedBeforeTheyAreCut(t *testing.T) {
	ctx := withSecrets(t.Context(), token, pem)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write(body)
	})
	programs := builtin.ExecRun(builtin.ExecOptions{Allow: []string{"sh"}})
	for _, said := range []string{pem, strings.ReplaceAll(pem, "\n", "\r\n"), strings.Repeat("x", 480) + token, strings.Repeat("x", 500) + pem,
		strings.Repeat(pem, 700), strings.Repeat(token, 2500)} {
		_, err := call(ctx, t, private, args{"url": s.URL, "method": "POST", "body": said})
		checkHidden(t, err.Error(), token)
		checkHidden(t, err.Error(), pem)
		_, err = call(ctx, t, programs, args{"argv": []any{"sh", "-c", "cat >&2; exit 3"}, "stdin": said})
		checkHidden(t, err.Error(), token)
		checkHidden(t, err.Error(), pem)
	}
}

// A redirect to another origin gets no body that has a secret.
func TestRedirectDoesNotTakeSecretsAlong(t *testing.T) {
	ctx := withSecrets(t.Context(), token)
	var got []string
	other := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = append(got, r.Method+" "+string(body)+r.Header.Get("X-Token"))
	})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/near":
			http.Redirect(w, r, "/end", http.StatusTemporaryRedirect)
		case "/far":
			http.Redirect(w, r, other.URL+"/?q=x", http.StatusTemporaryRedirect)
		case "/see":
			http.Redirect(w, r, other.URL, http.StatusSeeOther)
		}
	})
	headers := args{"X-Token": token}
	for _, tt := range []struct{ path, body, refused, got string }{
		{"/near", token, "", ""},
		{"/far", "id=5", "", "POST id=5"},
		{"/far", "token=" + token, "redirected to " + other.URL + "/, which is not sent the body of the request: it has a secret", ""},
		{"/see", "token=" + token, "", "GET "},
	} {
		got = nil
		_, err := call(ctx, t, private, args{"url": s.URL + tt.path, "method": "POST", "body": tt.body, "headers": headers})
		if tt.refused != "" {
			checkError(t, err, tt.refused)
		} else if err != nil {
			t.Errorf("trust 6.7 %s: %v", tt.path, err)
		}
		if strings.Join(got, "") != tt.got {
			t.Errorf("trust 6.7 %s: the other origin got %q, want %q", tt.path, got, tt.got)
		}
	}
}
