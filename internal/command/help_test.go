package command

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/internal/schema"
)

// Every command shows in its help how it is used: its own flags and an example, each of whose lines it takes.
func TestHelp(t *testing.T) {
	root := (&app{}).rootCommand()
	var check func(*cobra.Command)
	check = func(cmd *cobra.Command) {
		if cmd.Example == "" || cmd.Short == "" {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
		for line := range strings.Lines(cmd.Example) {
			words := strings.Fields(line[strings.Index(line, "braise ")+len("braise "):])
			found, rest, err := root.Find(words)
			if err != nil || found != cmd && cmd.HasParent() && !cmd.HasSubCommands() {
				t.Errorf("%s: the example %q is one of %v: %v", cmd.CommandPath(), line, found, err)
				continue
			}
			for _, word := range rest {
				name, _, _ := strings.Cut(strings.TrimPrefix(word, "--"), "=")
				if strings.HasPrefix(word, "--") && found.Flag(name) == nil {
					t.Errorf("%s: the example %q has an unknown flag", cmd.CommandPath(), line)
				}
			}
		}
		for _, c := range cmd.Commands() {
			check(c)
		}
	}
	check(root)
	for flag, list := range takers {
		for _, name := range list {
			if cmd, _, err := root.Find(strings.Fields(name)); err != nil || commandName(cmd) != name || cmd.InheritedFlags().Lookup(flag) == nil {
				t.Errorf("--%s is for %q, which is no command: %v", flag, name, err)
			}
		}
	}
}

// What kinds prints as JSON is what its schema says, and kinds and tools have a result.
func TestKindsSchema(t *testing.T) {
	t.Chdir(t.TempDir())
	got, stderr := command("kinds", "--output", "json")
	if got.Code != 0 {
		t.Fatal(stderr)
	}
	text, stderr := command("schema", "kinds")
	if text.Code != 0 {
		t.Fatal(stderr)
	}
	var doc, list any
	if err := json.Unmarshal([]byte(text.Stdout), &doc); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(got.Stdout), &list); err != nil {
		t.Fatal(err)
	}
	s, err := schema.CompileValue(doc.(map[string]any))
	if err != nil {
		t.Fatal(err)
	}
	if problems := s.Check(list); problems != nil {
		t.Error(schema.Describe(problems))
	}
	for _, e := range list.([]any) {
		if e := e.(map[string]any); e["output"] == nil || e["example"] == nil {
			t.Errorf("%v has no result or no example", e["name"])
		}
	}
}
