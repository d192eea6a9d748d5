package gemini_test

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/braise-run/braise/adapters/gemini"
)

// provider is a server that checks requests as strictly as Google's Gemini API, and counts what its implicit cache has.
// It follows the types and doc comments of google.golang.org/genai v1.77.0 (types.go: GenerateContentConfig, Content,
// Part, FunctionDeclaration, ThinkingConfig and what is in them), ai.google.dev/gemini-api/docs/thought-signatures as of
// 2026-11, and messages of the API in issues: google-gemini/gemini-cli 26486 and 11814 (calls come after the user or
// results), GoogleCloudPlatform/generative-ai 368 (results come after calls), microsoft/vscode 299295 (as many results as
// calls), anomalyco/opencode 43479 (nothing beside results) and 12295 (references), googleapis/python-genai 867 (tools
// and a schema), juspay/neurolink 1707 (levels of thinking), crewAIInc/crewAI 6973 (the user has the last word).
type provider struct {
	srv    *httptest.Server
	answer func(r *sent) answer // what the model says to a request that is right

	mu     sync.Mutex
	got    []*sent                      // requests, also those that were refused
	usages []map[string]int             // of the answers
	cache  map[[sha256.Size]byte]bool   // prefixes of requests
	faults []string                     // why requests were refused
	header http.Header                  // of the last request
	wrap   func(events []string) string // of a stream; nil: all events
}

// sent is a request. Members that it does not have are refused.
type sent struct {
	Contents          []sentContent     `json:"contents"`
	SystemInstruction *sentContent      `json:"systemInstruction"`
	Tools             []sentTools       `json:"tools"`
	ToolConfig        *sentToolConfig   `json:"toolConfig"`
	GenerationConfig  sentConfig        `json:"generationConfig"`
	SafetySettings    []sentSafety      `json:"safetySettings"`
	ServiceTier       string            `json:"serviceTier"`
	Labels            map[string]string `json:"labels"`

	model  string
	stream bool
}

type sentContent struct {
	Role  string     `json:"role"`
	Parts []sentPart `json:"parts"`
}

type sentPart struct {
	Text             *string        `json:"text"`
	Thought          bool           `json:"thought"`
	ThoughtSignature string         `json:"thoughtSignature"`
	InlineData       *sentBlob      `json:"inlineData"`
	FileData         *sentFile      `json:"fileData"`
	FunctionCall     *sentCall      `json:"functionCall"`
	FunctionResponse *sentResponse  `json:"functionResponse"`
	ExecutableCode   map[string]any `json:"executableCode"`
}

type sentBlob struct {
	MIMEType string `json:"mimeType"`
	Data     []byte `json:"data"`
}

type sentFile struct {
	MIMEType *string `json:"mimeType"`
	FileURI  string  `json:"fileUri"`
}

type sentCall struct {
	ID   string         `json:"id"`
	Name string         `json:"name"`
	Args map[string]any `json:"args"`
}

type sentResponse struct {
	ID       string         `json:"id"`
	Name     string         `json:"name"`
	Response map[string]any `json:"response"`
	Parts    []sentPart     `json:"parts"`
}

type sentTools struct {
	FunctionDeclarations []sentFunction `json:"functionDeclarations"`
}

type sentFunction struct {
	Name                 string         `json:"name"`
	Description          string         `json:"description"`
	ParametersJSONSchema map[string]any `json:"parametersJsonSchema"`
}

type sentToolConfig struct {
	FunctionCallingConfig struct {
		Mode                 string   `json:"mode"`
		AllowedFunctionNames []string `json:"allowedFunctionNames"`
	} `json:"functionCallingConfig"`
}

