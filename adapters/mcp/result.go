package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/retry"
)

const quotedBytes = 2000 // of what a server said, in a message

// result makes the result of a tool of what its server has answered: the structured content, else the
// content, which is one value or a list.
func (s *Server) result(
	ctx context.Context, t *tool, about *sdk.Tool, answer json.RawMessage,
) (json.RawMessage, error) {
	bad := func(reason retry.Reason, format string, args ...any) error {
		return s.failed(&retry.Failure{Reason: reason, Sent: true,
			Err: fmt.Errorf("tool %q: "+format, append([]any{t.remote}, args...)...)})
	}
	var got struct {
		Content    []map[string]any `json:"content"`
		Structured json.RawMessage  `json:"structuredContent"`
		IsError    bool             `json:"isError"`
		Type       string           `json:"resultType"`
	}
	d := json.NewDecoder(bytes.NewReader(answer))
	d.UseNumber()
	if err := d.Decode(&got); err != nil {
		return nil, bad("", "its result does not keep to the protocol: %w", err)
	}
	switch {
	case got.Type == "input_required" && s.cfg.Elicit:
		return nil, bad(retry.Unknown, "it asks for nothing, and to be called again")
	case got.Type == "input_required":
		return nil, bad("", "it asks for input\n  hint: elicit of the server lets it ask the user, by a form")
	case got.IsError:
		return nil, bad(retry.Unknown, "%s", s.quote(ctx, textOf(got.Content)))
	}
	out := got.Structured
	if about.OutputSchema != nil {
		if err := checkOutput(about.OutputSchema, out); err != nil {
			return nil, bad("", "%w", err)
		}
	}
	if isNull(out) {
		var err error
		if out, err = json.Marshal(valueOf(got.Content)); err != nil {
			return nil, bad("", "%w", err)
		}
	}
	if text := string(out); s.hide.Text(text) != text {
		v, err := value.Decode(out)
		if err == nil {
			out, err = value.JSON(s.hide.Value(v))
		}
		if err != nil {
			return nil, bad("", "its result: %w", err)
		}
	}
	if len(out) > s.cfg.MaxBytes {
		return nil, bad("", "its result has %d bytes, more than %d", len(out), s.cfg.MaxBytes)
	}
	return out, nil
}

func isNull(text json.RawMessage) bool { return len(text) == 0 || string(text) == "null" }

// checkOutput checks structured content against the schema of a tool's output. A schema that cannot
// be read checks nothing.
func checkOutput(outputSchema any, out json.RawMessage) error {
	if isNull(out) {
		return errors.New("its result has no structured content, though it has a schema for it")
	}
	compiled := compile(outputSchema)
	if compiled == nil {
		return nil
	}
	v, err := value.Decode(out)
	if err != nil {
		return fmt.Errorf("its result: %w", err)
	}
	if problems := compiled.Check(v); len(problems) > 0 {
		return fmt.Errorf("its result does not match the schema of its output: %s", schema.Describe(problems))
	}
	return nil
}

// valueOf is what the blocks of a content come to: null, the value of the only one, or a list. A text
// is a string, everything else an object as the protocol has it.
func valueOf(content []map[string]any) any {
	var all []any
	for _, block := range content {
		if text, ok := block["text"].(string); ok && block["type"] == "text" {
			all = append(all, text)
			continue
		}
		plain := maps.Clone(block)
		delete(plain, "_meta")
		delete(plain, "annotations")
		all = append(all, plain)
	}
	switch len(all) {
	case 0:
		return nil
	case 1:
		return all[0]
	}
	return all
}

// textOf is what the content of a failure says.
func textOf(content []map[string]any) string {
	var all []string
	for _, block := range content {
		if text, ok := block["text"].(string); ok {
			all = append(all, text)
		}
	}
	if all == nil {
		return "it failed, and does not say why"
	}
	return strings.Join(all, " ")
}

// compile compiles a schema of a server; nil when it cannot.
func compile(s any) *schema.Schema {
	text, err := json.Marshal(s)
	if err != nil {
		return nil
	}
	compiled, err := schema.Compile(text)
	if err != nil {
		return nil
	}
	return compiled
}

// parameters is the schema of a tool's arguments. What we cannot check is left to the server: first
// regular expressions of other languages go, then everything.
func parameters(input any) json.RawMessage {
	object := readable(input)
	text, err := json.Marshal(object)
	if object == nil || err != nil {
		return inert
	}
	return text
}

// readable is a schema of an object, without regular expressions of other languages; nil: it is of something else, or
// still cannot be read.
func readable(s any) map[string]any {
	object, ok := s.(map[string]any)
	if !ok {
		return nil
	}
	object = maps.Clone(object)
	if object["type"] == nil {
		object["type"] = "object"
	}
	if object["type"] != "object" {
		return nil
	}
	if compile(object) == nil {
		object = withoutPatterns(object).(map[string]any)
	}
	if compile(object) == nil {
		return nil
	}
	return object
}

// withoutPatterns returns a schema without the patterns that are none of ours.
func withoutPatterns(v any) any {
	switch v := v.(type) {
	case map[string]any:
		kept := make(map[string]any, len(v))
		for key, member := range v {
			if text, ok := member.(string); ok && key == "pattern" {
				if _, err := regexp.Compile(text); err != nil {
					continue
				}
			}
			kept[key] = withoutPatterns(member)
		}
		return kept
	case []any:
		kept := make([]any, len(v))
		for i := range v {
			kept[i] = withoutPatterns(v[i])
		}
		return kept
	}
	return v
}

// quote is what a server said, for a message: secrets out, on one line, cut.
func (s *Server) quote(ctx context.Context, said string) string {
	line := oneLine(s.redact.Text(value.RedactorOf(ctx).Text(said)))
	if len(line) <= quotedBytes {
		return line
	}
	end := quotedBytes
	for !utf8.RuneStart(line[end]) {
		end--
	}
	return line[:end] + "…"
}

// quoteTail is quote for what is the end of a text, whose beginning may be cut off: in the middle of a secret.
func (s *Server) quoteTail(ctx context.Context) func(said string, cut bool) string {
	return func(said string, cut bool) string {
		line := oneLine(s.redact.Middle(value.RedactorOf(ctx).Middle(said, cut, false), cut, false))
		if begin := len(line) - quotedBytes; begin > 0 {
			for !utf8.RuneStart(line[begin]) {
				begin++
			}
			line, cut = line[begin:], true
		}
		if cut {
			return "…" + line
		}
		return line
	}
}

// oneLine folds white space, and leaves out what is not printable.
func oneLine(text string) string {
	printable := strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.IsControl(r) && !unicode.IsSpace(r) {
			return -1
		}
		return r
	}, text)
	return strings.Join(strings.Fields(printable), " ")
}
