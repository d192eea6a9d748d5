package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/adapters/memory"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/internal/terminal"
	"github.com/braise-run/braise/runtime"
)

func (a *app) memoryCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "memory COMMAND",
		Short: "List, show and forget what agents remember",
		Long: "Memory lists, shows and removes the conversations of agents in the store. THREAD is the name of a\n" +
			"conversation; --resource is required if the agent sets one.",
		Example: `  braise memory list
  braise memory show ticket-7 --resource ada
  braise memory forget ticket-7 --resource ada`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return usageError("unknown command %q\n  hint: %s", "memory "+args[0],
				diagnostics.DidYouMean(args[0], []string{"list", "show", "forget"}))
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.memoryList(),
		a.aboutThread("show", "Show a conversation", a.showConversation),
		a.aboutThread("forget", "Remove a conversation", a.forgetConversation))
	return cmd
}

// remembered is a conversation as the commands print it in JSON.
type remembered struct {
	Thread   string            `json:"thread"`
	Resource string            `json:"resource,omitempty"`
	Messages []runtime.Message `json:"messages,omitempty"`
}

func (a *app) memoryList() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the conversations, by thread",
		Example: "  braise memory list --output json",
		Args:    exactly(0, "memory list takes no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withMemory(cmd, func(_ context.Context, _ *memory.Memory, all []runtime.Conversation) error {
				list := make([]remembered, len(all))
				for i, c := range all {
					list[i] = remembered{Thread: c.Thread, Resource: c.Resource}
				}
				if a.output != "human" {
					return a.printJSON(list)
				}
				for _, c := range list {
					fmt.Fprintln(a.stdout, terminal.Visible(named(c.Thread, c.Resource)))
				}
				return nil
			})
		},
	}
}

// named is a conversation for people.
func named(thread, resource string) string {
	if resource == "" {
		return thread
	}
	return thread + "  with " + resource
}

// aboutThread is a command about one conversation, which must exist.
func (a *app) aboutThread(
	name, short string, do func(context.Context, *memory.Memory, runtime.Conversation) error,
) *cobra.Command {
	resource := ""
	cmd := &cobra.Command{
		Use:     name + " THREAD",
		Short:   short,
		Example: "  braise memory " + name + " ticket-7 --resource ada",
		Args:    exactly(1, "memory "+name+" takes one thread"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c := runtime.Conversation{Thread: args[0], Resource: resource}
			return a.withMemory(cmd, func(ctx context.Context, m *memory.Memory, all []runtime.Conversation) error {
				if !slices.Contains(all, c) {
					return notRemembered(c, all)
				}
				return do(ctx, m, c)
			})
		},
	}
	cmd.Flags().StringVar(&resource, "resource", "", "the resource of the conversation, if the agent sets one")
	return cmd
}

func notRemembered(c runtime.Conversation, all []runtime.Conversation) error {
	var threads []string
	for _, other := range all {
		if other.Thread == c.Thread {
			return &exitError{host.ExitConflict, fmt.Errorf("thread %q has another resource\n  hint: --resource %s",
				c.Thread, cmp.Or(other.Resource, "''"))}
		}
		threads = append(threads, other.Thread)
	}
	text := fmt.Sprintf("no agent remembers a thread %q", c.Thread)
	if hint := diagnostics.DidYouMean(c.Thread, threads); hint != "" {
		text += "\n  hint: " + hint
	}
	return &exitError{host.ExitConflict, errors.New(text)}
}

func (a *app) showConversation(ctx context.Context, m *memory.Memory, c runtime.Conversation) error {
	messages, err := m.Load(ctx, c)
	if err != nil {
		return &exitError{host.ExitInternal, err}
	}
	if a.output != "human" {
		return a.printJSON(remembered{c.Thread, c.Resource, messages})
	}
	for _, message := range messages {
		if message.Text != "" {
			fmt.Fprintf(a.stdout, "%s: %s\n", message.Role, terminal.Visible(message.Text))
		}
		for _, call := range message.ToolCalls {
			fmt.Fprintf(a.stdout, "%s: %s %s\n", message.Role, call.Name, terminal.Visible(string(call.Arguments)))
		}
	}
	return nil
}

func (a *app) forgetConversation(ctx context.Context, m *memory.Memory, c runtime.Conversation) error {
	if err := m.Forget(ctx, c); err != nil {
		return &exitError{host.ExitInternal, err}
	}
	if a.output != "human" {
		return a.printJSON(remembered{Thread: c.Thread, Resource: c.Resource})
	}
	fmt.Fprintln(a.stdout, "forgotten")
	return nil
}

// withMemory opens the store for a command about conversations, and lists them.
func (a *app) withMemory(
	cmd *cobra.Command, do func(context.Context, *memory.Memory, []runtime.Conversation) error,
) error {
	return a.withStore(cmd, func(ctx context.Context, _ *session, store checkpoint.Store) error {
		documents, ok := store.(checkpoint.Documents)
		if !ok {
			return &exitError{host.ExitInvalid, errors.New("the store keeps no conversations")}
		}
		m := memory.New(documents)
		all, err := m.List(ctx)
		if err != nil {
			return &exitError{host.ExitInternal, err}
		}
		return do(ctx, m, all)
	})
}

// completeThreads completes the threads that agents remember.
func (a *app) completeThreads(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	opts := host.Options{StoreOnly: true, Look: true}
	return a.completed(cmd, opts, func(ctx context.Context, s *session) (list []string) {
		store, _ := s.host.Store(ctx)
		if documents, ok := store.(checkpoint.Documents); ok {
			all, _ := memory.New(documents).List(ctx)
			for _, c := range all {
				list = append(list, described(c.Thread, c.Resource))
			}
		}
		return list
	})
}
