package runtimetest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/runtime"
)

// asks sends a request whole, and returns what the provider reads.
func (s *suite) asks(t *testing.T, req *runtime.Request) *Asked {
	t.Helper()
	var asked *Asked
	m := s.serve(t, func(w http.ResponseWriter, _ *http.Request, a *Asked) {
		asked = a
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, s.wire.Whole(a, &Reply{Text: "ok", Finish: runtime.FinishStop}))
	})
	if _, err := m.Generate(t.Context(), req); err != nil || asked == nil {
		t.Fatalf("asking failed: %v", err)
	}
	return asked
}

// What the messages of a request say arrives, in a form that the models of all providers take.
func (s *suite) testRequests(t *testing.T) {
	system := func(text string) runtime.Message { return runtime.Message{Role: runtime.System, Text: text} }
	says := func(role runtime.Role, text string) runtime.Message { return runtime.Message{Role: role, Text: text} }
	calls := func(args string) runtime.Message {
		return runtime.Message{Role: runtime.Assistant, ToolCalls: []runtime.ToolCall{call("c1", "now", args)}}
	}
	result := runtime.Message{Role: runtime.ToolRole, Text: "noon", ToolCallID: "c1"}
	for _, tt := range []struct {
		name     string
		messages []runtime.Message
		system   []string // what the instructions contain
		want     []string // the role of each message, and what its text contains
	}{
		{"a prompt", user("Hi"), nil, []string{"user: Hi"}},
		{"instructions", []runtime.Message{system("Be brief."), system("A skill."), says(runtime.User, "Hi")},
			[]string{"Be brief.", "A skill."}, []string{"user: Hi"}},
		{"a conversation", []runtime.Message{says(runtime.User, "Hi"), says(runtime.Assistant, "Hello."),
			says(runtime.User, "Bye")}, nil, []string{"user: Hi", "assistant: Hello.", "user: Bye"}},
		{"messages of the user in a row", []runtime.Message{says(runtime.User, "A summary."), says(runtime.User, "Hi")},
			nil, []string{"user: A summary.|Hi"}},
		{"empty messages", []runtime.Message{system(""), says(runtime.User, "Hi"), says(runtime.Assistant, ""),
			says(runtime.User, " \n"), says(runtime.User, "Bye")}, nil, []string{"user: Hi|Bye"}},
		{"a question after a result", []runtime.Message{says(runtime.User, "Look."), calls(`{}`), result,
			says(runtime.User, "Bye")}, nil, []string{"user: Look.", "assistant: ", "tool: noon", "user: Bye"}},
		{"a call whose arguments are not JSON", []runtime.Message{says(runtime.User, "Look."), calls(`"{\"half"`),
			result}, nil, []string{"user: Look.", "assistant: ", "tool: noon"}},
		{"messages of the assistant in a row", []runtime.Message{says(runtime.User, "Hi"),
			says(runtime.Assistant, "Hello."), says(runtime.Assistant, "How are you?"), says(runtime.User, "Well.")},
			nil, []string{"user: Hi", "assistant: Hello.|How are you?", "user: Well."}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			asked := s.asks(t, &runtime.Request{Messages: tt.messages})
			for _, text := range tt.system {
				if !strings.Contains(asked.System, text) {
					t.Errorf("the instructions are %q, without %q", asked.System, text)
				}
			}
			for i, want := range tt.want {
				role, texts, _ := strings.Cut(want, ": ")
				for text := range strings.SplitSeq(texts, "|") {
					if len(asked.Messages) != len(tt.want) || string(asked.Messages[i].Role) != role ||
						!strings.Contains(asked.Messages[i].Text, text) {
						t.Fatalf("got the messages %+v, want %q", asked.Messages, tt.want)
					}
				}
			}
		})
	}
	t.Run("later instructions", func(t *testing.T) { // where they stand is up to the adapter
		asked := s.asks(t, &runtime.Request{Messages: []runtime.Message{system("Be brief."), says(runtime.User, "Hi"),
			says(runtime.Assistant, "Hello."), system("She likes tea."), says(runtime.User, "Bye")}})
		if all := fmt.Sprintf("%q %+v", asked.System, asked.Messages); !strings.Contains(all, "She likes tea.") {
			t.Errorf("they were lost: %s", all)
		}
	})
	t.Run("a schema", func(t *testing.T) {
		for _, schema := range []string{string(kinds), `{"type":"array","items":{"type":"string"}}`} {
			asked := s.asks(t, &runtime.Request{Messages: user("Hi"), Schema: json.RawMessage(schema)})
			if asked.Schema == nil && !strings.Contains(asked.System, schema) {
				t.Errorf("the schema %s does not reach the model", schema)
			}
		}
	})
}

