package builtin_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/builtin"
	"github.com/braise-run/braise/retry"
)

var private = builtin.HTTPRequest(builtin.HTTPOptions{AllowPrivate: true, MaxBytes: 1000})

// serve starts a server that lives as long as the test. Its connections close with it, so that
// the tools' idle ones do too.
func serve(t *testing.T, h http.HandlerFunc) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s
}

func TestHTTPRequestSends(t *testing.T) {
	type seen struct{ Method, Path, Query, Type, Auth, Host, Body string }
	var got seen
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = seen{r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Get("Content-Type"), r.Header.Get("Authorization"), r.Host, string(body)}
	})
	host := strings.TrimPrefix(s.URL, "http://")
	for _, tt := range []struct {
		args args
		want seen
	}{
		{args{"url": "/a?b=c"}, seen{"GET", "/a", "b=c", "", "", host, ""}},
		{args{"url": "/", "method": "put", "body": "text", "headers": args{"authorization": "Bearer x", "host": "other"}}, seen{"PUT", "/", "", "", "Bearer x", "other", "text"}},
		{args{"url": "/", "headers": args{"authorization": "Bearer x\r\n", "host": " other\n"}}, seen{"GET", "/", "", "", "Bearer x", "other", ""}},
		{args{"url": "/", "method": "POST", "json": args{"n": 1}}, seen{"POST", "/", "", "application/json", "", host, `{"n":1}`}},
		{args{"url": "/", "method": "POST", "json": json.RawMessage(`{"n":18446744073709551615}`)}, seen{"POST", "/", "", "application/json", "", host, `{"n":18446744073709551615}`}}, // trust 8.8
		{args{"url": "/", "method": "POST", "json": nil}, seen{"POST", "/", "", "application/json", "", host, `null`}},
		{args{"url": "/", "method": "POST", "json": []int{}, "headers": args{"Content-Type": "application/problem+json"}}, seen{"POST", "/", "", "application/problem+json", "", host, `[]`}},
	} {
		tt.args["url"] = s.URL + tt.args["url"].(string)
		if _, err := call(t.Context(), t, private, tt.args); err != nil {
			t.Errorf("%v: %v", tt.args, err)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%v: the server saw (-want +got)\n%s", tt.args, diff)
		}
	}
}

func TestHTTPRequestResult(t *testing.T) {
	for _, tt := range []struct {
		name, kind, body string
		want             any
	}{
		{"json", "application/json; charset=utf-8", `{"a": [1, null]}`, map[string]any{"a": []any{1.0, nil}}},
		{"json by suffix", "application/vnd.api+json", `"x"`, "x"},
		{"not json, says json", "application/json", `{"a"`, nil},
		{"empty, says json", "application/json", ``, nil},
		{"json, says text", "text/plain", `{}`, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", tt.kind)
				w.Header().Set("Date", "now")
				w.Header().Add("X-Two", "1")
				w.Header().Add("X-Two", "2")
				w.WriteHeader(http.StatusCreated)
				io.WriteString(w, tt.body)
			})
			got, err := call(t.Context(), t, private, args{"url": s.URL})
			if err != nil {
				t.Fatal(err)
			}
			headers := got["headers"].(map[string]any)
			delete(headers, "content-length")
			want := map[string]any{
				"status":  201.0,
				"headers": map[string]any{"content-type": tt.kind, "date": "now", "x-two": []any{"1", "2"}},
				"body":    tt.body,
			}
			if tt.want != nil {
				want["json"] = tt.want
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("result (-want +got)\n%s", diff)
			}
		})
	}
}

