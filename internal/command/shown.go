package command

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/braise-run/braise/internal/terminal"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
)

// printShown prints what there is to look at before a decision. A member without a value has no line. Of a call of an
// agent, whose tool the prompt names, these are the arguments, and what a yes for the run covers beside that tool.
func printShown(w io.Writer, p *resume.Pause) {
	members, ok := p.Show.(map[string]any)
	switch {
	case p.Show == nil:
		return
	case !ok:
		fmt.Fprintf(w, " %s\n", strings.TrimPrefix(terminal.Quoted(p.Show), "\n"))
		return
	}
	if callFields(p) != nil {
		members = maps.Clone(members)
		printArguments(w, members["arguments"])
		if keys, ok := members["keys"].([]any); ok && !(len(keys) == 1 && keys[0] == members["tool"]) {
			fmt.Fprintf(w, "  a yes for the run covers:%s\n", terminal.Quoted(keys))
		}
		for _, name := range []string{"arguments", "keys", "tool"} {
			delete(members, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if v := members[name]; v != nil && v != "" {
			fmt.Fprintf(w, "  %s:%s\n", terminal.Visible(name), terminal.Quoted(v))
		}
	}
}

// printArguments prints the arguments of a call, each on a line of its own, and a text of several lines as it is.
func printArguments(w io.Writer, arguments any) {
	args, ok := arguments.(map[string]any)
	if !ok || len(args) == 0 {
		fmt.Fprintf(w, "  arguments:%s\n", terminal.Quoted(arguments))
		return
	}
	fmt.Fprintln(w, "  arguments:")
	for _, name := range slices.Sorted(maps.Keys(args)) {
		shown := args[name]
		text, isText := shown.(string)
		if !isText || !strings.Contains(strings.TrimRight(text, "\n"), "\n") {
			line, err := value.JSON(shown) // which tells the text "5" from the number
			if err != nil {
				line = []byte(err.Error())
			}
			shown = string(line)
		}
		fmt.Fprintf(w, "    %s:%s\n", strings.ReplaceAll(terminal.Visible(name), "\n", "␊"), terminal.Quoted(shown))
	}
}

// answerOf is the one of some answers that was typed: as a whole, by its beginning, or as y or n where yes and no mean
// approve and reject; "": none, or it may be several.
func answerOf(typed string, answers []string) string {
	typed = strings.TrimSpace(typed)
	if slices.Contains(answers, typed) {
		return typed
	}
	typed = strings.ToLower(typed)
	var fitting []string
	for _, answer := range answers {
		if typed != "" && strings.HasPrefix(strings.ToLower(answer), typed) {
			fitting = append(fitting, answer)
		}
	}
	switch meant := map[string]string{"y": "approve", "yes": "approve", "n": "reject", "no": "reject"}[typed]; {
	case len(fitting) == 1:
		return fitting[0]
	case len(fitting) == 0 && slices.Contains(answers, meant):
		return meant
	}
	return ""
}
