package serve

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
)

// call is one request for a route.
type call struct {
	*api
	*route
	w     http.ResponseWriter
	r     *http.Request
	who   *person // not nil if the route has roles
	query url.Values
	clock *time.Timer // ends the context of r after storeTime; stopped while the call waits for something else
}

// storeTime is how long the store may take for a request.
const storeTime = 5 * time.Second

var errSlowStore = fmt.Errorf("the store took more than %v", storeTime)

// begin begins a call, and the time that it has for the store. The call must be ended.
func (a *api) begin(of *route, w http.ResponseWriter, r *http.Request) (c *call, end func()) {
	ctx, cancel := context.WithCancelCause(r.Context())
	c = &call{api: a, route: of, w: w, r: r.WithContext(ctx)}
	c.clock = time.AfterFunc(storeTime, func() { cancel(errSlowStore) })
	return c, func() {
		c.clock.Stop()
		cancel(nil)
	}
}

// late makes an error of a call whose time is over the failure of the store that it is.
func (c *call) late(err error) error {
	_, known := errors.AsType[*problem](err)
	if err == nil || known || context.Cause(c.r.Context()) != errSlowStore {
		return err
	}
	return &runtime.Error{Category: runtime.CategoryInfra, Code: checkpoint.Code(errSlowStore),
		Err: fmt.Errorf("%w: %v", errSlowStore, err)}
}

// by is who sends the request, as runs record it; "": nobody that is known.
func (c *call) by() string {
	if c.who == nil {
		return ""
	}
	return c.who.name
}

// reply answers with JSON.
func (c *call) reply(status int, v any) error {
	writeJSON(c.w, status, v)
	return nil
}

// writeJSON writes a body, for which the status must allow one.
func writeJSON(w http.ResponseWriter, status int, v any) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(err) // our own types encode
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(b.Len()))
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // who has left needs no answer
}

// checkQuery refuses parameters that the route does not have, and values that they cannot have.
func (c *call) checkQuery() error {
	q, err := url.ParseQuery(c.r.URL.RawQuery)
	if err != nil {
		return malformed("request.parameter", "the query cannot be read: %v", err)
	}
	for _, name := range value.SortedKeys(q) {
		i := slices.IndexFunc(c.params, func(p param) bool { return p.name == name && p.in == "query" })
		if i < 0 {
			return malformed("request.parameter", "unknown parameter %.40q\n  hint: %s", name,
				suggest(name, c.names("query"), "this route has none of that name"))
		}
		p := c.params[i]
		if len(q[name]) > 1 && !p.many {
			return malformed("request.parameter", "parameter %q is given twice", name)
		}
		for _, v := range q[name] {
			if err := p.check(v); err != nil {
				return err
			}
		}
	}
	c.query = q
	return nil
}

// names returns the names of parameters.
func (r *route) names(in string) (all []string) {
	for _, p := range r.params {
		if p.in == in {
			all = append(all, p.name)
		}
	}
	return all
}

// checkPath refuses ids that no run can have.
func (c *call) checkPath() error {
	for _, p := range c.params {
		if p.in == "path" && p.name == "id" && !isID(c.r.PathValue("id")) {
			return notID(c.r.PathValue("id"))
		}
	}
	return nil
}

func notID(text string) error {
	return malformed("request.id", "%.40q is not the id of a run"+
		"\n  hint: an id has up to 128 letters, digits, and - _ .", text)
}

func isID(s string) bool {
	if s == "" || len(s) > 128 || strings.ContainsRune("-_.", rune(s[0])) {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_.", r))
	})
}

// number returns a parameter, or what it is by default.
func (c *call) number(name string, usual int) int {
	n, err := strconv.Atoi(c.query.Get(name))
	if err != nil {
		return usual
	}
	return n
}

// flag reports whether a parameter is true.
func (c *call) flag(name string) bool { return c.query.Get(name) == "true" }

// time returns a parameter; zero: it is not given.
func (c *call) time(name string) time.Time {
	t, _ := time.Parse(time.RFC3339Nano, c.query.Get(name))
	return t.UTC()
}

// header returns a header of which there may be one at most.
func (c *call) header(name string) (text string, given bool, err error) {
	switch values := c.r.Header.Values(name); {
	case len(values) > 1:
		return "", false, malformed("request.parameter", "the header %s is given twice\n  hint: send it once", name)
	case len(values) == 1:
		return values[0], true, nil
	}
	return "", false, nil
}

// checkHeaders refuses headers that ask for what the route does not do.
func (c *call) checkHeaders() error {
	const key = "Idempotency-Key"
	if c.changes() && !c.foreign && c.r.Header.Values(key) != nil && !slices.Contains(c.names("header"), key) {
		return malformed("request.parameter", "this route takes no header %s\n  hint: leave it out; "+
			"starts and forks have it, and a pause takes one answer", key)
	}
	return nil
}

