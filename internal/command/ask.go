package command

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/internal/terminal"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// interactive reports whether a person can be asked.
func (a *app) interactive() bool {
	return !a.noInteractive && isTerminal(a.stdin) && isTerminal(a.stderr)
}

// trust asks whether a configuration outside of the working folder is to be used, which allows something.
func (a *app) trust(ctx context.Context, path, allows string) bool {
	if !a.interactive() {
		return false
	}
	question := fmt.Sprintf("%s is outside of the working folder, and allows %s. Use it? (yes, no)", path, allows)
	for {
		text, ok := a.readLine(ctx, terminal.Visible(question))
		switch answer := answerOf(text, []string{"yes", "no"}); {
		case !ok || answer == "no":
			return false
		case answer == "yes":
			return true
		}
		fmt.Fprintln(a.stderr, "  say yes or no")
	}
}

// ask asks the person at the terminal for the answer to a pause. It is false when there is none: the input, or
// ctx, has ended.
func (a *app) ask(ctx context.Context, p resume.Pause) (answer any, ok bool) {
	fmt.Fprintf(a.stderr, "\n%s%s\n", a.bold(terminal.Visible(p.Step)+":"), terminal.Quoted(p.Prompt))
	printShown(a.stderr, &p)
	printCall(a.stderr, p.Call)
	if !p.ExpiresAt.IsZero() {
		fmt.Fprintf(a.stderr, "  (until %s)\n", p.ExpiresAt.Local().Format(time.DateTime))
	}
	decision := ""
	if len(p.Decisions) > 0 {
		choice := strings.Join(p.Decisions, ", ")
		if p.Default != "" {
			choice += "; Enter: " + p.Default
		}
		question := fmt.Sprintf("decision (%s)", terminal.Visible(choice))
		for !slices.Contains(p.Decisions, decision) {
			text, ok := a.readLine(ctx, question)
			if !ok {
				return nil, false
			}
			switch text = strings.TrimSpace(text); {
			case text == "" && len(p.Decisions) == 1:
				decision = p.Decisions[0]
			case text == "" && p.Default != "":
				decision = p.Default
			default:
				decision = answerOf(text, p.Decisions)
			}
			if decision == "" {
				fmt.Fprintf(a.stderr, "  say one of %s\n", terminal.Visible(strings.Join(p.Decisions, ", ")))
			}
		}
	}
	var form any
	if names, about := callFields(&p)[decision]; about {
		scope := ""
		if decision == "approve" && coversRun(&p) {
			if scope, ok = a.askScope(ctx); !ok {
				return nil, false
			}
		}
		filled, ok := a.askFields(ctx, p.Schema, names)
		if scope != "" {
			filled["scope"] = scope
		}
		return resume.AnswerOf(decision, filled), ok
	}
	formless := slices.Contains([]string{"reject", "retry", "fail"}, decision)
	if p.Schema != nil && !formless || p.Schema == nil && decision == "" {
		if form, ok = a.askForm(ctx, p.Schema); !ok {
			return nil, false
		}
	}
	return resume.AnswerOf(decision, form), true
}

// askForm asks for each field of a form, the required ones first.
func (a *app) askForm(ctx context.Context, form any) (any, bool) {
	fields, required := formFields(form)
	if s, given := form.(map[string]any); given && fields == nil {
		v, _, ok := a.askField(ctx, "answer", s, true)
		return v, ok
	}
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
	return a.askFields(ctx, form, names)
}

// callFields are the fields to ask for after each decision about a call of an agent; nil: p asks about something else.
func callFields(p *resume.Pause) map[string][]string {
	fields, _ := formFields(p.Schema)
	if fields["scope"] == nil || fields["reason"] == nil || fields["arguments"] == nil {
		return nil
	}
	return map[string][]string{"approve": {"arguments"}, "reject": {"reason"}}
}

// askScope asks what a yes to a question about a call covers; "": what is usual, this call.
func (a *app) askScope(ctx context.Context) (scope string, ok bool) {
	scopes := []string{string(runtime.ApproveOnce), string(runtime.ApproveRun)}
	for {
		text, ok := a.readLine(ctx, "scope (once, run; Enter: once)")
		if !ok || strings.TrimSpace(text) == "" {
			return "", ok
		}
		if scope = answerOf(text, scopes); scope != "" {
			return scope, true
		}
		fmt.Fprintln(a.stderr, "  say one of once, run")
	}
}

// askFields asks for these fields of a form; an empty line leaves a field out.
func (a *app) askFields(ctx context.Context, form any, names []string) (map[string]any, bool) {
	fields, required := formFields(form)
	filled := map[string]any{}
	for _, name := range names {
		v, given, ok := a.askField(ctx, name, fields[name], slices.Contains(required, name))
		if !ok {
			return nil, false
		}
		if given {
			filled[name] = v
		}
	}
	return filled, true
}

// askField asks for a value until it fits; an empty line gives none, where there is a default or none is required.
func (a *app) askField(ctx context.Context, name string, field map[string]any, required bool) (v any, given, ok bool) {
	_, preset := field["default"]
	for {
		text, ok := a.readLine(ctx, terminal.Visible(fieldQuestion(name, field, required)))
		if !ok {
			return nil, false, false
		}
		if text == "" && (preset || !required) {
			return nil, false, true
		}
		v, err := fieldValue(field, text)
		if err == nil {
			return v, true, true
		}
		fmt.Fprintf(a.stderr, "  %s %s\n", terminal.Visible(name), terminal.Visible(err.Error()))
	}
}

// fieldValue reads what was typed for a field, and checks it.
func fieldValue(field map[string]any, text string) (any, error) {
	if text == "" {
		return nil, errors.New("is required")
	}
	v, err := schema.Coerce(field, text)
	if err != nil || field == nil {
		return v, err
	}
	s, err := schema.CompileValue(field)
	if err != nil {
		return v, nil // the check of the whole answer says so
	}
	if problems := s.Check(v); problems != nil {
		return nil, errors.New(strings.TrimPrefix(schema.Describe(problems), ": "))
	}
	return v, nil
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
	if v, ok := field["default"]; ok {
		text, _ := value.Text(v)
		notes = append(notes, "else "+text)
	} else if !required {
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
