package anthropic_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/braise-run/braise/adapters/anthropic"
)

// provider is a server that checks requests as strictly as Anthropic's Messages API, and counts what its cache has. It
// follows the types and doc comments of github.com/anthropics/anthropic-sdk-go v1.84.0 (message.go: MessageNewParams
// and what is in it; shared/shared.go: errors), and its page on prompt caching as of 2026-11.
type provider struct {
	srv    *httptest.Server
	answer func(r *sent) answer // what the model says to a request that is right

	mu     sync.Mutex
	got    []*sent                      // requests, also those that were refused
	usages []map[string]int             // of the answers
	cache  map[[sha256.Size]byte]bool   // prefixes that ended at a mark
	faults []string                     // why requests were refused
	header http.Header                  // of the last request
	wrap   func(events []string) string // of a stream; nil: all events
}

// sent is a request. Members that it does not have are refused.
type sent struct {
	Model         string          `json:"model"`
	MaxTokens     int             `json:"max_tokens"`
	System        []sentBlock     `json:"system"`
	Messages      []sentTurn      `json:"messages"`
	Tools         []sentTool      `json:"tools"`
	ToolChoice    *sentChoice     `json:"tool_choice"`
	Temperature   *float64        `json:"temperature"`
	TopP          *float64        `json:"top_p"`
	TopK          *int            `json:"top_k"`
	StopSequences []string        `json:"stop_sequences"`
	ServiceTier   string          `json:"service_tier"`
	Metadata      json.RawMessage `json:"metadata"`
	Thinking      *sentThinking   `json:"thinking"`
	OutputConfig  *struct {
		Effort string `json:"effort"`
		Format *struct {
			Type   string         `json:"type"`
			Schema map[string]any `json:"schema"`
		} `json:"format"`
	} `json:"output_config"`
	Stream bool `json:"stream"`
}

type sentTurn struct {
	Role    string      `json:"role"`
	Content []sentBlock `json:"content"`
}

type sentBlock struct {
	Type      string      `json:"type"`
	Text      *string     `json:"text"`
	Source    *sentSource `json:"source"`
	ID        string      `json:"id"`
	Name      string      `json:"name"`
	Input     any         `json:"input"`
	ToolUseID string      `json:"tool_use_id"`
	Content   []sentBlock `json:"content"`
	Thinking  *string     `json:"thinking"`
	Signature string      `json:"signature"`
	Data      string      `json:"data"`
	Cache     *sentCache  `json:"cache_control"`
}

type sentSource struct {
	Type      string `json:"type"`
	MediaType string `json:"media_type"`
	Data      string `json:"data"`
	URL       string `json:"url"`
}

type sentTool struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	InputSchema map[string]any `json:"input_schema"`
	Cache       *sentCache     `json:"cache_control"`
}

type sentChoice struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	OneCall bool   `json:"disable_parallel_tool_use"`
}

type sentCache struct {
	Type string `json:"type"`
}

type sentThinking struct {
	Type   string `json:"type"`
	Budget int    `json:"budget_tokens"`
}

// answer is what the model says: blocks as the API has them, and why it stops.
type answer struct {
	blocks []map[string]any
	stop   string // "": end_turn, or tool_use after calls
	output int    // tokens; 0: 10
}

func text(s string) map[string]any { return map[string]any{"type": "text", "text": s} }

func use(id, name string, input map[string]any) map[string]any {
	return map[string]any{"type": "tool_use", "id": id, "name": name, "input": input}
}

// thought is signed, so that a change shows.
func thought(s string) map[string]any {
	return map[string]any{"type": "thinking", "thinking": s, "signature": signature(s)}
}

func signature(s string) string {
	return base64.StdEncoding.EncodeToString([]byte(fmt.Sprintf("%x", sha256.Sum256([]byte("key"+s)))))
}

// serve starts a provider, and makes a model of it.
func serve(t *testing.T, opts anthropic.Options, say func(*sent) answer) (*provider, *anthropic.Model) {
	t.Helper()
	p := &provider{answer: say, cache: map[[sha256.Size]byte]bool{}}
	p.srv = httptest.NewServer(p)
	t.Cleanup(p.srv.Close)
	return p, connect(t, p.srv, opts)
}