// bodyTime is how long the body of a request may take.
const bodyTime = 30 * time.Second

// bytes reads the body.
func (c *call) bytes() ([]byte, error) {
	c.clock.Stop()
	defer c.clock.Reset(storeTime)
	out := http.NewResponseController(c.w)
	if out.SetReadDeadline(time.Now().Add(bodyTime)) == nil {
		defer func() { _ = out.SetReadDeadline(time.Time{}) }() // the connection may serve more
	}
	data, err := io.ReadAll(http.MaxBytesReader(c.w, c.r.Body, c.maxBody))
	if large := new(http.MaxBytesError); errors.As(err, &large) {
		return nil, fail(http.StatusRequestEntityTooLarge, "request.tooLarge", "the body has more than %d bytes",
			large.Limit)
	} else if err != nil {
		return nil, malformed("request.body", "the body cannot be read: %v", err)
	}
	return data, nil
}

// decodeBody decodes the JSON of a body. One whose values take more memory than a run may is not decoded.
func decodeBody(data []byte) (any, error) {
	if value.WeightOfText(data) > runtime.DefaultMaxRunBytes {
		return nil, fail(http.StatusRequestEntityTooLarge, "request.tooLarge", "the values of the body take more than "+
			"%d bytes of memory\n  hint: send less; no limit of the server allows more", runtime.DefaultMaxRunBytes)
	}
	v, err := value.DecodeStrict(data)
	if err == nil {
		return v, nil
	}
	p := malformed("request.body", "the body cannot be read: %v", err)
	p.Hint = "correct it there; JSON is as RFC 8259 has it, with each member once"
	return nil, p
}

// body reads the body into v, which is a pointer to what the route takes. A body is JSON that matches its schema; one
// that is left out is {}.
func (c *call) body(v any) error {
	data, err := c.bytes()
	if err != nil {
		return err
	}
	if len(data) == 0 {
		data = []byte("{}")
	}
	decoded, err := decodeBody(data)
	if err != nil {
		return err
	}
	if problems := bodySchema(c.takes).Check(decoded); problems != nil {
		p := malformed("request.body", "the body: %s", schema.Describe(problems))
		for _, wrong := range problems {
			if tokens := value.Tokens(wrong.Path); wrong.Known != nil && len(tokens) > 0 {
				p.Hint = cmp.Or(diagnostics.DidYouMean(tokens[len(tokens)-1], wrong.Known), p.Hint)
				break
			}
		}
		return p
	}
	if err := json.Unmarshal(data, v); err != nil {
		return malformed("request.body", "the body: %v", err)
	}
	return nil
}

// noBody refuses a body where the route takes none; {} says nothing.
func (c *call) noBody() error {
	data, err := c.bytes()
	if err != nil || len(data) == 0 {
		return err
	}
	v, err := decodeBody(data)
	if m, ok := v.(map[string]any); err == nil && (!ok || len(m) > 0) {
		err = malformed("request.body", "this route takes no body\n  hint: leave it out, or send {}")
	}
	return err
}

// checkType refuses bodies that are not said to be JSON: foreign pages can send forms and text, but no JSON.
func (c *call) checkType() error {
	text := c.r.Header.Get("Content-Type")
	if text == "" && c.r.ContentLength == 0 {
		return nil
	}
	kind, params, err := mime.ParseMediaType(text)
	charset := params["charset"]
	if err != nil || kind != "application/json" || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return fail(http.StatusUnsupportedMediaType, "request.type", "the body is %.60q"+
			"\n  hint: send JSON with Content-Type: application/json", text)
	}
	return nil
}

// object is a JSON object of a request. Integers stay integers.
type object map[string]any

// UnmarshalJSON implements json.Unmarshaler.
func (o *object) UnmarshalJSON(text []byte) error {
	v, err := value.Decode(text)
	m, _ := v.(map[string]any)
	*o = m
	return err
}

// anything is any JSON of a request. Integers stay integers.
type anything struct {
	v     any
	given bool // as null, too
}

// UnmarshalJSON implements json.Unmarshaler.
func (a *anything) UnmarshalJSON(text []byte) (err error) {
	a.v, err = value.Decode(text)
	a.given = true
	return err
}

// refuse writes a problem.
func (a *api) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if gone(r.Context(), err) {
		return
	}
	p := problemOf(err)
	if p.status >= http.StatusInternalServerError {
		a.logFailure(r.Context(), r, err)
	}
	switch p.status {
	case http.StatusUnauthorized:
		w.Header().Set("WWW-Authenticate", `Bearer realm="braise"`)
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		w.Header().Set("Retry-After", strconv.Itoa(max(1, int((p.retry+time.Second-1)/time.Second))))
	}
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Del("ETag")
	writeJSON(w, p.status, failure{p.errorBody, append(diagnostics.List{}, p.found...)})
}
