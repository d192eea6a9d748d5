package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/adapters/script"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
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
			if err := a.checkCassette(cmd); err != nil {
				return err
			}
			read := func(wf *workflow.Workflow) (map[string]any, error) { return wf.ParseInputs(pairs) }
			if cmd.Flags().Changed("inputs-json") {
				if len(pairs) > 0 {
					return usageError("--input and --inputs-json exclude each other")
				}
				read = func(*workflow.Workflow) (map[string]any, error) { return a.readInputs(inputsJSON) }
			}
			if err := checkPairs(pairs); err != nil {
				return err
			}
			return a.run(cmd.Context(), args[0], read)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&pairs, "input", nil, "an input as name=value, read as its schema says (repeatable)")
	f.StringVar(&inputsJSON, "inputs-json", "", "all inputs as a JSON object, or @FILE, or @- for stdin")
	f.StringVar(&a.record, "record", "", "write what models answer to a cassette")
	f.StringVar(&a.replay, "replay", "", "answer from a cassette; no model is called")
	return cmd
}

// checkCassette checks the flags --record and --replay.
func (a *app) checkCassette(cmd *cobra.Command) error {
	for _, name := range []string{"record", "replay"} {
		if f := cmd.Flags().Lookup(name); f.Changed && f.Value.String() == "" {
			return usageError("--%s is empty", name)
		}
	}
	switch {
	case a.replay != "" && a.record != "":
		return usageError("--record and --replay exclude each other")
	case a.replay != "" && len(a.models) > 0:
		return usageError("--model and --replay exclude each other: every model answers from the cassette")
	}
	return nil
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
//  1. read configuration, recipe, inputs and cassette; what is wrong there ends with exit 3. Open MCP servers
//  2. open the store
//  3. run it, with progress on stderr
//  4. print the result, and write what was recorded
func (a *app) run(ctx context.Context, path string, readInputs func(*workflow.Workflow) (map[string]any, error)) error {
	rt, err := a.runtimeFor(path)
	if err != nil {
		return a.refuse(nil, err)
	}
	wf, disconnect, err := a.ready(ctx, path, rt)
	if err != nil {
		return err
	}
	defer disconnect()
	inputs, err := readInputs(wf)
	if err != nil {
		return a.refuse(wf, err)
	}
	if a.replay != "" {
		if rt, err = host.Replay(rt, a.replay, wf.Plan()); err != nil {
			return a.refuse(wf, err)
		}
	}

	closeStore, err := a.keepRuns(ctx, rt)
	if err != nil {
		return err
	}
	defer closeStore()
	ctx, stop, why := a.interruptible(ctx)
	defer stop()
	var recorder *script.Recorder
	if a.record != "" {
		if rt, recorder, err = host.Record(ctx, rt, a.record, wf.Plan()); err != nil {
			return &exitError{exitInternal, err}
		}
	}
	flush, err := a.export(ctx, rt)
	if err != nil {
		return &exitError{exitInternal, err}
	}
	defer flush() // when the result is out
	out := a.legs(ctx, rt, &workflow.ResumeOptions{Workflow: wf}, func(rt *runtime.Runtime) *workflow.Outcome {
		out, _ := wf.Run(ctx, inputs, rt) // the error is the outcome's
		return out
	})
	recordErr := recorder.Close(ctx)
	err = a.finish(ctx, rt, out, why())
	if recordErr == nil {
		return err
	}
	if e, ok := errors.AsType[*exitError](err); ok && e.code == exitInterrupt {
		return &exitError{exitInterrupt, recordErr}
	}
	return &exitError{exitInternal, recordErr}
}

// legs makes the first leg of a run, and further ones as long as somebody at the terminal answers what it waits
// for.
func (a *app) legs(ctx context.Context, rt *runtime.Runtime, opts *workflow.ResumeOptions, first func(*runtime.Runtime) *workflow.Outcome) *workflow.Outcome {
	rt.Reporter = silent{}
	rt.Resume = resume.PassThrough{}
	out := a.leg(rt, first)
	for a.interactive() && ctx.Err() == nil {
		i := slices.IndexFunc(out.Pauses, func(p resume.Pause) bool { return p.Kind == resume.Human })
		if i < 0 {
			break
		}
		answer, ok := a.ask(ctx, out.Pauses[i])
		if !ok {
			break
		}
		next := a.leg(rt, func(rt *runtime.Runtime) *workflow.Outcome {
			out, _ := workflow.Resume(ctx, out.Pauses[i].Token, answer, rt, opts)
			return out
		})
		switch e := next.Error(); {
		case e != nil && e.Code == "answer.unfit":
			fmt.Fprintln(a.stderr, visible(e.Error()))
		case e != nil && e.Code == "resume.invalidToken":
			fmt.Fprintln(a.stderr, "somebody else has answered, or it was too late")
			out = a.leg(rt, func(rt *runtime.Runtime) *workflow.Outcome {
				out, _ := workflow.Recover(ctx, out.RunID, rt, opts)
				return out
			})
		default:
			out = next
		}
	}
	return out
}

// leg makes one leg of a run, with its events on stdout or progress on stderr.
func (a *app) leg(rt *runtime.Runtime, run func(*runtime.Runtime) *workflow.Outcome) *workflow.Outcome {
	watched := *rt
	switch {
	case a.output == "jsonl":
		s := newStream(a.stdout)
		defer s.close()
		watched.Trace = append(slices.Clone(rt.Trace), trace.NewJSONL(s))
	case !a.quiet:
		p := a.newProgress()
		defer p.close()
		watched.Trace = append(slices.Clone(rt.Trace), p)
	}
	return run(&watched)
}

// finish prints how a run has ended; the error is its exit code.
func (a *app) finish(ctx context.Context, rt *runtime.Runtime, out *workflow.Outcome, why *stopped) error {
	a.printFindings(out.Diagnostics)
	if err := a.printOutcome(out); err != nil {
		return err
	}
	a.printError(out)
	a.printWaiting(rt, out)
	if rt.Store != nil && (out.Status == workflow.StatusCancelled || out.Status == workflow.StatusError) {
		sum, _, err := rt.Store.Load(context.WithoutCancel(ctx), out.RunID, math.MaxInt64)
		if err == nil && sum.Status == checkpoint.Running && !sum.Held {
			fmt.Fprintf(a.stderr, "  its journal is kept; to go on: braise runs recover %s%s\n", out.RunID, a.sameFlags())
		}
	}
	return exit(exitCode(out, why))
}

// export adds the exporter to the collector that the configuration names, if it does, to the sinks of
// a run. flush sends what waits, and is called once the run has ended.
func (a *app) export(ctx context.Context, rt *runtime.Runtime) (flush func(), err error) {
	exporter, err := a.host.Telemetry(version().Version)
	if err != nil || exporter == nil {
		return func() {}, err
	}
	rt.Trace = append(rt.Trace, exporter)
	return func() {
		if err := exporter.Shutdown(context.WithoutCancel(ctx)); err != nil && !a.quiet {
			text := []rune(strings.Join(strings.Fields(err.Error()), " ")) // the collector's words may be in it
			if len(text) > maxWarning {
				text = append(text[:maxWarning], '…')
			}
			fmt.Fprintf(a.stderr, "braise: warning: telemetry: %s\n", visible(string(text)))
		}
	}, nil
}

// maxWarning is how many characters of what a collector says are shown.
const maxWarning = 500

// silent is the reporter of a run: what it would say stands in the outcome's findings and trace.
type silent struct{}

func (silent) Warn(string, ...slog.Attr) {}

// printError says why a run is not ok, unless the findings have.
func (a *app) printError(out *workflow.Outcome) {
	e := out.Error()
	switch {
	case e == nil || e.Code == string(diagnostics.CodeInput) || errors.Is(e, checkpoint.ErrToken): // the findings do
		return
	case e.Code == string(diagnostics.CodeStrict):
		fmt.Fprintln(a.stderr, "braise: error: strict diagnostics failure: nothing ran")
		return
	}
	step := ""
	if e.Step != "" {
		step = fmt.Sprintf("step %q: ", e.Step)
	}
	fmt.Fprintf(a.stderr, "braise: %s: %s%s\n", out.Status, step, visible(e.Error()))
}

// readInputs reads the flag --inputs-json.
func (a *app) readInputs(text string) (map[string]any, error) {
	v, err := a.readJSON(text)
	if err != nil {
		return nil, err
	}
	inputs, ok := v.(map[string]any)
	if !ok {
		return nil, inputError("--inputs-json must be an object, not %s", value.TypeName(v))
	}
	return inputs, nil
}

func inputError(format string, args ...any) error {
	return diagnostics.List{{Level: diagnostics.ErrorLevel, Kind: diagnostics.KindWorkflow, Code: diagnostics.CodeInput,
		Message: fmt.Sprintf(format, args...)}}.Err()
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
	switch {
	case a.output == "json":
		return a.printJSON(out)
	case a.output == "jsonl":
		text, err := out.Summary()
		if err != nil {
			return &exitError{exitInternal, err}
		}
		fmt.Fprintf(a.stdout, "%s\n", text)
	case out.Status != workflow.StatusOK || out.Output == nil:
	default:
		if text, ok := out.Output.(string); ok {
			fmt.Fprintln(a.stdout, strings.TrimSuffix(text, "\n"))
			return nil
		}
		text, err := value.JSON(out.Output)
		if err != nil {
			return &exitError{exitInternal, err}
		}
		return a.printJSON(json.RawMessage(text))
	}
	return nil
}
