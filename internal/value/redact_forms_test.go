package value_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/braise-run/braise/internal/seedtest"
	"github.com/braise-run/braise/internal/value"
)

// pem is a secret of several lines, like a key in a file.
const pem = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\nBKcwggSjAgEAAoIBAQC7VJTUt9Us8cKj\nshort\n-----END PRIVATE KEY-----\n"

func encodeJSON(s string, forHTML bool) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(forHTML)
	if err := e.Encode(s); err != nil {
		panic(err)
	}
	text := strings.TrimSuffix(b.String(), "\n")
	return text[1 : len(text)-1]
}

func percent(s, format string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		fmt.Fprintf(&b, format, c)
	}
	return b.String()
}

// broken breaks a text into lines.
func broken(s string, width int, end string) string {
	var b strings.Builder
	for len(s) > width {
		b.WriteString(s[:width] + end)
		s = s[width:]
	}
	return b.String() + s
}

// written are the forms in which a secret may come back. Around each of them nothing of it may be left.
func written(secret string) map[string]string {
	entities := strings.NewReplacer("<", "&lt;", ">", "&gt;", "&", "&amp;", `"`, "&quot;", "'", "&#x27;")
	return map[string]string{
		"as it is":              secret,
		"trimmed":               strings.TrimSpace(secret),
		"CRLF":                  strings.ReplaceAll(secret, "\n", "\r\n"),
		"JSON":                  encodeJSON(secret, false),
		"JSON for HTML":         encodeJSON(secret, true),
		"JSON with slashes":     strings.ReplaceAll(encodeJSON(secret, false), "/", `\/`),
		"JSON in ASCII":         quoted(strconv.QuoteToASCII(secret)),
		"JSON, all escaped":     utf16s(secret),
		"Go":                    quoted(strconv.Quote(secret)),
		"HTML":                  html.EscapeString(secret),
		"HTML with names":       entities.Replace(secret),
		"URL query":             url.QueryEscape(secret),
		"URL path":              url.PathEscape(secret),
		"URL, lower case":       strings.ToLower(percent(secret, "%%%02X")),
		"URL, all escaped":      percent(secret, "%%%02X"),
		"URL, as JavaScript's":  strings.NewReplacer("+", "%20", "%21", "!", "%27", "'", "%28", "(", "%29", ")", "%2A", "*").Replace(url.QueryEscape(secret)),
		"hex":                   hex.EncodeToString([]byte(secret)),
		"hex, upper case":       strings.ToUpper(hex.EncodeToString([]byte(secret))),
		"hex in lines":          broken(hex.EncodeToString([]byte(secret)), 60, "\n"),
		"a list of bytes":       strings.Trim(fmt.Sprint([]byte(secret)), "[]"),
		"a list in JSON":        strings.ReplaceAll(strings.Trim(fmt.Sprint([]byte(secret)), "[]"), " ", ","),
		"a list in Python":      strings.ReplaceAll(strings.Trim(fmt.Sprint([]byte(secret)), "[]"), " ", ", "),
		"hex with colons":       strings.ReplaceAll(fmt.Sprintf("% x", secret), " ", ":"),
		"CRLF in JSON":          encodeJSON(strings.ReplaceAll(secret, "\n", "\r\n"), true),
		"trimmed, URL":          url.QueryEscape(strings.TrimSpace(secret)),
		"in part escaped (URL)": secret[:3] + percent(secret[3:], "%%%02x"),
	}
}

func quoted(s string) string { return s[1 : len(s)-1] }

// utf16s escapes every character as JSON may.
func utf16s(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r > 0xffff {
			b.WriteString(fmt.Sprintf(`\u%04x\u%04x`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff))
			continue
		}
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return b.String()
}

