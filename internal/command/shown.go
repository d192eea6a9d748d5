package command

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/braise-run/braise/internal/terminal"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// printShown prints what there is to look at before a decision. A member without a value has no line. Of a call of an
// agent, whose tool the prompt names, these are the arguments, and what a yes covers.
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
		fmt.Fprintf(w, "  approve: %s\n", terminal.Visible(approvalText(p, members)))
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

// coversRun reports whether a yes to a question about a call may cover such calls in the whole run.
func coversRun(p *resume.Pause) bool {
	fields, _ := formFields(p.Schema)
	scopes, _ := fields["scope"]["enum"].([]any)
	return callFields(p) != nil && slices.Contains(scopes, any(string(runtime.ApproveRun)))
}

// approvalText says what a yes to a question about a call covers.
func approvalText(p *resume.Pause, shown map[string]any) string {
	if !coversRun(p) {
		return "this call only; later ones are asked about again"
	}
	keys, _ := shown["keys"].([]any)
	names := make([]string, len(keys))
	for i, key := range keys {
		names[i], _ = key.(string)
		if name, _, same := strings.Cut(names[i], "="); same { // then a checksum of the call follows
			names[i] = name + " with these arguments"
		}
	}
	return "this call; with scope run also later calls of " +
		cmp.Or(strings.Join(names, ", "), "this tool") + " in this run"
}

// printArguments prints the arguments of a call, each on a line of its own, and a text of several lines as it is.
func printArguments(w io.Writer, arguments any) {
	args, ok := arguments.(map[string]any)
	if !ok || len(args) == 0 {
		fmt.Fprintf(w, "  arguments:%s\n", terminal.Quoted(arguments))
		return
	}
	printValue(w, "  ", "arguments:", args)
}

// wideArgument is the length above which a list or an object is not shown on one line.
const wideArgument = 100

// printValue prints a value behind a label. What does not fit on a line, or has texts of several lines, has its parts
// on lines of their own.
func printValue(w io.Writer, indent, label string, v any) {
	if text, ok := v.(string); ok && strings.Contains(strings.TrimRight(text, "\n"), "\n") {
		fmt.Fprintf(w, "%s%s%s\n", indent, label, terminal.Quoted(text))
		return
	}
	line, err := value.JSON(v) // which tells the text "5" from the number
	if err != nil {
		line = []byte(err.Error())
	}
	members, isMap := v.(map[string]any)
	items, isList := v.([]any)
	wide := len(line) > wideArgument || strings.Contains(string(line), `\n`)
	switch {
	case isMap && (wide || label == "arguments:"):
		fmt.Fprintf(w, "%s%s\n", indent, label)
		for _, name := range slices.Sorted(maps.Keys(members)) {
			printValue(w, indent+"  ", strings.ReplaceAll(terminal.Visible(name), "\n", "␊")+":", members[name])
		}
	case isList && wide:
		fmt.Fprintf(w, "%s%s\n", indent, label)
		for _, item := range items {
			printValue(w, indent+"  ", "-", item)
		}
	default:
		fmt.Fprintf(w, "%s%s%s\n", indent, label, terminal.Quoted(string(line)))
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
