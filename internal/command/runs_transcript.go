package command

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/internal/terminal"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

func (a *app) runsTranscript() *cobra.Command {
	follow := false
	cmd := &cobra.Command{
		Use:   "transcript RUN [STEP]",
		Short: "Print the conversations of agents and models, with tool calls and their results",
		Example: `  braise runs transcript last
  braise runs transcript last research --follow`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 1 || len(args) > 2 {
				return usageError("runs transcript takes a run, and perhaps the step of an agent or a model")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if follow && a.output == "json" {
				return usageError("--follow prints lines: --output jsonl, or human")
			}
			return a.withRun(cmd, args[0], func(ctx context.Context, l looked) error {
				t := &transcript{app: a, reader: &history.Reader{Store: l.runs}, runID: l.id, shown: map[string]int{},
					ended: map[string]bool{}}
				if len(args) == 2 {
					t.step = args[1]
				}
				if follow {
					return t.follow(ctx)
				}
				return t.print(ctx)
			})
		},
	}
	cmd.Flags().BoolVar(&follow, "follow", false, "continue until the run ends")
	return cmd
}

// transcript prints the conversations of the agents of a run.
type transcript struct {
	*app
	reader *history.Reader
	runID  string
	step   string          // "": of all
	shown  map[string]int  // how many messages were printed, by path
	ended  map[string]bool // how it ended was printed, by path
	last   string          // the path of the last one
}

// works returns what agents and models have done: all of them, or those that a step stands for, in items and rounds
// too.
func (t *transcript) works(ctx context.Context) ([]history.Work, error) {
	all, err := t.reader.Paths(ctx, t.runID, "agent", "model")
	if err != nil {
		return nil, err
	}
	paths := slices.DeleteFunc(all, func(path string) bool { return !t.wants(path) })
	works := []history.Work{}
	if len(paths) > 0 {
		steps, err := t.reader.Steps(ctx, t.runID, paths...)
		if err != nil {
			return nil, err
		}
		for i := range steps {
			if w := workOf(&steps[i]); w != nil {
				works = append(works, *w)
			}
		}
	}
	if t.step != "" && len(works) == 0 {
		return nil, &exitError{host.ExitInvalid, fmt.Errorf(
			"run %s has no agent or model at step %q that has begun\n"+
				"  hint: braise runs show %[1]s lists the steps", t.runID, t.step)}
	}
	return works, nil
}

// wants reports whether the step was asked for.
func (t *transcript) wants(path string) bool {
	return t.step == "" || path == t.step || workflow.PlanID(path) == t.step
}

// workOf is what was said in a step; nil: it asks nobody, or has not begun.
func workOf(d *history.Detail) *history.Work {
	if d.Work != nil || d.Said == nil {
		return d.Work
	}
	w := &history.Work{Path: d.Step.Step, Messages: d.Said, Calls: []history.ToolCall{}, Finish: d.Finish}
	if d.Usage != nil {
		w.Usage = runtime.Usage{InputTokens: int(d.Usage.InputTokens), CachedTokens: int(d.Usage.CachedTokens),
			CacheWriteTokens: int(d.Usage.CacheWriteTokens), OutputTokens: int(d.Usage.OutputTokens),
			ReasoningTokens: int(d.Usage.ReasoningTokens)}
	}
	if d.Error.Code != "" {
		w.Stop = "error"
	}
	return w
}

// print prints all there is.
func (t *transcript) print(ctx context.Context) error {
	works, err := t.works(ctx)
	if err != nil {
		return err
	}
	if t.output != "human" {
		return t.printJSON(works)
	}
	t.more(works)
	return nil
}

// follow prints all there is, and then what comes, until the run ends. What agents have said follows from the events;
// for a step of the kind model the run is read again.
func (t *transcript) follow(ctx context.Context) error {
	works, err := t.works(ctx) // also finds out whether there is the step
	if err != nil {
		return err
	}
	t.more(works)
	tail, asks := t.reader.Tail(t.runID), map[string]bool{} // steps that call a model
	for events, err := range tail.Watch(ctx) {
		if err != nil {
			return err
		}
		answered, said := false, map[string]bool{}
		for _, e := range events {
			switch e.Kind {
			case trace.ModelEnd, trace.ToolEnd, trace.AgentEnd:
				said[e.Step] = true
			case trace.AdapterCall:
				asks[e.Step] = asks[e.Step] || e.Data.Get("kind") == "model"
			case trace.StepEnd:
				answered = answered || asks[e.Step]
			}
		}
		for _, path := range slices.Sorted(maps.Keys(said)) {
			if w := tail.Work(path); w != nil && t.wants(w.Path) {
				t.more([]history.Work{*w})
			}
		}
		if answered {
			if works, err = t.works(ctx); err != nil {
				return err
			}
			t.more(works)
		}
	}
	return nil
}

// more prints the messages that were not printed before.
func (t *transcript) more(works []history.Work) {
	for i := range works {
		w := &works[i]
		for _, m := range w.Messages[min(t.shown[w.Path], len(w.Messages)):] {
			t.message(w, &m)
		}
		t.shown[w.Path] = len(w.Messages)
		t.more(w.Children)
		if t.output == "human" && w.Stop != "" && w.Stop != "answer" && !t.ended[w.Path] {
			t.ended[w.Path] = true
			t.head(w)
			fmt.Fprintf(t.stdout, "-- stopped: %s\n", w.Stop)
		}
	}
}

// message prints a message.
func (t *transcript) message(w *history.Work, m *runtime.Message) {
	if t.output == "jsonl" {
		text, err := json.Marshal(struct {
			Path    string           `json:"path"`
			Agent   string           `json:"agent,omitempty"`
			Message *runtime.Message `json:"message"`
		}{w.Path, w.Agent, m})
		if err == nil {
			fmt.Fprintf(t.jsonLines(), "%s\n", text)
		}
		return
	}
	t.head(w)
	if m.Text != "" || len(m.ToolCalls) == 0 {
		fmt.Fprintf(t.stdout, "%s: %s\n", m.Role, indented(m.Text))
	}
	for _, c := range m.ToolCalls {
		fmt.Fprintf(t.stdout, "%s: → %s %s\n", m.Role, terminal.Visible(c.Name), indented(string(c.Arguments)))
	}
}

// head prints whose messages follow, unless that was printed before.
func (t *transcript) head(w *history.Work) {
	if t.last != w.Path {
		t.last = w.Path
		fmt.Fprintf(t.stdout, "== %s\n", terminal.Visible(strings.TrimSpace(w.Path+" "+w.Agent)))
	}
}

// indented is a text that is made safe for a terminal, with its further lines below the first.
func indented(text string) string {
	return strings.ReplaceAll(terminal.Visible(strings.TrimSpace(text)), "\n", "\n  ")
}