// checkForms checks that no form of a secret survives between other text.
func checkForms(t *testing.T, secret string) {
	t.Helper()
	r := value.NewRedactor([]string{secret})
	for name, form := range written(secret) {
		got := r.Text("\t(" + form + ")\t")
		got = strings.NewReplacer("\r", "", "\n", "", " ", "", `\n`, "", `\r`, "", "%0A", "", "%0a", "", "+", "").Replace(got)
		if got != "\t(***)\t" {
			t.Errorf("trust 6.7 %s of %q: %q gave %q", name, secret, form, got)
		}
	}
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.RawURLEncoding} {
		for before := range 4 {
			for _, width := range []int{1, 4, 7, 60, 64, 76, 1000} {
				for _, end := range []string{"\n", "\r\n", `\n`, `\r\n`, "\n    ", "\n\t"} {
					code := broken(enc.EncodeToString([]byte(strings.Repeat("x", before)+secret+"yz")), width, end)
					left := strings.NewReplacer(value.Redacted, "", `\r`, "", `\n`, "", "\r", "", "\n", "", " ", "", "\t", "", "=", "").Replace(r.Text("(" + code + ")"))
					if len(left)-2 > before*8/6+3 { // characters that hold bits of the other text alone
						t.Fatalf("trust 6.7 base64 in lines of %d, ended by %q: %q is left of %q", width, end, left, code)
					}
				}
			}
		}
	}
}

func TestRedactorForms(t *testing.T) {
	for _, secret := range []string{secret, "hunter2hunter2", `back\slash "quoted" 'key'`, "päß-wörd-🔑-ключ", "  padded-secret-value \n", "with two  spaces, tab"} {
		checkForms(t, secret)
	}
}

// Random secrets between random text.
func TestRedactorFormsOfAnySecret(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	alphabet := []rune(`abcXYZ0189+/=-_.~%&<>"'\ {}!*()#?äß€🔑`)
	for range 300 {
		secret := make([]rune, 8+random.IntN(40))
		for i := range secret {
			secret[i] = alphabet[random.IntN(len(alphabet))]
		}
		if s := string(secret); len(strings.TrimSpace(s)) >= 8 {
			checkForms(t, strings.TrimSpace(s))
		}
		if t.Failed() {
			return
		}
	}
}

func TestRedactorLines(t *testing.T) {
	for _, ends := range []string{"\n", "\r\n"} {
		secret := strings.ReplaceAll(pem, "\n", ends)
		r := value.NewRedactor([]string{secret})
		for _, tt := range []struct{ name, in, want string }{
			{"whole", "<" + pem + ">", "<***>"},
			{"whole, CRLF", "<" + strings.ReplaceAll(pem, "\n", "\r\n") + ">", "<***>"},
			{"trimmed", "<" + strings.TrimSpace(pem) + ">", "<***>"},
			{"a line", "key=MIIEvQIBADANBgkqhkiG9w0BAQEFAASC.", "key=***."},
			{"a line in base64", "key=" + base64.StdEncoding.EncodeToString([]byte("MIIEvQIBADANBgkqhkiG9w0BAQEFAASC")), "key=***"},
			{"folded", "<" + strings.Join(strings.Fields(pem), " ") + ">", "<***>"},
			{"without line ends", "<" + strings.ReplaceAll(pem, "\n", "") + ">", "<***>"},
			{"indented", strings.ReplaceAll(pem, "\n", "\n  "), "***\n  ***\n  ***\n  short\n  ***\n  "},
			{"in JSON", encodeJSON(pem, true), `***`},
			{"a line of less than 8 bytes", "short", "short"},
		} {
			if got := r.Text(tt.in); got != tt.want {
				t.Errorf("trust 6.7 %s: %q gave %q, want %q", tt.name, tt.in, got, tt.want)
			}
		}
	}
}

// Lines that are too short to count by themselves go where they stand together.
func TestRedactorShortLines(t *testing.T) {
	r := value.NewRedactor([]string{"  abcdefg\r\nhijklmn\r\n  opq\r\n"})
	for _, form := range []string{"abcdefg hijklmn opq", "abcdefghijklmnopq", "abcdefg%20hijklmn%20opq",
		base64.StdEncoding.EncodeToString([]byte("abcdefg hijklmn opq"))} {
		if got := r.Text("key=" + form); got != "key=***" {
			t.Errorf("trust 6.7: %q gave %q", form, got)
		}
	}
	if got := r.Text("abcdefg, opq"); got != "abcdefg, opq" {
		t.Errorf("lines of less than 8 bytes: %q", got)
	}
}