// The names of tools have a form that the provider takes, and differ as the tools do. Their schemas are those of an
// object.
func (s *suite) testToolNames(t *testing.T) {
	long := "mcp.files." + strings.Repeat("read_", 20)
	var tools []runtime.ToolSpec
	for _, name := range []string{"a", "crm.lookup", "crm/look up", long + "a", long + "b", "größe.messen"} {
		tools = append(tools, runtime.ToolSpec{Name: name, Description: "About " + name})
	}
	for i, schema := range []string{``, `{}`, `{"type":"object"}`, `{"type":"object","properties":{}}`,
		`{"type":"object","properties":{"a":{"type":"string"}},"anyOf":[{"required":["a"]}]}`} {
		tools[i].Parameters = json.RawMessage(schema)
	}
	asked := s.asks(t, &runtime.Request{Messages: user("Hi"), Tools: tools})
	if len(asked.Tools) != len(tools) {
		t.Fatalf("%d of %d tools arrive", len(asked.Tools), len(tools))
	}
	for i, spec := range asked.Tools {
		if !strings.Contains(spec.Description, tools[i].Description) {
			t.Errorf("the tool %q arrives as %q: %s", tools[i].Name, spec.Name, spec.Description)
		}
		t.Run(spec.Name, func(t *testing.T) {
			made := call("c1", tools[i].Name, `{}`)
			s.ask(t, &runtime.Request{Messages: user("Hi"), Tools: tools},
				&Reply{Calls: []runtime.ToolCall{made}, Finish: runtime.FinishCalls})
		})
	}
}

// Options arrive, if the model takes them.
func (s *suite) testOptions(t *testing.T) {
	cold, half, seed := 0.0, 0.5, int64(7)
	choose := func(choice string) runtime.Request {
		return runtime.Request{Tools: []runtime.ToolSpec{lookup, now},
			Options: runtime.ModelOptions{ToolChoice: choice}}
	}
	takes := s.takes(t)
	for _, tt := range []struct {
		name string // as in Metadata; "": always taken
		req  runtime.Request
	}{
		{"", runtime.Request{}},
		{"", runtime.Request{Temperature: &cold, MaxTokens: 99}},
		{"top_p", runtime.Request{Options: runtime.ModelOptions{TopP: &half}}},
		{"stop", runtime.Request{Options: runtime.ModelOptions{Stop: []string{"END", "\n\n"}}}},
		{"seed", runtime.Request{Options: runtime.ModelOptions{Seed: &seed}}},
		{"reasoning", runtime.Request{Options: runtime.ModelOptions{Reasoning: "low"}}},
		{"tool_choice", choose(runtime.ToolsNone)},
		{"tool_choice", choose(runtime.ToolsRequired)},
		{"tool_choice", choose(lookup.Name)},
	} {
		if tt.name != "" && !slices.Contains(takes, tt.name) {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			tt.req.Messages = user("Hi")
			asked := s.asks(t, &tt.req)
			got := Asked{Temperature: asked.Temperature, MaxTokens: asked.MaxTokens, Options: asked.Options}
			want := Asked{Temperature: tt.req.Temperature, MaxTokens: tt.req.MaxTokens, Options: tt.req.Options}
			if want.Options.ToolChoice == lookup.Name {
				want.Options.ToolChoice = asked.Tools[0].Name
			}
			if want.MaxTokens == 0 { // some providers want a limit in each request
				got.MaxTokens = 0
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("what the provider reads (-want +got):\n%s", diff)
			}
		})
	}
	if slices.Contains(takes, "files") {
		s.testFiles(t)
	}
}

