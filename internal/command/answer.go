package command

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/resume"
)

// answerFlags are the flags that make an answer. As a resume.Adapter they are read when the pause is known: its
// schema says what a text is.
type answerFlags struct {
	decision   string
	pairs      []string
	inputsJSON string
	answer     string
	scope      string // these three answer a question about a call of an agent
	reason     string
	arguments  string

	hasJSON bool
	value   any // of inputsJSON
	texts   map[string]string
	edited  any // of arguments; nil: none
}

func (f *answerFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.decision, "decision", "", "the decision, for a pause with decisions")
	flags.StringArrayVar(&f.pairs, "input", nil,
		"a field of the form or payload as name=value; name=@FILE and name=@- read a file or stdin (repeatable)")
	flags.StringVar(&f.answer, "answer", "", "the answer to a question")
	flags.StringVar(&f.inputsJSON, "inputs-json", "", "the whole form or payload as JSON, or @FILE, or @- for stdin")
	flags.StringVar(&f.scope, "scope", "", "what an approval of a call covers: once or run")
	flags.StringVar(&f.reason, "reason", "", "the reason for rejecting a call, for the model")
	flags.StringVar(&f.arguments, "arguments", "",
		"approve a call with these arguments instead, once: a JSON object, or @FILE, or @- for stdin")
}

// read checks the flags; what is wrong with the JSON or a name is no mistake in the use, but an answer that
// does not fit.
func (f *answerFlags) read(a *app, cmd *cobra.Command) error {
	if cmd.Flags().Changed("decision") && f.decision == "" {
		return usageError("--decision is empty")
	}
	if f.hasJSON = cmd.Flags().Changed("inputs-json"); f.hasJSON && len(f.pairs) > 0 {
		return usageError("--input and --inputs-json exclude each other")
	}
	var err error
	if f.pairs, err = a.readPairs(f.pairs); err != nil {
		return err
	}
	for _, name := range []string{"answer", "scope", "reason", "arguments"} {
		switch flag := cmd.Flags().Lookup(name); {
		case !flag.Changed:
		case f.hasJSON:
			return usageError("--%s and --inputs-json exclude each other", name)
		case flag.Value.String() == "" && name != "answer":
			return usageError("--%s is empty", name)
		case name != "arguments":
			f.pairs = append(f.pairs, name+"="+flag.Value.String())
		}
	}
	for _, pair := range f.pairs {
		name, text, _ := strings.Cut(pair, "=")
		if _, twice := f.texts[name]; twice {
			return a.refuse(nil, inputError("input %q is given twice", name))
		}
		if f.texts == nil {
			f.texts = map[string]string{}
		}
		f.texts[name] = text
	}
	if f.arguments != "" {
		if f.edited, err = a.readJSON(f.arguments); err != nil {
			return a.refuse(nil, err)
		}
	}
	if f.hasJSON {
		if f.value, err = a.readJSON(f.inputsJSON); err != nil {
			return a.refuse(nil, err)
		}
	}
	return nil
}

// none reports whether no flag says anything.
func (f *answerFlags) none() bool {
	return f.decision == "" && !f.hasJSON && len(f.pairs) == 0 && f.edited == nil
}

// Resolve implements resume.Adapter.
func (f *answerFlags) Resolve(_ context.Context, req resume.Request) (any, error) {
	form := f.value
	if v, whole := f.wholeAnswer(&req.Pause); whole {
		return v, nil
	}
	if len(f.texts) > 0 || f.edited != nil {
		fields, _ := formFields(req.Pause.Schema)
		filled := map[string]any{}
		for name, text := range f.texts {
			v, err := schema.Coerce(fields[name], text)
			if err != nil {
				v = text // the check of the answer says what is wrong with it
			}
			filled[name] = v
		}
		if f.edited != nil {
			filled["arguments"] = f.edited
		}
		form = filled
	}
	return resume.AnswerOf(f.decision, form), nil
}

// wholeAnswer is the text of --answer as the answer to a human step that asks for a value, by its schema; "" where the
// schema has a default is no answer. whole is false for other pauses.
func (f *answerFlags) wholeAnswer(p *resume.Pause) (v any, whole bool) {
	text, given := f.texts["answer"]
	s, _ := p.Schema.(map[string]any)
	fields, _ := formFields(s)
	if !given || len(f.texts) > 1 || f.decision != "" || p.Kind != resume.Human || s == nil || len(p.Decisions) > 0 ||
		fields["answer"] != nil {
		return nil, false
	}
	if _, preset := s["default"]; preset && text == "" {
		return nil, true
	}
	v, err := schema.Coerce(s, text)
	if err != nil {
		v = text // the check of the answer says what is wrong with it
	}
	return v, true
}

// valueFor is the answer to a pause of a run that this process does not execute. Of a pause that is not pending, who
// takes the answer says so.
func (f *answerFlags) valueFor(ctx context.Context, runs history.Source, runID, pause string) (any, error) {
	run, err := history.Load(ctx, runs, runID)
	if err != nil {
		return nil, err
	}
	req := resume.Request{RunID: runID}
	i := slices.IndexFunc(run.Pauses, func(p resume.Pause) bool { return p.ID == pause })
	if i >= 0 {
		req.Pause = run.Pauses[i]
	}
	return f.Resolve(ctx, req)
}

// signal is what a signal says that answers a pause.
func (f *answerFlags) signal(ctx context.Context, e execution, pause string) (map[string]any, error) {
	v, err := f.valueFor(ctx, e.rt.Store, e.runID, pause)
	return map[string]any{"pause": pause, "value": v}, err
}
