package serve_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// ask sends a request for a file of the page.
func ask(t *testing.T, url, method string, header http.Header) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = header
	if host := header.Get("Host"); host != "" {
		r.Host = host
	}
	res, err := (&http.Transport{DisableCompression: true, DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(text)
}

// Who is not logged in gets the files of the page, with the policy of all responses; a browser that has one gets 304.
func TestPage(t *testing.T) {
	l := newLab(t, nil)
	_, index := ask(t, l.http.URL+"/", "GET", http.Header{})
	found := regexp.MustCompile(`src="(page/[0-9a-f]{12}/)app\.js"`).FindStringSubmatch(index)
	if found == nil {
		t.Fatalf("no version in %s", index)
	}
	at := "/" + found[1]
	for path, want := range map[string]string{"/": "text/html; charset=utf-8", at + "app.js": "text/javascript; charset=utf-8",
		at + "style.css": "text/css; charset=utf-8", at + "vendor/preact.js": "text/javascript; charset=utf-8"} {
		res, text := ask(t, l.http.URL+path, "GET", http.Header{})
		if res.StatusCode != 200 || res.Header.Get("Content-Type") != want || len(text) < 100 {
			t.Errorf("GET %s: %d, %s, %d bytes", path, res.StatusCode, res.Header.Get("Content-Type"), len(text))
		}
		if csp := res.Header.Get("Content-Security-Policy"); !strings.Contains(csp, "require-trusted-types-for 'script'") {
			t.Errorf("GET %s: the policy is %q", path, csp)
		}
		tag := res.Header.Get("ETag")
		if res, text := ask(t, l.http.URL+path, "GET", http.Header{"If-None-Match": {tag}}); res.StatusCode != 304 || text != "" {
			t.Errorf("GET %s with its tag: %d, %q", path, res.StatusCode, text)
		}
		zipped, _ := ask(t, l.http.URL+path, "GET", http.Header{"Accept-Encoding": {"gzip"}})
		if zipped.Header.Get("Content-Encoding") != "gzip" || zipped.Header.Get("ETag") == tag || zipped.ContentLength >= res.ContentLength {
			t.Errorf("GET %s, gzipped: %d of %d bytes, %v", path, zipped.ContentLength, res.ContentLength, zipped.Header)
		}
		if res, text := ask(t, l.http.URL+path, "HEAD", http.Header{}); res.StatusCode != 200 || text != "" {
			t.Errorf("HEAD %s: %d, %q", path, res.StatusCode, text)
		}
		if res, _ := ask(t, l.http.URL+path, "GET", http.Header{"Host": {"evil.example"}}); res.StatusCode != 421 {
			t.Errorf("GET %s as evil.example: %d", path, res.StatusCode)
		}
	}
	for _, path := range []string{"/page/", "/page/app.js", at + "page.go", at + "kit_test.go", at + "../server.go", "/index.html"} {
		if res, _ := ask(t, l.http.URL+path, "GET", http.Header{}); res.StatusCode != 404 {
			t.Errorf("GET %s: %d", path, res.StatusCode)
		}
	}
	mux := http.NewServeMux()
	mux.Handle("/ops/", http.StripPrefix("/ops", l.server.Handler()))
	app := httptest.NewServer(mux)
	defer app.Close()
	if res, text := ask(t, app.URL+"/ops/", "GET", http.Header{}); res.StatusCode != 200 || text != index {
		t.Errorf("GET /ops/: %d", res.StatusCode)
	}
}

// The files of a version never change under their URLs. An open page learns whether the server has another one.
func TestVersionsOfThePage(t *testing.T) {
	l := newLab(t, nil)
	_, index := ask(t, l.http.URL+"/", "GET", http.Header{})
	own := regexp.MustCompile(`page/([0-9a-f]{12})/app`).FindStringSubmatch(index)[1]
	for _, tt := range []struct {
		path, cache string
		status      int
	}{
		{"/", "no-cache", 200},
		{"/page/" + own + "/app.js", "max-age=31536000, immutable", 200},
		{"/page/" + own + "/here", "no-store", 204},
		{"/page/0123456789ab/app.js", "no-cache", 200},
		{"/page/0123456789ab/here", "no-store", 410},
	} {
		if res, _ := ask(t, l.http.URL+tt.path, "GET", http.Header{}); res.StatusCode != tt.status || res.Header.Get("Cache-Control") != tt.cache {
			t.Errorf("GET %s: %d, %q", tt.path, res.StatusCode, res.Header.Get("Cache-Control"))
		}
	}
	if res, _ := ask(t, l.http.URL+"/page/"+own+"/here", "GET", http.Header{"Host": {"evil.example"}}); res.StatusCode != 421 {
		t.Errorf("as evil.example: %d", res.StatusCode)
	}
}
