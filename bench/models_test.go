package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	anthropicsdk "github.com/anthropics/anthropic-sdk-go"
	anthropicopt "github.com/anthropics/anthropic-sdk-go/option"
	einoopenai "github.com/cloudwego/eino-ext/components/model/openai"
	einoschema "github.com/cloudwego/eino/schema"
	openaisdk "github.com/openai/openai-go/v3"
	openaiopt "github.com/openai/openai-go/v3/option"

	"github.com/braise-run/braise/adapters/anthropic"
	"github.com/braise-run/braise/adapters/openai"
	"github.com/braise-run/braise/runtime"
)

// In Deltas an answer comes in deltaCount pieces, and in Turns a request has turnCount calls of a tool, whose results
// have turnBytes.
const (
	deltaCount = 10_000
	deltaText  = "five."
	turnCount  = 200
	turnBytes  = 2048
)

// answers is a provider that is a memory: it gives the same body to each request, which it reads.
func answers(body string) *http.Client {
	return &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
		n, err := io.Copy(io.Discard, r.Body)
		if err != nil || n == 0 {
			return nil, fmt.Errorf("a request of %d bytes: %w", n, err)
		}
		kind := "application/json"
		if strings.HasPrefix(body, "data:") || strings.HasPrefix(body, "event:") {
			kind = "text/event-stream"
		}
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {kind}},
			Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	})}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// The streams of a chat completion and of a message.
var (
	chatStream = strings.Repeat(`data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m",`+
		`"choices":[{"index":0,"delta":{"content":"`+deltaText+`"},"finish_reason":null}]}`+"\n\n", deltaCount) +
		`data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m",` +
		`"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n" + "data: [DONE]\n\n"
	messageStream = `event: message_start` + "\n" + `data: {"type":"message_start","message":{"id":"m","type":"message",` +
		`"role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":1,"output_tokens":1}}}` +
		"\n\n" + `event: content_block_start` + "\n" +
		`data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n" +
		strings.Repeat(`event: content_block_delta`+"\n"+`data: {"type":"content_block_delta","index":0,`+
			`"delta":{"type":"text_delta","text":"`+deltaText+`"}}`+"\n\n", deltaCount) +
		`event: content_block_stop` + "\n" + `data: {"type":"content_block_stop","index":0}` + "\n\n" +
		`event: message_delta` + "\n" + `data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},` +
		`"usage":{"output_tokens":10}}` + "\n\n" + `event: message_stop` + "\n" + `data: {"type":"message_stop"}` + "\n\n"
	chatAnswer = `{"id":"c","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,` +
		`"message":{"role":"assistant","content":"ok"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`
	messageAnswer = `{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"ok"}],` +
		`"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`
)

// Deltas is what each piece of an answer costs, and Turns what a request of a long conversation does.
var modelBenches = []struct {
	name   string
	deltas func(tb testing.TB) func() (pieces int, err error)
	turns  func(tb testing.TB) func() (text string, err error)
}{
	{"openai/braise", braiseDeltas(openaiModel, chatStream), braiseTurns(openaiModel, chatAnswer)},
	{"openai/eino", einoDeltas, einoTurns},
	{"openai/sdk", openaiDeltas, openaiTurns},
	{"anthropic/braise", braiseDeltas(anthropicModel, messageStream), braiseTurns(anthropicModel, messageAnswer)},
	{"anthropic/sdk", anthropicDeltas, anthropicTurns},
}

func BenchmarkDeltas(b *testing.B) {
	for _, m := range modelBenches {
		b.Run(m.name, func(b *testing.B) {
			stream := m.deltas(b)
			b.ReportAllocs()
			for b.Loop() {
				if n, err := stream(); err != nil || n < deltaCount {
					b.Fatal(n, err)
				}
			}
		})
	}
}

func BenchmarkTurns(b *testing.B) {
	for _, m := range modelBenches {
		b.Run(m.name, func(b *testing.B) {
			ask := m.turns(b)
			b.ReportAllocs()
			for b.Loop() {
				if text, err := ask(); err != nil || text != "ok" {
					b.Fatal(text, err)
				}
			}
		})
	}
}

// Everybody does the work of Deltas and Turns.
func TestModels(t *testing.T) {
	for _, m := range modelBenches {
		if n, err := m.deltas(t)(); err != nil || n < deltaCount {
			t.Errorf("%s: %d pieces, %v", m.name, n, err)
		}
		if text, err := m.turns(t)(); err != nil || text != "ok" {
			t.Errorf("%s: %q, %v", m.name, text, err)
		}
	}
}