func connect(t *testing.T, srv *httptest.Server, opts anthropic.Options) *anthropic.Model {
	t.Helper()
	opts.BaseURL, opts.HTTPClient = srv.URL+"/v1", srv.Client()
	if opts.Model == "" {
		opts.Model = "claude-sonnet-5-5"
	}
	if opts.APIKey == "" {
		opts.APIKey = "sk-ant-0123456789abcdef"
	}
	m, err := anthropic.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.header = r.Header
	req, status, kind, fault := readSent(r, body)
	p.got = append(p.got, req)
	if fault != "" {
		p.faults = append(p.faults, fault)
		w.WriteHeader(status)
		_, _ = fmt.Fprintf(w, `{"type": "error", "error": {"type": %q, "message": %q}, "request_id": "req_1"}`, kind, fault)
		return
	}
	a := p.answer(req)
	usage := p.count(req)
	usage["output_tokens"] = max(a.output, 10)
	p.usages = append(p.usages, usage)
	if !req.Stream {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(jsonOf(a.message(req.Model+"-20261020", usage)))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	events := a.events(req.Model+"-20261020", usage, map[string]any{"output_tokens": usage["output_tokens"]})
	if p.wrap == nil {
		p.wrap = func(events []string) string { return strings.Join(events, "") }
	}
	_, _ = io.WriteString(w, p.wrap(events))
}

// readSent reads a request. The last three are those of an error; "": the request is right.
func readSent(r *http.Request, body []byte) (req *sent, status int, kind, fault string) {
	req = &sent{}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	status, kind = 400, "invalid_request_error"
	switch err := d.Decode(req); {
	case r.Method != http.MethodPost || r.URL.Path != "/v1/messages":
		status, kind, fault = 404, "not_found_error", "Not found"
	case r.Header.Get("X-Api-Key") == "":
		status, kind, fault = 401, "authentication_error", "x-api-key header is required"
	case r.Header.Get("Anthropic-Version") != "2023-06-01" || r.Header.Get("Content-Type") != "application/json":
		fault = "anthropic-version: header is required"
	case len(body) > 32<<20:
		status, kind, fault = 413, "request_too_large", "Request exceeds the maximum size"
	case err != nil:
		fault = err.Error()
	default:
		fault = req.check()
	}
	return req, status, kind, fault
}

func (a *answer) reason() string {
	switch last := len(a.blocks) - 1; {
	case a.stop != "":
		return a.stop
	case last >= 0 && a.blocks[last]["type"] == "tool_use":
		return "tool_use"
	}
	return "end_turn"
}

func (a *answer) message(model string, usage any) map[string]any {
	return map[string]any{"id": "msg_1", "type": "message", "role": "assistant", "model": model,
		"content": slices.Concat([]map[string]any{}, a.blocks), "stop_reason": a.reason(), "stop_sequence": nil, "usage": usage}
}

// events are those of a stream, each block in pieces of a few characters. The last counts of tokens replace the first.
func (a *answer) events(model string, usage, last any) (list []string) {
	add := func(kind string, members map[string]any) {
		members["type"] = kind
		list = append(list, "event: "+kind+"\ndata: "+string(jsonOf(members))+"\n\n")
	}
	start := a.message(model, usage)
	start["content"], start["stop_reason"] = []any{}, nil
	add("message_start", map[string]any{"message": start})
	add("ping", map[string]any{})
	for i, b := range a.blocks {
		empty, deltas := map[string]any{}, []map[string]any{}
		for name, v := range b {
			empty[name] = v
		}
		pieces := func(kind, member, s string) {
			for chunk := range slices.Chunk([]rune(s), 5) {
				deltas = append(deltas, map[string]any{"type": kind, member: string(chunk)})
			}
		}
		switch b["type"] {
		case "text":
			empty["text"] = ""
			pieces("text_delta", "text", b["text"].(string))
		case "thinking":
			empty["thinking"], empty["signature"] = "", ""
			pieces("thinking_delta", "thinking", b["thinking"].(string))
			pieces("signature_delta", "signature", b["signature"].(string))
		case "tool_use":
			empty["input"] = map[string]any{}
			pieces("input_json_delta", "partial_json", string(jsonOf(b["input"])))
		}
		add("content_block_start", map[string]any{"index": i, "content_block": empty})
		for _, d := range deltas {
			add("content_block_delta", map[string]any{"index": i, "delta": d})
		}
		add("content_block_stop", map[string]any{"index": i})
	}
	add("message_delta", map[string]any{"delta": map[string]any{"stop_reason": a.reason(), "stop_sequence": nil},
		"usage": last})
	add("message_stop", map[string]any{})
	return list
}

func jsonOf(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

var (
	toolName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)
	callName = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)
)

