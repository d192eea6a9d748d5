package execution_test

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/workflow"
)

// crashRecipe is a recipe whose runs are killed. Its tools are told their paths in the argument as.
type crashRecipe struct {
	name      string
	text      string            // without its head
	files     map[string]string // that it names
	script    string            // of model m
	interrupt resume.Interrupt
	breaks    []string          // breakpoints
	answers   map[string]any    // by the step that waits, or by the pause
	channels  map[string]string // by the step that receives what is sent from outside
	early     map[string]any    // sent at the first pause, by channel: nobody waits for it yet
	signals   bool              // answers and values come as signals
	cancels   string            // the run is cancelled by a signal when this step waits
	code      string            // of the error; "": the run is ok
	fails     []string          // steps whose calls count as failed, if they had their effect and nobody knows
	grace     time.Duration     // 0: as usual
	loose     bool              // how many writes there are is a matter of luck
	// want says what a run comes to; where a race decides, by what its journal fixed.
	want func(t *testing.T, recs []checkpoint.Record, log []effect) crashWant
	// What must be in the journal before a step is called.
	order map[string][]string
}

// crashWant is what a run comes to.
type crashWant struct {
	output   any
	artefact map[string]any
	effects  map[string]string // that there are, by path
	may      map[string]string // that there may be
	answers  []string          // steps whose pauses are answered
}

func always(want crashWant) func(*testing.T, []checkpoint.Record, []effect) crashWant {
	return func(*testing.T, []checkpoint.Record, []effect) crashWant { return want }
}

func did(path string) any { return map[string]any{"did": path} }

// crashRecipes combine the kinds, so that few walks cover all of them.
var crashRecipes = []*crashRecipe{crashCalls, crashBodies, crashPauses, crashRaces, crashRollbacks, crashRestart, crashCut, crashDoomed, crashSignals, crashCancelled, crashTalk, crashFinally, crashFinallyCancelled, crashTools, crashShown, crashKept, crashChosen, crashBreaks}

func crashRecipeNamed(name string) *crashRecipe {
	all := append(slices.Clone(crashRecipes), crashItems, crashQuestion)
	return all[slices.IndexFunc(all, func(c *crashRecipe) bool { return c.name == name })]
}

