package oteltrace

import (
	"bytes"
	"encoding/json"
	"time"

	"go.opentelemetry.io/otel/attribute"
	api "go.opentelemetry.io/otel/trace"
)

// maxContent is how many bytes one attribute of content may have.
const maxContent = 64 << 10

// show adds content to a span, as JSON; nil is none.
func (r *run) show(s span, at time.Time, key string, content any) {
	if !r.to.content || content == nil || !s.IsRecording() {
		return
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(content); err != nil {
		return // decoded JSON can be encoded
	}
	b.Truncate(b.Len() - 1) // the newline
	if b.Len() > maxContent {
		s.AddEvent(braiseLeftOut, api.WithTimestamp(at),
			api.WithAttributes(attribute.String(braiseAttribute, key), attribute.Int(braiseBytes, b.Len())))
		return
	}
	s.SetAttributes(attribute.String(key, b.String()))
}

// inputMessages puts the messages of a request into the shape of the conventions.
func inputMessages(messages []any) []any {
	list := []any{}
	for _, m := range messages {
		if m, ok := m.(map[string]any); ok {
			list = append(list, map[string]any{"role": m["role"], "parts": parts(m)})
		}
	}
	return list
}

// outputMessages puts an answer into the shape of the conventions.
func outputMessages(answer map[string]any, finish string) []any {
	switch finish {
	case "":
		finish = "stop" // required; without a reason the answer is complete
	case "tool_calls":
		finish = "tool_call"
	}
	return []any{map[string]any{"role": "assistant", "parts": parts(answer), "finish_reason": finish}}
}

// parts returns the parts of a message: {text, tool_calls, tool_call_id}.
func parts(m map[string]any) []any {
	list := []any{}
	if id, ok := m["tool_call_id"].(string); ok && id != "" {
		return append(list, map[string]any{"type": "tool_call_response", "id": id, "response": m["text"]})
	}
	if text, _ := m["text"].(string); text != "" {
		list = append(list, map[string]any{"type": "text", "content": text})
	}
	calls, _ := m["tool_calls"].([]any)
	for _, c := range calls {
		if c, ok := c.(map[string]any); ok {
			list = append(list, map[string]any{
				"type": "tool_call", "id": c["id"], "name": c["name"], "arguments": c["arguments"],
			})
		}
	}
	return list
}

// toolDefinitions puts the tools of a request into the shape of the conventions.
func toolDefinitions(tools []any) []any {
	list := []any{}
	for _, t := range tools {
		if t, ok := t.(map[string]any); ok {
			definition := map[string]any{"type": "function"}
			for _, key := range []string{"name", "description", "parameters"} {
				if v := t[key]; v != nil {
					definition[key] = v
				}
			}
			list = append(list, definition)
		}
	}
	return list
}

// documents are the ids and scores of what a retriever has found; nil if that is not shown.
func documents(content any) any {
	output, _ := content.(map[string]any)
	found, ok := output["documents"].([]any)
	if !ok {
		return nil
	}
	list := []any{}
	for _, d := range found {
		if d, ok := d.(map[string]any); ok {
			list = append(list, map[string]any{"id": d["id"], "score": d["score"]})
		}
	}
	return list
}
