package program_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/workflow"
)

// hinted stands before the recipes of TestHints: they begin on line 3.
const hinted = "apiVersion: braise/v1\nname: x\n"

// Whoever comes from another format, or from none, is told what to write instead.
func TestHints(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"a tab": {hinted + "steps:\n\ta: {uses: set, with: 1}\n",
			"f:4:1: not valid YAML: a tab indents this line [yaml.syntax]\n  hint: YAML does not allow tabs; indent with spaces"},
		"a colon in a description": {hinted + "description: Sort: a ticket\nsteps: {a: {uses: set, with: 1}}\n",
			"f:3:14: not valid YAML: mapping value is not allowed in this context [yaml.syntax]\n  hint: quote text that holds \": \", or write it on lines of its own below a |"},
		"a colon in a prompt": {hinted + "steps:\n  a:\n    uses: model\n    with:\n      prompt: Say: \"hello\" to Ada\n",
			"f:7:15: not valid YAML: mapping value is not allowed in this context [yaml.syntax]\n  hint: quote text that holds \": \", or write it on lines of its own below a |"},
		"a list of steps": {hinted + "steps:\n  - id: a\n    uses: set\n",
			"f:4:3: \"steps\" must be a mapping, not a list [recipe.wrongType]\n  hint: steps is a mapping: write the id as its key, a: in place of - id: a"},
		"unindented steps": {hinted + "steps:\na: {uses: set, with: 1}\n",
			"f:3:7: \"steps\" must be a mapping, not null [recipe.wrongType]\n  hint: indent the steps below it"},
		"exec": {hinted + "steps: {a: {uses: exec, with: {argv: [ls]}}}\n",
			"f:3:19: there is no kind of step \"exec\" [recipe.unknownKind]\n  hint: did you mean \"exec.run\"?"},
		"http": {hinted + "steps: {a: {uses: http, with: {url: x}}}\n",
			"f:3:19: there is no kind of step \"http\" [recipe.unknownKind]\n  hint: did you mean \"http.request\"?"},
		"llm": {hinted + "steps: {a: {uses: llm, with: {prompt: x}}}\n",
			"f:3:19: there is no kind of step \"llm\" [recipe.unknownKind]\n  hint: did you mean \"model\"?"},
		"system of an agent": {hinted + "agents: {x: {model: m, system: Be brief.}}\nsteps: {a: {uses: agent, with: {agent: x, prompt: hi}}}\n",
			"f:3:24: unknown key \"system\" [recipe.unknownKey]\n  hint: did you mean \"instructions\"?"},
		"system of an agent's step": {hinted + "agents: {x: {model: m}}\nsteps: {a: {uses: agent, with: {agent: x, prompt: hi, system: Be brief.}}}\n",
			"f:4:55: unknown key \"system\" [recipe.unknownKey]\n  hint: give instructions to the agent itself, in agents"},
		"instructions of a model": {hinted + "steps: {a: {uses: model, with: {model: m, prompt: hi, instructions: Be brief.}}}\n",
			"f:3:55: unknown key \"instructions\" [recipe.unknownKey]\n  hint: did you mean \"system\"?"},
		"a list to go through": {hinted + "steps: {a: {uses: set, foreach: [1, 2], with: 1}}\n",
			"f:3:33: \"foreach\" must be a mapping, not a list [recipe.wrongType]\n  hint: write foreach: {in: […]}"},
		"a number of retries": {hinted + "steps: {a: {uses: exec.run, retry: 3, with: {argv: [ls]}}}\n",
			"f:3:36: \"retry\" must be a mapping, not an integer [recipe.wrongType]\n  hint: write retry: {max_attempts: 3}"},
		"no apiVersion": {"name: x\nsteps: {a: {uses: set, with: 1}}\n",
			"f:1:1: the key \"apiVersion\" is missing [recipe.missingKey]\n  hint: begin with apiVersion: braise/v1"},
		"a line break in an expression": {hinted + `inputs: {t: string}` + "\n" + `steps: {a: {uses: set, with: "${{ split(inputs.t, '\n') }}"}}` + "\n",
			"f:4:30: a string has no closing quote [expr.syntax]\n  hint: no string holds a line break; in YAML's double quotes \\n makes one: write \\\\n"},
		"?? beside another operator": {hinted + `inputs: {t: string}` + "\n" + `steps: {a: {uses: set, with: "${{ inputs.t ?? 'a' == 'b' }}"}}` + "\n",
			"f:4:51: \"??\" is mixed with another operator [expr.syntax]\n  hint: put parentheses around one of them: (a ?? b) == c"},
	} {
		r, err := recipe.Parse("f", []byte(tt.text))
		if err == nil { // expressions are compiled later
			_, err = workflow.Compile(r, nil)
		}
		wrong, ok := errors.AsType[*diagnostics.Error](err)
		if !ok {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := strings.Replace(wrong.List[0].String(), "error: ", "", 1); got != tt.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, tt.want)
		}
	}
}
