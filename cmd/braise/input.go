package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/regular"
	"github.com/braise-run/braise/internal/value"
)

// readInputs reads the flag --inputs-json.
func (a *app) readInputs(text string) (map[string]any, error) {
	v, err := a.readJSON(text)
	if err != nil {
		return nil, err
	}
	inputs, ok := v.(map[string]any)
	if !ok {
		return nil, inputError("--inputs-json must be an object, not %s", value.TypeName(v))
	}
	return inputs, nil
}

func inputError(format string, args ...any) error {
	return diagnostics.List{{Level: diagnostics.ErrorLevel, Kind: diagnostics.KindWorkflow, Code: diagnostics.CodeInput,
		Message: fmt.Sprintf(format, args...)}}.Err()
}

// checkPairs checks the form of the flag --input.
func checkPairs(pairs []string) error {
	for _, pair := range pairs {
		if name, _, ok := strings.Cut(pair, "="); !ok || name == "" {
			return usageError("--input is %q; it is given as name=value", pair)
		}
	}
	return nil
}

// readJSON reads the flag --inputs-json.
func (a *app) readJSON(text string) (any, error) {
	data := []byte(text)
	if name, ok := strings.CutPrefix(text, "@"); ok {
		var err error
		if data, err = a.readFile(name); err != nil {
			return nil, inputError("--inputs-json: %v", err)
		}
	}
	v, err := value.DecodeStrict(data)
	if err != nil {
		return nil, inputError("--inputs-json: %v", err)
	}
	return v, nil
}

func (a *app) readFile(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(a.stdin)
	}
	return regular.ReadFile(name)
}
