package gemini_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/adapters/gemini"
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

// ordered is a message with the order of its pieces, as an answer of a model has it.
func ordered(msg runtime.Message, of, order string) runtime.Message {
	msg.Parts = []runtime.Part{{Of: "gcp.gemini/" + of, Name: "order", Data: json.RawMessage(order)}}
	return msg
}

// words are the turns of a request in short, one a line: role, and of each part what it says, with ~ if it is signed by
// the model, and ! if it need not be.
func words(r *sent) string {
	var lines []string
	turn := func(role string, parts []sentPart) {
		var said []string
		for _, p := range parts {
			word := ""
			switch {
			case p.Thought:
				word = "(" + *p.Text + ")"
			case p.Text != nil:
				word = fmt.Sprintf("%q", *p.Text)
			case p.FunctionCall != nil:
				word = fmt.Sprintf("%s=%s(%s)", p.FunctionCall.ID, p.FunctionCall.Name, jsonOf(p.FunctionCall.Args))
			case p.FunctionResponse != nil:
				word = fmt.Sprintf("%s→%s:%q", p.FunctionResponse.ID, p.FunctionResponse.Name, p.FunctionResponse.Response["output"])
				for _, inner := range p.FunctionResponse.Parts {
					word += "+" + inner.file()
				}
			case p.ExecutableCode != nil:
				word = "#" + string(jsonOf(p.ExecutableCode))
			default:
				word = p.file()
			}
			switch p.ThoughtSignature {
			case "":
			case "skip_thought_signature_validator":
				word += "!"
			default:
				word += "~"
			}
			said = append(said, word)
		}
		lines = append(lines, role+": "+strings.Join(said, " "))
	}
	if r.SystemInstruction != nil {
		turn("system", r.SystemInstruction.Parts)
	}
	for _, c := range r.Contents {
		turn(c.Role, c.Parts)
	}
	return strings.Join(lines, "\n")
}

func (p sentPart) file() string {
	switch {
	case p.InlineData != nil:
		return "data:" + p.InlineData.MIMEType
	case p.FileData.MIMEType == nil:
		return p.FileData.FileURI
	}
	return *p.FileData.MIMEType + ":" + p.FileData.FileURI
}