type sentConfig struct {
	Temperature        *float64        `json:"temperature"`
	TopP               *float64        `json:"topP"`
	TopK               *int            `json:"topK"`
	MaxOutputTokens    int             `json:"maxOutputTokens"`
	StopSequences      []string        `json:"stopSequences"`
	Seed               *int32          `json:"seed"`
	PresencePenalty    *float64        `json:"presencePenalty"`
	FrequencyPenalty   *float64        `json:"frequencyPenalty"`
	MediaResolution    string          `json:"mediaResolution"`
	ResponseMIMEType   string          `json:"responseMimeType"`
	ResponseJSONSchema json.RawMessage `json:"responseJsonSchema"`
	ThinkingConfig     *struct {
		IncludeThoughts bool   `json:"includeThoughts"`
		ThinkingBudget  *int   `json:"thinkingBudget"`
		ThinkingLevel   string `json:"thinkingLevel"`
	} `json:"thinkingConfig"`
}

type sentSafety struct {
	Category  string `json:"category"`
	Threshold string `json:"threshold"`
}

// answer is what the model says: parts as the API has them, and why it stops.
type answer struct {
	parts            []map[string]any
	finish           string // "": STOP
	message          string // about that
	blocked          string // why the prompt was; "": it was not
	output, thoughts int    // tokens; output 0: 10
}

func text(s string) map[string]any { return map[string]any{"text": s} }

func thought(s string) map[string]any { return map[string]any{"text": s, "thought": true} }

// use is a call without an id if that is "", as old models make them.
func use(id, name string, args map[string]any) map[string]any {
	call := map[string]any{"name": name, "args": args}
	if id != "" {
		call["id"] = id
	}
	return map[string]any{"functionCall": call}
}

// signed is a part with a signature that is of it alone, so that a change shows.
func signed(p map[string]any) map[string]any {
	p = maps.Clone(p)
	switch call, _ := p["functionCall"].(map[string]any); {
	case call != nil:
		p["thoughtSignature"] = signature(call["name"], call["args"])
	default:
		p["thoughtSignature"] = signature(p["text"], p["thought"] == true)
	}
	return p
}

func signature(of ...any) string {
	return base64.StdEncoding.EncodeToString([]byte(fmt.Sprintf("%x", sha256.Sum256(append([]byte("key"), jsonOf(of)...)))))
}

// checkSignature reports what is wrong with the signature of a part; "": nothing.
func (r *sent) checkSignature(p sentPart) string {
	want := signature(p.Text, p.Thought)
	if p.FunctionCall != nil {
		want = signature(p.FunctionCall.Name, p.FunctionCall.Args)
	}
	switch p.ThoughtSignature {
	case "", want:
		return ""
	case "skip_thought_signature_validator":
		if !r.old() && p.FunctionCall != nil {
			return ""
		}
	}
	return "Thought signature is not valid"
}

// old reports whether the model thinks by a budget.
func (r *sent) old() bool { return strings.HasPrefix(r.model, "gemini-2.") }

// serve starts a provider, and makes a model of it.
func serve(t *testing.T, opts gemini.Options, say func(*sent) answer) (*provider, *gemini.Model) {
	t.Helper()
	p := &provider{answer: say, cache: map[[sha256.Size]byte]bool{}}
	p.srv = httptest.NewServer(p)
	t.Cleanup(p.srv.Close)
	return p, connect(t, p.srv, opts)
}

// says is a model that always says the same.
func says(parts ...map[string]any) func(*sent) answer {
	return func(*sent) answer { return answer{parts: parts} }
}

