package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cloudwego/eino/components/model"
	einotool "github.com/cloudwego/eino/components/tool"
	toolutils "github.com/cloudwego/eino/components/tool/utils"
	einocompose "github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/flow/agent/react"
	einoschema "github.com/cloudwego/eino/schema"
	"google.golang.org/adk/agent"
	"google.golang.org/adk/agent/llmagent"
	adkmodel "google.golang.org/adk/model"
	"google.golang.org/adk/runner"
	"google.golang.org/adk/session"
	"google.golang.org/adk/tool"
	"google.golang.org/adk/tool/functiontool"
	"google.golang.org/genai"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// rounds is how often the model of W5 calls its tool before it answers. It knows nothing but the
// conversation, whose last message has the number so far.
const rounds = 20

// number is what the tool takes and returns, one more.
type number struct {
	N int `json:"n"`
}

func inc(in number) number { return number{in.N + 1} }

const (
	addName     = "add"
	addText     = "Adds one."
	instruction = "Add one until you have twenty."
	prompt      = "Begin with zero."
)

func (n number) text() string { return `{"n":` + strconv.Itoa(n.N) + `}` }

// read is the number of a message; 0 of the prompt.
func read(text string) number {
	digits, _ := strings.CutPrefix(text, `{"n":`)
	n, _ := strconv.Atoi(strings.TrimSuffix(digits, "}"))
	return number{n}
}

// talk runs the agent once and returns its answer.
type talk func(context.Context) (string, error)

func BenchmarkW5(b *testing.B) {
	for _, e := range []struct {
		name  string
		build func(testing.TB) talk
	}{{"braise", braiseAgent}, {"eino", einoAgent}, {"adk-go", adkAgent}, {"floor-loop", floorAgent}} {
		b.Run(e.name, func(b *testing.B) {
			talk, want := e.build(b), strconv.Itoa(rounds)
			b.ReportAllocs()
			for b.Loop() {
				if text, err := talk(b.Context()); err != nil || text != want {
					b.Fatalf("the answer is %q, want %q; %v", text, want, err)
				}
			}
		})
	}
}

// braiseAgent has what every agent has: its trace, its snapshot, and a journal, in memory here.
func braiseAgent(tb testing.TB) talk {
	name := "bench." + addName
	add := runtime.NewTool(runtime.ToolSpec{Name: name, Description: addText, Effect: runtime.ReadOnly},
		func(_ context.Context, in number) (number, error) { return inc(in), nil })
	rt := &runtime.Runtime{Models: map[string]runtime.Model{"stub": braiseModel{name}}, Tools: []runtime.Tool{add}}
	loop := &agentloop.Loop{Name: "bench", Model: "stub", Instructions: instruction, Tools: []string{name}, MaxSteps: rounds + 1}
	wf, err := workflow.Agent(loop, nil)
	if err != nil {
		tb.Fatal(err)
	}
	return func(ctx context.Context) (string, error) {
		out, err := wf.Run(ctx, map[string]any{"prompt": prompt}, rt)
		if err != nil {
			return "", err
		}
		answer, _ := out.Output.(map[string]any)
		if len(out.Trace) < 5*rounds || answer["steps"] != int64(rounds+1) {
			return "", fmt.Errorf("%d events of the trace, %v", len(out.Trace), answer)
		}
		text, _ := answer["text"].(string)
		return text, nil
	}
}

type braiseModel struct{ tool string }

func (m braiseModel) Generate(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
	n := read(req.Messages[len(req.Messages)-1].Text)
	if n.N == rounds {
		return &runtime.Response{Text: strconv.Itoa(n.N)}, nil
	}
	return &runtime.Response{ToolCalls: []runtime.ToolCall{{ID: "call", Name: m.tool, Arguments: json.RawMessage(n.text())}}}, nil
}

// einoAgent is its ReAct agent with an inferred tool.
func einoAgent(tb testing.TB) talk {
	add, err := toolutils.InferTool(addName, addText, func(_ context.Context, in number) (number, error) { return inc(in), nil })
	if err != nil {
		tb.Fatal(err)
	}
	a, err := react.NewAgent(context.Background(), &react.AgentConfig{ToolCallingModel: einoModel{},
		ToolsConfig: einocompose.ToolsNodeConfig{Tools: []einotool.BaseTool{add}}, MaxStep: 2*rounds + 10})
	if err != nil {
		tb.Fatal(err)
	}
	return func(ctx context.Context) (string, error) {
		m, err := a.Generate(ctx, []*einoschema.Message{einoschema.SystemMessage(instruction), einoschema.UserMessage(prompt)})
		if err != nil {
			return "", err
		}
		return m.Content, nil
	}
}

