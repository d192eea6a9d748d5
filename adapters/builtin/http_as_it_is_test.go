package builtin_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// trust 8.19: what is written is sent as it is, but for characters that no URL may hold, and query is encoded.
func TestHTTPRequestURL(t *testing.T) {
	var got string
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { got = r.RequestURI })
	for _, tt := range []struct {
		url   string
		query any
		want  string
	}{
		{"/a%2Fb/c+d;e=f?x=a+b&y=%26&&z[]=1#part", nil, "/a%2Fb/c+d;e=f?x=a+b&y=%26&&z[]=1"},
		{"/über uns?q=zwei Wörter", nil, "/%C3%BCber%20uns?q=zwei%20W%C3%B6rter"},
		{"/50%?q=100%&r=%zz&s=%4", nil, "/50%25?q=100%25&r=%25zz&s=%254"},
		{"/a|b<c>?{d}^\"e\"\\`", nil, "/a%7Cb%3Cc%3E?%7Bd%7D%5E%22e%22%5C%60"},
		{"", args{"q": "R&D #1 + 2"}, "/?q=R%26D%20%231%20%2B%202"},
		{"/?", args{"n": 1.5, "big": 12345678901, "yes": true}, "/?big=12345678901&n=1.5&yes=true"},
		{"/?a=1#end", args{"tag": []any{"x", "y&z", 3, nil}, "none": nil, "no": []any{}}, "/?a=1&tag=x&tag=y%26z&tag=3"},
		{"/", args{"naïve key": "ß"}, "/?na%C3%AFve%20key=%C3%9F"},
	} {
		a := args{"url": s.URL + tt.url}
		if tt.query != nil {
			a["query"] = tt.query
		}
		if _, err := call(t.Context(), t, private, a); err != nil {
			t.Errorf("%s: %v", tt.url, err)
		} else if got != tt.want {
			t.Errorf("%s with %v: the server saw %s, want %s", tt.url, tt.query, got, tt.want)
		}
	}
	_, err := call(t.Context(), t, private, args{"url": s.URL, "query": args{"q": []any{args{}}}})
	checkError(t, err, "query: a value is a string, a number, a boolean or a list of these")
	_, err = call(t.Context(), t, private, args{"url": s.URL + "/a\nb"})
	checkError(t, err, "url: net/url: invalid control character in URL")
}

// trust 8.19: bodies are decoded, and headers that occur several times are lists.
func TestHTTPRequestDecodes(t *testing.T) {
	for _, tt := range []struct {
		name, kind, body, want string
		json                   any // nil: none
	}{
		{"latin 1", "text/plain; charset=ISO-8859-1", "caf\xe9", "café", nil},
		{"windows", `text/html; charset="windows-1252"`, "\x80 5", "€ 5", nil},
		{"shift-jis", "text/plain;charset=Shift_JIS", "\x93\xfa\x96\x7b", "日本", nil},
		{"utf-16 with a mark", "text/plain; charset=utf-16", "\xff\xfeh\x00i\x00", "hi", nil},
		{"utf-16 without", "text/plain; charset=UTF-16", "\x00h\x00i", "hi", nil},
		{"a mark goes before the charset", "text/plain; charset=iso-8859-1", "\xef\xbb\xbf\xc3\xa9", "é", nil},
		{"json with a mark", "application/json", "\xef\xbb\xbf{\"a\":1}", `{"a":1}`, map[string]any{"a": 1.0}},
		{"json in latin 1", "application/json; charset=latin1", "\"\xe9\"", `"é"`, "é"},
		{"type that cannot be read", "text/plain; charset", "é", "é", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", tt.kind)
				w.Header()["X-Two"] = []string{"1", "2, 3"}
				w.Header().Set("Set-Cookie", "a=1, b")
				io.WriteString(w, tt.body)
			})
			got, err := call(t.Context(), t, private, args{"url": s.URL})
			if err != nil {
				t.Fatal(err)
			}
			headers := got["headers"].(map[string]any)
			if diff := cmp.Diff([]any{[]any{"1", "2, 3"}, []any{"a=1, b"}, tt.kind},
				[]any{headers["x-two"], headers["set-cookie"], headers["content-type"]}); diff != "" {
				t.Errorf("headers (-want +got)\n%s", diff)
			}
			if got["body"] != tt.want || !cmp.Equal(got["json"], tt.json) {
				t.Errorf("body %q, json %v; want %q, %v", got["body"], got["json"], tt.want, tt.json)
			}
			if _, ok := got["json"]; ok != (tt.json != nil) {
				t.Errorf("json is there: %v", ok)
			}
		})
	}
	for kind, want := range map[string]string{
		"text/plain; charset=klingon": `GET http://HOST/: the response is in charset "klingon", which is not known`,
		"text/plain":                  `the response (content type "text/plain") is not UTF-8 text`,
		"text/plain; charset=utf-8":   `is not UTF-8 text`,
	} {
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", kind)
			io.WriteString(w, "\xe9")
		})
		_, err := call(t.Context(), t, private, args{"url": s.URL + "/"})
		checkError(t, err, strings.ReplaceAll(want, "HOST", strings.TrimPrefix(s.URL, "http://")))
		if f := failureOf(t, err); f.Reason != "" || !f.Sent || f.Status != http.StatusOK {
			t.Errorf("%s: %+v", kind, f)
		}
	}
}
