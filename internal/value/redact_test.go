package value_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/internal/value"
)

const secret = `s3cr3t/+"<& é=key`

func TestRedactorText(t *testing.T) {
	quoted, err := json.Marshal(secret)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := value.JSON(secret)
	if err != nil {
		t.Fatal(err)
	}
	forms := map[string]string{
		"raw":               secret,
		"base64":            base64.StdEncoding.EncodeToString([]byte(secret)),
		"base64 unpadded":   base64.RawStdEncoding.EncodeToString([]byte(secret)),
		"base64 URL":        base64.URLEncoding.EncodeToString([]byte(secret)),
		"base64 URL raw":    base64.RawURLEncoding.EncodeToString([]byte(secret)),
		"query":             url.QueryEscape(secret),
		"query, lower case": strings.NewReplacer("%2F", "%2f", "%2B", "%2b", "%3C", "%3c", "%C3%A9", "%c3%a9", "%3D", "%3d").Replace(url.QueryEscape(secret)),
		"path":              url.PathEscape(secret),
		"JSON":              strings.Trim(string(plain), `"`),
		"JSON for HTML":     string(quoted[1 : len(quoted)-1]),
	}
	r := value.NewRedactor([]string{"", secret})
	for name, form := range forms {
		got := r.Text("a " + form + " b")
		if got != "a *** b" {
			t.Errorf("%s: %q gave %q", name, form, got)
		}
	}
	for _, s := range []string{"", "a", "nothing here", secret[1:], "s3"} {
		if got := r.Text(s); got != s {
			t.Errorf("%q became %q", s, got)
		}
	}
}

// A secret inside a longer base64 text is found whatever stands before and after, and too little
// is left to tell a byte of it.
func TestRedactorBase64Alignment(t *testing.T) {
	const key = "topsecret-key-42"
	r := value.NewRedactor([]string{key})
	for before := range 4 {
		for after := range 4 {
			text := strings.Repeat("u", before) + key + strings.Repeat("v", after)
			for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawURLEncoding} {
				got := r.Text(enc.EncodeToString([]byte(text)))
				if strings.Count(got, "***") != 1 || len(got) > before/3*4+2+3+(after+2)/3*4+2 {
					t.Errorf("%q gave %q", text, got)
				}
			}
		}
	}
}

func TestRedactorOverlap(t *testing.T) {
	r := value.NewRedactor([]string{"abcdefgh", "efghijkl", "abcdefghij", "aaaaaaaa"})
	tests := []struct{ in, want string }{
		{"xabcdefghijklx", "x***x"},
		{"abcdefghij", "***"},
		{"abcdefgh efghijkl", "*** ***"},
		{"aaaaaaaaaaaa", "***"},
	}
	for _, tt := range tests {
		if got := r.Text(tt.in); got != tt.want {
			t.Errorf("%q gave %q, want %q", tt.in, got, tt.want)
		}
	}
}

func TestRedactorValue(t *testing.T) {
	r := value.NewRedactor([]string{"hunter2hunter2", "1234567890"})
	in := map[string]any{
		"clean":             []any{int64(1), "x"},
		"dirty":             []any{"ok", "the key is hunter2hunter2"},
		"number":            int64(91234567890),
		"large":             json.Number("912345678900000000000"), // trust 8.8
		"a hunter2hunter2":  int64(1),
		"a hunter2hunter2 ": int64(2),
	}
	before := value.Clone(in)
	want := map[string]any{
		"clean":  []any{int64(1), "x"},
		"dirty":  []any{"ok", "the key is ***"},
		"number": "9***",
		"large":  "9***0000000000",
		"a ***":  int64(1),
		"a *** ": int64(2),
	}
	if diff := cmp.Diff(want, r.Value(in)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, any(in)); diff != "" {
		t.Errorf("the argument was changed (-before +after):\n%s", diff)
	}
	same := map[string]any{"hunter2hunter2": "a", "***": "b"}
	if diff := cmp.Diff(map[string]any{"***": "b", "***2": "a"}, r.Value(same)); diff != "" {
		t.Errorf("names that become the same (-want +got):\n%s", diff)
	}

	var clean any = map[string]any{"a": []any{"x", int64(42), nil}}
	if n := testing.AllocsPerRun(10, func() { clean = value.NewRedactor(nil).Value(clean) }); n != 0 {
		t.Errorf("no secrets: %v allocations", n)
	}
	r = value.NewRedactor([]string{"hunter2hunter2"})
	if n := testing.AllocsPerRun(10, func() { clean = r.Value(clean) }); n != 0 {
		t.Errorf("a clean value: %v allocations", n)
	}
}

