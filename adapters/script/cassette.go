package script

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/internal/yamlnode"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// cassetteFormat is what the first line of a cassette says.
const cassetteFormat = "braise/v1"

// Header names the recipe that a cassette belongs to.
type Header struct {
	Recipe string // its name
	Digest string // as it was when it was recorded
}

// Cassette is the recorded model calls of a run. Its models answer what was answered then, and
// never call anything: a request that was not recorded is an error. An entry answers once in a run;
// runs, told apart by their ids, may share a Cassette. The zero Cassette has no answers.
type Cassette struct {
	Header  Header
	file    string
	entries []entry
	byKey   map[place][]int // entries in recorded order

	mu     sync.Mutex
	used   map[use]int
	missed map[string][]missed // by run
}

// missed is a request that had no answer.
type missed struct {
	step string
	err  error
}

// place is where requests are told apart: a step asks for the same thing several times.
type place struct{ step, key string }

// use is a place in a run.
type use struct {
	run string
	place
}

// The lines of a cassette.
type (
	head struct {
		Cassette string `json:"cassette"`
		Digest   string `json:"digest"`
		Recipe   string `json:"recipe"`
	}
	entry struct {
		Key      string    `json:"key"` // of the request and the model
		Model    string    `json:"model"`
		Step     string    `json:"step"`
		StepCall int       `json:"stepCall"`
		Request  request   `json:"request"`
		Response *response `json:"response,omitempty"` // or
		Error    *failure  `json:"error,omitempty"`    // or
		Stopped  bool      `json:"stopped,omitempty"`  // by a timeout, or by the failure of another step

		line int // in the file
	}
	request struct {
		Messages    []message       `json:"messages"`
		Tools       []tool          `json:"tools,omitempty"` // by name
		Schema      json.RawMessage `json:"schema,omitempty"`
		Temperature *float64        `json:"temperature,omitempty"`
		MaxTokens   int             `json:"max_tokens,omitempty"`
		runtime.ModelOptions
	}
	message struct {
		Role       runtime.Role `json:"role"`
		Text       string       `json:"text"`
		ToolCalls  []toolCall   `json:"tool_calls,omitempty"`
		ToolCallID string       `json:"tool_call_id,omitempty"`

		Files []runtime.File `json:"files,omitempty"`
	}
	toolCall struct {
		ID        string `json:"id,omitempty"`
		Name      string `json:"name"`
		Arguments string `json:"arguments"` // text: models write what is no JSON, too

		Parts []runtime.Part `json:"parts,omitempty"` // of a response
	}
	tool struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters,omitempty"`
	}
	response struct {
		Text      string         `json:"text"`
		ToolCalls []toolCall     `json:"toolCalls,omitempty"`
		Parts     []runtime.Part `json:"parts,omitempty"`
		Usage     runtime.Usage  `json:"usage"`
		Finish    string         `json:"finish,omitempty"`
		Model     string         `json:"model,omitempty"` // that answered
	}
	failure struct {
		Reason   retry.Reason     `json:"reason,omitempty"`
		Status   int              `json:"status,omitempty"`
		Message  string           `json:"message"`
		After    string           `json:"after,omitempty"`
		Unsent   bool             `json:"unsent,omitempty"`
		Category runtime.Category `json:"category,omitempty"` // of a runtime.Error
		Code     string           `json:"code,omitempty"`
	}
)

// requestOf is what a model is asked, without where in the run that was.
func requestOf(req *runtime.Request, redact *value.Redactor) request {
	r := request{
		Messages: make([]message, len(req.Messages)), Schema: rawJSON(req.Schema),
		Temperature: req.Temperature, MaxTokens: req.MaxTokens,
		ModelOptions: req.Options,
	}
	for i, m := range req.Messages {
		r.Messages[i] = message{m.Role, redact.Text(m.Text), toolCallsOf(m.ToolCalls, redact), m.ToolCallID, nil}
		for _, f := range m.Files {
			f.URL = redact.Text(f.URL)
			r.Messages[i].Files = append(r.Messages[i].Files, f)
		}
	}
	for _, t := range req.Tools {
		r.Tools = append(r.Tools, tool{t.Name, t.Description, rawJSON(t.Parameters)})
	}
	slices.SortStableFunc(r.Tools, func(a, b tool) int { return cmp.Compare(a.Name, b.Name) })
	return r
}

func toolCallsOf(calls []runtime.ToolCall, redact *value.Redactor) []toolCall {
	var list []toolCall
	for _, c := range calls {
		list = append(list, toolCall{ID: c.ID, Name: c.Name, Arguments: redact.Text(string(c.Arguments))})
	}
	return list
}

