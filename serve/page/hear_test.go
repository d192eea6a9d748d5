package page_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// What a page and its shared worker do wrong is heard, and axe finds what nobody can use: without this, no test could say
// that nothing is wrong.
func TestComplaintsAreHeard(t *testing.T) {
	s := newSite(t, options{idle: true, front: func(next http.Handler) http.Handler {
		files := map[string]string{
			"/wrong.html": `<!doctype html><title>wrong</title><p onclick="1">This page is wrong.</p><button></button><script>var inline</script><script src="wrong.js"></script>`,
			"/wrong.js": `const p = document.querySelector("p");
				p.click(); // some versions of Chromium complain of a handler only when it is to run
				p.innerHTML = "<i>wrong</i>"; // not through Trusted Types`,
			"/loads.html": `<!doctype html><title>wrong</title><script type="module" src="loads.js"></script>`,
			"/loads.js": `const policy = trustedTypes.createPolicy("braise", {createScriptURL: (url) => url});
				const worker = new SharedWorker(policy.createScriptURL("wrong-worker.js"));
				worker.port.start();`,
			"/wrong-worker.js": `onconnect = async () => {
				await fetch("http://example.com/").catch(() => {});
				console.error("the worker says so");
				setTimeout(() => { throw new Error("thrown in the worker"); });
			};`,
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			text, ok := files[r.URL.Path]
			if !ok {
				next.ServeHTTP(w, r)
				return
			}
			next.ServeHTTP(headers{w}, r.Clone(r.Context())) // the policy is that of the server
			w.Header().Set("Content-Type", map[bool]string{true: "text/html", false: "text/javascript"}[strings.HasSuffix(r.URL.Path, "html")])
			w.Header().Del("Content-Length")
			w.WriteHeader(http.StatusOK)
			_, _ = io.WriteString(w, text)
		})
	}})
	for _, tt := range []struct {
		place   string
		workers int
		want    []string
	}{
		{"wrong.html", 0, []string{"inline event handler", "inline script", "TrustedHTML"}},
		{"loads.html", 1, []string{"example.com", "the worker says so", "thrown in the worker"}},
	} {
		b := s.open("", tt.place)
		if tt.place == "wrong.html" {
			found := b.findings("light")
			if !slices.ContainsFunc(found, func(f finding) bool { return f.ID == "button-name" }) {
				t.Errorf("axe finds %v", found)
			}
		}
		all := ""
		until(t, func() bool {
			all += strings.Join(b.complaints(), "\n")
			return !slices.ContainsFunc(tt.want, func(one string) bool { return !strings.Contains(all, one) })
		}, func() string { return fmt.Sprintf("%s: want %q in\n%s", tt.place, tt.want, all) })
		b.closeWorkers(tt.workers) // while the page is there: without one a worker may end by itself
		b.do(chromedp.Navigate("about:blank"))
		until(t, func() bool { return len(b.workers()) == 0 }, func() string { return "the workers stay" })
		b.complaints() // all of them were wanted
	}
}

// headers is a response of which only the headers count.
type headers struct{ http.ResponseWriter }

func (headers) WriteHeader(int)             {}
func (headers) Write(p []byte) (int, error) { return len(p), nil }