// What was cut off may have been the rest of a secret.
func TestRedactorMiddle(t *testing.T) {
	const key = "topsecret-key-42"
	r := value.NewRedactor([]string{key, pem})
	other := strings.Repeat("other text, ", 200)
	for _, form := range []string{key, base64.StdEncoding.EncodeToString([]byte("x" + key)), percent(key, "%%%02X"),
		broken(base64.StdEncoding.EncodeToString([]byte(pem)), 20, "\n"), pem, encodeJSON(pem, true)} {
		whole := other + form + other
		for at := len(other); at <= len(other)+len(form); at++ {
			for _, tt := range []struct{ name, got string }{
				{"no end", r.Middle(whole[:at], false, true)}, {"no beginning", r.Middle(whole[at:], true, false)},
			} {
				left := strings.ReplaceAll(tt.got, value.Redacted, "")
				if !strings.Contains(other+other, strings.TrimSpace(left)) {
					t.Fatalf("trust 6.7 %s, cut after %d bytes of %q: %q is left", tt.name, at-len(other), form, left)
				}
			}
		}
	}
	if got := r.Middle("short", true, true); got != "" {
		t.Errorf("%q is left of what may be the middle of a secret", got)
	}
	if got := r.Middle("a "+key+" b", false, false); got != "a *** b" {
		t.Errorf("nothing was cut off: %q", got)
	}
	if got := (*value.Redactor)(nil).Middle("as it is", true, true); got != "as it is" {
		t.Errorf("without secrets: %q", got)
	}
}

// A large output with many secrets takes time in proportion to its length: were it not so, this test would not end.
func TestRedactorLarge(t *testing.T) {
	var secrets []string
	for i := range 20 {
		secrets = append(secrets, fmt.Sprintf("secret-%02d-%s", i, strings.Repeat(string(rune('a'+i)), 30)), strings.Replace(pem, "MII", fmt.Sprintf("MII%02d", i), 1))
	}
	r := value.NewRedactor(secrets)
	const size = 16 << 20
	for name, part := range map[string]string{
		"clean":        "The quick brown fox jumps over the lazy dog, 1 + 2 = 3.\n",
		"escapes":      `\n%20&amp;\u0061 and `,
		"line ends":    "\r\n\n  \n",
		"beginnings":   strings.Repeat("a", 29) + " secret-0",
		"of one byte":  "a",
		"some secrets": "x " + secrets[0] + "\n" + strings.Repeat("some other text ", 200),
	} {
		text := strings.Repeat(part, size/len(part))
		if got, want := strings.Count(r.Text(text), value.Redacted), strings.Count(text, secrets[0]); got != want {
			t.Errorf("trust 6.7 %s: %d times redacted, want %d", name, got, want)
		}
	}
}

func FuzzRedactor(target *testing.F) {
	f := seedtest.Fuzz(target)
	f.Add(secret, "before ", " after")
	f.Add(pem, "", "")
	f.Add("hunter2hunter2", "%", "\n")
	f.Add("aaaaaaaa", "a", "&#x61;")
	f.Add("00\xff\xff}\xc8%L", "", strings.Repeat("\xa1", 40))
	f.Fuzz(func(t *testing.T, secret, before, after string) {
		if len(strings.TrimSpace(secret)) < 8 || len(secret) > 200 {
			return
		}
		r := value.NewRedactor([]string{secret})
		for name, form := range map[string]string{
			"as it is": secret, "base64": base64.StdEncoding.EncodeToString([]byte(secret)), "URL": percent(secret, "%%%02X"),
			"hex": hex.EncodeToString([]byte(secret)), "HTML": html.EscapeString(secret),
		} {
			got := r.Text(before + form + after)
			if strings.Contains(got, form) && !strings.Contains(value.Redacted+before+value.Redacted+after+value.Redacted, form) {
				t.Errorf("%s of %q survives in %q", name, secret, got)
			}
			s, live := r.Stream(), ""
			for rest := before + form + after; rest != ""; {
				n := min(5, len(rest))
				live, rest = live+s.Next(rest[:n]), rest[n:]
			}
			if live += s.Rest(); strings.Contains(live, form) != strings.Contains(got, form) {
				t.Errorf("%s of %q in pieces: %q, want %q", name, secret, live, got)
			}
		}
	})
}