type einoModel struct{}

func (einoModel) Generate(_ context.Context, input []*einoschema.Message, _ ...model.Option) (*einoschema.Message, error) {
	n := read(input[len(input)-1].Content)
	if n.N == rounds {
		return einoschema.AssistantMessage(strconv.Itoa(n.N), nil), nil
	}
	call := einoschema.ToolCall{ID: "call", Function: einoschema.FunctionCall{Name: addName, Arguments: n.text()}}
	return einoschema.AssistantMessage("", []einoschema.ToolCall{call}), nil
}

func (m einoModel) Stream(ctx context.Context, input []*einoschema.Message, _ ...model.Option) (*einoschema.StreamReader[*einoschema.Message], error) {
	answer, err := m.Generate(ctx, input)
	return einoschema.StreamReaderFromArray([]*einoschema.Message{answer}), err
}

func (m einoModel) WithTools([]*einoschema.ToolInfo) (model.ToolCallingChatModel, error) {
	return m, nil
}

// adkAgent is an llmagent with a function tool, in a session of its own for each run.
func adkAgent(tb testing.TB) talk {
	add, err := functiontool.New(functiontool.Config{Name: addName, Description: addText},
		func(_ tool.Context, in number) (number, error) { return inc(in), nil })
	if err != nil {
		tb.Fatal(err)
	}
	a, err := llmagent.New(llmagent.Config{Name: "bench", Model: adkModel{}, Instruction: instruction, Tools: []tool.Tool{add}})
	if err != nil {
		tb.Fatal(err)
	}
	sessions := session.InMemoryService()
	r, err := runner.New(runner.Config{AppName: "bench", Agent: a, SessionService: sessions, AutoCreateSession: true})
	if err != nil {
		tb.Fatal(err)
	}
	var runs atomic.Int64
	return func(ctx context.Context) (text string, err error) {
		name := strconv.FormatInt(runs.Add(1), 10)
		for event, err := range r.Run(ctx, "me", name, genai.NewContentFromText(prompt, genai.RoleUser), agent.RunConfig{}) {
			if err != nil {
				return "", err
			}
			if event.IsFinalResponse() {
				text = event.Content.Parts[0].Text
			}
		}
		return text, sessions.Delete(ctx, &session.DeleteRequest{AppName: "bench", UserID: "me", SessionID: name})
	}
}

type adkModel struct{}

func (adkModel) Name() string { return "stub" }

func (adkModel) GenerateContent(_ context.Context, req *adkmodel.LLMRequest, _ bool) iter.Seq2[*adkmodel.LLMResponse, error] {
	return func(yield func(*adkmodel.LLMResponse, error) bool) {
		n := 0
		if last := req.Contents[len(req.Contents)-1].Parts[0]; last.FunctionResponse != nil {
			f, _ := last.FunctionResponse.Response["n"].(float64)
			n = int(f)
		}
		answer := genai.NewPartFromText(strconv.Itoa(n))
		if n < rounds {
			answer = genai.NewPartFromFunctionCall(addName, map[string]any{"n": n})
		}
		yield(&adkmodel.LLMResponse{Content: genai.NewContentFromParts([]*genai.Part{answer}, genai.RoleModel)}, nil)
	}
}

// floorAgent is the loop that anybody would write: messages, and JSON where a model's arguments and
// a tool's results are.
func floorAgent(testing.TB) talk {
	m := braiseModel{addName}
	return func(ctx context.Context) (string, error) {
		messages := []runtime.Message{{Role: runtime.System, Text: instruction}, {Role: runtime.User, Text: prompt}}
		for {
			resp, err := m.Generate(ctx, &runtime.Request{Messages: messages})
			if err != nil {
				return "", err
			}
			messages = append(messages, runtime.Message{Role: runtime.Assistant, Text: resp.Text, ToolCalls: resp.ToolCalls})
			if len(resp.ToolCalls) == 0 {
				return resp.Text, nil
			}
			for _, c := range resp.ToolCalls {
				var in number
				if err := json.Unmarshal(c.Arguments, &in); err != nil {
					return "", err
				}
				out, err := json.Marshal(inc(in))
				if err != nil {
					return "", err
				}
				messages = append(messages, runtime.Message{Role: runtime.ToolRole, ToolCallID: c.ID, Text: string(out)})
			}
		}
	}
}
