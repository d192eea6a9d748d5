package workflow_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/workflow"
)

// A process dies while a tool is called. Another one recovers the run: what is recorded is not done again.
func ExampleRecover() {
	ctx := context.Background()
	if file := os.Getenv("EXAMPLE_RECOVER"); file != "" { // the process that dies
		rt, _ := office(file, func(string) (string, error) { os.Exit(137); return "", nil })
		rt.NewRunID = func() string { return "run-1" }
		wf := must(workflow.Compile(must(recipe.Parse("refund.yaml", []byte(refund))), nil))
		out := must(wf.Run(ctx, map[string]any{"order": 7}, rt))
		workflow.Resume(ctx, out.Token, map[string]any{"decision": "approve"}, rt, nil)
	}
	dir := must(os.MkdirTemp("", ""))
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "runs.db")
	first := exec.Command(must(os.Executable()), "-test.run=^ExampleRecover$")
	first.Env = append(os.Environ(), "EXAMPLE_RECOVER="+file)
	fmt.Println(first.Run())

	rt, closeStore := office(file, func(text string) (string, error) { return "sent: " + text, nil })
	defer closeStore()
	out, err := workflow.Recover(ctx, "run-1", rt, nil)
	fmt.Println(out.Status, out.Output, err)
	// Output:
	// exit status 137
	// ok sent: You get it back. <nil>
}
