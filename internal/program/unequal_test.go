package program_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/recipe"
)

// trust 8.7: a comparison that is never true, by the types, is an error with a place and what to write instead. Where a type
// is a union or not known, nothing is said.
func TestComparisonsThatAreNeverTrue(t *testing.T) {
	const known = "inputs: {s: string, n: number, b: boolean, o: {type: object, properties: {text: {type: string}}}, l: {type: array, items: {type: string}}, " +
		"u: {type: [string, object]}, z: {type: [string, 'null']}, any: {}}\nsteps:\n" +
		"  model: {uses: model, with: {model: m, prompt: x}}\n" +
		"  human: {uses: human, with: {prompt: Go on}}\n" +
		"  form: {uses: human, with: {prompt: How much, form: {type: object, properties: {amount: {type: number}}}}}\n" +
		"  each: {uses: model, foreach: {in: [1]}, with: {model: m, prompt: x}}\n" +
		"  set: {uses: set, with: {a: 1}}\n  list: {uses: set, with: [1]}\n  value: {uses: set, with: x}\n" +
		"  test: {uses: test.x, with: {}}\n" +
		"  words: {uses: model, with: {model: m, prompt: x}, output: {schema: {type: array, items: {type: string}}}}\n"
	const never = " are never equal [expr.type]"
	for _, tt := range []struct {
		read, operator string
		want           string // without its place; "": nothing is found
	}{
		{`steps.model.output == "yes"`, "==", `a map and a string` + never + "\n  hint: did you mean \"steps.model.output.text\"?"},
		{`steps.human.output == "approve"`, "==", `a map and a string` + never + "\n  hint: did you mean \"steps.human.output.decision\"?"},
		{`steps.form.output.form == 3`, "==", `a map and a number` + never + "\n  hint: did you mean \"steps.form.output.form.amount\"?"},
		{`steps.form.output.form != true`, "!=", `a map and a boolean` + never},
		{`steps.each.output == "x"`, "==", `a list and a string` + never},
		{`steps.words.output == "x"`, "==", `a list and a string` + never + "\n  hint: look into a list with in: \"x\" in steps.words.output"},
		{`steps.set.output == 1`, "==", `a map and a number` + never},
		{`steps.list.output == 1`, "==", `a list and a number` + never + "\n  hint: look into a list with in: 1 in steps.list.output"},
		{`steps.model.output < 3`, "<", "< needs two operands of one type, a number or a string, not a map and a number [expr.type]"},
		{`steps.human.output in ["approve", "reject"]`, "in", "a map is never in there: it holds a string [expr.type]\n  hint: did you mean \"steps.human.output.decision\"?"},
		{`inputs.o == inputs.s`, "==", `a map and a string` + never + "\n  hint: did you mean \"inputs.o.text\"?"},
		{`inputs.l != 3`, "!=", `a list and a number` + never},
		{`inputs.s == null`, "==", `a string and null` + never},
		{`inputs.n in inputs.l`, "in", "a number is never in there: it holds a string [expr.type]"},
		{`inputs.o == null || {a: 1} != null || [] == null`, "", ""},
		{`steps.model.output.text == 3`, "==", "a string and a number" + never},
		{`steps.model.output == null || steps.model.output == {text: "x"} || steps.each.output == []`, "", ""},
		{`inputs.u == "x" && inputs.u != {a: 1} && inputs.z == null && inputs.z == "x"`, "", ""},
		{`inputs.any == "x" || inputs.any in [1] || steps.test.output == "x" || steps.value.output == 1 || inputs.any < 3`, "", ""},
		{`inputs.s in inputs.l || inputs.s in inputs.o || inputs.any in [] || inputs.n in [inputs.any, "x"]`, "", ""},
	} {
		t.Run(tt.read, func(t *testing.T) {
			var want []string
			if tt.want != "" {
				column := len("output: '${{ ") + strings.Index(tt.read, " "+tt.operator+" ") + 2
				want = []string{fmt.Sprintf("recipe.yaml:14:%d: %s", column, tt.want)}
			}
			text := known + "output: '${{ " + tt.read + " }}'\n"
			got := compiled(t, text)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			r, err := recipe.Parse("recipe.yaml", []byte(runtest.Head+text))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := program.CompileStored(r); err != nil && !strings.Contains(tt.want, "needs two operands") {
				t.Errorf("a run that began with it cannot be resumed: %v", err)
			}
		})
	}
}
