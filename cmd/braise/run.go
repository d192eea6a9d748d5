package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

func (a *app) runCommand() *cobra.Command {
	var pairs []string
	var inputsJSON string
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "Run a recipe; the result goes to stdout, progress to stderr",
		Args:  exactly(1, "run takes one recipe file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.run(cmd, args[0], pairs, inputsJSON)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&pairs, "input", nil, "an input as name=value, read as its schema says (repeatable)")
	f.StringVar(&inputsJSON, "inputs-json", "", "all inputs as a JSON object, or @FILE, or @- for stdin")
	f.StringVar(&a.store, "store", "", "where runs are kept; this version has memory: only")
	f.StringVar(&a.runID, "run-id", "", "the run's id (default a new UUIDv7)")
	f.IntVar(&a.maxParallel, "max-parallel", 0, "adapter calls at once, if lower than what recipe and host say")
	f.StringArrayVar(&a.models, "model", nil, "NAME=script:FILE answers for a model from a script (repeatable)")
	return cmd
}

// exactly is cobra.ExactArgs with a sentence of our own.
func exactly(n int, sentence string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n {
			return usageError("%s, not %d", sentence, len(args))
		}
		return nil
	}
}

// run executes a recipe:
//
//  1. read configuration, recipe and inputs; what is wrong there ends with exit 3
//  2. run it, with progress on stderr
//  3. print the result
func (a *app) run(cmd *cobra.Command, path string, pairs []string, inputsJSON string) error {
	if len(pairs) > 0 && inputsJSON != "" {
		return usageError("--input and --inputs-json exclude each other")
	}
	if cmd.Flags().Changed("max-parallel") && a.maxParallel < 1 {
		return usageError("--max-parallel is %d; the least is 1", a.maxParallel)
	}
	if a.store != "" {
		if err := host.CheckStore(a.store); err != nil {
			return &exitError{exitUsage, err}
		}
	}
	rt, err := a.runtimeFor(path)
	if err != nil {
		return a.refuse(err)
	}
	wf, err := compile(path, rt)
	if err != nil {
		return a.refuse(err)
	}
	inputs, err := a.inputs(wf, pairs, inputsJSON)
	if err != nil {
		return a.refuse(inputFinding(err))
	}
	closeProgress := func() {}
	switch {
	case a.output == "jsonl":
		rt.Trace = append(rt.Trace, trace.NewJSONL(a.stdout))
	case !a.quiet:
		p := a.newProgress()
		rt.Trace = append(rt.Trace, p)
		closeProgress = p.close
	}
	ctx, stop, interrupted := a.interruptible(cmd.Context())
	defer stop()
	out, _ := wf.Run(ctx, inputs, rt) // the error is the outcome's
	closeProgress()
	a.printFindings(withoutResult(out))
	if err := a.printOutcome(out); err != nil {
		return err
	}
	if e := out.Error(); e != nil {
		step := ""
		if e.Step != "" {
			step = fmt.Sprintf("step %q: ", e.Step)
		}
		fmt.Fprintf(a.stderr, "braise: %s: %s%v\n", out.Status, step, e)
	}
	return exit(exitCode(out, interrupted()))
}

// withoutResult returns the findings that are not what the outcome's error says anyway.
func withoutResult(out *workflow.Outcome) diagnostics.List {
	var list diagnostics.List
	for _, d := range out.Diagnostics {
		if d.Code != diagnostics.CodeInput {
			list = append(list, d)
		}
	}
	return list
}

func inputFinding(err error) error {
	message, hint, _ := strings.Cut(err.Error(), "\n  hint: ")
	return diagnostics.List{{Level: diagnostics.ErrorLevel, Kind: diagnostics.KindWorkflow, Code: diagnostics.CodeInput, Message: message, Hint: hint}}.Err()
}

// inputs reads what the flags give.
func (a *app) inputs(wf *workflow.Workflow, pairs []string, inputsJSON string) (map[string]any, error) {
	if inputsJSON == "" {
		return wf.ParseInputs(pairs)
	}
	text := []byte(inputsJSON)
	if name, ok := strings.CutPrefix(inputsJSON, "@"); ok {
		var err error
		if text, err = a.readFile(name); err != nil {
			return nil, err
		}
	}
	v, err := value.DecodeStrict(text)
	if err != nil {
		return nil, fmt.Errorf("--inputs-json: %w", err)
	}
	inputs, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("--inputs-json must be an object, not %s", value.TypeName(v))
	}
	return inputs, nil
}

func (a *app) readFile(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(a.stdin)
	}
	return os.ReadFile(name)
}

// printOutcome prints the result on stdout: the output alone for people, the whole outcome as
// JSON, or its last line for a stream of events.
func (a *app) printOutcome(out *workflow.Outcome) error {
	switch a.output {
	case "json":
		return a.printJSON(out)
	case "jsonl":
		text, err := out.Summary()
		if err != nil {
			return &exitError{exitInternal, err}
		}
		fmt.Fprintf(a.stdout, "%s\n", text)
		return nil
	}
	if out.Status != workflow.StatusOK {
		return nil
	}
	switch v := out.Output.(type) {
	case nil:
	case string:
		fmt.Fprintln(a.stdout, strings.TrimSuffix(v, "\n"))
	default:
		return a.printJSON(json.RawMessage(mustJSON(v)))
	}
	return nil
}

// mustJSON encodes a run's output, which is decoded JSON.
func mustJSON(v any) []byte {
	text, err := value.JSON(v)
	if err != nil {
		return []byte("null")
	}
	return text
}
