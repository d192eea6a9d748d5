package host

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/regular"
	"github.com/braise-run/braise/internal/yamlnode"
	"github.com/braise-run/braise/runtime"
)

// maxInstructions is how many bytes a file with instructions may have.
const maxInstructions = 1 << 20

// written is a name of a file as the configuration has it, and where.
type written struct {
	name string
	pos  diagnostics.Position
}

// instructionsFrom reads the names of files with instructions.
func (r *reader) instructionsFrom(n *yamlnode.Node, c *Config) (at []written) {
	for _, item := range r.List(n) {
		c.InstructionsFrom = append(c.InstructionsFrom, r.text(item))
		name, _ := item.Value.(string)
		at = append(at, written{name, item.Pos})
	}
	return at
}

// loadInstructions reads the files with instructions; dir is the folder of the configuration. It returns nil if there
// are none, and what is wrong with each.
func (c *Config) loadInstructions(dir string) (runtime.Env, diagnostics.List) {
	var texts []string
	var found diagnostics.List
	for i, file := range c.InstructionsFrom {
		at := written{name: file}
		if i < len(c.instructions) {
			at = c.instructions[i]
		}
		text, err := readInstructions(within(dir, file))
		if err != nil {
			shown := filepath.ToSlash(within(dir, at.name))
			found = append(found, unreadable(at.pos, "file with instructions", shown, err)...)
		}
		if text != "" {
			texts = append(texts, text)
		}
	}
	if len(c.InstructionsFrom) == 0 {
		return nil, nil
	}
	return instructions(strings.Join(texts, "\n\n")), found
}

func readInstructions(path string) (string, error) {
	data, err := regular.ReadFile(path)
	switch {
	case err != nil:
		return "", err
	case len(data) > maxInstructions:
		return "", errors.New("it has more than 1 MiB")
	case !utf8.Valid(data):
		return "", errors.New("it is not UTF-8 text")
	}
	return strings.TrimSpace(string(data)), nil
}

// instructions are the environment of all agents of an installation.
type instructions string

// Instructions implements runtime.Env.
func (text instructions) Instructions(context.Context) (string, error) { return string(text), nil }

// Tools implements runtime.Env. There are none.
func (instructions) Tools() []runtime.Tool { return nil }

// examineInstructions reads the files with instructions.
func (c *Config) examineInstructions(dir string) []Check {
	var checks []Check
	for _, file := range c.InstructionsFrom {
		check := Check{Status: CheckOK, Message: "every agent is told what it says"}
		if _, err := readInstructions(within(dir, file)); err != nil {
			check = Check{Status: CheckFail, Message: err.Error(), Hint: "no recipe can run"}
		}
		check.Part, check.Name = "instructions", file
		checks = append(checks, check)
	}
	return checks
}
