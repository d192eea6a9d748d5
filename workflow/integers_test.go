package workflow_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/jsonl"
	"github.com/braise-run/braise/checkpoint/sqlite"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/internal/seedtest"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

// everyWay passes an integer, DIGITS, through each kind of step; "ask", "approve" and "mail" wait for somebody.
const everyWay = `apiVersion: braise/v1
name: integers
channels: {mail: queue, inner: queue}
inputs: {id: integer, deep: {type: object, properties: {ids: {type: array, items: {type: integer, minimum: -DIGITS}}}}, late: {type: integer, default: DIGITS}}
consts: {id: DIGITS, list: [{n: DIGITS}]}
agents:
  clerk: {model: m, tools: [t.echo], approval: {t.echo: pause}}
  quick: {model: m, tools: [t.echo]}
steps:
  given: {uses: set, with: {id: "${{ inputs.id }}", deep: "${{ inputs.deep }}", late: "${{ inputs.late }}"}}
  written: {uses: set, with: {id: DIGITS, const: "${{ consts }}"}}
  tool: {uses: t.echo, with: {id: "${{ steps.given.output.id }}", list: [DIGITS]}}
  values: {uses: t.values, with: {id: "${{ inputs.id }}", list: [DIGITS]}}
  each: {uses: t.echo, foreach: {in: "${{ [inputs.id, consts.id] }}"}, with: {id: "${{ item }}"}}
  model: {uses: model, with: {model: m, prompt: answer}, output: {schema: {type: object, required: [id], properties: {id: {type: integer, maximum: DIGITS}}}}}
  agent: {uses: agent, with: {agent: quick, prompt: call}, output: {schema: {type: object, properties: {id: {type: integer}}}}}
  loop: {uses: loop, with: {max_iterations: 2, steps: {a: {uses: set, with: "${{ inputs.id }}"}}, output: "${{ steps.a.output }}"}}
  send: {uses: send, with: {channel: inner, value: "${{ inputs.id }}"}}
  inner: {uses: receive, needs: [send], with: {channel: inner}}
  said: {uses: set, with: {text: "n=${{ inputs.id }}", string: "${{ string(inputs.id) }}", json: "${{ toJSON(inputs.deep) }}", back: '${{ fromJSON(string(inputs.id)) }}'}}
  same: {uses: set, with: ["${{ inputs.id == consts.id }}", "${{ inputs.id in [1, consts.id] }}", "${{ inputs.id <= inputs.late }}"]}
  ask: {uses: human, with: {prompt: "Which?", show: {id: "${{ inputs.id }}"}, form: {type: object, properties: {id: {type: integer}}}}}
  approve: {uses: agent, with: {agent: clerk, prompt: call}}
  mail: {uses: receive, with: {channel: mail}}
output: "${{ {given: steps.given.output, written: steps.written.output, tool: steps.tool.output, values: steps.values.output, each: steps.each.output,
  model: steps.model.output, agent: steps.agent.output, calls: steps.agent.calls, loop: steps.loop.output.last, inner: steps.inner.output, said: steps.said.output,
  same: steps.same.output, ask: steps.ask.output, approve: steps.approve.output.text, mail: steps.mail.output} }}"
`

// wantOfEveryWay is the output of everyWay.
const wantOfEveryWay = `{"agent":{"id":DIGITS},"approve":"{\"id\":DIGITS}","ask":{"decision":"approve","form":{"id":DIGITS}},` +
	`"calls":[{"arguments":{"id":DIGITS},"error":null,"result":"{\"id\":DIGITS}","tool":"t.echo"}],` +
	`"each":[{"id":DIGITS},{"id":DIGITS}],"given":{"deep":{"ids":[DIGITS]},"id":DIGITS,"late":DIGITS},"inner":DIGITS,"loop":DIGITS,"mail":{"id":DIGITS},` +
	`"model":{"id":DIGITS},"said":{"back":DIGITS,"json":"{\"ids\":[DIGITS]}","string":"DIGITS","text":"n=DIGITS"},"same":[true,true,true],` +
	`"tool":{"id":DIGITS,"list":[DIGITS]},"values":{"id":DIGITS,"list":[DIGITS]},"written":{"const":{"id":DIGITS,"list":[{"n":DIGITS}]},"id":DIGITS}}`

// valuesTool returns its arguments, which it gets as values.
type valuesTool struct{ runtime.Tool }

func (valuesTool) CallValue(_ context.Context, args map[string]any) (any, error) { return args, nil }

func integersRuntime(digits string, store checkpoint.Store) *runtime.Runtime {
	echo := runtimetest.NewTool("t.echo", func(_ context.Context, args json.RawMessage) (any, error) { return args, nil })
	echo.ToolSpec.Parameters = json.RawMessage(`{"type":"object","properties":{"id":{"type":"integer"}}}`)
	m := &runtimetest.Model{Func: func(_ context.Context, req *runtime.Request) (*runtime.Response, error) {
		switch last := req.Messages[len(req.Messages)-1]; {
		case last.Role == runtime.ToolRole:
			return &runtime.Response{Text: last.Text}, nil
		case strings.HasPrefix(last.Text, "call"):
			return &runtime.Response{ToolCalls: []runtime.ToolCall{{ID: "1", Name: "t.echo", Arguments: json.RawMessage(`{"id":` + digits + `}`)}}}, nil
		}
		return &runtime.Response{Text: `{"id": ` + digits + `}`}, nil
	}}
	values := valuesTool{runtimetest.NewTool("t.values", nil)}
	return &runtime.Runtime{Models: map[string]runtime.Model{"m": m}, Tools: []runtime.Tool{echo, values}, Store: store,
		Resume: resume.PassThrough{}, NewRunID: func() string { return "r1" }}
}

