package main

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
)

// interactive reports whether somebody can be asked.
func (a *app) interactive() bool {
	return !a.noInteractive && isTerminal(a.stdin) && isTerminal(a.stderr)
}

// ask asks whoever sits at the terminal for the answer to a pause. It is false when there is none: the input, or
// ctx, has ended.
func (a *app) ask(ctx context.Context, p resume.Pause) (answer any, ok bool) {
	fmt.Fprintf(a.stderr, "\n%s %s\n", a.bold(visible(p.Step)+":"), visible(p.Prompt))
	a.printShown(p.Show)
	if !p.ExpiresAt.IsZero() {
		fmt.Fprintf(a.stderr, "  (until %s)\n", p.ExpiresAt.Local().Format(time.DateTime))
	}
	decision := ""
	if len(p.Decisions) > 0 {
		question := fmt.Sprintf("decision (%s)", visible(strings.Join(p.Decisions, ", ")))
		for !slices.Contains(p.Decisions, decision) {
			if decision, ok = a.readLine(ctx, question); !ok {
				return nil, false
			}
			decision = strings.TrimSpace(decision)
		}
	}
	var form any
	formless := slices.Contains([]string{"reject", "retry", "fail"}, decision)
	if p.Schema != nil && !formless || p.Schema == nil && decision == "" {
		if form, ok = a.askForm(ctx, p.Schema); !ok {
			return nil, false
		}
	}
	return resume.AnswerOf(decision, form), true
}

// askForm asks for each field of a form, the required ones first; an empty line leaves a field out.
func (a *app) askForm(ctx context.Context, form any) (any, bool) {
	fields, required := formFields(form)
	if fields == nil {
		text, ok := a.readLine(ctx, "answer (JSON, or text)")
		return jsonOrText(text), ok
	}
	names := slices.SortedFunc(maps.Keys(fields), func(x, y string) int {
		if rx, ry := slices.Contains(required, x), slices.Contains(required, y); rx != ry {
			if rx {
				return -1
			}
			return 1
		}
		return strings.Compare(x, y)
	})
	filled := map[string]any{}
	for _, name := range names {
		for {
			text, ok := a.readLine(ctx, visible(fieldQuestion(name, fields[name], slices.Contains(required, name))))
			if !ok {
				return nil, false
			}
			if text == "" {
				break
			}
			v, err := schema.Coerce(fields[name], text)
			if err == nil {
				filled[name] = v
				break
			}
			fmt.Fprintf(a.stderr, "  %s %s\n", visible(name), visible(err.Error()))
		}
	}
	return filled, true
}

// formFields are the properties of a form's schema; nil when it does not list them.
func formFields(form any) (fields map[string]map[string]any, required []string) {
	s, _ := form.(map[string]any)
	properties, _ := s["properties"].(map[string]any)
	for name, v := range properties {
		if fields == nil {
			fields = map[string]map[string]any{}
		}
		fields[name], _ = v.(map[string]any)
	}
	list, _ := s["required"].([]any)
	for _, v := range list {
		name, _ := v.(string)
		required = append(required, name)
	}
	return fields, required
}

func fieldQuestion(name string, field map[string]any, required bool) string {
	var notes []string
	if typ, ok := field["type"].(string); ok {
		notes = append(notes, typ)
	}
	if choices, ok := field["enum"].([]any); ok {
		texts := make([]string, len(choices))
		for i, c := range choices {
			texts[i], _ = value.Text(c)
		}
		notes = append(notes, "one of "+strings.Join(texts, ", "))
	}
	if doc, ok := field["description"].(string); ok {
		notes = append(notes, doc)
	}
	if !required {
		notes = append(notes, "optional")
	}
	if notes == nil {
		return name
	}
	return fmt.Sprintf("%s (%s)", name, strings.Join(notes, "; "))
}

// jsonOrText reads what may be JSON.
func jsonOrText(text string) any {
	if v, err := value.DecodeStrict([]byte(text)); err == nil {
		return v
	}
	return text
}

// printShown prints what there is to look at before a decision.
func (a *app) printShown(shown any) {
	if shown == nil {
		return
	}
	members, ok := shown.(map[string]any)
	if !ok {
		fmt.Fprintf(a.stderr, "  %s\n", indentedText(shown))
		return
	}
	for _, name := range slices.Sorted(maps.Keys(members)) {
		fmt.Fprintf(a.stderr, "  %s: %s\n", visible(name), indentedText(members[name]))
	}
}

// indentedText is a value for people, its lines behind the first under it.
func indentedText(v any) string {
	text, err := value.Text(v)
	if err != nil {
		text = err.Error()
	}
	return strings.ReplaceAll(visible(strings.TrimRight(text, "\n")), "\n", "\n    ")
}

func (a *app) bold(s string) string {
	if !a.colored(a.stderr) {
		return s
	}
	return "\x1b[1m" + s + "\x1b[0m"
}

// readLine asks a question and returns the line that comes; false when none does. One goroutine reads stdin
// for the life of the process: nothing else can end a read from a terminal.
func (a *app) readLine(ctx context.Context, question string) (string, bool) {
	fmt.Fprintf(a.stderr, "%s: ", question)
	if a.lines == nil {
		a.lines = make(chan string)
		go func() {
			defer close(a.lines)
			in := bufio.NewReader(a.stdin)
			for {
				line, err := in.ReadString('\n')
				if line != "" {
					a.lines <- strings.TrimRight(line, "\r\n")
				}
				if err != nil {
					return
				}
			}
		}()
	}
	select {
	case line, ok := <-a.lines:
		if !ok {
			fmt.Fprintln(a.stderr)
		}
		return line, ok
	case <-ctx.Done():
		fmt.Fprintln(a.stderr)
		return "", false
	}
}
