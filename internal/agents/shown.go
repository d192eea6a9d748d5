package agents

import (
	"slices"
	"strings"

	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
)

// resultsFor returns messages with those pictures of results only that a model takes. In place of the others it is told
// so.
func resultsFor(takes []string, messages []runtime.Message) []runtime.Message {
	shown := slices.Contains(takes, "files")
	copied := false
	for i, m := range messages {
		if m.Role != runtime.ToolRole || m.Files == nil {
			continue
		}
		var rest []runtime.File
		for _, f := range m.Files {
			if shown && runtime.TakesType(takes, f.MediaType) {
				rest = append(rest, f)
			} else {
				m.Text += "\n[not shown: the model does not take " + runtime.FilesOf(f.MediaType) + "]"
			}
		}
		if m.Files = rest; !copied {
			messages, copied = slices.Clone(messages), true
		}
		messages[i] = m
	}
	return messages
}

// filesNamed returns a message with the names of its files in place of these. A result has those already.
func filesNamed(m runtime.Message) runtime.Message {
	for _, f := range m.Files {
		if m.Role != runtime.ToolRole {
			m.Text = value.NameFile(m.Text, f.URL)
		}
	}
	m.Files = nil
	return m
}

// lasting returns messages as they are kept beyond the run: without parts, and with the names of files only.
func lasting(messages []runtime.Message) []runtime.Message {
	messages = slices.Clone(messages)
	for i := range messages {
		m := &messages[i]
		*m = filesNamed(*m)
		m.Parts = nil
		if slices.ContainsFunc(m.ToolCalls, func(c runtime.ToolCall) bool { return c.Parts != nil }) {
			m.ToolCalls = slices.Clone(m.ToolCalls)
			for j := range m.ToolCalls {
				m.ToolCalls[j].Parts = nil
			}
		}
	}
	return messages
}

// asked returns a request for display.
func asked(req *runtime.Request) any {
	shown := map[string]any{"messages": Shown(req.Messages)}
	if len(req.Tools) > 0 {
		tools := make([]any, len(req.Tools))
		for i, t := range req.Tools {
			tool := map[string]any{"name": t.Name}
			if t.Description != "" {
				tool["description"] = t.Description
			}
			if len(t.Parameters) > 0 {
				tool["parameters"] = Decoded(t.Parameters)
			}
			tools[i] = tool
		}
		shown["tools"] = tools
	}
	return shown
}

// Shown returns messages for display.
func Shown(messages []runtime.Message) []any {
	list := make([]any, len(messages))
	for i, m := range messages {
		shown := map[string]any{"role": string(m.Role), "text": m.Text}
		if len(m.ToolCalls) > 0 {
			calls := make([]any, len(m.ToolCalls))
			for j, c := range m.ToolCalls {
				calls[j] = map[string]any{"id": c.ID, "name": c.Name, "arguments": Decoded(c.Arguments)}
			}
			shown["tool_calls"] = calls
		}
		if m.ToolCallID != "" {
			shown["tool_call_id"] = m.ToolCallID
		}
		if m.Files != nil {
			shown["files"] = shownFiles(m.Files)
		}
		list[i] = shown
	}
	return list
}

// shownFiles returns files for display, without data.
func shownFiles(files []runtime.File) []any {
	list := make([]any, len(files))
	for i, f := range files {
		shown := map[string]any{}
		if !strings.HasPrefix(f.URL, "data:") {
			shown["file"] = f.URL
		}
		if f.MediaType != "" {
			shown["type"] = f.MediaType
		}
		if f.SHA256 != "" {
			shown["sha256"], shown["bytes"] = f.SHA256, f.Bytes
		}
		list[i] = shown
	}
	return list
}

// Planned returns the steps of a loop, and their calls, for display.
func Planned(s *State) any {
	steps := make([]any, s.Steps)
	at := 0
	for i := range steps {
		calls := []any{}
		for ; at < len(s.Calls) && s.Calls[at].Step == i+1; at++ {
			c := &s.Calls[at]
			call := map[string]any{"call": int64(at + 1), "tool": c.Name, "arguments": Decoded(c.Arguments)}
			if c.Code != "" {
				call["error"] = c.Code
			}
			calls = append(calls, call)
		}
		steps[i] = map[string]any{"step": int64(i + 1), "calls": calls}
	}
	return map[string]any{"steps": steps}
}