// testFiles shows the model images.
func (s *suite) testFiles(t *testing.T) {
	t.Run("an image", func(t *testing.T) {
		image := runtime.File{URL: "data:image/gif;base64,R0lGODlh", MediaType: "image/gif"}
		asked := s.asks(t, &runtime.Request{Messages: []runtime.Message{
			{Role: runtime.User, Text: "What is it?", Files: []runtime.File{image, image}}}})
		want := []runtime.File{image, image}
		if got := asked.Messages[0]; !strings.Contains(got.Text, "What is it?") || !slices.Equal(got.Files, want) {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("an image of 10 MB", func(t *testing.T) {
		content := append([]byte("\x89PNG\r\n\x1a\n"), bytes.Repeat([]byte{0, 127, 128, 255, '"'}, 2_000_000)...)
		url := "data:image/png;base64," + base64.StdEncoding.EncodeToString(content)
		image := runtime.File{URL: url, MediaType: "image/png"}
		asked := s.asks(t, &runtime.Request{Messages: []runtime.Message{
			{Role: runtime.User, Text: "What is it?", Files: []runtime.File{image}}}})
		if got := asked.Messages[0]; !slices.Equal(got.Files, []runtime.File{image}) {
			t.Errorf("%d files came, or others, with %q", len(got.Files), got.Text)
		}
	})
	t.Run("an image of a result", func(t *testing.T) {
		image := runtime.File{URL: "data:image/gif;base64,R0lGODlh", MediaType: "image/gif"}
		asked := s.asks(t, &runtime.Request{Tools: []runtime.ToolSpec{lookup}, Messages: []runtime.Message{
			{Role: runtime.User, Text: "Look."},
			{Role: runtime.Assistant, ToolCalls: []runtime.ToolCall{call("c1", lookup.Name, `{"id":7}`)}},
			{Role: runtime.ToolRole, ToolCallID: "c1", Text: "Her picture.", Files: []runtime.File{image}}}})
		i := slices.IndexFunc(asked.Messages, func(m runtime.Message) bool { return m.Role == runtime.ToolRole })
		if i < 0 || !strings.Contains(asked.Messages[i].Text, "Her picture.") {
			t.Fatalf("got %+v", asked.Messages)
		}
		var files []runtime.File // with the result, or behind it
		for _, m := range asked.Messages[i:] {
			files = append(files, m.Files...)
		}
		if !slices.Equal(files, []runtime.File{image}) {
			t.Errorf("got %+v", asked.Messages)
		}
	})
}

// takes returns the options that the model takes.
func (s *suite) takes(t *testing.T) []string {
	if m, ok := s.replying(t, &Reply{}).(runtime.Described); ok {
		return m.Metadata().Options
	}
	return nil
}

// A conversation with calls, as an agent has it: results arrive with their calls, requests begin as those before
// them, and an agent whose tools are gone can still end it.
func (s *suite) testConversation(t *testing.T) {
	tools := []runtime.ToolSpec{lookup, now}
	reply := &Reply{Text: "I look.", Finish: runtime.FinishCalls,
		Calls: []runtime.ToolCall{call("c1", "crm.lookup", `{"id":7}`), call("c2", "now", `{}`)}}
	if s.has(Thinking) {
		reply.Thinking = "I wonder " + mark
	}
	var asked []*Asked
	m := s.serve(t, func(w http.ResponseWriter, r *http.Request, a *Asked) {
		asked = append(asked, a)
		for _, piece := range s.pieces(w, a, reply.named(a, tools)) {
			fmt.Fprint(w, piece)
		}
	})
	for _, way := range ways(t, m) {
		asked = nil
		messages := []runtime.Message{{Role: runtime.System, Text: "Be brief."}, {Role: runtime.User, Text: "Look."}}
		for turn := range 3 {
			resp, err := way.ask(t.Context(), &runtime.Request{Messages: messages, Tools: tools, StepCall: turn + 1})
			if err != nil || len(resp.ToolCalls) != 2 {
				t.Fatalf("%s, turn %d: %+v, %v", way.name, turn+1, resp, err)
			}
			messages = append(messages, runtime.Message{Role: runtime.Assistant, Text: resp.Text,
				ToolCalls: resp.ToolCalls, Parts: resp.Parts})
			for i, text := range []string{fmt.Sprintf("Ada %d", turn), ""} { // a result may be empty
				messages = append(messages, runtime.Message{Role: runtime.ToolRole, Text: text,
					ToolCallID: resp.ToolCalls[i].ID})
			}
		}
		if _, err := way.ask(t.Context(), &runtime.Request{Messages: messages}); err != nil { // no tools left
			t.Fatalf("%s: %v", way.name, err)
		}
		last := asked[len(asked)-1]
		for i, a := range asked {
			if a.System != last.System || !bytes.Equal(encoded(a.Messages), encoded(last.Messages[:len(a.Messages)])) {
				t.Errorf("%s: request %d is not the beginning of the last one:\n%+v\n%+v", way.name, i+1, a, last)
			}
			if a != last && !bytes.Equal(encoded(a.Tools), encoded(asked[0].Tools)) {
				t.Errorf("%s: the tools of request %d are others:\n%+v\n%+v", way.name, i+1, asked[0].Tools, a.Tools)
			}
		}
		s.checkConversation(t, last)
	}
}

func encoded(v any) []byte {
	text, _ := json.Marshal(v) // messages have no error
	return text
}

// checkConversation looks at the last request of the conversation.
func (s *suite) checkConversation(t *testing.T, a *Asked) {
	ids, turn := map[string]string{}, 0
	for _, msg := range a.Messages {
		for _, c := range msg.ToolCalls {
			ids[c.ID] = c.Name
		}
		if msg.Role != runtime.ToolRole {
			continue
		}
		if ids[msg.ToolCallID] == "now" {
			turn++
		} else if msg.Text != fmt.Sprintf("Ada %d", turn) {
			t.Errorf("the result %q of turn %d is with another call", msg.Text, turn+1)
		}
	}
	if turn != 3 {
		t.Errorf("the results of %d of 3 turns arrive: %+v", turn, a.Messages)
	}
	if want := slices.Repeat([]string{"I wonder " + mark}, 3); s.has(Thinking) && !slices.Equal(a.Thinking, want) {
		t.Errorf("the thinking %q arrives, want %q", a.Thinking, want)
	}
}
