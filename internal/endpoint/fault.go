package endpoint

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// fault is what a server says went wrong.
type fault struct {
	message string
	kinds   []string      // the type and the code, as far as they are words
	status  int           // the code, when it is a number
	after   time.Duration // how long to wait, as Google says it; 0: it does not say
}

// readFault reads the body of a failure: {error: …}, what vLLM makes of it, or a list of that, as
// Gemini sends it. nil when it is none of them.
func readFault(body []byte) *fault {
	if !bytes.Contains(body, []byte(`"error"`)) { // nearly every event of a stream
		return nil
	}
	var list []json.RawMessage
	if json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var object struct {
		Object string          `json:"object"`
		Error  json.RawMessage `json:"error"`
	}
	switch err := json.Unmarshal(body, &object); {
	case IsSet(object.Error):
		return faultOf(object.Error)
	case err == nil && object.Object == "error":
		return faultOf(body)
	}
	return nil
}

// faultOf reads an error: a text, or an object with members that servers do not agree about.
func faultOf(raw json.RawMessage) *fault {
	var f fault
	var object map[string]any
	if json.Unmarshal(raw, &f.message) == nil {
		return &f
	}
	f.message = string(raw)
	if json.Unmarshal(raw, &object) == nil {
		if s, ok := object["message"].(string); ok {
			f.message = s
		}
	}
	if details, ok := object["metadata"].(map[string]any); ok { // OpenRouter: what the provider said
		if s, ok := details["raw"].(string); ok {
			f.message += ": " + s
		}
	}
	if s, _ := object["failed_generation"].(string); s != "" { // Groq: what the model said
		f.message += ": " + s
	}
	f.after = retryInfo(object["details"])
	for _, key := range []string{"type", "code", "status"} {
		switch v := object[key].(type) {
		case string:
			f.kinds = append(f.kinds, v)
		case float64:
			if v >= 400 && v <= 599 {
				f.status = int(v)
			}
		}
	}
	return &f
}

// retryInfo is how long to wait, which is among Google's details: {"@type": "….RetryInfo", "retryDelay": "36.4s"}.
func retryInfo(details any) time.Duration {
	list, _ := details.([]any)
	for _, detail := range list {
		if d, ok := detail.(map[string]any); ok {
			delay, _ := d["retryDelay"].(string)
			if wait := retry.ParseAfter(strings.TrimSuffix(delay, "s")); wait > 0 {
				return wait
			}
		}
	}
	return 0
}

// Hint adds a line to a failure that says what can be done about it; hint returns that, or "". said is its message.
// Other errors stay as they are.
func Hint(err error, hint func(f *retry.Failure, said string) string) error {
	f, ok := errors.AsType[*retry.Failure](err)
	if !ok {
		return err
	}
	if text := hint(f, f.Err.Error()); text != "" {
		f.Err = fmt.Errorf("%w\n  hint: %s", f.Err, text)
	}
	return err
}

// err is the error of a message about the fault. That a request was too long has a code of its own: an agent that may
// summarise its conversation does so then. So has a prompt that a filter did not let through.
func (f *fault) err(message string, status int) error {
	code := ""
	switch {
	case f.tooLong(status):
		code = "model.tooLong"
	case f.has("content_filter"), f.has("content_policy_violation"):
		code = "model.filtered"
	default:
		return errors.New(message)
	}
	return &runtime.Error{Category: runtime.CategoryModel, Code: code, Err: errors.New(message)}
}

// has reports whether a type or code of the fault has a word in it.
func (f *fault) has(word string) bool {
	return slices.ContainsFunc(f.kinds, func(kind string) bool { return strings.Contains(kind, word) })
}

// tooLong reports whether a request has more tokens than the model takes, as OpenAI, llama.cpp, vLLM and others say it.
func (f *fault) tooLong(status int) bool {
	has := func(text string, parts ...string) bool {
		return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
	}
	return status == http.StatusRequestEntityTooLarge ||
		has(strings.Join(f.kinds, " "), "context_length", "exceed_context_size") ||
		status == http.StatusBadRequest && has(strings.ToLower(f.message),
			"context length", "context window", "context size", "context limit", "prompt is too long",
			"input token count")
}

// reason says whether trying again could help. status is that of the answer, or 200.
func (f *fault) reason(status int) retry.Reason {
	switch {
	case f.has("insufficient_quota"): // OpenAI sends it with 429, but no wait brings money
		return ""
	case f.has("tool_use_failed"): // Groq sends it with 400, but the model may call the tool better next time
		return retry.ServerError
	case status != http.StatusOK:
		return retry.ReasonOfStatus(status)
	case f.has("rate_limit"):
		return retry.RateLimit
	case f.has("server_error"), f.has("overloaded"), f.has("api_error"):
		return retry.ServerError
	}
	return ""
}

// IsEmpty reports whether a member says nothing: null, or an empty string, list or object.
func IsEmpty(raw json.RawMessage) bool {
	return slices.Contains([]string{"null", `""`, "[]", "{}"}, string(raw))
}

// IsSet reports whether an error is present, and is one.
func IsSet(raw json.RawMessage) bool {
	return len(raw) > 0 && string(raw) != "false" && !IsEmpty(raw)
}