func (c *crashRecipe) load(t *testing.T) *workflow.Workflow {
	t.Helper()
	fsys := fstest.MapFS{"recipe.yaml": {Data: []byte(runtest.Head + c.text)}}
	for name, text := range c.files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	r, err := recipe.Load(fsys, "recipe.yaml")
	if err != nil {
		t.Fatal(err)
	}
	wf, err := workflow.Compile(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return wf
}

const twoTurns = `turns:
  - text: first
  - text: second
`

// Calls of each effect, a foreach, models and a person.
var crashCalls = &crashRecipe{
	name: "calls", script: twoTurns,
	text: `steps:
  charge: {uses: fx.external, with: {as: charge}}
  look: {uses: fx.read, needs: [charge], with: {as: look}}
  book: {uses: fx.idempotent, needs: [look], with: {as: book}}
  draft: {uses: model, needs: [book], with: {model: m, prompt: draft}}
  each:
    uses: fx.external
    needs: [draft]
    foreach: {in: [a, b, c], as: item}
    with: {as: "each[${{ index }}]"}
  left: {uses: fx.external, needs: [each], with: {as: left}}
  on: {uses: fx.external, needs: [left], with: {as: on}}
  right: {uses: fx.idempotent, needs: [each], with: {as: right}}
  check: {uses: model, needs: [on, right], with: {model: m, messages: "${{ steps.draft.messages }}", prompt: check}}
  approve: {uses: human, needs: [check], with: {prompt: "Go on?"}}
  name: {uses: human, needs: [approve], with: {prompt: "For whom?", answer: {type: string, default: Ada}}}
  told: {uses: say, needs: [name], with: {text: "For ${{ steps.name.output }}", value: {id: 7}}}
  send: {uses: fx.external, needs: [told], with: {as: send}}
output: ["${{ map(steps.check.messages, .text) }}", "${{ steps.name.output }}", "${{ steps.draft.output.text }}", "${{ steps.check.output.text }}", "${{ steps.approve.output.decision }}", "${{ steps.send.output }}"]
`,
	answers: map[string]any{"approve": decided("approve"), "name": ""},
	want: always(crashWant{
		output: []any{[]any{"draft", "first", "check", "second"}, "Ada", "first", "second", "approve", did("send")},
		artefact: map[string]any{
			"charge": did("charge"), "look": did("look"), "book": did("book"),
			"draft": map[string]any{"text": "first"}, "check": map[string]any{"text": "second"},
			"each": []any{did("each[0]"), did("each[1]"), did("each[2]")},
			"left": did("left"), "on": did("on"), "right": did("right"),
			"approve": map[string]any{"decision": "approve", "form": nil}, "name": "Ada",
			"told": map[string]any{"text": "For Ada", "value": map[string]any{"id": 7.}}, "send": did("send"),
		},
		effects: map[string]string{
			"charge": "external", "book": "idempotent", "each[0]": "external", "each[1]": "external", "each[2]": "external",
			"left": "external", "on": "external", "right": "idempotent", "send": "external",
		},
		answers: []string{"approve", "name"},
	}),
	order: map[string][]string{
		"look": {"charge"}, "book": {"charge", "look"}, "draft": {"book"}, "each[0]": {"draft"}, "each[1]": {"draft"}, "each[2]": {"draft"},
		"left": {"each[0]", "each[1]", "each[2]"}, "right": {"each[0]", "each[1]", "each[2]"}, "on": {"left"}, "check": {"on", "right"}, "send": {"check"},
	},
}

// A run pauses before a call, before a step with a body and before one of its items.
var crashBreaks = &crashRecipe{
	name: "breaks", breaks: []string{"charge", "each", "each[1]/do", "send"},
	text: `steps:
  charge: {uses: fx.external, with: {as: charge}}
  each:
    uses: recipe
    needs: [charge]
    foreach: {in: [a, b], as: item}
    with: {steps: {do: {uses: fx.external, with: {as: "each[${{ index }}]/do"}}}, output: "${{ steps.do.output }}"}
  total: {uses: set, with: "${{ len(steps.each.output) }}"}
  send: {uses: fx.external, needs: [total], with: {as: send}}
output: ${{ steps.total.output }}
`,
	answers: map[string]any{"charge": decided("continue"), "each": decided("continue"), "each[1]/do": decided("continue"), "send": decided("continue")},
	want: always(crashWant{
		output:   2.,
		artefact: map[string]any{"charge": did("charge"), "each": []any{did("each[0]/do"), did("each[1]/do")}, "total": 2., "send": did("send")},
		effects:  map[string]string{"charge": "external", "each[0]/do": "external", "each[1]/do": "external", "send": "external"},
		answers:  []string{"charge", "each", "each[1]/do", "send"},
	}),
	order: map[string][]string{"each[0]/do": {"charge"}, "each[1]/do": {"charge"}, "send": {"each[0]/do", "each[1]/do"}},
}

// A person talks with an agent: each round of a loop hands on what was said. What is kept for later runs is written once.
var crashTalk = &crashRecipe{
	name: "talk", script: twoTurns,
	text: `agents: {a: {model: m, tools: []}}
steps:
  hello: {uses: say, with: {text: Welcome}}
  charge: {uses: fx.external, needs: [hello], with: {as: charge}}
  kept: {uses: recipe, needs: [charge], with: {steps: {put: {uses: state.put, with: {key: "${{ run.id }}", value: one}}}, output: "${{ steps.put.output.version }}"}}
  chat:
    uses: loop
    needs: [kept]
    with:
      first: {next: Hi, talk: []}
      max_iterations: 2
      steps:
        turn: {uses: agent, with: {agent: a, messages: "${{ last.talk }}", prompt: "${{ last.next }}"}}
        hear: {uses: human, when: iteration == 1, with: {prompt: "${{ steps.turn.output.text }}", answer: {type: string}}}
      output: {next: "${{ steps.hear.output }}", talk: "${{ steps.turn.messages }}"}
  again: {uses: recipe, needs: [chat], with: {steps: {put: {uses: state.put, with: {key: "${{ run.id }}", value: two, if_version: "${{ steps.kept.output }}"}}}, output: "${{ steps.put.output.version }}"}}
  send: {uses: fx.external, needs: [again], with: {as: send}}
  visits: {uses: recipe, needs: [send], with: {steps: {get: {uses: state.get, with: {key: "${{ run.id }}"}}}, output: "${{ [steps.get.output.value, steps.get.output.version] }}"}}
output: ["${{ map(steps.chat.output.last.talk, .text) }}"]
`,
	answers: map[string]any{"chat#1/hear": "more"},
	want: always(crashWant{
		output: []any{[]any{"Hi", "first", "more", "second"}},
		artefact: map[string]any{
			"hello": map[string]any{"text": "Welcome", "value": nil}, "charge": did("charge"),
			"kept": 1., "again": 2., "visits": []any{"two", 2.},
			"chat": map[string]any{"iterations": 2., "reason": "max_iterations", "last": map[string]any{"next": nil, "talk": []any{
				map[string]any{"role": "user", "text": "Hi"}, map[string]any{"role": "assistant", "text": "first"},
				map[string]any{"role": "user", "text": "more"}, map[string]any{"role": "assistant", "text": "second"},
			}}},
			"send": did("send"),
		},
		effects: map[string]string{"charge": "external", "send": "external"},
		answers: []string{"chat#1/hear"},
	}),
	order: map[string][]string{"send": {"charge"}},
}

// Calls of models with local files, two of them repaired, for a schema and for a rule, and of an agent that sees one in both of
// its turns, and mends its answer, beside and between calls with effects.
var crashShown = &crashRecipe{
	name: "shown", loose: true,
	script: "steps: {look: [{expect: {contains: \"data:text/plain;base64,aGk=\"}, text: no}, {text: '{\"n\": 1}'}], again: [{text: half}, {text: second}],\n" +
		"  ask: [{tool_calls: [{name: fx.idempotent, args: {as: ask}}]}, {expect: {contains: \"data:text/plain;base64,aGk=\"}, text: half}, {text: third}]}\n",
	text: `agents: {a: {model: m, tools: [fx.idempotent]}}
steps:
  charge: {uses: fx.external, with: {as: charge}}
  look: {uses: model, needs: [charge], with: {model: m, prompt: Look, images: [a.txt, b/c.txt]}, output: {schema: {type: object}}}
  again: {uses: model, needs: [charge], with: {model: m, messages: [{role: user, text: Look, files: [a.txt]}]}, output: {check: [{that: output.text != "half", else: all of it}]}}
  ask: {uses: agent, needs: [look, again], with: {agent: a, prompt: Look, images: [a.txt]}, output: {check: [{that: output.text != "half", else: all of it}]}}
  send: {uses: fx.external, needs: [ask], with: {as: send}}
output: ["${{ steps.look.output.n }}", "${{ steps.again.output.text }}", "${{ steps.ask.output.text }}"]
`,
	want: always(crashWant{
		output: []any{1., "second", "third"},
		artefact: map[string]any{"charge": did("charge"), "look": map[string]any{"n": 1.},
			"again": map[string]any{"text": "second"}, "send": did("send"),
			"ask": map[string]any{"text": "third", "steps": 2., "stop_reason": "answer"}},
		effects: map[string]string{"charge": "external", "ask": "idempotent", "send": "external"},
	}),
	order: map[string][]string{"look": {"charge"}, "again": {"charge"}, "ask": {"look", "again"}, "send": {"ask"}},
}

// One question between two calls.
var crashQuestion = &crashRecipe{
	name: "question", script: twoTurns,
	text: `steps:
  charge: {uses: fx.external, with: {as: charge}}
  approve: {uses: human, needs: [charge], with: {prompt: "Go on?"}}
  send: {uses: fx.external, needs: [approve], with: {as: send}}
output: ${{ steps.send.output }}
`,
	answers: map[string]any{"approve": decided("approve")},
	want: always(crashWant{
		output: did("send"),
		artefact: map[string]any{
			"charge": did("charge"), "approve": map[string]any{"decision": "approve", "form": nil}, "send": did("send"),
		},
		effects: map[string]string{"charge": "external", "send": "external"},
		answers: []string{"approve"},
	}),
	order: map[string][]string{"send": {"charge"}},
}

// A loop, a recipe of its own in a foreach, a switch, forks, channels, a retriever and a short wait.
var crashBodies = &crashRecipe{
	name: "bodies", script: twoTurns,
	text: `channels: {mail: queue}
steps:
  find: {uses: retrieve, with: {query: find, top_k: 1}}
  charge: {uses: fx.external, needs: [find], with: {as: charge}}
  rounds:
    uses: loop
    needs: [charge]
    with:
      steps:
        make: {uses: fx.external, with: {as: "rounds#${{ iteration }}/make"}}
        judge: {uses: model, needs: [make], with: {model: m, prompt: "after ${{ last ?? 'none' }}"}}
        note: {uses: send, needs: [judge], with: {channel: mail, value: "${{ steps.judge.output.text }} of round ${{ iteration }}"}}
      output: ${{ steps.judge.output.text }}
      until: last == "second"
      wait: 1ms
      max_iterations: 4
  each:
    uses: recipe
    needs: [rounds]
    foreach: {in: [small, large], as: size, max_parallel: 1}
    with: {ref: size.yaml, inputs: {size: "${{ size }}", at: "each[${{ index }}]"}}
  one: {uses: receive, needs: [each], with: {channel: mail}}
  two: {uses: receive, needs: [one], with: {channel: mail}}
  nap: {uses: wait, needs: [two], with: {duration: 1ms}}
  ship: {uses: fx.external, needs: [nap], with: {as: ship}}
output: ["${{ steps.rounds.output }}", "${{ steps.each.output }}", "${{ steps.two.output }}"]
`,
	files: map[string]string{"size.yaml": `apiVersion: braise/v1
name: size
inputs: {size: string, at: string}
channels: {state: value}
steps:
  route:
    uses: switch
    with:
      cases: [{name: small, when: inputs.size == "small", steps: {pack: {uses: fx.external, with: {as: "${{ inputs.at }}/route/small/pack"}}}, output: "${{ steps.pack.output }}"}]
      default: {steps: {crate: {uses: fx.idempotent, with: {as: "${{ inputs.at }}/route/default/crate"}}}, output: "${{ steps.crate.output }}"}
  both:
    uses: fork
    needs: [route]
    with:
      branches:
        left: {steps: {l: {uses: fx.external, with: {as: "${{ inputs.at }}/both/left/l"}}}, output: "${{ steps.l.output }}"}
        right: {steps: {r: {uses: fx.idempotent, with: {as: "${{ inputs.at }}/both/right/r"}}}, output: "${{ steps.r.output }}"}
  put: {uses: send, needs: [both], with: {channel: state, value: "put by ${{ inputs.at }}"}}
  take: {uses: receive, needs: [put], with: {channel: state}}
  tries:
    uses: fork
    needs: [take]
    with:
      mode: settle
      branches:
        bad: {steps: {b: {uses: fail, with: {message: no, code: no}}}}
        good: {steps: {g: {uses: fx.external, with: {as: "${{ inputs.at }}/tries/good/g"}}}, output: "${{ steps.take.output }}"}
output: ["${{ steps.route.output.case }}", "${{ steps.both.output.right }}", "${{ steps.tries.output.bad.status }}", "${{ steps.tries.output.good.output }}"]
`},
	want: always(crashWant{
		output: []any{
			map[string]any{"last": "second", "iterations": 2., "reason": "until"},
			[]any{
				[]any{"small", did("each[0]/both/right/r"), "failed", "put by each[0]"},
				[]any{"default", did("each[1]/both/right/r"), "failed", "put by each[1]"},
			},
			"second of round 2",
		},
		artefact: map[string]any{
			"find": map[string]any{"documents": []any{map[string]any{"id": "find", "text": "found", "score": 0.}}}, "charge": did("charge"),
			"rounds": map[string]any{"last": "second", "iterations": 2., "reason": "until"},
			"each": []any{
				[]any{"small", did("each[0]/both/right/r"), "failed", "put by each[0]"},
				[]any{"default", did("each[1]/both/right/r"), "failed", "put by each[1]"},
			},
			"one": "first of round 1", "two": "second of round 2", "nap": nil, "ship": did("ship"),
		},
		effects: map[string]string{
			"charge": "external", "rounds#1/make": "external", "rounds#2/make": "external", "each[0]/route/small/pack": "external", "each[1]/route/default/crate": "idempotent",
			"each[0]/both/left/l": "external", "each[0]/both/right/r": "idempotent", "each[1]/both/left/l": "external", "each[1]/both/right/r": "idempotent",
			"each[0]/tries/good/g": "external", "each[1]/tries/good/g": "external", "ship": "external",
		},
	}),
	order: map[string][]string{
		"charge": {"find"}, "rounds#1/make": {"charge"}, "rounds#1/judge": {"rounds#1/make"}, "rounds#2/make": {"rounds#1/make", "rounds#1/judge"},
		"rounds#2/judge": {"rounds#2/make"}, "each[0]/route/small/pack": {"rounds#2/judge"}, "each[0]/both/left/l": {"each[0]/route/small/pack"},
		"each[0]/both/right/r": {"each[0]/route/small/pack"}, "each[0]/tries/good/g": {"each[0]/both/left/l", "each[0]/both/right/r"},
		"each[1]/route/default/crate": {"each[0]/tries/good/g"}, "each[1]/both/left/l": {"each[1]/route/default/crate"},
		"each[1]/tries/good/g": {"each[1]/both/left/l", "each[1]/both/right/r"}, "ship": {"each[1]/tries/good/g", "nap"},
	},
}

// decided is what a person answers.
func decided(word string) any { return map[string]any{"decision": word} }

// Pauses of every kind, in bodies that run beside each other, and one that the clock ends.
var crashPauses = &crashRecipe{
	name: "pauses", loose: true,
	text: `channels: {mail: queue}
consts: {numbers: [1]}
steps:
` + crashSides + `
  rounds:
    uses: loop
    with:
      steps:
        make: {uses: fx.external, with: {as: "rounds#${{ iteration }}/make"}}
        good: {uses: human, needs: [make], when: iteration == 2, with: {prompt: "good after ${{ last }}?"}}
      output: ${{ steps.good.output?.decision ?? "made" }}
      until: last == "approve"
      max_iterations: 3
  order: {uses: receive, with: {channel: mail}}
  paid: {uses: wait, with: {event: paid, timeout: 1h}}
  pack: {uses: fx.external, needs: [order, paid], with: {as: pack}}
  nap: {uses: wait, needs: [each, rounds, pack], with: {duration: 20ms}}
  ship: {uses: fx.external, needs: [nap], with: {as: ship}}
output: ["${{ steps.each.output }}", "${{ steps.rounds.output.iterations }}", "${{ steps.order.output }}", "${{ steps.paid.output }}"]
`,
	answers: map[string]any{
		"each[0]/left/ask": decided("approve"), "each[0]/right/gate": decided("reject"),
		"rounds#2/good": decided("approve"), "order": "lamp", "paid": map[string]any{"sum": 7}, "nap": nil,
	},
	channels: map[string]string{"order": "mail"},
	want: always(crashWant{
		output: []any{[]any{sides("approve", "reject")}, 2., "lamp", map[string]any{"sum": 7.}},
		artefact: map[string]any{
			"each": []any{sides("approve", "reject")}, "rounds": map[string]any{"last": "approve", "iterations": 2., "reason": "until"},
			"order": "lamp", "paid": map[string]any{"sum": 7.}, "pack": did("pack"), "nap": nil, "ship": did("ship"),
		},
		effects: map[string]string{
			"each[0]/left/l": "external", "each[0]/left/l2": "external", "each[0]/right/gate": "external", "each[0]/right/r2": "external",
			"rounds#1/make": "external", "rounds#2/make": "external", "pack": "external", "ship": "external",
		},
		answers: []string{"each[0]/left/ask", "each[0]/right/gate", "rounds#2/good", "order", "paid", "nap"},
	}),
	order: map[string][]string{
		"each[0]/left/l2": {"each[0]/left/l"}, "each[0]/right/r2": {"each[0]/right/gate"}, "rounds#2/make": {"rounds#1/make"},
		"ship": {"each[0]/left/l2", "each[0]/right/r2", "rounds#2/make", "pack"},
	},
}

// Each item waits for a person in two branches of a fork, in one of them in the middle of a tool's call.
const crashSides = `  each:
    uses: fork
    foreach: {in: "${{ consts.numbers }}", as: n}
    with:
      branches:
        left:
          steps:
            l: {uses: fx.external, with: {as: "each[${{ index }}]/left/l"}}
            ask: {uses: human, needs: [l], with: {prompt: "left ${{ n }}?"}}
            l2: {uses: fx.external, needs: [ask], with: {as: "each[${{ index }}]/left/l2"}}
          output: ${{ steps.ask.output.decision }}
        right:
          steps:
            gate: {uses: fx.gate, with: {as: "each[${{ index }}]/right/gate"}}
            r2: {uses: fx.external, needs: [gate], with: {as: "each[${{ index }}]/right/r2"}}
          output: ${{ steps.gate.output }}
`

func sides(left, right string) any { return map[string]any{"left": left, "right": right} }

// The sides of two items, which are answered in every order.
var crashItems = &crashRecipe{
	name: "items", loose: true,
	text: "consts: {numbers: [1, 2]}\nsteps:\n" + crashSides + "output: ${{ steps.each.output }}\n",
	answers: map[string]any{
		"each[0]/left/ask": decided("approve"), "each[0]/right/gate": decided("reject"),
		"each[1]/left/ask": decided("reject"), "each[1]/right/gate": decided("approve"),
	},
	want: always(crashWant{
		output:   []any{sides("approve", "reject"), sides("reject", "approve")},
		artefact: map[string]any{"each": []any{sides("approve", "reject"), sides("reject", "approve")}},
		effects: map[string]string{
			"each[0]/left/l": "external", "each[0]/left/l2": "external", "each[0]/right/gate": "external", "each[0]/right/r2": "external",
			"each[1]/left/l": "external", "each[1]/left/l2": "external", "each[1]/right/gate": "external", "each[1]/right/r2": "external",
		},
		answers: []string{"each[0]/left/ask", "each[0]/right/gate", "each[1]/left/ask", "each[1]/right/gate"},
	}),
}

// A race of calls, with a slow one and a person in it, one of a person and a message, and one of the items of a list.
var crashRaces = &crashRecipe{
	name: "races", loose: true,
	text: `channels: {mail: queue}
steps:
  before: {uses: fx.external, with: {as: before}}
  race:
    uses: fork
    needs: [before]
    with:
      mode: race
      branches:
        ask: {steps: {person: {uses: human, with: {prompt: Go on}}, asked: {uses: fx.external, needs: [person], with: {as: race/ask/asked}}}, output: "${{ steps.asked.output }}"}
        slow: {steps: {s: {uses: fx.idempotent, with: {as: race/slow/s, ms: 50}}, s2: {uses: fx.external, needs: [s], with: {as: race/slow/s2}}}, output: "${{ steps.s2.output }}"}
        left: {steps: {l: {uses: fx.external, with: {as: race/left/l}}}, output: "${{ steps.l.output }}"}
        right: {steps: {r: {uses: fx.external, with: {as: race/right/r}}}, output: "${{ steps.r.output }}"}
  after: {uses: fx.external, needs: [race], with: {as: after}}
  choice:
    uses: fork
    needs: [after]
    with:
      mode: race
      branches:
        person: {steps: {ok: {uses: human, with: {prompt: Go on}}, said: {uses: fx.external, needs: [ok], with: {as: choice/person/said}}}, output: "${{ steps.said.output }}"}
        letter: {steps: {mail: {uses: receive, with: {channel: mail}}, read: {uses: fx.external, needs: [mail], with: {as: choice/letter/read}}}, output: "${{ steps.mail.output }}"}
  sure: {uses: human, needs: [choice], with: {prompt: Sure}}
  ship: {uses: fx.external, needs: [sure], with: {as: ship}}
output: ["${{ steps.race.output }}", "${{ steps.choice.output }}"]
`,
	answers:  map[string]any{"race/ask/person": decided("approve"), "choice/person/ok": decided("approve"), "choice/letter/mail": "a letter", "sure": decided("approve")},
	channels: map[string]string{"choice/letter/mail": "mail"},
	want: func(t *testing.T, recs []checkpoint.Record, log []effect) crashWant {
		want := crashWant{answers: []string{"sure"}, may: map[string]string{"race/slow/s": "idempotent"}}
		first, second := winner(t, recs, log, "race", "after"), winner(t, recs, log, "choice", "ship")
		want.effects = map[string]string{"before": "external", first: "external", "after": "external", second: "external", "ship": "external"}
		for _, path := range []string{"race/ask/asked", "race/slow/s2", "race/left/l", "race/right/r", "choice/person/said", "choice/letter/read"} {
			want.may[path] = "external"
		}
		race := map[string]any{"winner": strings.Split(first, "/")[1], "output": did(first)}
		choice := map[string]any{"winner": "person", "output": did(second)}
		if second == "choice/letter/read" {
			choice = map[string]any{"winner": "letter", "output": "a letter"}
		}
		want.output = []any{race, choice}
		want.artefact = map[string]any{"before": did("before"), "race": race, "after": did("after"), "choice": choice,
			"sure": map[string]any{"decision": "approve", "form": nil}, "ship": did("ship")}
		return want
	},
	order: map[string][]string{"race/slow/s2": {"race/slow/s"}, "race/left/l": {"before"}, "race/right/r": {"before"}, "race/slow/s": {"before"}, "ship": {"after"}},
}

// finishes are the last steps of the branches of races.
var finishes = []string{"race/ask/asked", "race/slow/s2", "race/left/l", "race/right/r", "choice/person/said", "choice/letter/read"}

// branchOf returns the race and the branch of a path; "" is none.
func branchOf(path string) (race, branch string) {
	if parts := strings.Split(path, "/"); len(parts) == 3 {
		return parts[0], parts[1]
	}
	return "", ""
}

// winners returns by race the last step of the branch that has won by the journal: the first that has a result
// there. visit sees what the journal has of the other branches from then on.
func winners(recs []checkpoint.Record, visit func(won string, rec checkpoint.Record)) map[string]string {
	won := map[string]string{}
	for _, rec := range recs {
		race, branch := branchOf(rec.Path)
		if first := won[race]; first == "" {
			if slices.Contains(finishes, rec.Path) && isResult(rec) && !strings.Contains(string(rec.Data), `"error":`) {
				won[race] = rec.Path
			}
		} else if _, b := branchOf(first); b != branch {
			visit(first, rec)
		}
	}
	return won
}

// winner returns who has won a race. From then on the journal has nothing of the others but their ends, and none
// of them has an effect once the step after has been called.
func winner(t *testing.T, recs []checkpoint.Record, log []effect, race, after string) string {
	t.Helper()
	won := winners(recs, func(won string, rec checkpoint.Record) {
		if rec.Kind != "call.ended" && rec.Kind != checkpoint.PauseClosed {
			t.Errorf("%s has won, and the journal continues with %s %s", won, rec.Kind, rec.Path)
		}
	})[race]
	if won == "" {
		t.Fatalf("the journal has no winner of %s", race)
	}
	if i := slices.IndexFunc(log, func(e effect) bool { return e.Path == after }); i >= 0 {
		for _, e := range log[i:] {
			if r, _ := branchOf(e.Path); r == race {
				t.Errorf("%s has an effect after the end of the race", e.Path)
			}
		}
	}
	return won
}

// A run that fails, with rollbacks in bodies of every kind.
var crashRollbacks = &crashRecipe{
	name: "rollbacks", code: "boom",
	text: `steps:
  charge: {uses: fx.external, with: {as: charge}, rollback: {uses: fx.external, with: {as: "${{ steps.charge.output.did }}!rollback"}}}
  rounds:
    uses: loop
    needs: [charge]
    with:
      steps: {make: {uses: fx.external, with: {as: "rounds#${{ iteration }}/make"}, rollback: {uses: fx.idempotent, with: {as: "rounds#${{ iteration }}/make!rollback"}}}}
      max_iterations: 2
  each:
    uses: fx.external
    needs: [rounds]
    foreach: {in: [a, b], as: item}
    with: {as: "each[${{ index }}]"}
    rollback: {uses: fx.external, with: {as: "each[${{ index }}]!rollback"}}
  both:
    uses: fork
    needs: [each]
    with:
      branches:
        left: {steps: {l: {uses: fx.idempotent, with: {as: both/left/l}, rollback: {uses: fx.external, with: {as: "both/left/l!rollback"}}}}}
        right: {steps: {route: {uses: switch, with: {cases: [{name: no, when: "false", steps: {}}], default: {steps: {r: {uses: fx.external, with: {as: both/right/route/default/r}, rollback: {uses: fx.external, with: {as: "both/right/route/default/r!rollback"}}}}}}}}}
  sub:
    uses: recipe
    foreach: {in: [1], as: k}
    needs: [both]
    with: {steps: {x: {uses: fx.external, with: {as: "sub[0]/x"}, rollback: {uses: fx.external, with: {as: "sub[0]/x!rollback"}}}}}
    rollback: {uses: fx.idempotent, with: {as: "sub[0]!rollback"}}
  plain: {uses: fx.external, needs: [sub], with: {as: plain}}
  boom: {uses: fail, needs: [plain], with: {message: boom, code: boom}}
  never: {uses: fx.external, needs: [boom], with: {as: never}}
`,
	want: always(crashWant{
		artefact: map[string]any{
			"charge": did("charge"), "rounds": map[string]any{"last": nil, "iterations": 2., "reason": "max_iterations"}, "each": []any{did("each[0]"), did("each[1]")},
			"both": map[string]any{"left": nil, "right": nil}, "sub": []any{nil}, "plain": did("plain"),
		},
		effects: map[string]string{
			"charge": "external", "rounds#1/make": "external", "rounds#2/make": "external", "each[0]": "external", "each[1]": "external",
			"both/left/l": "idempotent", "both/right/route/default/r": "external", "sub[0]/x": "external", "plain": "external",
			"charge!rollback": "external", "rounds#1/make!rollback": "idempotent", "rounds#2/make!rollback": "idempotent", "each[0]!rollback": "external",
			"each[1]!rollback": "external", "both/left/l!rollback": "external", "both/right/route/default/r!rollback": "external",
			"sub[0]/x!rollback": "external", "sub[0]!rollback": "idempotent",
		},
	}),
	order: map[string][]string{
		"rounds#1/make": {"charge"}, "rounds#2/make": {"rounds#1/make"}, "sub[0]!rollback": {"plain"}, "sub[0]/x!rollback": {"sub[0]!rollback"},
		"both/right/route/default/r!rollback": {"sub[0]/x!rollback"}, "both/left/l!rollback": {"both/right/route/default/r!rollback"},
		"each[1]!rollback": {"both/left/l!rollback"}, "each[0]!rollback": {"each[1]!rollback"}, "rounds#2/make!rollback": {"each[0]!rollback"},
		"rounds#1/make!rollback": {"rounds#2/make!rollback"}, "charge!rollback": {"rounds#1/make!rollback"},
	},
}

// A run that is rolled back when it pauses, and begins again with each answer.
var crashRestart = &crashRecipe{
	name: "restart", interrupt: resume.Restart, loose: true,
	text: `channels: {mail: queue, state: value}
steps:
  rounds:
    uses: loop
    with:
      steps: {make: {uses: fx.external, with: {as: "rounds#${{ iteration }}/make"}, rollback: {uses: fx.external, with: {as: "rounds#${{ iteration }}/make!rollback"}}}}
      max_iterations: 2
  both:
    uses: fork
    needs: [rounds]
    with:
      branches:
        left:
          steps:
            ask: {uses: human, with: {prompt: Go on}}
            l: {uses: fx.external, needs: [ask], with: {as: both/left/l}, rollback: {uses: fx.external, with: {as: "both/left/l!rollback"}}}
          output: ${{ steps.ask.output.decision }}
        right: {steps: {order: {uses: receive, with: {channel: mail}}}, output: "${{ steps.order.output }}"}
  now: {uses: receive, needs: [both], with: {channel: state}}
  ship: {uses: fx.external, needs: [now], with: {as: ship}}
output: ["${{ steps.both.output }}", "${{ steps.now.output }}"]
`,
	answers:  map[string]any{"both/left/ask": decided("approve"), "both/right/order": "lamp"},
	channels: map[string]string{"both/right/order": "mail"},
	early:    map[string]any{"state": "early"},
	want: always(crashWant{
		output: []any{map[string]any{"left": "approve", "right": "lamp"}, "early"},
		artefact: map[string]any{
			"rounds": map[string]any{"last": nil, "iterations": 2., "reason": "max_iterations"},
			"both":   map[string]any{"left": "approve", "right": "lamp"}, "now": "early", "ship": did("ship"),
		},
		effects: map[string]string{
			"rounds#1/make": "external", "rounds#2/make": "external", "both/left/l": "external", "ship": "external",
			"rounds#1/make!rollback": "external", "rounds#2/make!rollback": "external",
		},
		may:     map[string]string{"both/left/l!rollback": "external"},
		answers: []string{"both/left/ask", "both/right/order"},
	}),
	order: map[string][]string{
		"rounds#2/make": {"rounds#1/make"}, "both/left/l": {"rounds#2/make"}, "ship": {"both/left/l"},
	},
}

// Calls that the run itself cuts off, by what their steps say of that.
var crashCut = &crashRecipe{
	name: "cut", loose: true,
	text: `steps:
  asks: {uses: fx.external, timeout: 30ms, with: {as: asks, hangs: true}}
  goes: {uses: fx.external, needs: [asks], timeout: 30ms, on_indeterminate: continue, on_error: continue, with: {as: goes, hangs: true}}
  fails: {uses: fx.external, needs: [goes], trigger: all_done, timeout: 30ms, on_indeterminate: fail, on_error: continue, with: {as: fails, hangs: true}}
  race:
    uses: fork
    needs: [fails]
    trigger: all_done
    with:
      mode: race
      branches:
        slow: {steps: {s: {uses: fx.external, on_indeterminate: pause, with: {as: race/slow/s, hangs: true}}}}
        quick: {steps: {q: {uses: fx.idempotent, with: {as: race/quick/q, ms: 30}}}}
  after: {uses: fx.external, needs: [race], with: {as: after}}
output: ["${{ steps.asks.output }}", "${{ steps.goes.status }}", "${{ steps.fails.status }}", "${{ steps.race.output.winner }}"]
`,
	fails: []string{"goes", "fails", "race/slow/s"},
	want: always(crashWant{
		output: []any{did("asks"), "failed", "failed", "quick"},
		artefact: map[string]any{"asks": did("asks"), "race": map[string]any{"winner": "quick", "output": nil},
			"after": did("after")},
		effects: map[string]string{"asks": "external", "race/quick/q": "idempotent", "after": "external"},
		may:     map[string]string{"goes": "external", "fails": "external", "race/slow/s": "external"}, // their time may be over before they begin
	}),
	order: map[string][]string{"goes": {"asks"}, "fails": {"goes"}, "race/slow/s": {"fails"}, "race/quick/q": {"fails"}, "after": {"race/quick/q"}},
}

// A run that has failed, and asks what became of a call before it rolls back.
var crashDoomed = &crashRecipe{
	name: "doomed", loose: true, code: "tool.failed", grace: 30 * time.Millisecond,
	text: `steps:
  charge: {uses: fx.external, with: {as: charge}, rollback: {uses: fx.idempotent, with: {as: "charge!rollback"}}}
  pay: {uses: fx.external, needs: [charge], with: {as: pay, hangs: true}, rollback: {uses: fx.external, with: {as: "${{ steps.pay.output.did }}!rollback"}}}
  boom: {uses: fx.read, needs: [charge], with: {as: boom, fails: true}}
  never: {uses: fx.external, needs: [pay, boom], with: {as: never}}
`,
	want: func(_ *testing.T, _ []checkpoint.Record, log []effect) crashWant {
		want := crashWant{artefact: map[string]any{"charge": did("charge")}, effects: map[string]string{"charge": "external", "charge!rollback": "idempotent"}}
		if slices.ContainsFunc(log, func(e effect) bool { return e.Path == "pay" }) { // else it was not called before boom had failed
			want.artefact["pay"] = did("pay")
			want.effects["pay"], want.effects["pay!rollback"] = "external", "external"
		}
		return want
	},
	order: map[string][]string{"pay": {"charge"}, "boom": {"charge"}, "charge!rollback": {"boom"}},
}

// All that comes from outside comes as signals: one while the run is executed, the others for whoever recovers it.
var crashSignals = &crashRecipe{
	name: "signals", signals: true, loose: true,
	text: `channels: {mail: queue}
steps:
  first: {uses: fx.external, with: {as: first}}
  ask: {uses: human, needs: [first], with: {prompt: Go on?}}
  asked: {uses: fx.external, needs: [ask], with: {as: asked}}
  gate: {uses: fx.gate, needs: [first], with: {as: gate}}
  live: {uses: fx.idempotent, needs: [first], with: {as: live, answers: now}}
  now: {uses: human, needs: [first], with: {prompt: Now?}}
  done: {uses: fx.external, needs: [now], with: {as: done}}
  order: {uses: receive, needs: [asked], with: {channel: mail}}
  ship: {uses: fx.external, needs: [order, gate, done], with: {as: ship}}
output: ["${{ steps.ask.output.decision }}", "${{ steps.order.output }}"]
`,
	answers:  map[string]any{"ask": decided("approve"), "gate": decided("approve"), "order": "lamp", "now": decided("approve")},
	channels: map[string]string{"order": "mail"},
	want: always(crashWant{
		output: []any{"approve", "lamp"},
		artefact: map[string]any{"first": did("first"), "ask": map[string]any{"decision": "approve", "form": nil}, "asked": did("asked"),
			"gate": "approve", "order": "lamp", "ship": did("ship"),
			"live": did("live"), "now": map[string]any{"decision": "approve", "form": nil}, "done": did("done")},
		effects: map[string]string{"first": "external", "asked": "external", "gate": "external", "ship": "external", "live": "idempotent", "done": "external"},
		answers: []string{"ask", "gate", "order", "now"},
	}),
	order: map[string][]string{"asked": {"first"}, "ship": {"asked", "gate", "done"}},
}

// A signal cancels a run that waits.
var crashCancelled = &crashRecipe{
	name: "cancelled", cancels: "ask", code: "run.cancelled",
	text: `steps:
  charge: {uses: fx.external, with: {as: charge}, rollback: {uses: fx.external, with: {as: charge!rollback}}}
  ask: {uses: human, needs: [charge], with: {prompt: Go on?}}
  never: {uses: fx.external, needs: [ask], with: {as: never}}
`,
	want: always(crashWant{
		artefact: map[string]any{"charge": did("charge")},
		effects:  map[string]string{"charge": "external", "charge!rollback": "external"},
	}),
	order: map[string][]string{"charge!rollback": {"charge"}},
}