func TestRedactorError(t *testing.T) {
	r := value.NewRedactor([]string{"hunter2hunter2"})
	cause := &fs.PathError{Op: "open", Path: "/keys/hunter2hunter2", Err: fs.ErrNotExist}
	tests := []struct {
		name string
		err  error
		want string
	}{
		{"in the message", fmt.Errorf("reading: %w", cause), "reading: open /keys/***: file does not exist"},
		{"in a cause only", quiet{cause}, "something failed"},
		{"joined", errors.Join(errors.New("first"), cause), "first\nopen /keys/***: file does not exist"},
	}
	for _, tt := range tests {
		got := r.Error(tt.err)
		if got.Error() != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		for e := got; e != nil; e = errors.Unwrap(e) {
			if s := fmt.Sprintf("%v %+v %#v %q", e, e, e, e); strings.Contains(s, "hunter2") {
				t.Errorf("%s: the chain shows the secret: %s", tt.name, s)
			}
		}
		if !errors.Is(got, fs.ErrNotExist) {
			t.Errorf("%s: errors.Is does not reach the cause", tt.name)
		}
		if p, ok := errors.AsType[*fs.PathError](got); !ok || p.Op != "open" {
			t.Errorf("%s: errors.As does not reach the cause", tt.name)
		}
	}
	clean := errors.New("clean")
	if got := r.Error(clean); got != clean {
		t.Errorf("a clean error became %v", got)
	}
	if got := r.Error(nil); got != nil {
		t.Errorf("nil became %v", got)
	}
	var none *value.Redactor
	if got := none.Error(cause); got != error(cause) {
		t.Errorf("without secrets the error became %v", got)
	}
	if none.Text("x") != "x" || none.Value("x") != "x" {
		t.Error("a nil Redactor changed something")
	}
}

// quiet hides what its cause says.
type quiet struct{ err error }

func (quiet) Error() string   { return "something failed" }
func (q quiet) Unwrap() error { return q.err }

func BenchmarkRedactorClean(b *testing.B) {
	b.ReportAllocs()
	r := value.NewRedactor([]string{"hunter2hunter2", "sk-abcdefghijklmnopqrstuvwx", "another-secret"})
	for b.Loop() {
		r.Value(sample)
	}
}

func BenchmarkRedactorText(b *testing.B) {
	b.ReportAllocs()
	r := value.NewRedactor([]string{"hunter2hunter2", "sk-abcdefghijklmnopqrstuvwx", "another-secret"})
	s := strings.Repeat("The quick brown fox jumps over the lazy dog. ", 100)
	b.SetBytes(int64(len(s)))
	for b.Loop() {
		r.Text(s)
	}
}

func TestRedactorStream(t *testing.T) {
	other := "correct horse battery"
	r := value.NewRedactor([]string{secret, other})
	encoded := base64.StdEncoding.EncodeToString([]byte("x" + other + "yz"))
	text := "é before " + secret + " ü between " + encoded + " é " + url.QueryEscape(secret) + ", half of one: " + other[:12] + ", " + other
	want := r.Text(text)
	if strings.Count(want, value.Redacted) != 4 {
		t.Fatalf("the text to compare with: %s", want)
	}
	for size := 1; size < len(text); size++ { // pieces may end within a character
		s, got := r.Stream(), ""
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			piece := s.Next(rest[:n])
			got, rest = got+piece, rest[n:]
		}
		if got += s.Rest(); got != want {
			t.Errorf("pieces of %d bytes: %q, want %q", size, got, want)
		}
	}
	var none *value.Redactor
	s := none.Stream()
	if got := s.Next("a") + s.Rest(); got != "a" {
		t.Errorf("without secrets: %q", got)
	}
}
