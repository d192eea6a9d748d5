package command

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/internal/value"
)

// executing are the commands that execute recipes.
var executing = []string{"run", "ask", "resume", "runs recover", "runs answer", "runs send", "runs cancel",
	"runs sweep", "runs fork"}

// takers are the commands to which a common flag means something, where not all of them are; runs stands for all
// of its own.
var takers = map[string][]string{
	"config": {"validate", "plan", "run", "ask", "resume", "runs", "serve", "worker", "test", "kinds",
		"models", "doctor", "memory", "state"},
	"store":          {"run", "ask", "resume", "runs", "serve", "doctor", "memory", "state"},
	"engine":         {"run", "ask", "resume", "runs", "worker"},
	"run-id":         {"run", "ask", "runs fork"},
	"max-parallel":   append([]string{"plan", "serve"}, executing...),
	"model":          append([]string{"validate", "plan", "serve", "worker", "models", "doctor"}, executing...),
	"strict":         append([]string{"validate", "plan", "serve", "test"}, executing...),
	"no-interactive": {"validate", "plan", "run", "ask", "resume", "runs"},
	"verbose":        executing,
}

// hideFlags hides the common flags that mean nothing to the command that args name. checkFlags refuses them.
func hideFlags(root *cobra.Command, args []string) {
	for len(args) > 0 && (args[0] == "help" || args[0] == "__complete" || args[0] == "__completeNoDesc") {
		args = args[1:]
	}
	cmd, _, err := root.Find(args)
	if err != nil || cmd == root {
		return
	}
	name := commandName(cmd)
	for flag, list := range takers {
		root.PersistentFlags().Lookup(flag).Hidden = !slices.ContainsFunc(list, func(taker string) bool {
			return name == taker || strings.HasPrefix(name, taker+" ") || strings.HasPrefix(taker, name+" ")
		})
	}
}

// once is the value of a flag that is given once: the last of several different ones would win in silence.
type once struct {
	flagValue
	given bool
}

type flagValue interface {
	String() string
	Set(string) error
	Type() string
}

// Set sets the value.
func (o *once) Set(text string) error {
	before := o.String()
	if err := o.flagValue.Set(text); err != nil {
		return err
	}
	if o.given && o.String() != before {
		return fmt.Errorf("it is given twice, and has one value: it was %q before", before)
	}
	o.given = true
	return nil
}

// giveOnce has every flag of a command and those below it given once, but for lists and switches.
func giveOnce(cmd *cobra.Command) {
	for _, f := range append(listOf(cmd.Flags().VisitAll), listOf(cmd.PersistentFlags().VisitAll)...) {
		switch f.Value.Type() {
		case "string", "int", "duration":
			f.Value = &once{flagValue: f.Value}
		}
	}
	for _, sub := range cmd.Commands() {
		giveOnce(sub)
	}
}

// listOf is what a function that visits visits.
func listOf[T any](visit func(func(T))) (list []T) {
	visit(func(v T) { list = append(list, v) })
	return list
}

// commandName is what a command is called after braise: runs list.
func commandName(cmd *cobra.Command) string { return strings.TrimPrefix(cmd.CommandPath(), "braise ") }

// checkFlags checks the common flags.
func (a *app) checkFlags(cmd *cobra.Command) error {
	for _, name := range slices.Sorted(maps.Keys(takers)) {
		if f := cmd.Flags().Lookup(name); f.Hidden && f.Changed {
			return usageError("%s takes no --%s\n  hint: braise help %[1]s lists its flags", commandName(cmd), name)
		}
	}
	for _, name := range []string{"config", "store", "engine", "run-id"} {
		if f := cmd.Flags().Lookup(name); f.Changed && f.Value.String() == "" {
			return usageError("--%s is empty", name)
		}
	}
	if cmd.Flags().Changed("max-parallel") && a.maxParallel < 1 {
		return usageError("--max-parallel is %d; the minimum is 1", a.maxParallel)
	}
	if id := a.runID; id != "" {
		run := checkpoint.Run{ID: id, Digest: "any", StartedAt: time.Now()}
		if run.Check() != nil {
			return usageError("--run-id is %q; it may have letters, digits and, not first, - _ . "+
				"and at most 128 of them", id)
		}
	}
	if a.store != "" {
		if err := host.CheckStore(a.store); err != nil {
			return &exitError{host.ExitUsage, err}
		}
	}
	if a.engine != "" {
		if a.store != "" {
			return usageError("--engine and --store exclude each other: an engine keeps its runs itself")
		}
		if _, _, err := a.findEngine(a.engine); err != nil {
			return err
		}
		if err := refuseOnEngine(cmd); err != nil {
			return err
		}
	}
	for _, spec := range a.models {
		if name, file, ok := strings.Cut(spec, "=script:"); !ok || name == "" || file == "" {
			return usageError("--model is %q; it is given as NAME=script:FILE", spec)
		}
	}
	if err := oneOf("output", a.output, outputs...); err != nil {
		return err
	}
	return oneOf("color", a.color, colors...)
}

// The words of common flags.
var (
	outputs = []string{"human", "json", "jsonl"}
	colors  = []string{"auto", "always", "never"}
)

// oneOf checks the value of a flag that has a few words.
func oneOf(flag, got string, words ...string) error {
	if slices.Contains(words, got) {
		return nil
	}
	return usageError("--%s is %q; it may be %s", flag, got, strings.Join(words, ", "))
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

func atLeastOne(sentence string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usageError("%s", sentence)
		}
		return nil
	}
}

// oneRecipe takes one recipe file. What looks like an input is told how inputs are given.
func oneRecipe(cmd *cobra.Command, args []string) error {
	if len(args) == 1 {
		return nil
	}
	for _, arg := range args {
		if name, _, ok := strings.Cut(arg, "="); ok && name != "" {
			return usageError("%s takes one recipe, not %d\n  hint: inputs are given as --input %s",
				cmd.Name(), len(args), quoted(arg))
		}
	}
	return usageError("%s takes one recipe, a file or a folder with a recipe.yaml, not %d", cmd.Name(), len(args))
}

// age is a duration as a flag: as Go has them, with days before it: 7d, 1d12h, 90m.
type age time.Duration

func (d *age) Set(text string) error {
	long, err := value.Duration(text)
	if err != nil || long < 0 {
		return fmt.Errorf("%q is not a duration such as 7d, 12h or 30m", text)
	}
	*d = age(long)
	return nil
}

func (d *age) String() string {
	if n := time.Duration(*d); n%(24*time.Hour) == 0 && n > 0 {
		return strconv.Itoa(int(n/(24*time.Hour))) + "d"
	}
	return time.Duration(*d).String()
}

func (d *age) Type() string { return "duration" }