// connect makes a model of a server, by default the newest one.
func connect(t *testing.T, srv *httptest.Server, opts gemini.Options) *gemini.Model {
	t.Helper()
	opts.BaseURL, opts.HTTPClient = srv.URL+"/v1beta", srv.Client()
	opts.Model, opts.APIKey = cmp.Or(opts.Model, "gemini-3.8-flash"), cmp.Or(opts.APIKey, "AIza-0123456789abcdef")
	m, err := gemini.New(opts)
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
	req, status, fault := readSent(r, body)
	p.got = append(p.got, req)
	if fault != "" {
		p.faults = append(p.faults, fault)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, faultOf(status, fault))
		return
	}
	a := p.answer(req)
	usage := p.count(req)
	usage["candidatesTokenCount"] = max(a.output, 10)
	if a.thoughts > 0 {
		usage["thoughtsTokenCount"] = a.thoughts
	}
	p.usages = append(p.usages, usage)
	if !req.stream {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(jsonOf(a.body(req.model+"-001", usage)))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	events := a.events(req.model+"-001", usage)
	if p.wrap == nil {
		p.wrap = func(events []string) string { return strings.Join(events, "") }
	}
	_, _ = io.WriteString(w, p.wrap(events))
}

// statuses are those of google.rpc.Code, by the status of HTTP.
var statuses = map[int]string{400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND",
	429: "RESOURCE_EXHAUSTED", 500: "INTERNAL", 503: "UNAVAILABLE", 504: "DEADLINE_EXCEEDED"}

func faultOf(status int, message string, details ...map[string]any) string {
	fault := map[string]any{"code": status, "message": message, "status": cmp.Or(statuses[status], "UNKNOWN")}
	if details != nil {
		fault["details"] = details
	}
	return string(jsonOf(map[string]any{"error": fault}))
}

var method = regexp.MustCompile(`^/v1beta/models/([a-z0-9.-]+):(generateContent|streamGenerateContent)$`)

// readSent reads a request. The last two are those of an error; "": the request is right.
func readSent(r *http.Request, body []byte) (req *sent, status int, fault string) {
	req = &sent{}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	called := method.FindStringSubmatch(r.URL.Path)
	switch err := d.Decode(req); {
	case r.Method != http.MethodPost || called == nil:
		return req, 404, "Not found: " + r.URL.Path
	case r.Header.Get("X-Goog-Api-Key") == "":
		return req, 403, "Method doesn't allow unregistered callers (callers without established identity)."
	case r.Header.Get("Content-Type") != "application/json":
		return req, 400, "Invalid content type"
	case len(body) > 100<<20:
		return req, 413, "Request payload size exceeds the limit: 104857600 bytes."
	case err != nil:
		return req, 400, "Invalid JSON payload received. " + err.Error()
	}
	req.model, req.stream = called[1], called[2] == "streamGenerateContent"
	if alt := r.URL.Query().Get("alt"); (alt == "sse") != req.stream {
		return req, 400, "alt is " + alt
	}
	return req, 400, req.check()
}

func (a *answer) body(model string, usage any) map[string]any {
	message := map[string]any{"usageMetadata": usage, "modelVersion": model, "responseId": "r1"}
	if a.blocked != "" {
		message["promptFeedback"] = map[string]any{"blockReason": a.blocked}
		return message
	}
	message["candidates"] = []any{a.candidate(a.parts, true)}
	return message
}

// candidate has parts of an answer. The last one says why it ended; a candidate without parts has no content.
func (a *answer) candidate(parts []map[string]any, last bool) map[string]any {
	candidate := map[string]any{"index": 0}
	if len(parts) > 0 {
		candidate["content"] = map[string]any{"role": "model", "parts": parts}
	}
	if last {
		candidate["finishReason"] = cmp.Or(a.finish, "STOP")
		if a.message != "" {
			candidate["finishMessage"] = a.message
		}
	}
	return candidate
}

// events are those of a stream: texts in pieces of a few characters, and the signature of one in an empty piece.
func (a *answer) events(model string, usage any) (list []string) {
	add := func(message map[string]any) { list = append(list, "data: "+string(jsonOf(message))+"\r\n\r\n") }
	piece := func(part map[string]any) {
		add(map[string]any{"candidates": []any{a.candidate([]map[string]any{part}, false)}, "modelVersion": model,
			"usageMetadata": usage})
	}
	if a.blocked != "" {
		add(a.body(model, usage))
		return list
	}
	for _, p := range a.parts {
		s, isText := p["text"].(string)
		if !isText {
			piece(p)
			continue
		}
		for chunk := range slices.Chunk([]rune(s), 5) {
			part := map[string]any{"text": string(chunk)}
			if p["thought"] == true {
				part["thought"] = true
			}
			piece(part)
		}
		if p["thoughtSignature"] != nil {
			piece(signed(text("")))
		}
	}
	add(map[string]any{"candidates": []any{a.candidate([]map[string]any{text("")}, true)}, "modelVersion": model, "usageMetadata": usage})
	return list
}

