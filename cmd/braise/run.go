package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/adapters/script"
	"github.com/braise-run/braise/host"
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

// run executes a recipe:
//
//  1. read configuration, recipe, inputs and cassette; what is wrong there ends with exit 3. Open MCP servers
//  2. open the store
//  3. run it, with progress on stderr
//  4. print the result, and write what was recorded
func (a *app) run(ctx context.Context, path string, readInputs func(*workflow.Workflow) (map[string]any, error)) error {
	s, err := a.open(ctx, host.Options{Recipe: path, Reporter: silent{}})
	if err != nil {
		return a.refuse(nil, err)
	}
	defer s.close() // when the result is out
	wf, err := s.host.Load(ctx, path)
	if err != nil {
		return a.unready(err)
	}
	inputs, err := readInputs(wf)
	if err != nil {
		return a.refuse(wf, err)
	}
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
	rt.Models = models.Models
	if url, _, _ := s.host.StoreURL(); url == host.MemoryStore {
		rt.Store = nil // what would be in it is of no use to anybody once the process has ended
	}
	var recorder *script.Recorder
	if a.record != "" {
		if rt, recorder, err = host.Record(ctx, rt, a.record, wf.Plan()); err != nil {
			return &exitError{host.ExitInternal, err}
		}
	}
	e := execution{"", rt, &workflow.ResumeOptions{Workflow: wf}}
	out := s.executions(ctx, e, func(ctx context.Context, e execution) (*workflow.Outcome, error) {
		return wf.Run(ctx, inputs, e.rt)
	})
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
