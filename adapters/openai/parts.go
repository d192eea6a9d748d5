package openai

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/braise-run/braise/internal/endpoint"
	"github.com/braise-run/braise/runtime"
)

// extras are the members of a message, or of a tool call in it, that the adapter does not read. Some endpoints refuse
// the next request without them: their thinking, and the signatures of it.
type extras map[string]json.RawMessage

// The members that are read, or that are not needed again.
var (
	readOfMessage = []string{"role", "content", "refusal", "tool_calls", "function_call", "annotations", "audio",
		"name", "tool_call_id"}
	readOfCall = []string{"index", "id", "type", "function"}
)

// hasExtras reports whether there may be extras in an answer, or in a piece of one: names of members other than those
// that are read, in a message or a call, by the depth at which these are. Nearly all pieces of a stream have none.
func hasExtras(body []byte) bool {
	depth := 0
	for i := 0; i < len(body); i++ {
		switch body[i] {
		case '{':
			depth++
		case '}':
			depth--
		case '"':
			start := i + 1
			for i++; i < len(body) && body[i] != '"'; i++ {
				if body[i] == '\\' {
					i++
				}
			}
			end := min(i, len(body))
			for i+1 < len(body) && strings.IndexByte(" \t\r\n", body[i+1]) >= 0 {
				i++
			}
			if i+1 >= len(body) || body[i+1] != ':' {
				continue
			}
			name := string(body[start:end])
			if depth == depthOfMessage && !slices.Contains(readOfMessage, name) ||
				depth == depthOfCall && !slices.Contains(readOfCall, name) ||
				name == "content" && bytes.HasPrefix(bytes.TrimLeft(body[i+2:], " \t\r\n"), []byte("[")) {
				return true
			}
		}
	}
	return false
}

// How deep the members of messages and of calls are: {choices: [{message: {tool_calls: [{}]}}]}
const (
	depthOfMessage = 3
	depthOfCall    = 4
)

// readExtras notes the extras of an answer, or of a piece of one.
func (r *reply) readExtras(body []byte) {
	if !hasExtras(body) {
		return
	}
	type raw struct {
		extras
		calls []extras
	}
	read := func(text json.RawMessage) (m raw) {
		if json.Unmarshal(text, &m.extras) != nil {
			return raw{}
		}
		_ = json.Unmarshal(m.extras["tool_calls"], &m.calls) // what is no list has none
		content := m.extras["content"]
		m.extras.leaveOut(readOfMessage)
		if hasOtherParts(content) {
			m.extras["content"] = content
		}
		return m
	}
	var all struct {
		Choices []struct{ Message, Delta json.RawMessage }
	}
	if json.Unmarshal(body, &all) != nil || len(all.Choices) != len(r.Choices) {
		return
	}
	for i, c := range all.Choices {
		for _, part := range []struct {
			to   *said
			text json.RawMessage
		}{{r.Choices[i].Message, c.Message}, {r.Choices[i].Delta, c.Delta}} {
			if part.to == nil {
				continue
			}
			m := read(part.text)
			part.to.extras = m.extras
			for j := range min(len(m.calls), len(part.to.ToolCalls)) {
				m.calls[j].leaveOut(readOfCall)
				part.to.ToolCalls[j].extras = m.calls[j]
			}
		}
	}
}

// hasOtherParts reports whether the content of a message is a list with more than texts.
func hasOtherParts(content json.RawMessage) bool {
	var parts []struct {
		Type string `json:"type"`
	}
	return json.Unmarshal(content, &parts) == nil &&
		slices.ContainsFunc(parts, func(p struct {
			Type string `json:"type"`
		}) bool {
			return p.Type != "text"
		})
}

// leaveOut drops members by name, and those that say nothing.
func (e extras) leaveOut(names []string) {
	maps.DeleteFunc(e, func(name string, v json.RawMessage) bool {
		return slices.Contains(names, name) || endpoint.IsEmpty(v)
	})
}

// add adds those of a piece, and returns how many bytes that are.
func (e *extras) add(piece extras) (n int64) {
	for name, v := range piece {
		if *e == nil {
			*e = extras{}
		}
		(*e)[name] = joined((*e)[name], v)
		n += int64(len(name) + len(v))
	}
	return n
}

// addExtras adds those of a piece of a message, before its content is added. Where the content is more than text, in
// this piece or an earlier one, its texts are parts of it.
func (s *said) addExtras(piece *said) int64 {
	asPart := func(t text) json.RawMessage {
		return encodedOf([]map[string]string{{"type": "text", "text": string(t)}}, nil)
	}
	mixed := s.extras["content"] != nil
	if piece.extras["content"] != nil && !mixed && len(s.Content) > 0 {
		s.extras.add(extras{"content": asPart(s.Content)})
	} else if mixed && piece.extras["content"] == nil && len(piece.Content) > 0 {
		piece.extras.add(extras{"content": asPart(piece.Content)})
	}
	return s.extras.add(piece.extras)
}

// joined joins two pieces of a member: texts and lists are appended, anything else is replaced. In a list,
// neighbours with one index and type are one, and so are texts.
func joined(before, piece json.RawMessage) json.RawMessage {
	if len(before) > 1 && len(piece) > 1 && before[0] == '"' && piece[0] == '"' {
		return append(before[:len(before)-1], piece[1:]...) // there may be very many
	}
	list, ok := decodedOf(before).([]any)
	more, isList := decodedOf(piece).([]any)
	if !ok || !isList {
		return piece
	}
	for _, v := range more {
		list = withItem(list, v)
	}
	return encodedOf(list, piece)
}

func withItem(list []any, item any) []any {
	piece, _ := item.(map[string]any)
	if len(list) == 0 || piece["index"] == nil && piece["type"] != "text" {
		return append(list, item)
	}
	last, _ := list[len(list)-1].(map[string]any)
	if last["index"] != piece["index"] || last["type"] != piece["type"] {
		return append(list, item)
	}
	for name, v := range piece {
		more, _ := v.(string)
		if text, ok := last[name].(string); ok && (name == "text" || name == "summary") {
			last[name] = text + more
		} else if v != nil {
			last[name] = v
		}
	}
	return list
}

func decodedOf(text json.RawMessage) (v any) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	_ = d.Decode(&v) // text was read before
	return v
}

func encodedOf(v any, otherwise json.RawMessage) json.RawMessage {
	text, err := json.Marshal(v)
	if err != nil {
		return otherwise
	}
	return text
}

// parts are the extras for the request after this one.
func (m *Model) parts(e extras) (list []runtime.Part) {
	for _, name := range slices.Sorted(maps.Keys(e)) {
		list = append(list, runtime.Part{Of: m.self(), Name: name, Data: encodedOf(decodedOf(e[name]), e[name])})
	}
	return list
}

// self names the model in its parts: another one may not understand them.
func (m *Model) self() string {
	name := m.Metadata().Provider + "/" + m.opts.Model
	if m.opts.API != "" { // the parts of each API have forms of their own
		name += " " + m.opts.API
	}
	return name
}

// withParts adds members to an object: those of parts that are the model's own, and that it does not have. Without
// parts it is the object itself, so that it is encoded once.
func (m *Model) withParts(object any, parts []runtime.Part) (any, error) {
	if len(parts) == 0 {
		return object, nil
	}
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, err
	}
	for _, p := range parts {
		if _, has := members[p.Name]; p.Of == m.self() && (!has || p.Name == "content") {
			members[p.Name] = p.Data
		}
	}
	return members, nil
}
