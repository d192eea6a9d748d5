package builtin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/braise-run/braise/internal/value"
)

// address is the URL of a request: as the arguments have it, with the query added. The errors do not have the URL,
// which may hold a secret.
func (in httpArgs) address() (*url.URL, error) {
	u, err := url.Parse(escaped(in.URL))
	if err != nil {
		if urlErr, ok := errors.AsType[*url.Error](err); ok {
			err = urlErr.Err
		}
		return nil, fmt.Errorf("url: %w", err)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return nil, fmt.Errorf("url %q is not like %q", shown(u), "https://example.com/path")
	}
	pairs := []string{u.RawQuery}
	if u.RawQuery == "" {
		pairs = nil
	}
	for _, name := range value.SortedKeys(in.Query) {
		for _, text := range in.Query[name] {
			pairs = append(pairs, value.QueryEscape(name)+"="+value.QueryEscape(text))
		}
	}
	u.RawQuery = strings.Join(pairs, "&")
	return u, nil
}

// escaped returns a URL in which the characters behind the host that no URL may hold are escaped. The rest stays as it
// is; what is wrong with it, a parser says.
func escaped(text string) string {
	from := strings.Index(text, "://") + len("://")
	if from < len("://") {
		return text
	}
	if n := strings.IndexAny(text[from:], "/?#"); n >= 0 {
		from += n
	} else {
		return text
	}
	var b strings.Builder
	b.WriteString(text[:from])
	for i := from; i < len(text); i++ {
		c := text[i]
		isEscape := c == '%' && i+2 < len(text) && isHex(text[i+1]) && isHex(text[i+2])
		isControl := c < ' ' || c == 0x7f // refused by the parser
		if isEscape || isControl || c > ' ' && c < 0x7f && !strings.ContainsRune("%\"<>\\^`{|}", rune(c)) {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

func isHex(c byte) bool { return strings.IndexByte("0123456789abcdefABCDEF", c) >= 0 }

// texts are the values of one name of a query: a scalar, or a list of them. Null is none.
type texts []string

func (t *texts) UnmarshalJSON(text []byte) error {
	v, err := value.Decode(json.RawMessage(text))
	if err != nil {
		return err
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	*t = texts{}
	for _, v := range list {
		switch v.(type) {
		case nil:
			continue
		case map[string]any, []any:
			return fmt.Errorf("query: a value is a string, a number, a boolean or a list of these, not %s",
				value.TypeName(v))
		}
		s, err := value.Text(v)
		if err != nil {
			return err
		}
		*t = append(*t, s)
	}
	return nil
}
