package schema

import (
	"encoding/json"
	"strings"

	"github.com/braise-run/braise/internal/value"
)

// maxStarts is how many braces and brackets of an answer are tried that begin no JSON.
const maxStarts = 64

// Answer reads a model's answer: text that is JSON, or that has one JSON value in it, in a fenced block or among
// words. A leading <think>…</think> does not count. fault says, for the model, what is wrong with the answer; ""
// is good.
func (s *Schema) Answer(text string) (v any, fault string) {
	v, err := value.Decode([]byte(jsonIn(withoutThoughts(text))))
	if err != nil {
		return nil, "it is not JSON: " + err.Error()
	}
	if problems := s.Check(v); problems != nil {
		return nil, "it does not match the schema: " + Describe(problems)
	}
	return v, ""
}

// withoutThoughts drops what a model thought aloud before its answer.
func withoutThoughts(text string) string {
	text = strings.TrimSpace(text)
	if rest, ok := strings.CutPrefix(text, "<think>"); ok {
		if _, answer, ok := strings.Cut(rest, "</think>"); ok {
			return strings.TrimSpace(answer)
		}
	}
	return text
}

// jsonIn returns the only JSON value in a text; the text itself if it has none, or more than one.
func jsonIn(text string) string {
	if json.Valid([]byte(text)) {
		return text
	}
	if block, ok := fencedBlock(text); ok {
		return block
	}
	if found, ok := onlyValue(text); ok {
		return found
	}
	return text
}

// onlyValue returns the only object or array among the words of a text.
func onlyValue(text string) (found string, ok bool) {
	for starts := 0; starts < maxStarts; {
		at := strings.IndexAny(text, "{[")
		if at < 0 {
			return found, found != ""
		}
		text = text[at:]
		d := json.NewDecoder(strings.NewReader(text))
		var raw json.RawMessage
		switch err := d.Decode(&raw); {
		case err != nil:
			starts++
			text = text[1:]
		case found != "":
			return "", false
		default:
			found, text = string(raw), text[d.InputOffset():]
		}
	}
	return "", false
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