func TestHTTPRequestStatus(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if after := r.URL.Query().Get("after"); after != "" {
			w.Header().Set("Retry-After", after)
		}
		status := map[string]int{"/204": 204, "/304": 304, "/400": 400, "/404": 404, "/408": 408, "/429": 429, "/500": 500, "/503": 503, "/504": 504}[r.URL.Path]
		w.WriteHeader(status)
		if status >= 400 {
			io.WriteString(w, "no\n  way"+strings.Repeat(" very", 1000))
		}
	})
	for _, tt := range []struct {
		path   string
		reason retry.Reason
		after  time.Duration
	}{
		{"/400", "", 0},
		{"/404", "", 0},
		{"/408", retry.Timeout, 0},
		{"/429?after=7", retry.RateLimit, 7 * time.Second},
		{"/429?after=-7", retry.RateLimit, 0},
		{"/429?after=soon", retry.RateLimit, 0},
		{"/503?after=" + url.QueryEscape("Mon, 02 Jan 2006 15:04:05 GMT"), retry.ServerError, 0},
		{"/500", retry.ServerError, 0},
		{"/504", retry.Timeout, 0},
	} {
		u := strings.Replace(s.URL, "http://", "http://user:password@", 1) + tt.path
		_, err := call(t.Context(), t, private, args{"url": u})
		path, _, _ := strings.Cut(tt.path, "?")
		checkError(t, err, "GET "+s.URL+path+": status "+path[1:], "no way very very")
		if strings.Contains(err.Error(), "after") || strings.Contains(err.Error(), "user") || len(err.Error()) > 700 {
			t.Errorf("%s: too much in the error %q", tt.path, err)
		}
		got := *failureOf(t, err)
		got.Err = nil
		status := map[string]int{"/400": 400, "/404": 404, "/408": 408, "/429": 429, "/500": 500, "/503": 503, "/504": 504}[path]
		if want := (retry.Failure{Reason: tt.reason, Status: status, After: tt.after, Sent: true}); got != want {
			t.Errorf("%s: failure %+v, want %+v", tt.path, got, want)
		}
	}

	future := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	_, err := call(t.Context(), t, private, args{"url": s.URL + "/429?after=" + url.QueryEscape(future)})
	if after := failureOf(t, err).After; after < 59*time.Minute || after > time.Hour {
		t.Errorf("Retry-After in an hour gave %s", after)
	}

	for _, tt := range []struct {
		path  string
		allow any
		want  float64 // 0: fails
	}{
		{"/204", nil, 204},
		{"/304", nil, 304},
		{"/404", true, 404},
		{"/404", []int{410, 404}, 404},
		{"/404", []int{410}, 0},
		{"/404", false, 0},
	} {
		a := args{"url": s.URL + tt.path}
		if tt.allow != nil {
			a["allow_status"] = tt.allow
		}
		big := builtin.HTTPRequest(builtin.HTTPOptions{AllowPrivate: true})
		got, err := call(t.Context(), t, big, a)
		if tt.want == 0 && err == nil || tt.want != 0 && (err != nil || got["status"] != tt.want) {
			t.Errorf("%v gave %v, %v", a, got["status"], err)
		}
	}
}

func TestHTTPRequestRefusesArguments(t *testing.T) {
	for _, tt := range []struct {
		args args
		want string
	}{
		{args{"url": ""}, "https://example.com/path"},
		{args{"url": "example.com"}, `url "example.com" is not like`},
		{args{"url": "file:///etc/passwd"}, "is not like"},
		{args{"url": "ftp://example.com/"}, "is not like"},
		{args{"url": "http://"}, "is not like"},
		{args{"url": "http://a b/?token"}, "url: invalid character"},
		{args{"url": "http://localhost:port/?token"}, "url: invalid port"},
		{args{"url": "http://localhost", "method": "A B"}, "invalid method"},
		{args{"url": "http://localhost", "body": "", "json": nil}, "body and json exclude each other"},
		{args{"url": "http://localhost", "timeout": "30"}, `timeout "30" is not a positive duration like "30s"`},
		{args{"url": "http://localhost", "timeout": "-1s"}, `not a positive duration`},
		{args{"url": "http://localhost", "headers": args{"a b": "c"}}, "invalid header field name"},
		{args{"url": "http://localhost", "headers": args{"a": "token\r\nx: y"}}, `the header "a" holds a line break or another control character`},
		{args{"url": "http://localhost", "headers": args{"Host": "token\x7f"}}, `the header "Host" holds a line break`},
		{args{"url": "http://localhost", "allow_status": "all"}, "neither true nor a list"},
	} {
		_, err := call(t.Context(), t, private, tt.args)
		checkError(t, err, tt.want)
		if strings.Contains(err.Error(), "token") {
			t.Errorf("%v: the error %q has the query", tt.args, err)
		}
		if f := failureOf(t, err); f.Reason != "" || f.Sent {
			t.Errorf("%v: refusal %+v could be retried", tt.args, f)
		}
	}
}

func TestHTTPRequestRefusesPrivateAddresses(t *testing.T) {
	hit := false
	s := serve(t, func(http.ResponseWriter, *http.Request) { hit = true })
	_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
	t.Setenv("HTTP_PROXY", s.URL) // must not count: the proxy would connect for us
	t.Setenv("http_proxy", s.URL)
	public := builtin.HTTPRequest(builtin.HTTPOptions{})
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "0.0.0.0", "[::]", "169.254.169.254", "10.0.0.1", "100.64.0.1", "[fe80::1]"} {
		_, err := call(t.Context(), t, public, args{"url": "http://" + host + ":" + port})
		checkError(t, err, "GET http://"+host+":"+port, "is not a public address", "tools.http.allow_private in braise.yaml")
		if f := failureOf(t, err); f.Reason != "" || f.Sent {
			t.Errorf("%s: refusal %+v could be retried", host, f)
		}
	}
	if hit {
		t.Error("a request went through")
	}
}

