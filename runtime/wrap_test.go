package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
)

// whole is a tool that demands and offers everything that one can.
type whole struct{}

func (whole) Spec() runtime.ToolSpec {
	return runtime.ToolSpec{Name: "pay.out", Description: "Pay.", Parameters: json.RawMessage(`{"type":"object"}`),
		Effect: runtime.Idempotent, Approval: "always",
		EffectOf: func(args json.RawMessage) runtime.Effect {
			if strings.Contains(string(args), "dry") {
				return runtime.ReadOnly
			}
			return ""
		}}
}

func (whole) Call(_ context.Context, args json.RawMessage) (json.RawMessage, error) {
	return json.RawMessage(`{"called":` + string(args) + `}`), nil
}

func (whole) CallValue(_ context.Context, args map[string]any) (any, error) {
	return map[string]any{"valued": args}, nil
}

func (whole) Builtin() {}

func (whole) Metadata() runtime.Metadata {
	return runtime.Metadata{Retry: &retry.Metadata{Policy: retry.Policy{MaxAttempts: 7}}}
}

// The parts of whole.
type (
	plainTool struct{ runtime.Tool }
	valueTool struct{ runtime.Tool }
	ownTool   struct{ runtime.Tool }
)

func (valueTool) CallValue(ctx context.Context, args map[string]any) (any, error) {
	return whole{}.CallValue(ctx, args)
}

func (ownTool) Builtin() {}

func TestWrap(t *testing.T) {
	upper := func(ctx context.Context, args json.RawMessage, next runtime.CallFunc) (json.RawMessage, error) {
		if strings.Contains(string(args), "refuse") {
			return nil, errors.New("refused")
		}
		return next(ctx, json.RawMessage(strings.ToUpper(string(args))))
	}
	for _, tool := range []runtime.Tool{whole{}, plainTool{whole{}}, valueTool{whole{}}, ownTool{whole{}}} {
		t.Run(fmt.Sprintf("trust 1.3 %T", tool), func(t *testing.T) {
			w := runtime.Wrap(runtime.Wrap(tool, upper), upper)
			spec := w.Spec()
			if spec.Name != "pay.out" || spec.Description != "Pay." || spec.Parameters == nil || spec.Approval != "always" {
				t.Errorf("spec %+v", spec)
			}
			for args, want := range map[string]runtime.Effect{`{"dry":1}`: runtime.ReadOnly, `{}`: runtime.Idempotent} {
				if got := spec.EffectFor(json.RawMessage(args)); got != want {
					t.Errorf("effect of %s: %s, want %s", args, got, want)
				}
			}
			_, is := tool.(runtime.BuiltinTool)
			if _, got := w.(runtime.BuiltinTool); got != is {
				t.Errorf("builtin: %v, want %v", got, is)
			}
			_, is = tool.(runtime.Described)
			if own := w.(runtime.Described).Metadata().Retry; is != (own != nil && own.Policy.MaxAttempts == 7) {
				t.Errorf("metadata %+v", own)
			}
			if out, err := w.Call(t.Context(), json.RawMessage(`{"a":"b"}`)); err != nil || string(out) != `{"called":{"A":"B"}}` {
				t.Errorf("%s, %v", out, err)
			}
			if _, err := w.Call(t.Context(), json.RawMessage(`"refuse"`)); err == nil || err.Error() != "refused" {
				t.Errorf("error %v", err)
			}
			_, is = tool.(runtime.ValueTool)
			values, got := w.(runtime.ValueTool)
			if got != is {
				t.Fatalf("takes values: %v, want %v", got, is)
			}
			if !is {
				return
			}
			out, err := values.CallValue(t.Context(), map[string]any{"a": "b"})
			if fmt.Sprint(out) != "map[valued:map[A:B]]" || err != nil {
				t.Errorf("%v, %v", out, err)
			}
			if _, err := values.CallValue(t.Context(), map[string]any{"refuse": nil}); err == nil || err.Error() != "refused" {
				t.Errorf("error %v", err)
			}
		})
	}
	t.Run("trust 1.3 what is wrong with a tool is still reported", func(t *testing.T) {
		bad := runtime.NewTool(runtime.ToolSpec{Name: "a.chan"}, func(context.Context, struct{ C chan int }) (int, error) { return 0, nil })
		rt := runtime.Runtime{Tools: []runtime.Tool{runtime.Wrap(bad, upper)}}
		if err := rt.Validate(); err == nil || !strings.Contains(err.Error(), `tool "a.chan": no schema for its arguments`) {
			t.Errorf("error %v", err)
		}
	})
}

func TestValidateApproval(t *testing.T) {
	tool := runtimetest.NewTool("a.b", nil)
	for approval, want := range map[string]string{
		"": "", "never": "", "pause": "", "always": "", "refuse": "",
		"Always": `runtime: tool "a.b": unknown approval "Always", want never, pause, always or refuse`,
	} {
		tool.ToolSpec.Approval = approval
		rt := runtime.Runtime{Tools: []runtime.Tool{tool}}
		if err := rt.Validate(); want == "" && err != nil || want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%q: error %v, want %q", approval, err, want)
		}
	}
}

func ExampleWrap() {
	pay := runtime.NewTool(runtime.ToolSpec{Name: "crm.pay", Approval: "always"},
		func(_ context.Context, in struct {
			Amount int `json:"amount"`
		}) (string, error) {
			return fmt.Sprintf("paid %d", in.Amount), nil
		})
	sandboxed := runtime.Wrap(pay,
		func(ctx context.Context, args json.RawMessage, next runtime.CallFunc) (json.RawMessage, error) {
			fmt.Printf("calling with %s\n", args)
			return next(ctx, args)
		})

	fmt.Println("approval:", sandboxed.Spec().Approval)
	out, err := sandboxed.Call(context.Background(), json.RawMessage(`{"amount":5}`))
	fmt.Println(string(out), err)
	// Output:
	// approval: always
	// calling with {"amount":5}
	// "paid 5" <nil>
}
