package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/regular"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
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

// readPairs reads the flag --input: name=value, where @FILE is what a file has, @- what stdin has, and @@ begins a
// value with @.
func (a *app) readPairs(pairs []string) ([]string, error) {
	read := slices.Clone(pairs)
	fromStdin := ""
	for i, pair := range pairs {
		name, text, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, usageError("--input is %q; it is given as name=value", pair)
		}
		from, isFile := strings.CutPrefix(text, "@")
		switch {
		case !isFile:
			continue
		case strings.HasPrefix(from, "@"):
			read[i] = name + "=" + from
			continue
		case from == "-" && fromStdin != "":
			return nil, usageError("--input %s=@- and --input %s=@- cannot both read stdin", fromStdin, name)
		case from == "-":
			fromStdin = name
		}
		data, err := a.readFile(from)
		if err == nil && !utf8.Valid(data) {
			err = errors.New(from + " is not text in UTF-8")
		}
		if err != nil {
			wrong := inputError("input %q: %v", name, err).(*diagnostics.Error)
			wrong.List[0].Hint = fmt.Sprintf("--input %s reads a file; @@ begins a value with @", quoted(name+"=@FILE"))
			return nil, a.refuse(nil, wrong)
		}
		read[i] = name + "=" + string(data)
	}
	return read, nil
}

// recipePath is the path of the recipe that an argument names: a folder stands for the recipe.yaml in it.
func recipePath(path string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return filepath.Join(path, "recipe.yaml")
	}
	return path
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
	if value.WeightOfText(data) > mostInput {
		return nil, inputError("--inputs-json: its values take more than %d bytes of memory", mostInput)
	}
	v, err := value.DecodeStrict(data)
	if err != nil {
		return nil, inputError("--inputs-json: %v\n  hint: write JSON, its names in quotes: {\"n\": 1}", err)
	}
	return v, nil
}

// mostInput is how much a file, or stdin, may hold that becomes a value: limits.max_run_bytes allows no more.
const mostInput = runtime.DefaultMaxRunBytes

// readFile reads a file, or stdin. What is larger than a run may keep is not read whole.
func (a *app) readFile(name string) ([]byte, error) {
	if name != "-" {
		return regular.ReadFileUpTo(name, mostInput)
	}
	data, err := io.ReadAll(io.LimitReader(a.stdin, mostInput+1))
	if len(data) > mostInput {
		return nil, fmt.Errorf("stdin has more than %d bytes", mostInput)
	}
	return data, err
}