func openaiModel(c *http.Client) (runtime.StreamingModel, error) {
	return openai.New(openai.Options{Model: "m", APIKey: "k", HTTPClient: c})
}

func anthropicModel(c *http.Client) (runtime.StreamingModel, error) {
	return anthropic.New(anthropic.Options{Model: "m", APIKey: "k", HTTPClient: c})
}

func braiseDeltas(
	open func(*http.Client) (runtime.StreamingModel, error), body string,
) func(testing.TB) func() (int, error) {
	return func(tb testing.TB) func() (int, error) {
		m, err := open(answers(body))
		if err != nil {
			tb.Fatal(err)
		}
		req := &runtime.Request{Messages: []runtime.Message{{Role: runtime.User, Text: "hi"}}}
		return func() (pieces int, err error) {
			resp, err := m.Stream(context.Background(), req, func(runtime.Delta) { pieces++ })
			if err == nil && len(resp.Text) != deltaCount*len(deltaText) {
				err = errors.New("the answer is not whole")
			}
			return pieces, err
		}
	}
}

var turnResult = strings.Repeat("x", turnBytes)

func braiseTurns(
	open func(*http.Client) (runtime.StreamingModel, error), body string,
) func(testing.TB) func() (string, error) {
	messages := []runtime.Message{{Role: runtime.System, Text: "Be brief."}, {Role: runtime.User, Text: "hi"}}
	for i := range turnCount {
		id := fmt.Sprint("c", i)
		messages = append(messages,
			runtime.Message{Role: runtime.Assistant,
				ToolCalls: []runtime.ToolCall{{ID: id, Name: "look", Arguments: []byte(`{"a":1}`)}}},
			runtime.Message{Role: runtime.ToolRole, ToolCallID: id, Text: turnResult})
	}
	return func(tb testing.TB) func() (string, error) {
		m, err := open(answers(body))
		if err != nil {
			tb.Fatal(err)
		}
		req := &runtime.Request{Messages: messages, Tools: []runtime.ToolSpec{{Name: "look"}}}
		return func() (string, error) {
			resp, err := m.Generate(context.Background(), req)
			if err != nil {
				return "", err
			}
			return resp.Text, nil
		}
	}
}

func einoChat(tb testing.TB, body string) *einoopenai.ChatModel {
	m, err := einoopenai.NewChatModel(context.Background(),
		&einoopenai.ChatModelConfig{Model: "m", APIKey: "k", HTTPClient: answers(body)})
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// einoDeltas joins the pieces, as the other ones do.
func einoDeltas(tb testing.TB) func() (int, error) {
	m := einoChat(tb, chatStream)
	return func() (pieces int, err error) {
		s, err := m.Stream(context.Background(), []*einoschema.Message{einoschema.UserMessage("hi")})
		if err != nil {
			return 0, err
		}
		defer s.Close()
		var all []*einoschema.Message
		for {
			piece, err := s.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return 0, err
			}
			all = append(all, piece)
		}
		whole, err := einoschema.ConcatMessages(all)
		if err == nil && len(whole.Content) != deltaCount*len(deltaText) {
			err = errors.New("the answer is not whole")
		}
		return len(all), err
	}
}

func einoTurns(tb testing.TB) func() (string, error) {
	m, err := einoChat(tb, chatAnswer).WithTools([]*einoschema.ToolInfo{{Name: "look", Desc: "look"}})
	if err != nil {
		tb.Fatal(err)
	}
	messages := []*einoschema.Message{einoschema.SystemMessage("Be brief."), einoschema.UserMessage("hi")}
	for i := range turnCount {
		id := fmt.Sprint("c", i)
		messages = append(messages, einoschema.AssistantMessage("", []einoschema.ToolCall{
			{ID: id, Type: "function", Function: einoschema.FunctionCall{Name: "look", Arguments: `{"a":1}`}}}),
			einoschema.ToolMessage(turnResult, id))
	}
	return func() (string, error) {
		resp, err := m.Generate(context.Background(), messages)
		if err != nil {
			return "", err
		}
		return resp.Content, nil
	}
}

