package anthropic_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/anthropic"
	"github.com/braise-run/braise/runtime"
)

func user(text string) runtime.Message { return runtime.Message{Role: runtime.User, Text: text} }

func assistant(text string, calls ...runtime.ToolCall) runtime.Message {
	return runtime.Message{Role: runtime.Assistant, Text: text, ToolCalls: calls}
}

func system(text string) runtime.Message { return runtime.Message{Role: runtime.System, Text: text} }

func result(id, text string) runtime.Message {
	return runtime.Message{Role: runtime.ToolRole, ToolCallID: id, Text: text}
}

func call(id, name, args string) runtime.ToolCall {
	return runtime.ToolCall{ID: id, Name: name, Arguments: json.RawMessage(args)}
}

// words are the turns of a request in short, one a line: role, and of each block what it says.
func words(r *sent) string {
	var lines []string
	var in func(list []sentBlock) []string
	in = func(list []sentBlock) (said []string) {
		for _, b := range list {
			switch b.Type {
			case "text":
				said = append(said, fmt.Sprintf("%q", *b.Text))
			case "tool_use":
				said = append(said, fmt.Sprintf("%s=%s(%s)", b.ID, b.Name, jsonOf(b.Input)))
			case "tool_result":
				said = append(said, b.ToolUseID+"→"+strings.Join(in(b.Content), " "))
			case "thinking":
				said = append(said, "("+*b.Thinking+")")
			case "redacted_thinking":
				said = append(said, "(#"+b.Data+")")
			default:
				said = append(said, b.Type+":"+b.Source.MediaType+b.Source.URL)
			}
		}
		return said
	}
	if r.System != nil {
		lines = append(lines, "system: "+strings.Join(in(r.System), " "))
	}
	for _, turn := range r.Messages {
		lines = append(lines, turn.Role+": "+strings.Join(in(turn.Content), " "))
	}
	return strings.Join(lines, "\n")
}