// trust 8.8: an integer of any length goes through every way in and out with the same digits: inputs, literals, results,
// answers of models and people, approvals and what people change in them, channels, journals of every store, recovery
// and forks.
func TestIntegersGoEveryWay(t *testing.T) {
	random := rand.New(rand.NewPCG(seedtest.Seed, 88))
	for _, length := range []int{1, 18, 19, 20, 20, 21 + random.IntN(20), 41 + random.IntN(20)} {
		digits := fmt.Sprint(1 + random.IntN(9))
		for len(digits) < length {
			digits += fmt.Sprint(random.IntN(10))
		}
		for _, kind := range []string{"memory", "jsonl", "sqlite"} {
			t.Run(kind+" "+digits, func(t *testing.T) {
				var store checkpoint.Store = &checkpoint.Memory{}
				switch dir := t.TempDir(); kind {
				case "jsonl":
					s, err := jsonl.Open(dir)
					if err != nil {
						t.Fatal(err)
					}
					store = s
				case "sqlite":
					s, err := sqlite.Open(t.Context(), filepath.Join(dir, "runs.sqlite"), nil)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { _ = s.Close() })
					store = s
				}
				goEveryWay(t, digits, store)
			})
		}
	}
}

func goEveryWay(t *testing.T, digits string, store checkpoint.Store) {
	rt := integersRuntime(digits, store)
	n := json.Number(digits)
	want := strings.ReplaceAll(wantOfEveryWay, "DIGITS", digits)
	check := func(when string, out *workflow.Outcome, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		got, err := value.JSON(out.Output)
		if err != nil || string(got) != want {
			t.Errorf("%s: %v (-want +got):\n%s", when, err, cmp.Diff(want, string(got)))
		}
		text, err := json.Marshal(out)
		if wrong := otherDigits(string(text), digits); err != nil || wrong != "" {
			t.Errorf("%s: the outcome has %s, %v", when, wrong, err)
		}
		for _, rec := range runtest.RecordsIn(t.Context(), store, out.RunID) {
			if wrong := otherDigits(string(rec.Data), digits); wrong != "" {
				t.Errorf("%s: %s has %s", when, rec.Kind, wrong)
			}
		}
	}
	var id any = n
	if whole, ok := new(big.Int).SetString(digits, 10); ok && whole.IsUint64() {
		id = whole.Uint64()
	}
	wf := runtest.Load(t, []byte(strings.ReplaceAll(everyWay, "DIGITS", digits)))
	out, err := wf.Run(t.Context(), map[string]any{"id": id, "deep": map[string]any{"ids": []any{n}}}, rt)
	for err == nil && out.Status == workflow.StatusPaused {
		switch p := out.Pauses[0]; p.Step {
		case "ask":
			if show, _ := value.JSON(p.Show); string(show) != `{"id":`+digits+`}` {
				t.Errorf("the pause shows %s", show)
			}
			out, err = workflow.Resume(t.Context(), p.Token, runtest.Approval(map[string]any{"id": n}), rt, nil)
		case "approve":
			out, err = workflow.Resume(t.Context(), p.Token, runtest.Approval(map[string]any{"arguments": map[string]any{"id": n}}), rt, nil)
		default:
			out, err = workflow.Send(t.Context(), "r1", "mail", map[string]any{"id": n}, rt, nil)
		}
	}
	check("run", out, err)
	rt.NewRunID = func() string { return "r2" }
	out, err = workflow.Fork(t.Context(), "r1", "given", workflow.Edits{Inputs: map[string]any{"id": n, "deep": map[string]any{"ids": []any{n}}}}, rt, nil)
	if err != nil || out.Status != workflow.StatusPaused {
		if err == nil {
			check("fork with inputs", out, err)
		} else {
			t.Fatal(err)
		}
	}
	rt.NewRunID = func() string { return "r3" }
	out, err = workflow.Fork(t.Context(), "r1", "said", workflow.Edits{Outputs: map[string]any{"tool": map[string]any{"id": n, "list": []any{n}}}}, rt, nil)
	check("fork with an output", out, err)
	run, err := history.Load(t.Context(), store, "r1")
	if err != nil {
		t.Fatal(err)
	}
	told, _ := json.Marshal(run)
	if wrong := otherDigits(string(told), digits); wrong != "" {
		t.Errorf("what is told of the run has %s", wrong)
	}
}

var longIntegers = regexp.MustCompile(`\b[0-9]{19,}\b`) // hashes have letters between

// otherDigits returns what of a text looks like an integer but is not this one.
func otherDigits(text, digits string) string {
	list := longIntegers.FindAllString(text, -1)
	if i := slices.IndexFunc(list, func(s string) bool { return s != digits }); i >= 0 {
		return list[i]
	}
	return ""
}