// responseOf is what a model answered, secrets out.
func responseOf(resp *runtime.Response, redact *value.Redactor) *response {
	r := &response{Text: redact.Text(resp.Text), ToolCalls: toolCallsOf(resp.ToolCalls, redact),
		Parts: partsOf(resp.Parts, redact), Usage: resp.Usage, Finish: resp.Finish, Model: resp.Model}
	for i, c := range resp.ToolCalls {
		r.ToolCalls[i].Parts = partsOf(c.Parts, redact)
	}
	return r
}

// partsOf leaves out what is no JSON, as an agent does.
func partsOf(parts []runtime.Part, redact *value.Redactor) []runtime.Part {
	var list []runtime.Part
	for _, p := range parts {
		v, err := value.Decode(p.Data)
		if err != nil {
			continue
		}
		if p.Data, err = value.JSON(redact.Value(v)); err == nil {
			list = append(list, p)
		}
	}
	return list
}

// rawJSON is text that may stand in JSON: itself, or a string of it.
func rawJSON(text json.RawMessage) json.RawMessage {
	if len(text) == 0 || json.Valid(text) {
		return text
	}
	return value.AppendString(nil, string(text))
}

// canonical encodes a part of a cassette: keys sorted, no white space.
func canonical(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	decoded, err := value.Decode(text)
	if err != nil {
		return nil, err
	}
	return value.JSON(decoded)
}

// key identifies the request: the hash of the model's name and what it is asked.
func (e *entry) key() (string, error) {
	text, err := canonical(struct {
		Model   string  `json:"model"`
		Request request `json:"request"`
	}{e.Model, e.Request})
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:]), err
}

// LoadCassette reads a cassette. filename is for messages only. The error is a *diagnostics.Error
// that holds what is wrong, by line.
func LoadCassette(filename string, data []byte) (*Cassette, error) {
	c := &Cassette{file: filename, byKey: map[place][]int{}, used: map[use]int{}}
	var r yamlnode.Reader
	for i, line := range bytes.Split(bytes.TrimSuffix(data, []byte("\n")), []byte("\n")) {
		l := lineReader{&r, diagnostics.Position{File: filename, Line: i + 1, Column: 1}}
		if i == 0 {
			if c.Header = l.header(line); r.Diagnostics != nil {
				break // not a cassette: no word about its entries
			}
			continue
		}
		if e, ok := l.entry(line); ok {
			at := place{e.Step, e.Key}
			c.byKey[at] = append(c.byKey[at], len(c.entries))
			c.entries = append(c.entries, e)
		}
	}
	if err := r.Diagnostics.Err(); err != nil {
		return nil, err
	}
	return c, nil
}

// lineReader reads one line of a cassette.
type lineReader struct {
	*yamlnode.Reader
	pos diagnostics.Position
}

func (l lineReader) header(line []byte) Header {
	var h head
	if l.decode(line, &h) && h.Cassette != cassetteFormat {
		l.Errorf(l.pos, diagnostics.CodeInvalidValue, "record it again",
			"this is a cassette of the format %q, not %q", h.Cassette, cassetteFormat)
	}
	return Header{h.Recipe, h.Digest}
}

func (l lineReader) entry(line []byte) (e entry, ok bool) {
	if !l.decode(line, &e) {
		return e, false
	}
	e.line = l.pos.Line
	key, err := e.key()
	ends := 0
	for _, is := range []bool{e.Response != nil, e.Error != nil, e.Stopped} {
		if is {
			ends++
		}
	}
	switch {
	case e.Model == "" || e.Step == "" || e.StepCall < 1:
		l.Errorf(l.pos, diagnostics.CodeMissingKey, "", "an entry has model, step and stepCall, which counts from 1")
	case ends != 1:
		l.Errorf(l.pos, diagnostics.CodeInvalidValue, "",
			"an entry has one of response, error and stopped, not %d", ends)
	case e.Error != nil && !e.Error.valid():
		l.Errorf(l.pos, diagnostics.CodeInvalidValue, "", "the error has no message, or a reason or wait that is none")
	case err != nil || key != e.Key:
		l.Errorf(l.pos, diagnostics.CodeInvalidValue, "answers may be edited; for another request, record again",
			"the key does not belong to the model and the request")
	default:
		return e, true
	}
	return e, false
}

// valid reports whether f is an error that a recorder could have written.
func (f *failure) valid() bool {
	d, err := time.ParseDuration(cmp.Or(f.After, "0s"))
	reasons := []retry.Reason{"", retry.RateLimit, retry.ServerError, retry.Timeout, retry.Network, retry.Unknown}
	return f.Message != "" && err == nil && d >= 0 && slices.Contains(reasons, f.Reason)
}