// Each rule by which messages become turns. The provider takes all of them.
func TestRulesOfConversations(t *testing.T) {
	order := func(data string) []runtime.Part {
		return []runtime.Part{{Of: "anthropic/claude-sonnet-5-5", Name: "order", Data: json.RawMessage(data)}}
	}
	thinks := func(m runtime.Message, data string) runtime.Message {
		m.Parts = order(data)
		return m
	}
	hm := string(jsonOf(thought("Hm.")))
	png := runtime.File{URL: "data:image/png;base64,AAAA", MediaType: "image/png"}
	for _, tt := range []struct {
		name     string
		messages []runtime.Message
		want     string
	}{
		{"instructions stand apart", []runtime.Message{system("Be brief."), system("Be kind."), user("Hi")},
			"system: \"Be brief.\" \"Be kind.\"\nuser: \"Hi\""},
		{"later ones are of the user", []runtime.Message{user("Hi"), assistant("Yes?"), system("Now in French."), user("Go")},
			"user: \"Hi\"\nassistant: \"Yes?\"\nuser: \"[From the system, not from the user]\\nNow in French.\" \"Go\""},
		{"messages in a row are one turn", []runtime.Message{user("a"), user("b"), assistant("c"), assistant("d"), user("e")},
			"user: \"a\" \"b\"\nassistant: \"c\" \"d\"\nuser: \"e\""},
		{"the user begins", []runtime.Message{system("S"), assistant("Hello."), user("Hi")},
			"system: \"S\"\nuser: \"Begin.\"\nassistant: \"Hello.\"\nuser: \"Hi\""},
		{"the user begins, also without a word", []runtime.Message{system("Tell a joke.")},
			"system: \"Tell a joke.\"\nuser: \"Begin.\""},
		{"empty texts are left out", []runtime.Message{system(" "), user("a"), user(" \n"), assistant("\t"), user("b")},
			"user: \"a\" \"b\""},
		{"results come first", []runtime.Message{user("a"), assistant("I look.", call("1", "look", `{"n":1}`), call("2", "look", `{}`)),
			result("2", "two"), user("And?"), result("1", "one")},
			"user: \"a\"\nassistant: \"I look.\" 1=look({\"n\":1}) 2=look({})\nuser: 2→\"two\" 1→\"one\" \"And?\""},
		{"a result may be empty", []runtime.Message{user("a"), assistant("", call("1", "look", `{}`)), result("1", "")},
			"user: \"a\"\nassistant: 1=look({})\nuser: 1→"},
		{"each call has a result", []runtime.Message{user("a"), assistant("", call("1", "look", `{}`)), assistant("", call("2", "look", `{}`)),
			result("1", "one"), user("b"), assistant("c"), user("d")},
			"user: \"a\"\nassistant: 1=look({}) 2=look({})\nuser: 1→\"one\" 2→\"(no result)\" \"b\"\nassistant: \"c\"\nuser: \"d\""},
		{"each call has a result, also at the end", []runtime.Message{user("a"), assistant("", call("1", "look", `{}`))},
			"user: \"a\"\nassistant: 1=look({})\nuser: 1→\"(no result)\""},
		{"a result without its call is a text", []runtime.Message{result("1", "one"), user("Go on")},
			"user: \"[The result of an earlier tool call]\" \"one\" \"Go on\""},
		{"an answer ends in no white space", []runtime.Message{user("Count"), assistant("1, 2, \n")},
			"user: \"Count\"\nassistant: \"1, 2,\""},
		{"ids have few characters", []runtime.Message{user("a"), assistant("", call("functions.look:0", "look", `{}`)), result("functions.look:0", "x")},
			"user: \"a\"\nassistant: call_ec0002042636dd8aa1e=look({})\nuser: call_ec0002042636dd8aa1e→\"x\""},
		{"names have few characters", []runtime.Message{user("a"), assistant("", call("1", "file.read", `{}`)), result("1", "x")},
			"user: \"a\"\nassistant: 1=file__read({})\nuser: 1→\"x\""},
		{"arguments are an object", []runtime.Message{user("a"), assistant("", call("1", "look", `"{\"n\": 1"`)), result("1", "that is no JSON")},
			"user: \"a\"\nassistant: 1=look({})\nuser: 1→\"that is no JSON\""},
		{"files come before their text", []runtime.Message{{Role: runtime.User, Text: "What is it?", Files: []runtime.File{png,
			{URL: "https://example.com/a.jpg", MediaType: "image/jpeg"}, {URL: "https://example.com/a.pdf", MediaType: "application/pdf"},
			{URL: "data:application/pdf;base64,AAAA", MediaType: "application/pdf"}, {URL: "data:text/csv;base64,YSxi", MediaType: "text/csv"},
			{URL: "data:text/csv;base64,IA==", MediaType: "text/csv"}}}},
			`user: image:image/png image:https://example.com/a.jpg document:https://example.com/a.pdf document:application/pdf "a,b" "What is it?"`},
		{"results have files", []runtime.Message{user("a"), assistant("", call("1", "look", `{}`)),
			{Role: runtime.ToolRole, ToolCallID: "1", Text: "here", Files: []runtime.File{png}}},
			"user: \"a\"\nassistant: 1=look({})\nuser: 1→image:image/png \"here\""},
		{"thoughts stand where they stood", []runtime.Message{user("a"), thinks(assistant("I look. Twice.", call("1", "look", `{}`), call("2", "look", `{}`)),
			`[`+hm+`, 8, "call", {"type": "redacted_thinking", "data": "x"}, 6, "call"]`), result("1", "x"), result("2", "y")},
			"user: \"a\"\nassistant: (Hm.) \"I look. \" 1=look({}) (#x) \"Twice.\" 2=look({})\nuser: 1→\"x\" 2→\"y\""},
		{"thoughts stand before a text that has changed", []runtime.Message{user("a"), thinks(assistant("é", call("1", "look", `{}`)),
			`[`+hm+`, 1, "call", "call", 9]`), result("1", "x")},
			"user: \"a\"\nassistant: (Hm.) \"é\" 1=look({})\nuser: 1→\"x\""},
		{"thoughts of other models are left out", []runtime.Message{user("a"), {Role: runtime.Assistant, Text: "b",
			Parts: []runtime.Part{{Of: "anthropic/claude-opus-5", Name: "order", Data: json.RawMessage(`[` + hm + `, 1]`)}}}, user("c")},
			"user: \"a\"\nassistant: \"b\"\nuser: \"c\""},
	} {
		p, m := serve(t, anthropic.Options{}, func(*sent) answer { return answer{blocks: []map[string]any{text("ok")}} })
		_, err := m.Generate(t.Context(), &runtime.Request{Messages: tt.messages})
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if diff := cmp.Diff(tt.want, words(p.got[0])); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// What cannot be sent is refused before, with what to do.
func TestWhatCannotBeSent(t *testing.T) {
	file := func(url, mediaType string) []runtime.Message {
		return []runtime.Message{{Role: runtime.User, Text: "a", Files: []runtime.File{{URL: url, MediaType: mediaType}}}}
	}
	for _, tt := range []struct {
		req  runtime.Request
		want string
	}{
		{runtime.Request{}, "nothing is asked: all messages are empty\n  hint: give a prompt that is not empty"},
		{runtime.Request{Messages: []runtime.Message{user(" ")}}, "nothing is asked: all messages are empty\n  hint: give a prompt that is not empty"},
		{runtime.Request{Messages: file("data:image/tiff;base64,AAAA", "image/tiff")}, "file 1 is of the type image/tiff\n  hint: images can be JPEG, PNG, GIF or WebP"},
		{runtime.Request{Messages: file("data:audio/wav;base64,AAAA", "audio/wav")}, "file 1 is of the type audio/wav\n  hint: images, PDFs and texts can be sent"},
		{runtime.Request{Messages: file("https://example.com/a.txt", "text/plain")}, "file 1 is of the type text/plain, and only images and PDFs may be https URLs\n  hint: give it as a data URL"},
		{runtime.Request{Messages: file("data:text/plain;base64,/w==", "text/plain")}, "file 1 is not UTF-8 text"},
		{runtime.Request{Messages: file("data:image/png;base64,!", "image/png")}, "file 1 cannot be read: what is in the data URL is not base64"},
		{runtime.Request{Messages: []runtime.Message{user("a")}, Tools: []runtime.ToolSpec{{Name: "a.b"}, {Name: "a__b"}}},
			"the tools \"a.b\" and \"a__b\" are both \"a__b\" to the endpoint\n  hint: rename one of them"},
	} {
		p, m := serve(t, anthropic.Options{}, nil)
		_, err := m.Generate(t.Context(), &tt.req)
		if want := `model "claude-sonnet-5-5": ` + tt.want; err == nil || err.Error() != want || len(p.got) > 0 {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
}

// settings are a request without its turns and texts, as JSON.
func settings(r *sent) map[string]any {
	short := map[string]any{"max_tokens": r.MaxTokens}
	for _, tool := range r.Tools {
		short["tool "+tool.Name] = tool.Description + " " + string(jsonOf(tool.InputSchema))
	}
	var rest map[string]any
	if err := json.Unmarshal(jsonOf(r), &rest); err != nil {
		panic(err)
	}
	for _, name := range []string{"tool_choice", "temperature", "top_p", "top_k", "stop_sequences", "service_tier", "metadata", "thinking", "output_config"} {
		if v := rest[name]; v != nil && v != "" {
			short[name] = string(jsonOf(v))
		}
	}
	return short
}

// What a request has beside its messages.
func TestSettings(t *testing.T) {
	half, warm := 0.5, 0.3
	look := []runtime.ToolSpec{{Name: "look", Description: "Looks.", Parameters: json.RawMessage(`{"type": "object", "properties": {"at": {"type": "string"}}}`)}}
	const lookIs = `Looks. {"properties":{"at":{"type":"string"}},"type":"object"}`
	long := strings.Repeat("x", 80) + ".read"
	const old = "claude-haiku-4-5"
	asked := []runtime.Message{user("a"), assistant("", call("1", "look", `{}`)), result("1", "x")}
	for _, tt := range []struct {
		name string
		opts anthropic.Options
		req  runtime.Request
		want map[string]any
	}{
		{"nothing", anthropic.Options{}, runtime.Request{}, map[string]any{"max_tokens": 16384}},
		{"the step's", anthropic.Options{Model: old, MaxTokens: 100, Defaults: map[string]any{"temperature": 1, "top_p": 1, "stop_sequences": []string{"a"}}},
			runtime.Request{MaxTokens: 50, Temperature: &half, Options: runtime.ModelOptions{TopP: &warm, Stop: []string{"END"}}},
			map[string]any{"max_tokens": 50, "temperature": "0.5", "top_p": "0.3", "stop_sequences": `["END"]`}},
		{"the model's", anthropic.Options{Model: old, MaxTokens: 100, Defaults: map[string]any{"temperature": 1, "top_p": 0.5, "top_k": 5, "stop_sequences": []string{"a"},
			"service_tier": "standard_only", "metadata": map[string]any{"user_id": "u"}, "thinking": map[string]any{"type": "enabled", "budget_tokens": 1024}}, Reasoning: "low"},
			runtime.Request{MaxTokens: 9000}, map[string]any{"max_tokens": 9000, "temperature": "1", "top_p": "0.5", "top_k": "5", "stop_sequences": `["a"]`,
				"service_tier": `"standard_only"`, "metadata": `{"user_id":"u"}`, "thinking": `{"budget_tokens":1125,"type":"enabled"}`}},
		{"tools", anthropic.Options{}, runtime.Request{Tools: append(look, runtime.ToolSpec{Name: long})},
			map[string]any{"max_tokens": 16384, "tool look": lookIs, "tool " + strings.Repeat("x", 55) + "_7b226666": ` {"properties":{},"type":"object"}`}},
		{"a schema of a tool", anthropic.Options{}, runtime.Request{Tools: []runtime.ToolSpec{{Name: "t", Parameters: json.RawMessage(`{"anyOf": [{"required": ["a"]}]}`)}}},
			map[string]any{"max_tokens": 16384, "tool t": `The arguments must also match anyOf: [{"required": ["a"]}]. {"properties":{},"type":"object"}`}},
		{"no tools in a conversation with calls", anthropic.Options{}, runtime.Request{Messages: asked},
			map[string]any{"max_tokens": 16384, "tool look": ` {"properties":{},"type":"object"}`, "tool_choice": `{"disable_parallel_tool_use":false,"name":"","type":"none"}`}},
		{"auto", anthropic.Options{}, runtime.Request{Tools: look, Options: runtime.ModelOptions{ToolChoice: "auto"}}, map[string]any{"max_tokens": 16384, "tool look": lookIs}},
		{"none", anthropic.Options{OneCall: true}, runtime.Request{Tools: look, Options: runtime.ModelOptions{ToolChoice: "none"}},
			map[string]any{"max_tokens": 16384, "tool look": lookIs, "tool_choice": `{"disable_parallel_tool_use":false,"name":"","type":"none"}`}},
		{"required", anthropic.Options{OneCall: true}, runtime.Request{Tools: look, Options: runtime.ModelOptions{ToolChoice: "required"}},
			map[string]any{"max_tokens": 16384, "tool look": lookIs, "tool_choice": `{"disable_parallel_tool_use":true,"name":"","type":"any"}`}},
		{"one tool", anthropic.Options{}, runtime.Request{Tools: []runtime.ToolSpec{{Name: "file.read"}}, Options: runtime.ModelOptions{ToolChoice: "file.read"}},
			map[string]any{"max_tokens": 16384, "tool file__read": ` {"properties":{},"type":"object"}`, "tool_choice": `{"disable_parallel_tool_use":false,"name":"file__read","type":"tool"}`}},
		{"one call", anthropic.Options{OneCall: true}, runtime.Request{Tools: look},
			map[string]any{"max_tokens": 16384, "tool look": lookIs, "tool_choice": `{"disable_parallel_tool_use":true,"name":"","type":"auto"}`}},
		{"thinking by effort", anthropic.Options{Reasoning: "max"}, runtime.Request{Options: runtime.ModelOptions{Reasoning: "high"}},
			map[string]any{"max_tokens": 16384, "thinking": `{"budget_tokens":0,"type":"adaptive"}`, "output_config": `{"effort":"high","format":null}`}},
		{"thinking by budget", anthropic.Options{Model: old}, runtime.Request{Options: runtime.ModelOptions{Reasoning: "high"}},
			map[string]any{"max_tokens": 16384, "thinking": `{"budget_tokens":8192,"type":"enabled"}`}},
		{"thinking by budget does not begin within a turn", anthropic.Options{Model: old}, runtime.Request{Messages: asked, Tools: look, Options: runtime.ModelOptions{Reasoning: "high"}},
			map[string]any{"max_tokens": 16384, "tool look": lookIs}},
		{"a schema", anthropic.Options{}, runtime.Request{Schema: json.RawMessage(`{"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}`)},
			map[string]any{"max_tokens": 16384, "output_config": `{"effort":"","format":{"schema":{"additionalProperties":false,"properties":{"n":{"description":"{minimum: 1}","type":"integer"}},` +
				`"required":["n"],"type":"object"},"type":"json_schema"}}`}},
	} {
		p, m := serve(t, tt.opts, func(*sent) answer { return answer{blocks: []map[string]any{text("ok")}} })
		if tt.req.Messages == nil {
			tt.req.Messages = []runtime.Message{user("a")}
		}
		_, err := m.Generate(t.Context(), &tt.req)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if diff := cmp.Diff(tt.want, settings(p.got[0])); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// Schemas that structured outputs take, and those that are put into words, also because the model has none.
func TestSchemas(t *testing.T) {
	for _, tt := range []struct {
		schema, want string // "": in words
	}{
		{`{"type": "object", "properties": {}}`, `{"additionalProperties":false,"properties":{},"type":"object"}`},
		{`{"type": "object", "properties": {"a": {"type": "array", "items": {"enum": ["x"]}, "minItems": 2}}, "$schema": "s"}`,
			`{"additionalProperties":false,"properties":{"a":{"description":"{minItems: 2}","items":{"enum":["x"]},"type":"array"}},"type":"object"}`},
		{`{"type": "object", "properties": {"a": {"$ref": "#/$defs/b", "title": "A"}}, "$defs": {"b": {"anyOf": [{"type": "null"}, {"type": "string", "maxLength": 3, "description": "Short."}]}}}`,
			`{"$defs":{"b":{"anyOf":[{"type":"null"},{"description":"Short. {maxLength: 3}","type":"string"}]}},"additionalProperties":false,"properties":{"a":{"$ref":"#/$defs/b"}},"type":"object"}`},
		{`{"type": "array", "items": {"type": "string"}}`, ""},
		{`{"type": "object"}`, ""},
		{`{"type": "object", "properties": {"a": {}}}`, ""},
		{`{"type": "object", "properties": {"a": true}}`, ""},
		{`{"type": "object", "properties": {"a": {"type": "object", "additionalProperties": {"type": "string"}}}}`, ""},
	} {
		for _, off := range []bool{false, true} {
			p, m := serve(t, anthropic.Options{NoSchema: off}, func(*sent) answer { return answer{blocks: []map[string]any{text("{}")}} })
			if _, err := m.Generate(t.Context(), &runtime.Request{Messages: []runtime.Message{system("S"), user("a")}, Schema: json.RawMessage(tt.schema)}); err != nil {
				t.Fatalf("%s: %v", tt.schema, err)
			}
			got := p.got[0]
			if tt.want == "" || off {
				if want := "Answer with nothing but JSON that matches this schema:\n" + tt.schema; got.OutputConfig != nil || len(got.System) != 2 || *got.System[1].Text != want {
					t.Errorf("%s: the instructions are %s, want %q", tt.schema, jsonOf(got.System), want)
				}
			} else if diff := cmp.Diff(tt.want, string(jsonOf(got.OutputConfig.Format.Schema))); diff != "" || len(got.System) != 1 {
				t.Errorf("%s (-want +got):\n%s", tt.schema, diff)
			}
		}
	}
}