func openaiDeltas(testing.TB) func() (int, error) {
	c := openaisdk.NewClient(openaiopt.WithAPIKey("k"), openaiopt.WithHTTPClient(answers(chatStream)))
	params := openaisdk.ChatCompletionNewParams{Model: "m",
		Messages: []openaisdk.ChatCompletionMessageParamUnion{openaisdk.UserMessage("hi")}}
	return func() (pieces int, err error) {
		s := c.Chat.Completions.NewStreaming(context.Background(), params)
		defer s.Close()
		whole := openaisdk.ChatCompletionAccumulator{}
		for s.Next() {
			whole.AddChunk(s.Current())
			pieces++
		}
		if err = s.Err(); err == nil && len(whole.Choices[0].Message.Content) != deltaCount*len(deltaText) {
			err = errors.New("the answer is not whole")
		}
		return pieces, err
	}
}

func openaiTurns(testing.TB) func() (string, error) {
	c := openaisdk.NewClient(openaiopt.WithAPIKey("k"), openaiopt.WithHTTPClient(answers(chatAnswer)))
	params := openaisdk.ChatCompletionNewParams{Model: "m", Messages: []openaisdk.ChatCompletionMessageParamUnion{
		openaisdk.SystemMessage("Be brief."), openaisdk.UserMessage("hi")},
		Tools: []openaisdk.ChatCompletionToolUnionParam{openaisdk.ChatCompletionFunctionTool(
			openaisdk.FunctionDefinitionParam{Name: "look"})}}
	for i := range turnCount {
		id := fmt.Sprint("c", i)
		call := openaisdk.ChatCompletionMessageToolCallUnionParam{OfFunction: &openaisdk.ChatCompletionMessageFunctionToolCallParam{
			ID: id, Function: openaisdk.ChatCompletionMessageFunctionToolCallFunctionParam{Name: "look", Arguments: `{"a":1}`}}}
		params.Messages = append(params.Messages, openaisdk.ChatCompletionMessageParamUnion{
			OfAssistant: &openaisdk.ChatCompletionAssistantMessageParam{
				ToolCalls: []openaisdk.ChatCompletionMessageToolCallUnionParam{call}}},
			openaisdk.ToolMessage(turnResult, id))
	}
	return func() (string, error) {
		resp, err := c.Chat.Completions.New(context.Background(), params)
		if err != nil {
			return "", err
		}
		return resp.Choices[0].Message.Content, nil
	}
}

func anthropicDeltas(testing.TB) func() (int, error) {
	c := anthropicsdk.NewClient(anthropicopt.WithAPIKey("k"), anthropicopt.WithHTTPClient(answers(messageStream)))
	params := anthropicsdk.MessageNewParams{Model: "m", MaxTokens: 1024,
		Messages: []anthropicsdk.MessageParam{anthropicsdk.NewUserMessage(anthropicsdk.NewTextBlock("hi"))}}
	return func() (pieces int, err error) {
		s := c.Messages.NewStreaming(context.Background(), params)
		defer s.Close()
		whole := anthropicsdk.Message{}
		for s.Next() {
			if err := whole.Accumulate(s.Current()); err != nil {
				return 0, err
			}
			pieces++
		}
		if err = s.Err(); err == nil && len(whole.Content[0].Text) != deltaCount*len(deltaText) {
			err = errors.New("the answer is not whole")
		}
		return pieces, err
	}
}

func anthropicTurns(testing.TB) func() (string, error) {
	c := anthropicsdk.NewClient(anthropicopt.WithAPIKey("k"), anthropicopt.WithHTTPClient(answers(messageAnswer)))
	params := anthropicsdk.MessageNewParams{Model: "m", MaxTokens: 1024,
		System:   []anthropicsdk.TextBlockParam{{Text: "Be brief."}},
		Messages: []anthropicsdk.MessageParam{anthropicsdk.NewUserMessage(anthropicsdk.NewTextBlock("hi"))},
		Tools:    []anthropicsdk.ToolUnionParam{anthropicsdk.ToolUnionParamOfTool(anthropicsdk.ToolInputSchemaParam{}, "look")}}
	for i := range turnCount {
		id := fmt.Sprint("c", i)
		params.Messages = append(params.Messages,
			anthropicsdk.NewAssistantMessage(anthropicsdk.NewToolUseBlock(id, map[string]any{"a": 1}, "look")),
			anthropicsdk.NewUserMessage(anthropicsdk.NewToolResultBlock(id, turnResult, false)))
	}
	return func() (string, error) {
		resp, err := c.Messages.New(context.Background(), params)
		if err != nil {
			return "", err
		}
		return resp.Content[0].Text, nil
	}
}
