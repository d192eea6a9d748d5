package limit_test

import (
	"context"
	"fmt"

	"github.com/braise-run/braise/adapters/limit"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
)

// All runs with this Runtime, and with others that have the same model, share its limits.
func Example() {
	model := runtimetest.Texts("hello")
	rt := &runtime.Runtime{Models: map[string]runtime.Model{
		"fast": limit.New(model, limit.Limits{MaxParallel: 8, RPM: 500, TPM: 200_000}),
	}}
	resp, err := rt.Models["fast"].Generate(context.Background(), &runtime.Request{})
	fmt.Println(resp.Text, err)
	// Output: hello <nil>
}