// Each rule of the API about the form of a conversation, and what becomes of one that does not keep to it.
func TestConversation(t *testing.T) {
	png := runtime.File{URL: "data:image/png;base64,AAAA", MediaType: "image/png"}
	const newest, older = "gemini-3.8-flash", "gemini-2.5-flash"
	hm := string(jsonOf(signed(thought("Hm."))))
	look := signature("look", map[string]any{})
	for _, tt := range []struct {
		name     string
		model    string // "": the newest
		messages []runtime.Message
		want     string
	}{
		{"instructions stand apart", "", []runtime.Message{system("Be kind."), system("Be brief."), user("Hi")},
			"system: \"Be kind.\" \"Be brief.\"\nuser: \"Hi\""},
		{"later instructions are of the user", "", []runtime.Message{system("Be kind."), user("Hi"), assistant("Yes?"), system("Now in French."), user("Go")},
			"system: \"Be kind.\"\nuser: \"Hi\"\nmodel: \"Yes?\"\nuser: \"[From the system, not from the user]\\nNow in French.\" \"Go\""},
		{"messages in a row are one turn", "", []runtime.Message{user("a"), user("b"), assistant("c"), assistant("d"), user("e")},
			"user: \"a\" \"b\"\nmodel: \"c\" \"d\"\nuser: \"e\""},
		{"the user begins", "", []runtime.Message{system("S"), assistant("Hello."), user("Hi")},
			"system: \"S\"\nuser: \"Begin.\"\nmodel: \"Hello.\"\nuser: \"Hi\""},
		{"the user begins, also without a word", "", []runtime.Message{system("Tell a joke.")},
			"system: \"Tell a joke.\"\nuser: \"Begin.\""},
		{"the user has the last word", "", []runtime.Message{user("Count"), assistant("1, 2, \n")},
			"user: \"Count\"\nmodel: \"1, 2, \\n\"\nuser: \"Continue.\""},
		{"empty texts are left out", "", []runtime.Message{system(" "), user("a"), user(" \n"), assistant("\t"), user("b")},
			"user: \"a\" \"b\""},
		{"results are in the order of their calls, and a turn of their own", "", []runtime.Message{user("a"), assistant("I look.", call("1", "look", `{"n":1}`), call("2", "look", `{}`)),
			result("2", "two"), user("And?"), result("1", "one")},
			"user: \"a\"\nmodel: \"I look.\" 1=look({\"n\":1})! 2=look({})\nuser: 1→look:\"one\" 2→look:\"two\"\nuser: \"And?\""},
		{"a result may be empty", "", []runtime.Message{user("a"), assistant("", call("1", "look", `{}`)), result("1", "")},
			"user: \"a\"\nmodel: 1=look({})!\nuser: 1→look:\"\""},
		{"each call has a result", "", []runtime.Message{user("a"), assistant("", call("1", "look", `{}`)), assistant("", call("2", "look", `{}`), call("3", "read", `{}`)),
			result("2", "two"), user("b"), assistant("c"), user("d")},
			"user: \"a\"\nmodel: 1=look({})!\nuser: 1→look:\"(no result)\"\nmodel: 2=look({})! 3=read({})\nuser: 2→look:\"two\" 3→read:\"(no result)\"\nuser: \"b\"\nmodel: \"c\"\nuser: \"d\""},
		{"each call has a result, also at the end", "", []runtime.Message{user("a"), assistant("", call("1", "look", `{}`))},
			"user: \"a\"\nmodel: 1=look({})!\nuser: 1→look:\"(no result)\""},
		{"a result without its call is a text", "", []runtime.Message{result("1", "one"), user("Go on")},
			"user: \"[The result of an earlier tool call]\" \"one\" \"Go on\""},
		{"calls come after the user", "", []runtime.Message{assistant("", call("1", "look", `{}`)), result("1", "one")},
			"user: \"Begin.\"\nmodel: 1=look({})!\nuser: 1→look:\"one\""},
		{"two calls may have one id", "", []runtime.Message{user("a"), assistant("", call("1", "look", `{}`), call("1", "read", `{}`)), result("1", "one"), result("1", "two")},
			"user: \"a\"\nmodel: 1=look({})! 1=read({})\nuser: 1→look:\"one\" 1→read:\"two\""},
		{"names have few characters", "", []runtime.Message{user("a"), assistant("", call("1", "file.read", `{}`), call("2", "7zip", `{}`)), result("1", "x"), result("2", "y")},
			"user: \"a\"\nmodel: 1=file__read({})! 2=_7zip_98fa304e({})\nuser: 1→file__read:\"x\" 2→_7zip_98fa304e:\"y\""},
		{"arguments are an object", "", []runtime.Message{user("a"), assistant("", call("1", "look", `"{\"n\": 1"`)), result("1", "that is no JSON")},
			"user: \"a\"\nmodel: 1=look({})!\nuser: 1→look:\"that is no JSON\""},
		{"files come before their text", "", []runtime.Message{{Role: runtime.User, Text: "What is it?", Files: []runtime.File{png,
			{URL: "https://example.com/a.jpg", MediaType: "image/jpeg"}, {URL: "https://example.com/a", MediaType: "image/*"}, {URL: "https://example.com/a.pdf", MediaType: "application/pdf"},
			{URL: "data:audio/wav;base64,AAAA", MediaType: "audio/wav"}, {URL: "data:text/csv;base64,YSxi", MediaType: "text/csv"},
			{URL: "data:text/csv;base64,IA==", MediaType: "text/csv"}}}},
			`user: data:image/png image/jpeg:https://example.com/a.jpg https://example.com/a application/pdf:https://example.com/a.pdf data:audio/wav "a,b" "What is it?"`},
		{"results have files", "", []runtime.Message{user("a"), assistant("", call("1", "look", `{}`)),
			{Role: runtime.ToolRole, ToolCallID: "1", Text: "here", Files: []runtime.File{png}}},
			"user: \"a\"\nmodel: 1=look({})!\nuser: 1→look:\"here\"+data:image/png"},
		{"old models get the files of results behind these", older, []runtime.Message{user("a"), assistant("", call("1", "look", `{}`), call("2", "look", `{}`)),
			{Role: runtime.ToolRole, ToolCallID: "1", Text: "here", Files: []runtime.File{png}}, result("2", "x")},
			"user: \"a\"\nmodel: 1=look({}) 2=look({})\nuser: 1→look:\"here\" 2→look:\"x\"\nuser: \"[The files in the result of look, above]\" data:image/png"},
		{"thoughts and signatures stand where they stood", "", []runtime.Message{user("a"), ordered(assistant("I look. Twice.", call("1", "look", `{}`), call("2", "look", `{}`)), newest,
			`[{"part":`+hm+`},{"text":8},{"call":true,"signature":"`+look+`"},{"part":{"executableCode":{"code":"1"}}},{"text":6,"signature":"`+signature("Twice.", false)+`"},{"call":true}]`), result("1", "x"), result("2", "y")},
			"user: \"a\"\nmodel: (Hm.)~ \"I look. \" 1=look({})~ #{\"code\":\"1\"} \"Twice.\"~ 2=look({})\nuser: 1→look:\"x\" 2→look:\"y\""},
		{"a signature may be of no text", "", []runtime.Message{user("a"), ordered(assistant("b"), newest, `[{"text":1},{"signature":"`+signature("", false)+`"}]`), user("c")},
			"user: \"a\"\nmodel: \"b\" \"\"~\nuser: \"c\""},
		{"a text that has changed is not signed", "", []runtime.Message{user("a"), ordered(assistant("é!", call("1", "look", `{}`)), newest,
			`[{"part":`+hm+`},{"text":1,"signature":"x"},{"call":true,"signature":"`+look+`"},{"call":true,"signature":"y"},{"text":9}]`), result("1", "x")},
			"user: \"a\"\nmodel: (Hm.)~ \"é!\" 1=look({})~\nuser: 1→look:\"x\""},
		{"thoughts of other models are left out, and their calls need no signature", "", []runtime.Message{user("a"), ordered(assistant("b", call("1", "look", `{}`)), older,
			`[{"part":`+hm+`},{"text":1},{"call":true,"signature":"x"}]`), result("1", "y")},
			"user: \"a\"\nmodel: \"b\" 1=look({})!\nuser: 1→look:\"y\""},
		{"what is no order is not known", "", []runtime.Message{user("a"), ordered(assistant("b"), newest, `{}`), user("c")},
			"user: \"a\"\nmodel: \"b\"\nuser: \"c\""},
		{"calls to old models need no signature", older, []runtime.Message{user("a"), assistant("", call("1", "look", `{}`)), result("1", "x")},
			"user: \"a\"\nmodel: 1=look({})\nuser: 1→look:\"x\""},
	} {
		p, m := serve(t, gemini.Options{Model: tt.model}, says(text("ok")))
		if _, err := m.Generate(t.Context(), &runtime.Request{Messages: tt.messages}); err != nil {
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
		{runtime.Request{Messages: file("data:application/zip;base64,AAAA", "application/zip")}, "file 1 is of the type application/zip\n  hint: images, audio, video, PDFs and texts can be sent"},
		{runtime.Request{Messages: file("data:text/plain;base64,/w==", "text/plain")}, "file 1 is not UTF-8 text"},
		{runtime.Request{Messages: file("data:image/png;base64,!", "image/png")}, "file 1 cannot be read: what is in the data URL is not base64"},
		{runtime.Request{Messages: []runtime.Message{user("a")}, Tools: []runtime.ToolSpec{{Name: "a.b"}, {Name: "a__b"}}},
			"the tools \"a.b\" and \"a__b\" are both \"a__b\" to the endpoint\n  hint: rename one of them"},
		{runtime.Request{Messages: []runtime.Message{user("a")}, Options: runtime.ModelOptions{Reasoning: "extreme"}},
			"\"extreme\" is no effort of reasoning\n  hint: they are: none, minimal, low, medium, high"},
	} {
		p, m := serve(t, gemini.Options{Model: "gemini-2.5-flash"}, nil)
		_, err := m.Generate(t.Context(), &tt.req)
		if want := `model "gemini-2.5-flash": ` + tt.want; err == nil || err.Error() != want || len(p.got) > 0 {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
}

// settings are a request without its turns and instructions, as JSON.
func settings(r *sent) map[string]string {
	short := map[string]string{}
	for _, list := range r.Tools {
		for _, f := range list.FunctionDeclarations {
			short["tool "+f.Name] = f.Description + " " + string(jsonOf(f.ParametersJSONSchema))
		}
	}
	if r.ToolConfig != nil {
		short["choice"] = fmt.Sprint(r.ToolConfig.FunctionCallingConfig.Mode, r.ToolConfig.FunctionCallingConfig.AllowedFunctionNames)
	}
	var config map[string]any
	if err := json.Unmarshal(jsonOf(r.GenerationConfig), &config); err != nil {
		panic(err)
	}
	for name, v := range config {
		if v != nil && v != "" && v != 0.0 {
			short[name] = string(jsonOf(v))
		}
	}
	if r.SafetySettings != nil {
		short["safety"] = string(jsonOf(r.SafetySettings))
	}
	if r.ServiceTier != "" {
		short["tier"] = r.ServiceTier
	}
	return short
}

// What a request has beside its messages.
func TestSettings(t *testing.T) {
	half, warm, seed := 0.5, 0.3, int64(7)
	look := []runtime.ToolSpec{{Name: "look", Description: "Looks.", Parameters: json.RawMessage(`{"type": "object", "properties": {"at": {"type": "string"}}}`)}}
	const lookIs = `Looks. {"properties":{"at":{"type":"string"}},"type":"object"}`
	long := strings.Repeat("x", 80) + ".read"
	const old = "gemini-2.5-flash"
	asked := []runtime.Message{user("a"), assistant("", call("1", "look", `{}`)), result("1", "x")}
	schema := json.RawMessage(`{"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}, "required": ["n"]}`)
	const schemaIs = `{"properties":{"n":{"minimum":1,"type":"integer"}},"required":["n"],"type":"object"}`
	defaults := map[string]any{"serviceTier": "flex", "safetySettings": []any{map[string]any{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}},
		"generationConfig": map[string]any{"temperature": 1, "topP": 1, "topK": 5, "stopSequences": []string{"a"}, "thinkingConfig": map[string]any{"thinkingLevel": "LOW"}}}
	thinking := func(budget int, level string, told bool) string {
		b := "null"
		if level == "" {
			b = fmt.Sprint(budget)
		}
		return fmt.Sprintf(`{"includeThoughts":%t,"thinkingBudget":%s,"thinkingLevel":%q}`, told, b, level)
	}
	for _, tt := range []struct {
		name string
		opts gemini.Options
		req  runtime.Request
		want map[string]string
	}{
		{"nothing", gemini.Options{}, runtime.Request{}, map[string]string{}},
		{"the step's", gemini.Options{Defaults: defaults, Reasoning: "low"}, runtime.Request{MaxTokens: 50, Temperature: &half, Options: runtime.ModelOptions{TopP: &warm, Stop: []string{"END"}, Seed: &seed, Reasoning: "high"}},
			map[string]string{"maxOutputTokens": "50", "temperature": "0.5", "topP": "0.3", "topK": "5", "stopSequences": `["END"]`, "seed": "7", "tier": "flex",
				"safety": `[{"category":"HARM_CATEGORY_HARASSMENT","threshold":"BLOCK_NONE"}]`, "thinkingConfig": thinking(0, "HIGH", true)}},
		{"the model's", gemini.Options{Defaults: defaults}, runtime.Request{},
			map[string]string{"temperature": "1", "topP": "1", "topK": "5", "stopSequences": `["a"]`, "tier": "flex",
				"safety": `[{"category":"HARM_CATEGORY_HARASSMENT","threshold":"BLOCK_NONE"}]`, "thinkingConfig": thinking(0, "LOW", false)}},
		{"tools", gemini.Options{}, runtime.Request{Tools: append(look, runtime.ToolSpec{Name: long})},
			map[string]string{"tool look": lookIs, "tool " + strings.Repeat("x", 55) + "_7b226666": ` null`}},
		{"a schema of a tool", gemini.Options{}, runtime.Request{Tools: []runtime.ToolSpec{{Name: "t", Parameters: json.RawMessage(`{"anyOf": [{"required": ["a"]}], "properties": {"a": {"type": "string", "pattern": "x"}}}`)}}},
			map[string]string{"tool t": `The arguments must also match anyOf: [{"required": ["a"]}]. {"properties":{"a":{"description":"{pattern: \"x\"}","type":"string"}},"type":"object"}`}},
		{"a tool of any arguments", gemini.Options{}, runtime.Request{Tools: []runtime.ToolSpec{{Name: "t", Parameters: json.RawMessage(`{"type": "object", "additionalProperties": true}`)}}},
			map[string]string{"tool t": ` {"additionalProperties":true,"properties":{},"type":"object"}`}},
		{"no tools in a conversation with calls", gemini.Options{}, runtime.Request{Messages: asked}, map[string]string{"tool look": ` null`, "choice": "NONE[]"}},
		{"auto", gemini.Options{}, runtime.Request{Tools: look, Options: runtime.ModelOptions{ToolChoice: "auto"}}, map[string]string{"tool look": lookIs}},
		{"none", gemini.Options{}, runtime.Request{Tools: look, Options: runtime.ModelOptions{ToolChoice: "none"}}, map[string]string{"tool look": lookIs, "choice": "NONE[]"}},
		{"required", gemini.Options{}, runtime.Request{Tools: look, Options: runtime.ModelOptions{ToolChoice: "required"}}, map[string]string{"tool look": lookIs, "choice": "ANY[]"}},
		{"one tool", gemini.Options{}, runtime.Request{Tools: []runtime.ToolSpec{{Name: "file.read"}}, Options: runtime.ModelOptions{ToolChoice: "file.read"}},
			map[string]string{"tool file__read": ` null`, "choice": "ANY[file__read]"}},
		{"thinking by level", gemini.Options{Reasoning: "minimal"}, runtime.Request{}, map[string]string{"thinkingConfig": thinking(0, "MINIMAL", true)}},
		{"thinking by budget", gemini.Options{Model: old, Reasoning: "high"}, runtime.Request{Options: runtime.ModelOptions{Reasoning: "medium"}}, map[string]string{"thinkingConfig": thinking(8192, "", true)}},
		{"no thinking", gemini.Options{Model: old, Reasoning: "none"}, runtime.Request{}, map[string]string{"thinkingConfig": thinking(0, "", false)}},
		{"a schema", gemini.Options{Model: old}, runtime.Request{Schema: schema}, map[string]string{"responseMimeType": `"application/json"`, "responseJsonSchema": schemaIs}},
		{"a schema and tools", gemini.Options{}, runtime.Request{Schema: schema, Tools: look}, map[string]string{"responseMimeType": `"application/json"`, "responseJsonSchema": schemaIs, "tool look": lookIs}},
		{"a schema and tools of an old model", gemini.Options{Model: old}, runtime.Request{Schema: schema, Tools: look}, map[string]string{"tool look": lookIs}},
	} {
		p, m := serve(t, tt.opts, says(text("ok")))
		if tt.req.Messages == nil {
			tt.req.Messages = []runtime.Message{user("a")}
		}
		if _, err := m.Generate(t.Context(), &tt.req); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if diff := cmp.Diff(tt.want, settings(p.got[0])); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// Schemas that the API takes, and those that are put into words, also because the model has no structured outputs.
func TestSchemas(t *testing.T) {
	const tree = `{"type": "object", "properties": {"root": {"$ref": "#/$defs/node"}}, "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}}}`
	for _, tt := range []struct {
		schema, want string // "": in words
	}{
		{`{"type": "object", "properties": {}, "$schema": "s", "$id": "i"}`, `{"properties":{},"type":"object"}`},
		{`{"type": "array", "items": {"type": ["string", "null"], "format": "date"}, "minItems": 1, "uniqueItems": true}`,
			`{"description":"{uniqueItems: true}","items":{"format":"date","type":["string","null"]},"minItems":1,"type":"array"}`},
		{`{"type": "object", "properties": {"a": {"const": "x", "description": "The kind."}, "b": {"enum": ["x", null]}, "c": true, "d": {"type": "number", "exclusiveMinimum": 1, "maximum": 12345678901234567890}}}`,
			`{"properties":{"a":{"description":"The kind.","enum":["x"]},"b":{"description":"{enum: [\"x\",null]}"},"c":{},"d":{"description":"{exclusiveMinimum: 1}","maximum":12345678901234567890,"type":"number"}},"type":"object"}`},
		{`{"type": "object", "properties": {"a": {"$ref": "#/definitions/b~1c", "description": "Mine."}, "d": {"$ref": "#/properties/a"}}, "definitions": {"b/c": {"anyOf": [{"type": "null"}, {"type": "string", "maxLength": 3}]}}}`,
			`{"properties":{"a":{"anyOf":[{"type":"null"},{"description":"{maxLength: 3}","type":"string"}],"description":"Mine."},"d":{"anyOf":[{"type":"null"},{"description":"{maxLength: 3}","type":"string"}],"description":"Mine."}},"type":"object"}`},
		{`{"type": "array", "prefixItems": [{"$ref": "#/$defs/a"}, {"type": "integer"}], "items": {"$ref": "#/prefixItems/1"}, "$defs": {"a": {"type": "object", "additionalProperties": {"const": true}}}}`,
			`{"items":{"type":"integer"},"prefixItems":[{"additionalProperties":{"description":"{const: true}"},"type":"object"},{"type":"integer"}],"type":"array"}`},
		{tree, ""},
		{`{"$ref": "#"}`, ""},
		{`{"type": "object", "properties": {"a": {"$ref": "#/$defs/none"}}}`, ""},
		{`{"type": "object", "properties": {"a": {"$ref": "https://example.com/a"}}}`, ""},
		{`{"type": "array", "prefixItems": [{"$ref": "#/prefixItems/9"}, {"$ref": "#/type/x"}]}`, ""},
		{`true`, ""},
	} {
		for _, off := range []bool{false, true} {
			p, m := serve(t, gemini.Options{NoSchema: off}, says(text("{}")))
			if _, err := m.Generate(t.Context(), &runtime.Request{Messages: []runtime.Message{system("S"), user("a")}, Schema: json.RawMessage(tt.schema)}); err != nil {
				t.Fatalf("%s: %v", tt.schema, err)
			}
			got := p.got[0]
			if tt.want == "" || off {
				want := "Answer with nothing but JSON that matches this schema:\n" + tt.schema
				if got.GenerationConfig.ResponseJSONSchema != nil || len(got.SystemInstruction.Parts) != 2 || *got.SystemInstruction.Parts[1].Text != want {
					t.Errorf("%s: the instructions are %s, want %q", tt.schema, jsonOf(got.SystemInstruction), want)
				}
			} else if diff := cmp.Diff(tt.want, string(got.GenerationConfig.ResponseJSONSchema)); diff != "" || len(got.SystemInstruction.Parts) != 1 {
				t.Errorf("%s (-want +got):\n%s", tt.schema, diff)
			}
		}
	}
	p, m := serve(t, gemini.Options{}, says(text("ok"))) // arguments of a tool have no words instead
	_, err := m.Generate(t.Context(), &runtime.Request{Messages: []runtime.Message{user("a")}, Tools: []runtime.ToolSpec{{Name: "t", Parameters: json.RawMessage(tree)}}})
	want := map[string]string{"tool t": ` {"properties":{"root":{"properties":{"next":{}},"type":"object"}},"type":"object"}`}
	if diff := cmp.Diff(want, settings(p.got[0])); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// References that make copies of copies do not make a schema large without end.
func TestSchemaOfManyCopies(t *testing.T) {
	defs := []string{`"a0": {"type": "string"}`}
	for n := range 40 {
		defs = append(defs, fmt.Sprintf(`"a%d": {"type": "object", "properties": {"x": {"$ref": "#/$defs/a%d"}, "y": {"$ref": "#/$defs/a%[2]d"}}}`, n+1, n))
	}
	schema := `{"type": "object", "properties": {"a": {"$ref": "#/$defs/a40"}}, "$defs": {` + strings.Join(defs, ", ") + `}}`
	p, m := serve(t, gemini.Options{}, says(text("ok")))
	if _, err := m.Generate(t.Context(), &runtime.Request{Messages: []runtime.Message{user("a")}, Tools: []runtime.ToolSpec{{Name: "t", Parameters: json.RawMessage(schema)}}}); err != nil {
		t.Fatal(err)
	}
	if size := len(settings(p.got[0])["tool t"]); size < 1000 || size > 200_000 {
		t.Errorf("the schema has %d bytes", size)
	}
}