// decode reads a line into v, and nothing but what v has.
func (l lineReader) decode(line []byte, v any) bool {
	decoded, err := value.DecodeStrict(line)
	if err != nil {
		l.Errorf(l.pos, diagnostics.CodeSyntax, "", "not a line of a cassette: %v", err)
		return false
	}
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field == "" {
			l.Errorf(l.pos, diagnostics.CodeWrongType, "", "a line must be an object, not of type %s", wrong.Value)
		} else if ok {
			l.Errorf(l.pos, diagnostics.CodeWrongType, "", "%q may not be of type %s", wrong.Field, wrong.Value)
		} else {
			l.Errorf(l.pos, diagnostics.CodeUnknownKey, "", "%s", strings.TrimPrefix(err.Error(), "json: "))
		}
		return false
	}
	// encoding/json takes keys in any case, and lets others be left out.
	want, err := canonical(v)
	got, gotErr := value.JSON(decoded)
	if err != nil || gotErr != nil || !bytes.Equal(got, want) {
		l.Errorf(l.pos, diagnostics.CodeMissingKey, "",
			"this line lacks a key, or has an empty one: read as %s", excerpt(string(want), 0))
		return false
	}
	return true
}

// Models returns the names of the models that have answers, sorted.
func (c *Cassette) Models() []string {
	var names []string
	for _, e := range c.entries {
		names = append(names, e.Model)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Model returns the model that recipes call name. It answers a request with the first entry of the
// request's step that was recorded for an equal one, and that the run has not used yet: equal in
// model, messages, tools, schema and options. Without one it fails, with no retry
// reason; the error says which entry is nearest and where it differs. A call that was stopped when
// it was recorded waits until it is stopped again. It streams as a script does.
func (c *Cassette) Model(name string) runtime.Model {
	ask := func(ctx context.Context, req *runtime.Request, emit func(runtime.Delta)) (*runtime.Response, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		asked := entry{Model: name, Step: req.Step, StepCall: req.StepCall, Request: requestOf(req, nil)}
		var err error
		if asked.Key, err = asked.key(); err != nil {
			return nil, &retry.Failure{Err: fmt.Errorf("%s: %w", c.file, err)}
		}
		e := c.take(req.Run, place{asked.Step, asked.Key})
		switch {
		case e == nil:
			return nil, &retry.Failure{Err: c.first(req.Run, &asked)}
		case e.Error != nil:
			return nil, e.Error.err()
		case e.Stopped:
			<-ctx.Done()
			return nil, ctx.Err()
		}
		resp := e.Response.response()
		if emit != nil {
			emitWords(resp, emit)
		}
		return resp, nil
	}
	return fromCassette{&answering{about, ask}}
}

// fromCassette is a model of a cassette.
type fromCassette struct{ *answering }

// first is the error of a request that has no answer. An agent whose child had none is told the same: what it
// asks next differs because of that.
func (c *Cassette) first(run string, asked *entry) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.missed[run] {
		if strings.HasPrefix(m.step, asked.Step+"/") {
			return m.err
		}
	}
	err := c.miss(asked)
	if c.missed == nil {
		c.missed = map[string][]missed{}
	}
	c.missed[run] = append(c.missed[run], missed{asked.Step, err})
	return err
}

// take uses the next entry of a place, nil if there is none.
func (c *Cassette) take(run string, at place) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	list, n := c.byKey[at], c.used[use{run, at}]
	if n == len(list) {
		return nil
	}
	c.used[use{run, at}]++
	return &c.entries[list[n]]
}

func (r *response) response() *runtime.Response {
	resp := &runtime.Response{Text: r.Text, Parts: slices.Clone(r.Parts), Usage: r.Usage, Finish: r.Finish,
		Model: r.Model}
	for _, c := range r.ToolCalls {
		resp.ToolCalls = append(resp.ToolCalls,
			runtime.ToolCall{ID: c.ID, Name: c.Name, Arguments: json.RawMessage(c.Arguments),
				Parts: slices.Clone(c.Parts)})
	}
	return resp
}

func (f *failure) err() error {
	after, _ := time.ParseDuration(f.After) // LoadCassette has checked it
	var err error = &retry.Failure{Reason: f.Reason, Status: f.Status, After: after, Sent: !f.Unsent,
		Err: errors.New(f.Message)}
	if f.Category != "" {
		err = &runtime.Error{Category: f.Category, Code: f.Code, Err: err}
	}
	return err
}
