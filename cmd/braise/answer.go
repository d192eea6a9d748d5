package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/resume"
)

// answerFlags are the flags that make an answer. As a resume.Adapter they are read when the pause is known: its
// schema says what a text is.
type answerFlags struct {
	decision   string
	pairs      []string
	inputsJSON string

	hasJSON bool
	value   any // of inputsJSON
	texts   map[string]string
}

func (f *answerFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.decision, "decision", "", "the decision, of a pause that has some")
	flags.StringArrayVar(&f.pairs, "input", nil,
		"a field of the form, or of an event's payload, as name=value (repeatable)")
	flags.StringVar(&f.inputsJSON, "inputs-json", "", "the whole form or payload as JSON, or @FILE, or @- for stdin")
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
	if err := checkPairs(f.pairs); err != nil {
		return err
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
	if f.hasJSON {
		var err error
		if f.value, err = a.readJSON(f.inputsJSON); err != nil {
			return a.refuse(nil, err)
		}
	}
	return nil
}

// none reports whether no flag says anything.
func (f *answerFlags) none() bool { return f.decision == "" && !f.hasJSON && len(f.pairs) == 0 }

// Resolve implements resume.Adapter.
func (f *answerFlags) Resolve(_ context.Context, req resume.Request) (any, error) {
	form := f.value
	if len(f.texts) > 0 {
		fields, _ := formFields(req.Pause.Schema)
		filled := map[string]any{}
		for name, text := range f.texts {
			v, err := schema.Coerce(fields[name], text)
			if err != nil {
				v = text // the check of the answer says what is wrong with it
			}
			filled[name] = v
		}
		form = filled
	}
	return resume.AnswerOf(f.decision, form), nil
}