// check returns what is wrong with a request; "": nothing.
func (r *sent) check() string {
	marks := 0
	mark := func(c *sentCache) {
		if c != nil {
			marks++
		}
	}
	names := map[string]bool{}
	for i, tool := range r.Tools {
		mark(tool.Cache)
		s := tool.InputSchema
		switch {
		case !toolName.MatchString(tool.Name):
			return fmt.Sprintf("tools.%d.name: String should match pattern '%s'", i, toolName)
		case names[tool.Name]:
			return "tools: Tool names must be unique."
		case s["type"] != "object" || s["properties"] == nil:
			return fmt.Sprintf("tools.%d.input_schema.type: Field required", i)
		case s["anyOf"] != nil || s["oneOf"] != nil || s["allOf"] != nil:
			return fmt.Sprintf("tools.%d.input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level", i)
		}
		names[tool.Name] = true
	}
	for i, b := range r.System {
		mark(b.Cache)
		if b.Type != "text" || b.Text == nil || strings.TrimSpace(*b.Text) == "" {
			return fmt.Sprintf("system.%d: text content blocks must be non-empty", i)
		}
	}
	for i, turn := range r.Messages {
		for _, b := range turn.Content {
			mark(b.Cache)
		}
		if fault := r.checkTurn(i, turn); fault != "" {
			return fmt.Sprintf("messages.%d: %s", i, fault)
		}
	}
	last := sentTurn{}
	if n := len(r.Messages); n > 0 {
		last = r.Messages[n-1]
	}
	switch end := len(last.Content) - 1; {
	case r.Model == "" || r.MaxTokens < 1:
		return "max_tokens: Field required"
	case end < 0:
		return "messages: at least one message is required"
	case last.Role == "assistant" && last.Content[end].Type == "text" && strings.TrimRight(*last.Content[end].Text, " \n\t") != *last.Content[end].Text:
		return "messages: final assistant content cannot end with trailing whitespace"
	case marks > 4:
		return fmt.Sprintf("A maximum of 4 blocks with cache_control may be provided. Found %d.", marks)
	case r.Temperature != nil && (*r.Temperature < 0 || *r.Temperature > 1):
		return "temperature: range: 0..1"
	case r.Temperature != nil && r.Model == "claude-sonnet-5-5":
		return "`temperature` is deprecated for this model."
	}
	return r.checkSettings(names)
}

