package schema

import (
	"strings"

	"github.com/braise-run/braise/internal/value"
)

// Answer reads a model's structured answer: the text, or the only fenced block in it, as JSON that matches
// the schema. fault says what is wrong with it; "" is good.
func (s *Schema) Answer(text string) (v any, fault string) {
	body := strings.TrimSpace(text)
	if block, ok := fencedBlock(body); ok {
		body = block
	}
	v, err := value.Decode([]byte(body))
	if err != nil {
		return nil, "it is not JSON: " + err.Error()
	}
	if problems := s.Check(v); problems != nil {
		return nil, "it does not match the schema: " + Describe(problems)
	}
	return v, ""
}

// fencedBlock returns the content of the only ``` block in text.
func fencedBlock(text string) (string, bool) {
	before, rest, ok := strings.Cut(text, "```")
	if !ok || strings.HasPrefix(before, "{") || strings.HasPrefix(before, "[") {
		return "", false // no fence, or one inside a JSON string
	}
	_, rest, ok = strings.Cut(rest, "\n") // the language
	if !ok {
		return "", false
	}
	block, after, ok := strings.Cut(rest, "\n```")
	if !ok || strings.Contains(after, "```") {
		return "", false
	}
	return block, true
}
