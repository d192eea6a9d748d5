package builtin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/htmlindex"
	"golang.org/x/text/encoding/unicode"
)

// header is the value of a header, or a list: of a name that occurs several times, and of Set-Cookie.
func header(name string, values []string) any {
	for i := range values {
		values[i] = strings.ToValidUTF8(values[i], "\uFFFD")
	}
	if len(values) == 1 && name != "Set-Cookie" {
		return values[0]
	}
	return values
}

// decoded returns a body as UTF-8 text, without a byte order mark. The mark says what the encoding is, else the charset
// of the content type; without either it is UTF-8.
func decoded(h http.Header, body []byte) ([]byte, error) {
	kind := h.Get("Content-Type")
	_, params, _ := mime.ParseMediaType(kind) // one that cannot be read says nothing
	charset := params["charset"]
	switch {
	case bytes.HasPrefix(body, []byte("\uFEFF")):
		charset = ""
	case bytes.HasPrefix(body, []byte{0xFE, 0xFF}):
		charset = "utf-16be"
	case bytes.HasPrefix(body, []byte{0xFF, 0xFE}):
		charset = "utf-16le"
	}
	switch strings.ToLower(charset) {
	case "", "utf-8", "utf8", "us-ascii", "ascii":
	case "utf-16": // without a mark: RFC 2781, 4.3
		return unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM).NewDecoder().Bytes(body)
	default:
		encoding, err := htmlindex.Get(charset)
		if err != nil {
			return nil, fmt.Errorf("the response is in charset %q, which is not known", charset)
		}
		if body, err = encoding.NewDecoder().Bytes(body); err != nil {
			return nil, fmt.Errorf("the response is not in charset %q: %w", charset, err)
		}
	}
	if !utf8.Valid(body) {
		return nil, fmt.Errorf("the response (content type %q) is not UTF-8 text", kind)
	}
	return bytes.TrimPrefix(body, []byte("\uFEFF")), nil
}

// asJSON is the body if the headers call it JSON (RFC 6839 for +json) and it is; nil: the result has no json.
func asJSON(h http.Header, body []byte) json.RawMessage {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err == nil && (media == "application/json" || media == "text/json" || strings.HasSuffix(media, "+json")) &&
		json.Valid(body) {
		return body
	}
	return nil
}