func (r *sent) checkSettings(names map[string]bool) string {
	if c := r.ToolChoice; c != nil {
		switch {
		case len(r.Tools) == 0:
			return "tool_choice may only be specified while providing tools"
		case !slices.Contains([]string{"auto", "any", "tool", "none"}, c.Type), c.Type == "tool" != (c.Name != ""), c.Type == "none" && c.OneCall:
			return "tool_choice: Input tag does not match any of the expected tags"
		case c.Type == "tool" && !names[c.Name]:
			return fmt.Sprintf("tool_choice: Tool '%s' not found in provided tools", c.Name)
		}
	}
	if th := r.Thinking; th != nil {
		switch {
		case th.Type == "enabled" && (th.Budget < 1024 || th.Budget >= r.MaxTokens):
			return "`max_tokens` must be greater than `thinking.budget_tokens`"
		case th.Type == "adaptive" && (th.Budget != 0 || r.Model == "claude-haiku-4-5"):
			return "adaptive thinking is not supported on this model"
		case th.Type != "enabled" && th.Type != "adaptive":
			return "thinking: Input tag does not match any of the expected tags"
		case r.ToolChoice != nil && (r.ToolChoice.Type == "any" || r.ToolChoice.Type == "tool"):
			return "Thinking may not be enabled when tool_choice forces tool use."
		}
		for _, turn := range slices.Backward(r.Messages) {
			if turn.Role != "assistant" {
				continue
			}
			calls := slices.ContainsFunc(turn.Content, func(b sentBlock) bool { return b.Type == "tool_use" })
			if first := turn.Content[0].Type; th.Type == "enabled" && calls && first != "thinking" && first != "redacted_thinking" {
				return "Expected `thinking` or `redacted_thinking`, but found `" + first + "`"
			}
			break
		}
	}
	if c := r.OutputConfig; c != nil {
		switch {
		case c.Effort != "" && !slices.Contains([]string{"low", "medium", "high", "xhigh", "max"}, c.Effort):
			return "output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max'"
		case c.Format != nil && c.Format.Type != "json_schema":
			return "output_config.format.type: Input should be 'json_schema'"
		case c.Format != nil:
			return checkSchema(c.Format.Schema)
		}
	}
	return ""
}

// checkTurn checks the turn i of the conversation.
func (r *sent) checkTurn(i int, turn sentTurn) string {
	want := []string{"user", "assistant"}[i%2]
	if turn.Role != want {
		return fmt.Sprintf("roles must alternate between \"user\" and \"assistant\", but found %q", turn.Role)
	}
	if len(turn.Content) == 0 {
		return "all messages must have non-empty content"
	}
	var calls []string // of the turn before
	if i > 0 {
		for _, b := range r.Messages[i-1].Content {
			if b.Type == "tool_use" {
				calls = append(calls, b.ID)
			}
		}
	}
	results := map[string]bool{}
	for n, b := range turn.Content {
		if fault := checkBlock(turn.Role, b); fault != "" {
			return fmt.Sprintf("content.%d: %s", n, fault)
		}
		switch {
		case b.Type == "tool_use" && len(r.Tools) == 0:
			return "Requests which include `tool_use` or `tool_result` blocks must define tools."
		case b.Type != "tool_result":
			continue
		case !slices.Contains(calls, b.ToolUseID):
			return "unexpected `tool_use_id` found in `tool_result` blocks: " + b.ToolUseID
		case results[b.ToolUseID]:
			return "each tool_use must have a single result. Found multiple `tool_result` blocks with id: " + b.ToolUseID
		case n > len(results):
			return "`tool_result` blocks must come first in the content"
		}
		results[b.ToolUseID] = true
	}
	if len(results) != len(calls) && i > 0 {
		return fmt.Sprintf("`tool_use` ids were found without `tool_result` blocks immediately after: %v", calls)
	}
	return ""
}

func checkBlock(role string, b sentBlock) string {
	user := role == "user"
	switch {
	case b.Cache != nil && b.Cache.Type != "ephemeral":
		return "cache_control.type: Input should be 'ephemeral'"
	case b.Type == "text" && (b.Text == nil || strings.TrimSpace(*b.Text) == ""):
		return "text content blocks must contain non-whitespace text"
	case b.Type == "text":
		return ""
	case b.Type == "tool_use" && !user:
		_, isObject := b.Input.(map[string]any)
		if !isObject || !callName.MatchString(b.ID) || !toolName.MatchString(b.Name) {
			return "tool_use: Input should be a valid dictionary, with an id and a name"
		}
		return ""
	case b.Type == "tool_result" && user:
		for _, inner := range b.Content {
			if fault := checkBlock("user", inner); fault != "" || inner.Type == "tool_result" {
				return "tool_result.content: " + fault
			}
		}
		return ""
	case b.Type == "thinking" && !user:
		if b.Thinking == nil || b.Signature != signature(*b.Thinking) {
			return "Invalid `signature` in `thinking` block"
		}
		return ""
	case b.Type == "redacted_thinking" && !user && b.Data != "":
		return ""
	case (b.Type == "image" || b.Type == "document") && user && b.Source != nil:
		return checkSource(b.Type, b.Source)
	}
	return fmt.Sprintf("Input tag %q of %s does not match any of the expected tags", b.Type, role)
}

