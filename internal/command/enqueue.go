package command

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/workflow"
)

// queueFlags are the flags of run that put a run into a queue.
type queueFlags struct {
	name   string
	labels []string
	parsed map[string]string
}

// read checks the flags.
func (q *queueFlags) read(a *app, cmd *cobra.Command) error {
	switch changed := cmd.Flags().Changed; {
	case changed("queue") && q.name == "":
		return usageError("--queue is empty")
	case q.name == "" && len(q.labels) > 0:
		return usageError("--label needs --queue NAME")
	case q.name != "" && (a.record != "" || a.replay != ""):
		return usageError("--queue and a cassette exclude each other: workers execute the run")
	}
	var err error
	q.parsed, err = labelsOf(q.labels)
	return err
}

// labelsOf reads labels as flags give them, KEY=VALUE; nil: there are none.
func labelsOf(texts []string) (labels map[string]string, err error) {
	for _, text := range texts {
		key, v, ok := strings.Cut(text, "=")
		if _, twice := labels[key]; !ok || key == "" || twice {
			return nil, usageError("--label %s: a label is key=value, and a key stands once", text)
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[key] = v
	}
	return labels, nil
}

// enqueue records a run for the workers of a queue, and prints its id.
func (a *app) enqueue(
	cmd *cobra.Command, path string, readInputs inputReader, breaks []string, q *queueFlags,
) error {
	ctx := cmd.Context()
	s, err := a.open(ctx, host.Options{Recipe: path, Reporter: silent{}})
	if err != nil {
		return a.refuse(nil, err)
	}
	defer s.close()
	if _, err := s.connect(ctx, cmd); err != nil {
		return err
	}
	wf, err := s.host.Load(ctx, path)
	if err != nil {
		return a.unready(err)
	}
	inputs, err := readInputs(wf)
	if err != nil {
		return a.refuse(wf, err)
	}
	if _, err := s.openStore(ctx); err != nil {
		return err
	}
	if url, _, _ := s.host.StoreURL(); url == host.MemoryStore {
		return &exitError{host.ExitInvalid, errors.New("a run cannot wait in a store that ends with this process\n" +
			"  hint: --store names the store that the workers share")}
	}
	rt, err := s.host.Runtime(ctx, wf)
	if err != nil {
		return a.unready(err)
	}
	rt.Breakpoints = breaks
	runID, err := wf.Enqueue(ctx, inputs, rt, &workflow.EnqueueOptions{Queue: q.name, Labels: q.parsed})
	if err != nil {
		out := s.host.Explain(host.Failed("", err))
		hintInputs(out, wf.Recipe().Inputs)
		return s.failed(out)
	}
	if a.output != "human" {
		return a.printJSON(map[string]string{"runId": runID, "recipe": wf.Name(),
			"status": string(checkpoint.PhaseQueued)})
	}
	fmt.Fprintln(a.stdout, runID)
	return nil
}
