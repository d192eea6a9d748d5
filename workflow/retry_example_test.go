package workflow_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

func ExampleWorkflow_Run_retry() {
	calls := 0
	model := &runtimetest.Model{Func: func(context.Context, *runtime.Request) (*runtime.Response, error) {
		if calls++; calls < 3 {
			return nil, &retry.Failure{Reason: retry.RateLimit, Err: errors.New("slow down")}
		}
		return &runtime.Response{Text: "hello"}, nil
	}}
	r, _ := recipe.Parse("hello.yaml", []byte(`
apiVersion: braise/v1
name: hello
steps:
  ask: {uses: model, with: {model: fast, prompt: Say hello.}, retry: {max_attempts: 3, backoff: 10ms}}
output: ${{ steps.ask.output.text }}
`))
	wf, _ := workflow.Compile(r, nil)
	out, err := wf.Run(context.Background(), nil, &runtime.Runtime{Models: map[string]runtime.Model{"fast": model}})
	fmt.Println(out.Output, err)
	for _, e := range out.Trace {
		if e.Kind == trace.AdapterRetry {
			fmt.Println(e.Line())
		}
	}
	// Output:
	// hello <nil>
	// adapter.retry ask adapterKind=model attempt=1 delayMs=10 maxAttempts=3 method=generate reason=rate_limit
	// adapter.retry ask adapterKind=model attempt=2 delayMs=20 maxAttempts=3 method=generate reason=rate_limit
}
