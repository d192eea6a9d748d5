package command

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/state"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/internal/terminal"
)

func (a *app) stateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "state COMMAND",
		Short: "List, show and delete what recipes keep between runs",
		Long: "State lists, shows and deletes what runs have kept with state.put, in the store. RECIPE is the name\n" +
			"of a recipe, not its file.",
		Example: `  braise state list
  braise state get crew-inbox inbox/seen
  braise state delete crew-inbox inbox/seen`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return usageError("unknown command %q\n  hint: %s", "state "+args[0],
				diagnostics.DidYouMean(args[0], []string{"list", "get", "delete"}))
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.stateList(), a.stateGet(), a.stateDelete())
	return cmd
}

// withState opens the store for a command about state.
func (a *app) withState(cmd *cobra.Command, do func(context.Context, *session, state.Store) error) error {
	return a.withStore(cmd, func(ctx context.Context, s *session, store checkpoint.Store) error {
		kept, ok := store.(state.Store)
		if !ok {
			return &exitError{host.ExitInvalid, errors.New("the store keeps no state")}
		}
		return do(ctx, s, kept)
	})
}

// stateValue is a value as the commands print it in JSON.
type stateValue struct {
	Recipe string `json:"recipe"`
	state.Value
}

func (a *app) stateList() *cobra.Command {
	return &cobra.Command{
		Use:   "list [RECIPE]",
		Short: "List the values of a recipe, or of all recipes, by key",
		Example: `  braise state list
  braise state list crew-inbox --output json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usageError("state list takes at most one recipe, not %d", len(args))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withState(cmd, func(ctx context.Context, s *session, store state.Store) error {
				recipes, err := args, error(nil)
				if len(args) == 0 {
					recipes, err = state.Recipes(ctx, store)
				}
				list := []stateValue{}
				for _, name := range recipes {
					values, listErr := state.List(ctx, store, name)
					err = errors.Join(err, listErr) // what cannot be read hides no others
					for _, v := range values {
						list = append(list, stateValue{name, v})
					}
				}
				if printErr := a.printState(list); printErr != nil || err == nil {
					return printErr
				}
				return s.fail("", err)
			})
		},
	}
}

func (a *app) printState(list []stateValue) error {
	if a.output != "human" {
		return printListed(a, list)
	}
	w := tabwriter.NewWriter(a.stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "RECIPE\tKEY\tVERSION\tEXPIRES\tVALUE")
	for _, v := range list {
		expires := "-"
		if !v.Expires.IsZero() {
			expires = terminal.LocalTime(v.Expires)
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", terminal.Visible(v.Recipe), terminal.Visible(v.Key), v.Version, expires,
			terminal.Cut(terminal.Visible(string(v.Value.Value))))
	}
	return w.Flush()
}

func (a *app) stateGet() *cobra.Command {
	return &cobra.Command{
		Use:     "get RECIPE KEY",
		Short:   "Print a value, as JSON",
		Example: "  braise state get crew-inbox inbox/seen",
		Args:    exactly(2, "state get takes the name of a recipe and a key"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withState(cmd, func(ctx context.Context, s *session, store state.Store) error {
				v, err := state.Get(ctx, store, args[0], args[1])
				switch {
				case err != nil:
					return s.fail("", err)
				case v.Version == 0:
					return noState(ctx, store, args[0], args[1])
				case a.output != "human":
					return a.printJSON(stateValue{args[0], v})
				}
				fmt.Fprintln(a.stdout, terminal.Visible(string(v.Value)))
				return nil
			})
		},
	}
}

func (a *app) stateDelete() *cobra.Command {
	return &cobra.Command{
		Use:   "delete RECIPE [KEY]",
		Short: "Delete a value, or all values of a recipe",
		Example: `  braise state delete crew-inbox inbox/seen
  braise state delete crew-inbox`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) > 2 {
				return usageError("state delete takes the name of a recipe and a key, or the name alone")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withState(cmd, func(ctx context.Context, s *session, store state.Store) error {
				n := 0
				if len(args) == 2 {
					found, err := state.Delete(ctx, store, args[0], args[1])
					if err != nil {
						return s.fail("", err)
					}
					if !found {
						return noState(ctx, store, args[0], args[1])
					}
					n = 1
				} else {
					all, err := state.List(ctx, store, args[0]) // what cannot be read is deleted too
					if err == nil && len(all) == 0 {
						return noState(ctx, store, args[0], "")
					}
					if err := state.DeleteAll(ctx, store, args[0]); err != nil {
						return s.fail("", err)
					}
					n = len(all)
				}
				if a.output != "human" {
					return a.printJSON(map[string]int{"deleted": n})
				}
				fmt.Fprintf(a.stdout, "%d deleted\n", n)
				return nil
			})
		},
	}
}

// noState is the error for a value that does not exist; without a key: for a recipe that has kept nothing.
func noState(ctx context.Context, store state.Store, recipe, key string) error {
	recipes, _ := state.Recipes(ctx, store)
	text, hint := fmt.Sprintf("recipe %q has kept nothing", recipe), diagnostics.DidYouMean(recipe, recipes)
	if values, _ := state.List(ctx, store, recipe); len(values) > 0 {
		keys := make([]string, len(values))
		for i, v := range values {
			keys[i] = v.Key
		}
		text, hint = fmt.Sprintf("recipe %q has kept no %q", recipe, key), diagnostics.DidYouMean(key, keys)
	}
	if hint != "" {
		text += "\n  hint: " + hint
	}
	return &exitError{host.ExitConflict, errors.New(text)}
}

// completeState completes the recipes that have kept something, then the keys of one.
func (a *app) completeState(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	opts := host.Options{StoreOnly: true, Look: true}
	return a.completed(cmd, opts, func(ctx context.Context, s *session) (list []string) {
		store, _ := s.host.Store(ctx)
		kept, ok := store.(state.Store)
		switch {
		case !ok || len(args) > 1:
		case len(args) == 0:
			list, _ = state.Recipes(ctx, kept)
		default:
			values, _ := state.List(ctx, kept, args[0])
			for _, v := range values {
				list = append(list, v.Key)
			}
		}
		return list
	})
}