func jsonOf(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

var functionName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_.:-]{0,127}$`)

// check returns what is wrong with a request; "": nothing.
func (r *sent) check() string {
	names := map[string]bool{}
	for _, list := range r.Tools {
		if len(list.FunctionDeclarations) == 0 {
			return "tools[0].tool_type: required one_of 'tool_type' must have one initialized field"
		}
		for i, f := range list.FunctionDeclarations {
			switch s := f.ParametersJSONSchema; {
			case !functionName.MatchString(f.Name):
				return fmt.Sprintf("tools[0].function_declarations[%d].name: Invalid function name.", i)
			case names[f.Name]:
				return "Duplicate function declaration found: " + f.Name
			case s != nil && s["type"] != "object":
				return fmt.Sprintf("tools[0].function_declarations[%d].parameters_json_schema: must describe an object", i)
			case s != nil:
				if fault := checkSchema(s); fault != "" {
					return fault
				}
			}
			names[f.Name] = true
		}
	}
	if s := r.SystemInstruction; s != nil {
		for _, p := range s.Parts {
			if p.Text == nil || strings.TrimSpace(*p.Text) == "" {
				return "systemInstruction: only text is allowed"
			}
		}
	}
	if len(r.Contents) == 0 || r.Contents[len(r.Contents)-1].Role != "user" {
		return "Please ensure that multiturn requests end with a user role or a function response."
	}
	for i, c := range r.Contents {
		if fault := r.checkContent(i, c, names); fault != "" {
			return fmt.Sprintf("contents[%d]: %s", i, fault)
		}
	}
	return cmp.Or(r.checkSignatures(), r.checkSettings(names))
}

// checkContent checks the turn i of the conversation.
func (r *sent) checkContent(i int, c sentContent, names map[string]bool) string {
	if c.Role != "user" && c.Role != "model" {
		return "Please use a valid role: user, model."
	}
	if len(c.Parts) == 0 {
		return "contents.parts must not be empty."
	}
	var before []sentPart // of the turn before
	if i > 0 {
		before = r.Contents[i-1].Parts
	}
	calls := slices.DeleteFunc(slices.Clone(before), func(p sentPart) bool { return p.FunctionCall == nil })
	results := 0
	for n, p := range c.Parts {
		if fault := cmp.Or(checkPart(c.Role, p), r.checkSignature(p)); fault != "" {
			return fmt.Sprintf("parts[%d]: %s", n, fault)
		}
		if f := p.FunctionCall; f != nil && !names[f.Name] {
			return "Function " + f.Name + " is not declared"
		}
		f := p.FunctionResponse
		if f == nil {
			continue
		}
		switch {
		case results >= len(calls):
			return "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn."
		case f.Name != calls[results].FunctionCall.Name || f.ID != calls[results].FunctionCall.ID:
			return fmt.Sprintf("The function response %s (%s) does not match the function call", f.Name, f.ID)
		case f.Parts != nil && r.old():
			return "Multimodal function responses are not supported by this model"
		}
		results++
	}
	switch {
	case results != len(calls):
		return "Please ensure that function response turn comes immediately after a function call turn."
	case results > 0 && results != len(c.Parts):
		return "Please ensure that a function response turn has nothing but function responses."
	case i == 0 && c.Role != "user":
		return "Please ensure that function call turn comes immediately after a user turn or after a function response turn."
	case i > 0 && c.Role == "model" && r.Contents[i-1].Role == "model":
		return "Please ensure that multiturn requests alternate between user and model."
	}
	return ""
}

// checkSignatures checks that calls of this turn have signatures: since the user spoke last, the first of each answer.
func (r *sent) checkSignatures() string {
	if r.old() {
		return ""
	}
	for i, c := range slices.Backward(r.Contents) {
		spoken := slices.ContainsFunc(c.Parts, func(p sentPart) bool { return p.FunctionResponse == nil })
		if c.Role == "user" && spoken {
			return ""
		}
		for n, p := range c.Parts {
			if p.FunctionCall == nil {
				continue
			}
			if p.ThoughtSignature == "" {
				return fmt.Sprintf("contents[%d]: Function call is missing a thought_signature in functionCall parts. "+
					"Additional data, function call `default_api:%s`, position %d.", i, p.FunctionCall.Name, n)
			}
			break
		}
	}
	return ""
}

func checkPart(role string, p sentPart) string {
	fields := 0
	for _, set := range []bool{p.Text != nil, p.InlineData != nil, p.FileData != nil, p.FunctionCall != nil, p.FunctionResponse != nil, p.ExecutableCode != nil} {
		if set {
			fields++
		}
	}
	user := role == "user"
	switch {
	case fields != 1:
		return "required oneof field 'data' must have one initialized field"
	case p.Text != nil && strings.TrimSpace(*p.Text) == "" && p.ThoughtSignature == "":
		return "Unable to submit request because it must have a text parameter."
	case user && (p.FunctionCall != nil || p.Thought || p.ExecutableCode != nil), !user && p.FunctionResponse != nil:
		return "the part is not of the role " + role
	case p.FunctionCall != nil && (p.FunctionCall.Args == nil || !functionName.MatchString(p.FunctionCall.Name)):
		return "functionCall: args must be an object"
	case p.FunctionResponse != nil:
		_, isText := p.FunctionResponse.Response["output"].(string)
		if !isText || len(p.FunctionResponse.Response) != 1 {
			return "functionResponse: response must be an object"
		}
		for _, inner := range p.FunctionResponse.Parts {
			if inner.InlineData == nil && inner.FileData == nil {
				return "functionResponse: parts must have data"
			}
		}
	case p.InlineData != nil:
		kind, subtype, _ := strings.Cut(p.InlineData.MIMEType, "/")
		if len(p.InlineData.Data) == 0 || subtype == "" || subtype == "*" || !slices.Contains([]string{"image", "audio", "video", "application"}, kind) {
			return "Unsupported MIME type: " + p.InlineData.MIMEType
		}
	case p.FileData != nil:
		if !strings.HasPrefix(p.FileData.FileURI, "https://") || p.FileData.MIMEType != nil && (*p.FileData.MIMEType == "" || strings.HasSuffix(*p.FileData.MIMEType, "*")) {
			return "Invalid or unsupported file uri: " + p.FileData.FileURI
		}
	}
	return ""
}

func (r *sent) checkSettings(names map[string]bool) string {
	g := r.GenerationConfig
	if r.ToolConfig != nil {
		switch c := r.ToolConfig.FunctionCallingConfig; {
		case len(names) == 0:
			return "Function calling config is set without function_declarations."
		case !slices.Contains([]string{"AUTO", "ANY", "NONE"}, c.Mode):
			return "Invalid value at 'tool_config.function_calling_config.mode'"
		case c.AllowedFunctionNames != nil && c.Mode != "ANY":
			return "allowed_function_names should be set only when function calling mode is ANY"
		case slices.ContainsFunc(c.AllowedFunctionNames, func(name string) bool { return !names[name] }):
			return "allowed_function_names should be a subset of function_declarations"
		}
	}
	switch th := g.ThinkingConfig; {
	case th == nil:
	case th.ThinkingBudget != nil && th.ThinkingLevel != "":
		return "You can only set only one of thinking budget and thinking level."
	case r.old() && th.ThinkingLevel != "":
		return "Thinking level is not supported for this model."
	case !r.old() && !slices.Contains([]string{"MINIMAL", "LOW", "MEDIUM", "HIGH"}, th.ThinkingLevel):
		return "Invalid value at 'generation_config.thinking_config.thinking_level': " + th.ThinkingLevel
	case r.old() && (*th.ThinkingBudget < 0 || *th.ThinkingBudget > 24576):
		return "The thinking budget is out of range"
	}
	for _, s := range r.SafetySettings {
		if !strings.HasPrefix(s.Category, "HARM_CATEGORY_") || !slices.Contains([]string{"OFF", "BLOCK_NONE", "BLOCK_ONLY_HIGH", "BLOCK_MEDIUM_AND_ABOVE", "BLOCK_LOW_AND_ABOVE"}, s.Threshold) {
			return "Invalid value at 'safety_settings'"
		}
	}
	switch {
	case g.Temperature != nil && (*g.Temperature < 0 || *g.Temperature > 2):
		return "temperature must be in the range [0.0, 2.0]"
	case len(g.StopSequences) > 5:
		return "stop_sequences: at most 5"
	case (g.ResponseJSONSchema != nil) != (g.ResponseMIMEType == "application/json"):
		return "response_mime_type must be application/json"
	case g.ResponseJSONSchema != nil && len(names) > 0 && r.old():
		return "Function calling with a response mime type: 'application/json' is unsupported"
	case g.ResponseJSONSchema != nil:
		var s map[string]any
		if json.Unmarshal(g.ResponseJSONSchema, &s) != nil {
			return "response_json_schema: must be an object"
		}
		return checkSchema(s)
	}
	return ""
}

// checkSchema checks a schema: its keywords are those of the doc comment of ResponseJsonSchema.
func checkSchema(s map[string]any) string {
	for key, v := range s {
		var subs []any
		switch key {
		case "type", "format", "title", "description", "minItems", "maxItems", "minimum", "maximum", "required", "propertyOrdering":
		case "enum":
			for _, value := range v.([]any) {
				switch value.(type) {
				case string, float64:
				default:
					return fmt.Sprintf("enum: %v is neither a string nor a number", value)
				}
			}
		case "items":
			subs = []any{v}
		case "additionalProperties":
			if _, isBool := v.(bool); !isBool {
				subs = []any{v}
			}
		case "anyOf", "oneOf", "prefixItems":
			subs = v.([]any)
		case "properties":
			subs = slices.Collect(maps.Values(v.(map[string]any)))
		default:
			return fmt.Sprintf("Unknown name %q: Cannot find field.", key)
		}
		for _, sub := range subs {
			schema, ok := sub.(map[string]any)
			if !ok {
				return key + ": must have schemas"
			}
			if fault := checkSchema(schema); fault != "" {
				return fault
			}
		}
	}
	return ""
}

// leastCached is the length, in tokens, of what the implicit cache keeps at least.
const leastCached = 1024

// count counts the tokens of a request, four bytes each, and those that the cache has: the longest prefix of an earlier
// request, in whole parts.
func (p *provider) count(r *sent) map[string]int {
	pieces := []any{r.SystemInstruction, r.Tools}
	for _, c := range r.Contents {
		for _, part := range c.Parts {
			pieces = append(pieces, []any{c.Role, part})
		}
	}
	h, sum, cached := sha256.New(), 0, 0
	for _, piece := range pieces {
		data := jsonOf(piece)
		h.Write(data)
		sum += len(data) / 4
		prefix := [sha256.Size]byte(h.Sum(nil))
		if p.cache[prefix] && sum >= leastCached {
			cached = sum
		}
		p.cache[prefix] = true
	}
	usage := map[string]int{"promptTokenCount": sum}
	if cached > 0 {
		usage["cachedContentTokenCount"] = cached
	}
	return usage
}
