package program_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/runtest"
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
	top := func(key string) string { return key + "\nsteps:\n  a: {uses: set, with: 1}\n" }
	retried := func(key string) string { return "steps:\n  a: {uses: x.y, retry: {max_attempts: 3, " + key + "}}\n" }
	unknown := func(key string) string { return fmt.Sprintf("unknown key %q [recipe.unknownKey]", key) }
	const (
		noContainer = "no container is started: a command runs where the run does, with uses: exec.run"
		isFile      = `is a file, not a kind or a tool [recipe.unknownKind]`
		inside      = ` inside with`
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
			`unknown step "w" [expr.unknownName]`, "it is a step of the body: here last is what the round came to"},
		// GitHub Actions, continued
		{"jobs' container", at("container: alpine"), unknown("container"), noContainer},
		{"permissions", top("permissions: {contents: read}"), unknown("permissions"), "leave it out: braise.yaml says what steps may do"},
		{"concurrency", top("concurrency: ci"), unknown("concurrency"), "write limits: {max_parallel: 3}"},
		{"the github context", at("when: github.ref == 'x'"), `unknown name "github" [expr.unknownName]`, "take it as an input: --input ref=…"},
		{"the matrix context", at("when: matrix.v == 1"), `unknown name "matrix" [expr.unknownName]`, "in a foreach the item is item"},
		{"the needs context", at("when: needs.a.result == 1"), `unknown name "needs" [expr.unknownName]`, "write steps.ID.output"},
		{"failure()", at("when: failure()"), `unknown function "failure" [expr.unknownName]`, "write trigger: all_done at the step, and read steps.ID.status"},
		// LangGraph, CrewAI
		{"edges", top("edges: [[a, b]]"), unknown("edges"), "say at the next step what it needs: needs: [a]"},
		{"an entry point", top("entry_point: a"), unknown("entry_point"), "leave it out: a step runs when all that it needs has ended"},
		{"a state", top("state: {x: int}"), unknown("state"), "leave it out: steps read inputs and steps.ID.output"},
		{"the state's fields", at("when: state.x == 1"), `unknown name "state" [expr.unknownName]`, "write inputs.NAME, or steps.ID.output"},
		{"a response format", tool("model", "{model: m, prompt: hi, response_format: json}"), unknown("response_format"), "write output: {schema: …} beside with"},
		{"a schema", tool("model", "{model: m, prompt: hi, schema: {type: object}}"), unknown("schema"), "write output: {schema: …} beside with"},
		{"tools of a model", tool("model", "{model: m, prompt: hi, tools: [a.b]}"), unknown("tools"), "a step that uses: agent has tools"},
		{"a human in the loop", agent("human_input: true"), unknown("human_input"), "write approval: pause; people then decide about each call"},
		{"an interrupt", agent("interrupt_before: [tools]"), unknown("interrupt_before"), "write approval: pause; people then decide about each call"},
		{"verbose", agent("verbose: true"), unknown("verbose"), "leave it out: braise run -v shows every event"},
		// dagu
		{"a handler", top("handlerOn: {exit: {}}"), unknown("handlerOn"), `did you mean "finally"?`},
		{"mail", top("mailOn: {failure: true}"), unknown("mailOn"), "put a step that tells somebody under finally"},
		{"active runs", top("maxActiveRuns: 1"), unknown("maxActiveRuns"), "write it in braise.yaml: serve.max_runs"},
		{"preconditions", at("preconditions: [x]"), unknown("preconditions"), `did you mean "when"?`},
		{"a repeat policy", at("repeatPolicy: {repeat: true}"), unknown("repeatPolicy"), "write a step that uses: loop"},
		{"an executor", at("executor: http"), unknown("executor"), `did you mean "uses"?`},
		{"a variable for the output", at("output: RESULT"), `"output" must be a mapping, not a string [recipe.wrongType]`, "leave it out: other steps read steps.ID.output"},
		// n8n
		{"connections", top("connections: {}"), unknown("connections"), "say at the next step what it needs: needs: [a]"},
		{"$json", at("when: $json.x == 1"), `unknown name "$json" [expr.unknownName]`, "write steps.ID.output, of the step before"},
		{"parameters", at("parameters: {url: x}"), unknown("parameters"), "write with"},
		{"credentials", at("credentials: {a: b}"), unknown("credentials"), "name a secret where it is used: ${{ secrets.NAME }}"},
		{"a retry", at("retryOnFail: true"), unknown("retryOnFail"), "write retry: {max_attempts: 3}"},
		{"tries", retried("maxTries: 3"), unknown("maxTries"), `did you mean "max_attempts"?`},
		{"a wait between tries", retried("waitBetweenTries: 3"), unknown("waitBetweenTries"), "write backoff, with a unit: 1s"},
		{"a node that continues", at("continueOnFail: true"), unknown("continueOnFail"), "write on_error: continue"},
		{"a disabled node", at("disabled: true"), unknown("disabled"), "write when: false"},
		// Temporal
		{"an activity", at("activity: charge"), unknown("activity"), "write uses, with the name of a tool"},
		{"start to close", at("startToCloseTimeout: 10s"), unknown("startToCloseTimeout"), `did you mean "timeout"?`},
		{"a heartbeat", at("heartbeatTimeout: 10s"), unknown("heartbeatTimeout"), "write timeout: calls have no heartbeats"},
		{"a coefficient", retried("backoffCoefficient: 2"), unknown("backoffCoefficient"), "leave it out: waits double, up to max_backoff"},
		{"types of errors", retried("nonRetryableErrorTypes: [a]"), unknown("nonRetryableErrorTypes"), "say with retry_on or when what is retried"},
		{"a task queue", top("taskQueue: a"), unknown("taskQueue"), "leave it out: braise run --queue says which workers take a run"},
		{"signals", top("signals: [a]"), unknown("signals"), `did you mean "channels"?`},
		{"a compensation", at("compensation: {uses: x.z}"), unknown("compensation"), `did you mean "rollback"?`},
		// Argo
		{"a kind", top("kind: Workflow"), unknown("kind"), "leave it out: apiVersion says that the file is a recipe"},
		{"metadata", top("metadata: {name: x}"), unknown("metadata"), "write name, version, description and tags at the top"},
		{"a spec", top("spec: {}"), unknown("spec"), "leave it out: what is in it stands at the top"},
		{"templates", top("templates: []"), unknown("templates"), "write steps; what several share is a recipe or a tool"},
		{"an entrypoint", top("entrypoint: main"), unknown("entrypoint"), "leave it out: a step runs when all that it needs has ended"},
		{"a dag", top("dag: {tasks: []}"), unknown("dag"), "write steps: what each needs makes the graph"},
		{"parallelism", top("parallelism: 3"), unknown("parallelism"), "write limits: {max_parallel: 3}"},
		{"a deadline", top("activeDeadlineSeconds: 60"), unknown("activeDeadlineSeconds"), "write limits: {wall_time: 10m}"},
		{"a deadline of a step", at("activeDeadlineSeconds: 60"), unknown("activeDeadlineSeconds"), "write timeout, with a unit: 30s"},
		{"withItems", at("withItems: [1]"), unknown("withItems"), "write foreach: {in: […]}"},
		{"withParam", at("withParam: x"), unknown("withParam"), "write foreach: {in: […]}"},
		{"a retry strategy", at("retryStrategy: {limit: 3}"), unknown("retryStrategy"), `did you mean "retry"?`},
		{"suspend", at("suspend: {}"), unknown("suspend"), "write uses: human, or uses: wait"},
		{"failFast", tool("fork", "{failFast: true, branches: {b: {steps: {c: {uses: set, with: 1}}}}}"), unknown("failFast"), "write mode: settle to let all branches end"},
		// Compose
		{"services", top("services: {a: {image: x}}"), unknown("services"), "a recipe has steps that end, not services"},
		{"an image", at("image: alpine"), unknown("image"), noContainer},
		{"an environment", at("environment: {A: b}"), unknown("environment"), "to run a command, write uses: exec.run, and env inside with"},
		{"a restart", at("restart: always"), unknown("restart"), "a recipe has steps that end, not services"},
		{"a health check", at("healthcheck: {}"), unknown("healthcheck"), "a recipe has steps that end, not services"},
		{"profiles", at("profiles: [x]"), unknown("profiles"), "write when, with an input that says so"},
		{"depends_on", at("depends_on: {a: {condition: service_healthy}}"), unknown("depends_on"), `did you mean "needs"?`},
		{"a number of rounds", tool("loop", "{max_iterations: '${{ 1.5 }}', until: 'true', steps: {w: {uses: set, with: 1}}}"),
			`max_iterations must be an integer, not a number [recipe.invalid]`, "write a whole number, or an expression that gives one"},
		// YAML
		{"a step that is indented too far", "steps:\n  a:\n    uses: set\n     with: 1\n", `not valid YAML: mapping value is not allowed in this context [yaml.syntax]`,
			"line 6 is indented deeper than line 5, which has a value: indent them alike"},
		{"a day", tool("wait", "{duration: 1 day}"), `"1 day" is not a duration [recipe.invalid]`, "durations look like 500ms, 30s, 5m, 2h, 1d"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var got []string
			r, err := recipe.Parse("recipe.yaml", []byte(runtest.Head+tt.text))
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