func TestHTTPRequestRedirects(t *testing.T) {
	var seen http.Header
	other := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if back := r.URL.Query().Get("back"); back != "" {
			http.Redirect(w, r, back, http.StatusFound)
		}
		seen = r.Header
	})
	var s *httptest.Server
	s = serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/near":
			http.Redirect(w, r, "/end", http.StatusFound)
		case "/far":
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		case "/back":
			http.Redirect(w, r, other.URL+"?back="+s.URL+"/end", http.StatusFound)
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
		case "/file":
			http.Redirect(w, r, "file:///etc/passwd?token", http.StatusFound)
		case "/end":
			seen = r.Header
		}
	})
	secret := args{"Authorization": "Bearer x", "Cookie": "c=x", "X-Api-Key": "x", "Accept": "text/html"}
	for path, want := range map[string][]string{
		"/near": {"Accept", "Accept-Encoding", "Authorization", "Cookie", "Referer", "User-Agent", "X-Api-Key"},
		"/far":  {"Accept", "Accept-Encoding", "User-Agent"},
		"/back": {"Accept", "Accept-Encoding", "User-Agent"},
	} {
		seen = nil
		if _, err := call(t.Context(), t, private, args{"url": s.URL + path + "?token=x", "headers": secret}); err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if diff := cmp.Diff(want, slices.Sorted(maps.Keys(seen))); diff != "" {
			t.Errorf("%s: the last server saw the headers (-want +got)\n%s", path, diff)
		}
	}
	for path, want := range map[string]string{
		"/loop": "more than 10 redirects",
		"/file": `redirected to "file:///etc/passwd", which is neither http nor https`,
	} {
		_, err := call(t.Context(), t, private, args{"url": s.URL + path})
		checkError(t, err, want)
		if f := failureOf(t, err); f.Reason != "" || !f.Sent {
			t.Errorf("%s: failure %+v", path, f)
		}
	}
}

func TestHTTPRequestBoundsTheBody(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/fits":
			io.WriteString(w, strings.Repeat("x", 1000))
		case "/large":
			io.WriteString(w, strings.Repeat("x", 1001))
		case "/bomb":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			z.Write(bytes.Repeat([]byte("x"), 1<<20))
			z.Close()
		case "/gzip":
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			io.WriteString(z, "unpacked")
			z.Close()
		case "/binary":
			w.Header().Set("Content-Type", "image/png")
			w.Write([]byte{0x89, 'P', 'N', 'G'})
		}
	})
	for path, want := range map[string]string{"/fits": strings.Repeat("x", 1000), "/gzip": "unpacked"} {
		if got, err := call(t.Context(), t, private, args{"url": s.URL + path}); err != nil || got["body"] != want {
			t.Errorf("%s: %v, %v", path, got, err)
		}
	}
	for path, want := range map[string]string{
		"/large":  "the response is larger than 1000 bytes",
		"/bomb":   "the response is larger than 1000 bytes",
		"/binary": `the response (content type "image/png") is not UTF-8 text`,
	} {
		_, err := call(t.Context(), t, private, args{"url": s.URL + path})
		checkError(t, err, "GET "+s.URL+path, want)
		if f := failureOf(t, err); f.Reason != "" || f.Status != 200 || !f.Sent {
			t.Errorf("%s: failure %+v", path, f)
		}
	}
}

func TestHTTPRequestNetworkFailures(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	hangUp := serve(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	half := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		io.WriteString(w, "half")
	})
	secure := httptest.NewUnstartedServer(nil)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	for _, tt := range []struct {
		name, url string
		reason    retry.Reason
		sent      bool
	}{
		{"nobody listens", gone.URL, retry.Network, false},
		{"no such host", "http://no-such-host.invalid", retry.Network, false},
		{"the server hangs up", hangUp.URL, retry.Network, true},
		{"the body breaks off", half.URL, retry.Network, true},
		{"a certificate of nobody we know", secure.URL, "", false},
	} {
		_, err := call(t.Context(), t, private, args{"url": tt.url + "?token"})
		checkError(t, err, "GET "+tt.url)
		if f := failureOf(t, err); f.Reason != tt.reason || f.Sent != tt.sent || strings.Contains(err.Error(), "token") {
			t.Errorf("%s: failure %+v", tt.name, f)
		}
	}
}

func TestHTTPRequestTimeout(t *testing.T) {
	done := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			w.(http.Flusher).Flush()
		}
		<-done
	})
	defer close(done)
	short := builtin.HTTPRequest(builtin.HTTPOptions{AllowPrivate: true, Timeout: 20 * time.Millisecond})
	for _, a := range []args{
		{"url": s.URL},
		{"url": s.URL + "/body"},
		{"url": s.URL, "timeout": "20ms"},
	} {
		tool := short
		if a["timeout"] != nil {
			tool = private
		}
		_, err := call(t.Context(), t, tool, a)
		checkError(t, err, "GET "+s.URL, "timed out after 20ms")
		if f := failureOf(t, err); f.Reason != retry.Timeout || !f.Sent || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v: failure %+v", a, f)
		}
	}
}

func TestHTTPRequestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	s := serve(t, func(http.ResponseWriter, *http.Request) { cancel(); <-done })
	defer close(done)
	_, err := call(ctx, t, private, args{"url": s.URL})
	if f := failureOf(t, err); !errors.Is(err, context.Canceled) || f.Reason != "" || !f.Sent {
		t.Errorf("failure %+v", f)
	}
}
