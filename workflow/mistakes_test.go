package workflow_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/workflow"
)

// People bring habits from other tools. What they write gets a message that names the cure: the last line of each text is
// the hint, and the one before it the message.
func TestMistakes(t *testing.T) {
	at := func(keys string) string {
		return "steps:\n  a: {uses: set, with: 1}\n  b: {uses: set, with: 1, " + keys + "}\n"
	}
	tool := func(name, with string) string { return "steps:\n  a: {uses: " + name + ", with: " + with + "}\n" }
	agent := func(keys string) string {
		return "agents:\n  c: {model: m, " + keys + "}\nsteps:\n  a: {uses: agent, with: {agent: c, prompt: go}}\n"
	}
	read := func(text string) string {
		return "inputs: {x: string}\nsteps:\n  a: {uses: model, foreach: {in: [1]}, with: {model: m, prompt: hi}}\noutput: \"" + text + "\"\n"
	}
	const (
		isFile = `is a file, not a kind or a tool [recipe.unknownKind]`
		inside = ` inside with`
	)
	for _, tt := range []struct{ name, text, message, hint string }{
		// GitHub Actions
		{"a matrix", at("strategy: {matrix: {v: [1]}}"), `unknown key "strategy" [recipe.unknownKey]`, "write foreach: {in: […]}"},
		{"going on", at("continue-on-error: true"), `unknown key "continue-on-error" [recipe.unknownKey]`, "write on_error: continue"},
		{"minutes", at("timeout-minutes: 5"), `unknown key "timeout-minutes" [recipe.unknownKey]`, "write timeout, with a unit: 10m"},
		{"a machine", at("runs-on: ubuntu-latest"), `unknown key "runs-on" [recipe.unknownKey]`, "leave it out: a step runs where the run does"},
		{"a folder", at("working-directory: src"), `unknown key "working-directory" [recipe.unknownKey]`, "write dir inside with"},
		{"an id", at("id: b"), `unknown key "id" [recipe.unknownKey]`, "the key of the step is its id"},
		{"a shell", at("shell: bash"), `unknown key "shell" [recipe.unknownKey]`, "no shell is started: write uses: exec.run, and argv inside with"},
		{"an action", "steps:\n  a: {uses: actions/checkout@v4}\n", `"actions/checkout@v4" ` + isFile,
			"there are no actions: to run a command, write uses: exec.run, and argv inside with"},
		{"a workflow file", "steps:\n  a: {uses: ./sub.yaml}\n", `"./sub.yaml" ` + isFile, "to run a recipe, write uses: recipe, and ref: ./sub.yaml inside with"},
		{"events", "on: {push: {}}\nsteps:\n  a: {uses: set, with: 1}\n", `unknown key "on" [recipe.unknownKey]`,
			"a recipe does not say when it runs: cron, or a service, begins runs"},
		{"always()", at("when: always()"), `unknown function "always" [expr.unknownName]`, "write trigger: all_done at the step, or put it under finally"},
		{"success()", at("when: success()"), `unknown function "success" [expr.unknownName]`, "leave it out: a step runs when all that it needs has succeeded"},
		{"format()", read("${{ format('{0}', inputs.x) }}"), `unknown function "format" [expr.unknownName]`, "put ${{ }} into a text"},
		{"contains()", at("when: \"contains('a', 'b')\""), `unexpected "contains" [expr.syntax]`, "write it between two values: x contains y"},
		{"startsWith()", at("when: \"startsWith('a', 'b')\""), `unexpected "startsWith" [expr.syntax]`, "write it between two values: x startsWith y"},
		{"toJson()", read("${{ tojson(inputs.x) }}"), `unknown function "tojson" [expr.unknownName]`, "write toJSON(x)"},
		{"a brace", read("${{ inputs.x }"), `"${{" is not closed [expr.syntax]`,
			"end it with }}, and quote the text if it holds a #; $${{ stands for the characters ${{"},
		// Jinja, as in n8n's and LangChain's templates
		{"a filter", read("${{ inputs.x | upper }}"), `"upper" is not called [expr.syntax]`, "write x | upper(), or upper(x)"},
		{"length", read("${{ length(inputs.x) }}"), `unknown function "length" [expr.unknownName]`, "write len(x)"},
		{"default", read("${{ default(inputs.x, 'y') }}"), `unknown function "default" [expr.unknownName]`, "write x ?? default"},
		{"now()", read("${{ now() }}"), `unknown function "now" [expr.unknownName]`, "expressions have no clock: take the time as an input or from a step"},
		{"random()", read("${{ random() }}"), `unknown function "random" [expr.unknownName]`, "expressions give the same each time: take it from a step"},
		{"env()", read("${{ env('HOME') }}"), `unknown function "env" [expr.unknownName]`,
			"expressions do not read the environment: take the value as an input, or a secret from secrets"},
		{"a field of a list", read("${{ steps.a.output.text }}"), `steps.a.output is a list, which has no field "text" [expr.type]`,
			"read one item, as in steps.a.output[0].text, or all: map(steps.a.output, .text)"},
		{"a field of a text", read("${{ inputs.x.name }}"), `inputs.x is a string, which has no field "name" [expr.type]`, ""},
		// LangChain, CrewAI, goose, docker agent
		{"max_iterations", agent("max_iterations: 3"), `unknown key "max_iterations" [recipe.unknownKey]`, `did you mean "max_steps"?`},
		{"max_turns", agent("max_turns: 3"), `unknown key "max_turns" [recipe.unknownKey]`, `did you mean "max_steps"?`},
		{"system_prompt", agent("system_prompt: hi"), `unknown key "system_prompt" [recipe.unknownKey]`, `did you mean "instructions"?`},
		{"the prompt of an agent", agent("prompt: hi"), `unknown key "prompt" [recipe.unknownKey]`, "the step that runs the agent gives it the prompt"},
		{"a goal", agent("goal: find it"), `unknown key "goal" [recipe.unknownKey]`, "say in instructions who the agent is and what it is for"},
		{"a name", agent("name: Bob"), `unknown key "name" [recipe.unknownKey]`, "the key of the agent is its name"},
		{"an llm", agent("llm: gpt"), `unknown key "llm" [recipe.unknownKey]`, `did you mean "model"?`},
		{"servers", agent("mcp_servers: [a]"), `unknown key "mcp_servers" [recipe.unknownKey]`, "list the tools of servers under tools: mcp.NAME.*"},
		{"an unknown agent", "agents: {c: {model: m}}\nsteps:\n  a: {uses: agent, with: {agent: b, prompt: go}}\n", `there is no agent "b" [agent.unknown]`, "known here: c"},
		// dagu, Airflow, Ansible, Temporal
		{"a command", at("command: ls"), `unknown key "command" [recipe.unknownKey]`, "to run a command, write uses: exec.run, and the command as argv inside with"},
		{"items", at("with_items: [1]"), `unknown key "with_items" [recipe.unknownKey]`, "write foreach: {in: […]}"},
		{"a register", at("register: out"), `unknown key "register" [recipe.unknownKey]`, "leave it out: other steps read steps.ID.output"},
		{"the next step", at("next: c"), `unknown key "next" [recipe.unknownKey]`, "say at the next step what it needs: needs: [a]"},
		{"a schedule", "schedule: '0 * * * *'\nsteps:\n  a: {uses: set, with: 1}\n", `unknown key "schedule" [recipe.unknownKey]`,
			"a recipe does not say when it runs: cron, or a service, begins runs"},
		{"statuses", "steps:\n  a: {uses: x.y, retry: {max_attempts: 2, retry_on: [429]}}\n", `429 is a status of HTTP, not a reason [recipe.invalid]`,
			"write rate_limit for 429, and 5xx for 500 to 599"},
		{"quoted statuses", "steps:\n  a: {uses: x.y, retry: {max_attempts: 2, retry_on: ['503']}}\n", `503 is a status of HTTP, not a reason [recipe.invalid]`,
			"write rate_limit for 429, and 5xx for 500 to 599"},
		{"attempts", "steps:\n  a: {uses: x.y, retry: {maximumAttempts: 2}}\n", `unknown key "maximumAttempts" [recipe.unknownKey]`, `did you mean "max_attempts"?`},
		// keys of with beside it, and steps of a body
		{"a prompt", "steps:\n  a: {uses: human, prompt: hm, with: {prompt: hm}}\n", `unknown key "prompt" [recipe.unknownKey]`, "put prompt" + inside},
		{"branches", "steps:\n  a: {uses: fork, branches: {}, with: {branches: {b: {steps: {c: {uses: set, with: 1}}}}}}\n", `unknown key "branches" [recipe.unknownKey]`, "put branches" + inside},
		{"argv", "steps:\n  a: {uses: exec.run, argv: [ls], with: {argv: [ls]}}\n", `unknown key "argv" [recipe.unknownKey]`, "put argv" + inside},
		{"a url", "steps:\n  a: {uses: http.request, url: x, with: {url: 'https://a.b'}}\n", `unknown key "url" [recipe.unknownKey]`, "put url" + inside},
		{"steps of a fork", "steps:\n  a: {uses: fork, steps: {}, with: {branches: {b: {steps: {c: {uses: set, with: 1}}}}}}\n", `unknown key "steps" [recipe.unknownKey]`,
			"steps stand inside with: in branches of a fork, in cases of a switch"},
		{"a step of the body", tool("loop", "{max_iterations: 2, until: steps.w.output > 1, steps: {w: {uses: set, with: 1}}}"),
			`unknown step "w" [expr.unknownName]`, "it is a step of the body: until reads last, what the round came to"},
		// YAML
		{"a step that is indented too far", "steps:\n  a:\n    uses: set\n     with: 1\n", `not valid YAML: mapping value is not allowed in this context [yaml.syntax]`,
			"line 6 is indented deeper than line 5, which has a value: indent them alike"},
		{"a day", tool("wait", "{duration: 1 day}"), `"1 day" is not a duration [recipe.invalid]`, "durations look like 500ms, 30s, 5m, 2h, 1d"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			r, err := recipe.Parse("recipe.yaml", []byte(head+tt.text))
			if err == nil {
				_, err = workflow.Compile(r, nil)
			}
			of, _ := errors.AsType[*diagnostics.Error](err)
			if of == nil {
				t.Fatal(err)
			}
			for _, d := range of.List {
				if d.Level == diagnostics.ErrorLevel {
					got = append(got, strings.TrimPrefix(withoutPlace(d.String()), "error: "))
				}
			}
			want := tt.message
			if tt.hint != "" {
				want += "\n  hint: " + tt.hint
			}
			if diff := cmp.Diff([]string{want}, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
