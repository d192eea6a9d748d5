package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/adapters/script"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/internal/terminal"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/workflow"
)

func (a *app) runCommand() *cobra.Command {
	var pairs []string
	var inputsJSON string
	var queue queueFlags
	var breaks []string
	cmd := &cobra.Command{
		Use:   "run FILE",
		Short: "Run a recipe",
		Long: "Run runs a recipe: a file, or the recipe.yaml of a folder. The result goes to stdout, progress and\n" +
			"diagnostics to stderr. The last line on stderr shows how the run ended and what it used.",
		Example: `  braise run recipe.yaml --input question='Who pays?'
  braise run demo --input text=@letter.txt
  git diff | braise run review.yaml --input diff=@-
  braise run recipe.yaml --inputs-json '{"n": 3}' --output json
  braise run recipe.yaml --queue default --label customer=4711
  braise run recipe.yaml --break pay
  braise run recipe.yaml --dry-run`,
		Args: oneRecipe,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.checkCassette(cmd); err != nil {
				return err
			}
			if len(breaks) > 0 {
				if breaks = strings.Split(strings.Join(breaks, ","), ","); slices.Contains(breaks, "") {
					return usageError("--break is empty; it is the path of a step, as braise plan shows it")
				}
			}
			if err := a.checkDry(cmd); err != nil {
				return err
			}
			if err := queue.read(a, cmd); err != nil {
				return err
			}
			read := func(wf *workflow.Workflow) (map[string]any, error) { return wf.ParseInputs(pairs) }
			if cmd.Flags().Changed("inputs-json") {
				if len(pairs) > 0 {
					return usageError("--input and --inputs-json exclude each other")
				}
				read = func(*workflow.Workflow) (map[string]any, error) { return a.readInputs(inputsJSON) }
			}
			texts, err := a.readPairs(pairs)
			if err != nil {
				return err
			}
			pairs = texts
			if queue.name != "" {
				return a.enqueue(cmd, recipePath(args[0]), read, breaks, &queue)
			}
			return a.run(cmd, recipePath(args[0]), read, breaks)
		},
	}
	f := cmd.Flags()
	f.StringArrayVar(&pairs, "input", nil,
		"an input as name=value; name=@FILE and name=@- read a file or stdin (repeatable)")
	f.StringVar(&inputsJSON, "inputs-json", "", "all inputs as a JSON object, or @FILE, or @- for stdin")
	a.cassetteFlags(cmd)
	f.StringArrayVar(&breaks, "break", nil, "pause before these steps, by path, with commas between (repeatable)")
	f.BoolVar(&a.dry, "dry-run", false, "make calls that only read, and show the others; the run is not kept")
	f.StringVar(&queue.name, "queue", "",
		"record the run for the workers of a queue, and print its id; nothing is executed")
	f.StringArrayVar(&queue.labels, "label", nil, "with --queue: a label of the run as key=value (repeatable)")
	return cmd
}

// inputReader reads the inputs of a recipe.
type inputReader = func(*workflow.Workflow) (map[string]any, error)

// cassetteFlags adds the flags --record and --replay.
func (a *app) cassetteFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.record, "record", "", "record the answers of models in a cassette FILE")
	cmd.Flags().StringVar(&a.replay, "replay", "", "answer from a cassette FILE; no model is called")
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

// run executes a recipe:
//
//  1. read configuration, recipe, inputs and cassette; what is wrong there ends with exit 3. Open MCP servers
//  2. open the store
//  3. run it, with progress on stderr
//  4. print the result, and write what was recorded
func (a *app) run(cmd *cobra.Command, path string, readInputs inputReader, breaks []string) error {
	ctx := cmd.Context()
	s, err := a.open(ctx, host.Options{Recipe: path, Reporter: silent{}, Dry: a.dry})
	if err != nil {
		return a.refuse(nil, err)
	}
	defer s.close() // when the result is out
	if c, err := s.connect(ctx, cmd); err != nil {
		return err
	} else if c != nil {
		return s.runThere(ctx, c, path, readInputs)
	}
	wf, err := s.host.Load(ctx, path)
	if err != nil {
		return a.unready(err)
	}
	inputs, err := readInputs(wf)
	if err != nil {
		return a.refuse(wf, err)
	}
	s.host.Keep(a.replay, a.record)
	models := s.host.Bare()
	if a.replay != "" {
		if models, err = host.Replay(models, a.replay, wf.Plan()); err != nil {
			return a.refuse(wf, err)
		}
	}

	ctx, why := s.interruptible(ctx)
	if _, err := s.openStore(ctx); err != nil {
		return err
	}
	rt, err := s.host.Runtime(ctx, wf)
	if err != nil {
		if err := a.stoppedEarly(ctx); err != nil {
			return err
		}
		return a.unready(err)
	}
	rt.Models, rt.Breakpoints = models.Models, breaks
	if url, _, _ := s.host.StoreURL(); url == host.MemoryStore {
		rt.Store = nil // what would be in it is of no use to anybody once the process has ended
	}
	var recorder *script.Recorder
	if a.record != "" {
		if rt, recorder, err = host.Record(ctx, rt, a.record, wf.Plan()); err != nil {
			return &exitError{host.ExitInternal, err}
		}
	}
	if a.dry {
		if rt, err = dryRun(rt, wf, path); err != nil {
			return a.refuse(wf, err)
		}
	}
	s.warnFirst(ctx, wf, *rt)
	e := execution{"", rt, &workflow.ResumeOptions{Workflow: wf}}
	out := s.executions(ctx, e, func(ctx context.Context, e execution) (*workflow.Outcome, error) {
		return wf.Run(ctx, inputs, e.rt)
	})
	hintInputs(out, wf.Recipe().Inputs)
	if a.dry {
		rt.Store = nil
		markDry(out)
	}
	recordErr := recorder.Close(ctx)
	err = s.finish(ctx, rt, out, why())
	if recordErr == nil {
		return err
	}
	if e, ok := errors.AsType[*exitError](err); ok && e.code == host.ExitInterrupt {
		return &exitError{host.ExitInterrupt, recordErr}
	}
	return &exitError{host.ExitInternal, recordErr}
}

// hintInputs says how a missing input is given, and what it is.
func hintInputs(out *workflow.Outcome, inputs []recipe.Input) {
	for i := range out.Diagnostics {
		d := &out.Diagnostics[i]
		for _, in := range inputs {
			if d.Code != diagnostics.CodeInput || d.Message != fmt.Sprintf("input %q is missing", in.Name) {
				continue
			}
			d.Hint = fmt.Sprintf("give it with --input %s=…", in.Name)
			if about, _ := in.SchemaJSON["description"].(string); about != "" {
				d.Hint += ": " + terminal.Cut(about)
			}
		}
	}
}