func checkSource(kind string, s *sentSource) string {
	types := map[string][]string{"image": {"image/jpeg", "image/png", "image/gif", "image/webp"}, "document": {"application/pdf"}}
	data, err := base64.StdEncoding.DecodeString(s.Data)
	switch {
	case s.Type == "url" && strings.HasPrefix(s.URL, "https://") && s.Data == "" && s.MediaType == "":
		return ""
	case s.Type != "base64" || err != nil || len(data) == 0 || s.URL != "":
		return "source: Input should be 'base64' or 'url'"
	case !slices.Contains(types[kind], s.MediaType):
		return "source.base64.media_type: Input should be " + strings.Join(types[kind], ", ")
	}
	return ""
}

// checkSchema checks the schema of structured outputs.
func checkSchema(s map[string]any) string {
	if s["type"] == "object" && s["additionalProperties"] != false {
		return "output_config.format.schema: For 'object' type, 'additionalProperties' must be explicitly set to false"
	}
	for key, v := range s {
		switch key {
		case "type", "enum", "const", "title", "description", "required", "additionalProperties", "$ref":
		case "items":
			if fault := checkSchema(v.(map[string]any)); fault != "" {
				return fault
			}
		case "anyOf", "allOf":
			for _, sub := range v.([]any) {
				if fault := checkSchema(sub.(map[string]any)); fault != "" {
					return fault
				}
			}
		case "properties", "$defs":
			for _, sub := range v.(map[string]any) {
				if fault := checkSchema(sub.(map[string]any)); fault != "" {
					return fault
				}
			}
		default:
			return "output_config.format.schema: property '" + key + "' is not supported"
		}
	}
	return ""
}

// The rules of the cache: what is too short is not kept, and a mark looks back for so many blocks.
const (
	leastCached = 1024
	lookBack    = 20
)

// count counts the tokens of a request, four bytes each, and those that the cache has. A prefix is kept at each mark.
// What thinking blocks of earlier turns hold counts like the rest.
func (p *provider) count(r *sent) map[string]int {
	type piece struct {
		data   any
		marked bool
	}
	var pieces []piece
	for _, t := range r.Tools {
		marked := t.Cache != nil
		t.Cache = nil
		pieces = append(pieces, piece{t, marked})
	}
	blocks := func(role string, list []sentBlock) {
		for _, b := range list {
			marked := b.Cache != nil
			b.Cache = nil
			pieces = append(pieces, piece{[]any{role, b}, marked})
		}
	}
	blocks("system", r.System)
	for _, turn := range r.Messages {
		blocks(turn.Role, turn.Content)
	}
	prefixes, tokens := make([][sha256.Size]byte, len(pieces)), make([]int, len(pieces))
	h, sum := sha256.New(), 0
	for i, piece := range pieces {
		data := jsonOf(piece.data)
		h.Write(data)
		sum += len(data) / 4
		prefixes[i], tokens[i] = [sha256.Size]byte(h.Sum(nil)), sum
	}
	read, written := 0, 0
	for i, piece := range pieces {
		if !piece.marked || tokens[i] < leastCached {
			continue
		}
		for j := i; j >= 0 && j > i-lookBack; j-- {
			if p.cache[prefixes[j]] {
				read = max(read, tokens[j])
				break
			}
		}
		written = tokens[i]
	}
	for i, piece := range pieces {
		if piece.marked && tokens[i] >= leastCached {
			p.cache[prefixes[i]] = true
		}
	}
	written = max(written, read)
	return map[string]int{"input_tokens": sum - written, "cache_read_input_tokens": read, "cache_creation_input_tokens": written - read}
}
