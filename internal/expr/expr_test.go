package expr

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/diagnostics"
)

// fakeEnv is an Env of fixed values.
type fakeEnv struct{}

var (
	fakeInputs = map[string]any{
		"n": int64(3), "f": 2.5, "s": "hi", "flag": true, "maybe": nil, "list": []any{int64(3), int64(1), int64(2)},
		"open":   map[string]any{"any": int64(1)},
		"closed": map[string]any{"name": "Ada"},
	}
	fakeConsts = map[string]any{"url": "https://x", "limits": map[string]any{"max": int64(5)}, "none": nil}
	fakeOutput = map[string]any{
		"b":    map[string]any{"c": int64(7)},
		"null": nil,
		"tags": []any{"x", "y"},
		"text": "héllo",
		"rows": []any{map[string]any{"id": "r1", "score": 0.9}, map[string]any{"id": "r2", "score": 0.5}},
	}
	fakeItem = map[string]any{"y": nil, "z": "zed"}
)

func (fakeEnv) Inputs() map[string]any { return fakeInputs }
func (fakeEnv) Consts() map[string]any { return fakeConsts }
func (fakeEnv) Run() map[string]any {
	return map[string]any{"id": "run-1", "recipe": "demo", "version": "1.0.0", "started_at": "2026-01-02T03:04:05Z"}
}

func (fakeEnv) Step(ref StepRef) (status string, output, err any) {
	switch ref {
	case StepRef{0, 0}:
		return "succeeded", fakeOutput, nil
	case StepRef{0, 1}:
		return "skipped", nil, nil
	case StepRef{1, 4}:
		return "failed", nil, map[string]any{"message": "boom"}
	}
	panic(fmt.Sprintf("no step %v", ref))
}

func (fakeEnv) Told(ref StepRef, what string) any {
	if ref == (StepRef{0, 0}) {
		return map[string]any{"finish": "length", "usage": map[string]any{"calls": int64(2), "inputTokens": int64(7), "outputTokens": int64(3), "costUsd": 0.5},
			"calls": []any{map[string]any{"tool": "kb.search", "arguments": map[string]any{"q": "refund"}, "result": "14 days", "error": nil},
				map[string]any{"tool": "kb.open", "arguments": map[string]any{}, "result": "error: gone", "error": "tool.failed"}}}[what]
	}
	return nil
}

func (fakeEnv) Var(up, index int) any {
	switch (StepRef{up, index}) {
	case StepRef{0, 0}:
		return fakeItem
	case StepRef{0, 1}:
		return int64(12)
	case StepRef{1, 0}:
		return "outer item"
	}
	panic(fmt.Sprintf("no var %d %d", up, index))
}

func fakeScope() *Scope {
	schema := func(kind string) map[string]any { return map[string]any{"type": kind} }
	return &Scope{
		Inputs: map[string]any{
			"n": schema("integer"), "f": schema("number"), "s": schema("string"), "flag": schema("boolean"),
			"maybe": map[string]any{"type": []any{"string", "null"}}, "list": map[string]any{"type": "array", "items": schema("integer")},
			"open": schema("object"),
			"closed": map[string]any{"type": "object", "additionalProperties": false,
				"properties": map[string]any{"name": schema("string"), "age": schema("integer")}},
			"anything": true,
		},
		Consts:  fakeConsts,
		Steps:   map[string]StepRef{"a": {0, 0}, "skip": {0, 1}},
		Vars:    []Var{{Name: "item"}, {Name: "index", Index: 1}},
		Secrets: true,
		Hints:   map[string]string{"last": "last exists in a loop only", "steps.later": "later comes after this step"},
		Outer:   &Scope{Steps: map[string]StepRef{"out": {0, 4}}, Vars: []Var{{Name: "claim"}, {Name: "index", Index: 9}}},
	}
}

func source(text string) Source {
	return Source{Text: text, Pos: diagnostics.Position{File: "r.yaml", Line: 3, Column: 10}}
}

func evaluate(t *testing.T, text string) (any, error) {
	t.Helper()
	tmpl, list := fakeScope().Text(source(text))
	if err := list.Err(); err != nil {
		t.Fatalf("Text(%q): %v", text, err)
	}
	return tmpl.Eval(fakeEnv{})
}

func TestExpressions(t *testing.T) {
	tests := []struct {
		expr string
		want any
	}{
		// Names.
		{`inputs.n`, int64(3)},
		{`inputs["s"]`, "hi"},
		{`inputs`, fakeInputs},
		{`consts.url`, "https://x"},
		{`consts.limits.max`, int64(5)},
		{`consts.limits`, map[string]any{"max": int64(5)}},
		{`run.id + "/" + run.recipe + "/" + run.version`, "run-1/demo/1.0.0"},
		{`steps.a.output.b.c`, int64(7)},
		{`steps.a.output["b"]["c"]`, int64(7)},
		{`steps.a.status`, "succeeded"},
		{`steps.a.finish`, "length"}, // trust 7.10
		{`steps.skip.finish`, nil},
		{`steps.a.usage.inputTokens + steps.a.usage.outputTokens`, int64(10)},
		{`steps.a.usage.costUsd`, 0.5},
		{`steps.a.calls[0].arguments.q + steps.a.calls[0].result`, "refund14 days"}, // serve 14.11
		{`map(filter(steps.a.calls, .error != nil), .tool)`, []any{"kb.open"}},
		{`any(steps.a.calls ?? [], .tool matches "^kb[.]")`, true},
		{`steps.skip.calls`, nil},
		{`steps.a.error`, nil},
		{`steps.skip.output`, nil},
		{`steps.out.error.message`, "boom"},
		{`item.z`, "zed"},
		{`index`, int64(12)},
		{`claim`, "outer item"},
		{`null`, nil},
		{`nil`, nil},

		// ?. forgives null and missing keys; after null the rest of the chain is null.
		{`steps.a.output?.nope`, nil},
		{`steps.a.output?.nope?.x`, nil},
		{`steps.skip.output?.x.y.z`, nil},
		{`steps.skip.output?.x[0]`, nil},
		{`(steps.skip.output?.x).y`, nil},
		{`steps.skip.output?.x ?? "none"`, "none"},
		{`steps.a.output?.null`, nil},
		{`item.y?.z`, nil},
		{`steps.a.output.tags?.[7]`, nil},
		{`steps.a.output.tags?.[inputs.n]`, nil},
		{`steps.a.output?.["nope"]`, nil},
		{`get(steps.a.output, "nope") ?? 1`, int64(1)},
		{`get(steps.a.output.tags, 1)`, "y"},

		// Lists and strings by position.
		{`steps.a.output.tags[0]`, "x"},
		{`steps.a.output.tags[-1]`, "y"},
		{`steps.a.output.tags[inputs.n - 2]`, "y"},
		{`inputs.list[4 / 2]`, int64(2)},
		{`inputs.list[1:]`, []any{int64(1), int64(2)}},
		{`inputs.list[:-1]`, []any{int64(3), int64(1)}},
		{`inputs.list[2:1]`, []any{}},
		{`inputs.list[:99]`, []any{int64(3), int64(1), int64(2)}},
		{`steps.a.output.text[1]`, "é"},
		{`steps.a.output.text[-1]`, "o"},
		{`steps.a.output.text[1:3]`, "él"},

		// Arithmetic: integers stay integers, whole results become them.
		{`1 + 2 * 3`, int64(7)},
		{`7 / 2`, 3.5},
		{`6 / 2`, int64(3)},
		{`7 % 4`, int64(3)},
		{`-7 % 4`, int64(-3)},
		{`(10 / 2) % 3`, int64(2)},
		{`2 ** 10`, int64(1024)},
		{`2 ^ 0.5`, 1.4142135623730951},
		{`inputs.f * 2`, int64(5)},
		{`inputs.f + inputs.n`, 5.5},
		{`-inputs.n`, int64(-3)},
		{`+inputs.f`, 2.5},
		{`9223372036854775807 - 1`, int64(9223372036854775806)},
		{`-9223372036854775807 - 1`, int64(-9223372036854775808)},
		{`1_000 + 0x10`, int64(1016)},

		// Comparison and logic.
		{`1 == 1.0`, true},
		{`[1, {a: "x"}] == [1.0, {a: "x"}]`, true},
		{`{a: 1} == {a: 1, b: 2}`, false},
		{`steps.a.output == null`, false},
		{`steps.a.output.b != {c: 8}`, true},
		{`1 < 2 < 3`, true},
		{`2.5 >= 3`, false},
		{`"a" < "b"`, true},
		{`inputs.flag && !inputs.flag || true`, true},
		{`false and steps.skip.output.x`, false},
		{`not true`, false},
		{`inputs.flag ? "yes" : steps.skip.output.x`, "yes"},
		{`if inputs.n > 5 { "big" } else { "small" }`, "small"},
		{`"x" in steps.a.output.tags`, true},
		{`2.0 in inputs.list`, true},
		{`"b" in steps.a.output`, true},
		{`"q" not in steps.a.output`, true},
		{`1 in null`, false},
		{`"hello" matches "^h.*o$"`, true},
		{`inputs.s matches ("^" + inputs.s)`, true},
		{`null matches "x"`, false},
		{`replaceAll("a.b", "(?m)^.", "-")`, "-.b"},
		{`replaceAll("one two", "\\b[a-z]", "#")`, "#ne #wo"},
		{`replaceAll("aaa", "^a", "#")`, "#aa"},
		{`replaceAll("hé", "", "-")`, "-h-é-"},
		{`replaceAll("A.b.", "\\Q.", "#")`, "A#b#"},
		{`replaceAll("aXbx", "(?i)x", "#")`, "a#b#"},
		{`replaceAll("a1b22", "[0-9]+", "#")`, "a#b#"},
		{`replaceAll("ab", "x*", "-")`, "-a-b-"},
		{`replaceAll("Ada Lovelace", "(\\w+) (\\w+)", "$2, $1 $$")`, "Lovelace, Ada $"},
		{`replaceAll("abc", "z", "y")`, "abc"},
		{`merge({a: 1, b: 1}, {b: 2, c: null})`, map[string]any{"a": int64(1), "b": int64(2), "c": nil}},
		{`merge(inputs.open, {})`, map[string]any{"any": int64(1)}},
		{`run.started_at`, "2026-01-02T03:04:05Z"},
		{`"hello" contains "ell" and "hello" startsWith "he" and "hello" endsWith "lo"`, true},

		// Literals, variables, pipes, predicates.
		{`{a: {b: 1}, "c d": [1, "}}"]}`, map[string]any{"a": map[string]any{"b": int64(1)}, "c d": []any{int64(1), "}}"}}},
		{`{(inputs.s): 1}`, map[string]any{"hi": int64(1)}},
		{`let x = inputs.n; let y = x + 1; x * y`, int64(12)},
		{`1..3`, []any{int64(1), int64(2), int64(3)}},
		{`3..1`, []any{}},
		{`steps.a.output.rows | filter(.score > 0.8) | map(.id)`, []any{"r1"}},
		{`map(1..2, map(1..2, # * 10))`, []any{[]any{int64(10), int64(20)}, []any{int64(10), int64(20)}}},
		{`map(["a", "b"], # + string(#index))`, []any{"a0", "b1"}},
		{`map(1..2, let n = #; map(1..2, # + n))`, []any{[]any{int64(2), int64(3)}, []any{int64(3), int64(4)}}},
		{`all(inputs.list, # > 0)`, true},
		{`any(inputs.list, # > 2)`, true},
		{`none(inputs.list, # > 2)`, false},
		{`one(inputs.list, # > 2)`, true},
		{`count(inputs.list, # > 1)`, int64(2)},
		{`count([true, false, true])`, int64(2)},
		{`sum(inputs.list)`, int64(6)},
		{`sum(steps.a.output.rows, .score)`, 1.4},
		{`find(inputs.list, # < 3)`, int64(1)},
		{`find(inputs.list, # > 9)`, nil},
		{`findLast(inputs.list, # < 3)`, int64(2)},
		{`findIndex(inputs.list, # < 3)`, int64(1)},
		{`findLastIndex(inputs.list, # < 3)`, int64(2)},
		{`groupBy(inputs.list, # % 2 == 0)`, map[string]any{"false": []any{int64(3), int64(1)}, "true": []any{int64(2)}}},
		{`sortBy(steps.a.output.rows, .score) | map(.id)`, []any{"r2", "r1"}},
		{`sortBy(steps.a.output.rows, .score, "desc") | map(.id)`, []any{"r1", "r2"}},
		{`reduce(inputs.list, #acc + #)`, int64(6)},
		{`reduce(inputs.list, #acc + string(#), "")`, "312"},
		{`reduce([[1, 2], [3]], #acc + len(#), 0)`, int64(3)},

		// Functions.
		{`len("héllo") + len([1]) + len({a: 1})`, int64(7)},
		{`[type(nil), type(true), type(1), type(2.0), type(1.5), type(""), type([]), type({})]`,
			[]any{"nil", "bool", "int", "int", "float", "string", "array", "map"}},
		{`[string("a"), string(nil), string(1.5), string({b: 1, a: [true]})]`, []any{"a", "", "1.5", `{"a":[true],"b":1}`}},
		{`[int("12"), int(2.9), int(-2.9), float("1.5"), float("2")]`, []any{int64(12), int64(2), int64(-2), 1.5, int64(2)}},
		{`[abs(-3), abs(-2.5), ceil(1.2), floor(-1.2), round(2.5), round(3)]`,
			[]any{int64(3), 2.5, int64(2), int64(-2), int64(3), int64(3)}},
		{`[trim("  a\n"), trim("__a_", "_"), trimPrefix("ab", "a"), trimSuffix("ab", "b"), upper("é"), lower("É")]`,
			[]any{"a", "a", "b", "a", "É", "é"}},
		{`[split("a,b,c", ","), split("a,b,c", ",", 2), splitAfter("a,b", ",")]`,
			[]any{[]any{"a", "b", "c"}, []any{"a", "b,c"}, []any{"a,", "b"}}},
		{`[replace("aaa", "a", "b"), replace("aaa", "a", "bb", 1), repeat("ab", 2), repeat("", 5)]`, []any{"bbb", "bbaa", "abab", ""}},
		{`[join(["a", 1, true], "-"), join([]), join(["x", "y"])]`, []any{"a-1-true", "", "xy"}},
		{`[indexOf("héllo", "l"), lastIndexOf("héllo", "l"), indexOf("a", "b")]`, []any{int64(2), int64(3), int64(-1)}},
		{`[hasPrefix("ab", "a"), hasSuffix("ab", "a")]`, []any{true, false}},
		{`[max(1, [2.5, 2]), min(3, 1), max([]), mean(1, 2), mean([]), median([3, 1, 2]), median(1, 2)]`,
			[]any{2.5, int64(1), nil, 1.5, int64(0), int64(2), 1.5}},
		{`[toJSON({b: 1, a: "x<y"}), toJSON("q\""), toJSON(nil)]`, []any{`{"a":"x<y","b":1}`, `"q\""`, "null"}},
		{`fromJSON("{\"n\": 12345678901234567, \"f\": 1.5}")`, map[string]any{"n": int64(12345678901234567), "f": 1.5}},
		{`[toBase64("hi"), fromBase64("aGk=")]`, []any{"aGk=", "hi"}},
		{`fromCSV("id,\"a b\"\r\n1,\"x, \"\"y\"\"\nz\"\r\n\r\n2,\r\n")`,
			[]any{map[string]any{"id": "1", "a b": "x, \"y\"\nz"}, map[string]any{"id": "2", "a b": ""}}},
		{`[fromCSV(""), fromCSV("id"), fromCSV("\ufeffid\n1")]`, []any{[]any{}, []any{}, []any{map[string]any{"id": "1"}}}},
		{`[first([1, 2]), last([1, 2]), first([]), last([])]`, []any{int64(1), int64(2), nil, nil}},
		{`[take([1, 2, 3], 2), take([1], 5), reverse([1, 2]), concat([1], [2], [])]`,
			[]any{[]any{int64(1), int64(2)}, []any{int64(1)}, []any{int64(2), int64(1)}, []any{int64(1), int64(2)}}},
		{`flatten([1, [2, [3]], []])`, []any{int64(1), int64(2), int64(3)}},
		{`uniq([1, 1.0, "1", [1], [1], {a: 1}, {a: 1}, nil, nil])`,
			[]any{int64(1), "1", []any{int64(1)}, map[string]any{"a": int64(1)}, nil}},
		{`[sort([3, 1, 2.5]), sort(["b", "a"], "desc")]`, []any{[]any{int64(1), 2.5, int64(3)}, []any{"b", "a"}}},
		{`[keys({b: 1, a: 2}), values({b: 1, a: 2})]`, []any{[]any{"a", "b"}, []any{int64(2), int64(1)}}},
		{`toPairs({b: 1, a: 2})`, []any{[]any{"a", int64(2)}, []any{"b", int64(1)}}},
		{`fromPairs([["a", 1], ["b", 2]])`, map[string]any{"a": int64(1), "b": int64(2)}},
	}
	for _, tt := range tests {
		t.Run(tt.expr, func(t *testing.T) {
			got, err := evaluate(t, "${{ "+tt.expr+" }}")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestText(t *testing.T) {
	tests := []struct {
		text string
		want any
	}{
		{"", ""},
		{"plain", "plain"},
		{"${{ inputs.n }}", int64(3)},
		{"${{inputs.list}}", []any{int64(3), int64(1), int64(2)}},
		{"${{ inputs.n }}\n", "3\n"},
		{" ${{ inputs.n }}", " 3"},
		{"n=${{ inputs.n }}, f=${{ inputs.f }}, none=${{ inputs.maybe }}.", "n=3, f=2.5, none=."},
		{"${{ inputs.s }}${{ inputs.flag }}", "hitrue"},
		{"tags: ${{ steps.a.output.tags }} ${{ {b: 1, a: {c: nil}} }}", `tags: ["x","y"] {"a":{"c":null},"b":1}`},
		{"$${{ inputs.n }}", "${{ inputs.n }}"},
		{"a $${{ b }} ${{ inputs.n }}", "a ${{ b }} 3"},
		{"$$${{", "$${{"},
		{"$ ${{ inputs.n }} }} $", "$ 3 }} $"},
		{`${{ "}}" }}`, "}}"},
		{`${{ '\'}}' + "\"}}" }}`, `'}}"}}`},
		{"${{ `}}` }}", "}}"},
		{"${{ {a: {b: 1}}}}", map[string]any{"a": map[string]any{"b": int64(1)}}},
		{"x${{ {a: {b: {}}} }}y", `x{"a":{"b":{}}}y`},
		{"${{ 'a ${{ b }}' }}", "a ${{ b }}"}, // a result is not evaluated again
		{"é${{ 1 }}", "é1"},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			got, err := evaluate(t, tt.text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestCompileErrors(t *testing.T) {
	tests := []struct {
		text string
		want string // all diagnostics; the text begins at column 10
	}{
		{"ab ${{ inputs.n", `r.yaml:3:13: "${{" is not closed [expr.syntax]
  hint: end it with }}, and quote the text if it holds a #; $${{ stands for the characters ${{`},
		{"${{ }}", `r.yaml:3:13: the expression is empty [expr.syntax]`},
		{"${{ inputs.n + }}", `r.yaml:3:24: the expression ends too early [expr.syntax]`},
		{"${{ inputs.n = 3 }}", `r.yaml:3:23: unexpected "=" [expr.syntax]
  hint: compare with ==`},
		{`${{ "abc }}`, `r.yaml:3:10: "${{" is not closed [expr.syntax]
  hint: end it with }}, and quote the text if it holds a #; $${{ stands for the characters ${{`},
		{"${{ inputs.n ?? 1 == 2 }}", `r.yaml:3:28: "??" is mixed with another operator [expr.syntax]
  hint: put parentheses around one of them: (a ?? b) == c`},
		{`${{ map(inputs.list, {id: #.id}) }}`, `r.yaml:3:34: unexpected ":" [expr.syntax]
  hint: a map in a predicate needs parentheses around it: map(list, ({id: #.id}))`},
		{`${{ map(inputs.list, { "id" : 1}) }}`, `r.yaml:3:38: unexpected ":" [expr.syntax]
  hint: a map in a predicate needs parentheses around it: map(list, ({id: #.id}))`},
		{`${{ inputs.list | map({id: 1}) }}`, `r.yaml:3:35: unexpected ":" [expr.syntax]
  hint: a map in a predicate needs parentheses around it: map(list, ({id: #.id}))`},
		{`${{ map(inputs.list, {}) }}`, `r.yaml:3:32: unexpected "}" [expr.syntax]
  hint: a map in a predicate needs parentheses around it: map(list, ({id: #.id}))`},
		{`${{ inputs.f : 1 }}`, `r.yaml:3:23: unexpected ":" [expr.syntax]
  hint: a choice is written: condition ? this : that`},
		{`${{ map(inputs.list, {# > 1 : 2}) }}`, `r.yaml:3:38: unexpected ":" [expr.syntax]
  hint: a choice is written: condition ? this : that`},
		{"${{ inputs.n § 1 }}", `r.yaml:3:23: unexpected character U+00A7 '§' [expr.syntax]`},
		{"${{ 99999999999999999999 }}", "r.yaml:3:14: the integer is too large [expr.syntax]\n  hint: write it as a string"},

		{"${{ steps.b.output }}", `r.yaml:3:20: unknown step "b" [expr.unknownName]
  hint: known here: a, out, skip`},
		{"${{ steps.later.output }}", `r.yaml:3:20: unknown step "later" [expr.unknownName]
  hint: later comes after this step`},
		{"${{ steps.a.outptu.x }}", `r.yaml:3:22: unknown field of a step "outptu" [expr.unknownName]
  hint: did you mean "output"?`},
		{"${{ steps.a.calls[0].name }}", `r.yaml:3:31: unknown field "name" [expr.unknownName]
  hint: known here: arguments, error, result, tool`}, // serve 14.11
		{"${{ steps.a.calls.tool }}", `r.yaml:3:28: steps.a.calls is null or a list, which has no field "tool" [expr.type]
  hint: read one item, as in steps.a.calls[0].tool, or all: map(steps.a.calls, .tool)`},
		{"${{ any(steps.a.calls, .tool.x == 1) }}", `r.yaml:3:39: #.tool is a string, which has no field "x" [expr.type]`},
		{"${{ steps.a.usage.tokens }}", `r.yaml:3:28: unknown field "tokens" [expr.unknownName]
  hint: known here: calls, costUsd, inputTokens, outputTokens`},
		{"${{ steps }}", `r.yaml:3:14: a step is read as steps.ID.output, .status, .error, .finish, .usage, .calls or .messages [expr.unknownName]`},
		{"${{ steps.a }}", `r.yaml:3:14: a step is read as steps.ID.output, .status, .error, .finish, .usage, .calls or .messages [expr.unknownName]`},
		{"${{ steps[inputs.s].output }}", `r.yaml:3:14: a step is read as steps.ID.output, .status, .error, .finish, .usage, .calls or .messages [expr.unknownName]`},
		{"${{ inputs.m }}", `r.yaml:3:21: unknown input "m" [expr.unknownName]
  hint: known here: anything, closed, f, flag, list, maybe, n, open, s`},
		{"${{ inputs[inputs.s] }}", `r.yaml:3:21: an input is named as inputs.NAME [expr.unknownName]
  hint: its name cannot be computed`},
		{"${{ consts.urll }}", `r.yaml:3:21: unknown field "urll" [expr.unknownName]
  hint: did you mean "url"?`},
		{"${{ consts.limits.min }}", `r.yaml:3:28: unknown field "min" [expr.unknownName]
  hint: known here: max`},
		{"${{ inputs.closed.nam }}", `r.yaml:3:28: unknown field "nam" [expr.unknownName]
  hint: did you mean "name"?`},
		{"${{ inputs.closed?.nam }}", `r.yaml:3:29: unknown field "nam" [expr.unknownName]
  hint: did you mean "name"?`},
		{"${{ run.ids }}", `r.yaml:3:18: unknown field "ids" [expr.unknownName]
  hint: did you mean "id"?`},
		{"${{ claims }}", `r.yaml:3:14: unknown name "claims" [expr.unknownName]
  hint: did you mean "claim"?`},
		{"${{ last.score }}", `r.yaml:3:14: unknown name "last" [expr.unknownName]
  hint: last exists in a loop only`},
		{"${{ flag }}", `r.yaml:3:14: unknown name "flag" [expr.unknownName]
  hint: did you mean "inputs.flag"?`},
		{"${{ skip }}", `r.yaml:3:14: unknown name "skip" [expr.unknownName]
  hint: did you mean "steps.skip.output"?`},
		{"${{ $env }}", `r.yaml:3:14: unknown name "$env" [expr.unknownName]
  hint: known here: claim, consts, index, inputs, item, run, steps`},
		{"${{ lenn(inputs.s) }}", `r.yaml:3:14: unknown function "lenn" [expr.unknownName]
  hint: did you mean "len"?`},
		{"${{ fliter(inputs.list, # > 1) }}", `r.yaml:3:34: unexpected "#" [expr.syntax]
  hint: # stands in the predicate of a function such as filter or map: is the function's name right?`},
		{"${{ always() }}", `r.yaml:3:14: unknown function "always" [expr.unknownName]
  hint: write trigger: all_done at the step, or put it under finally`},
		{"${{ contains(inputs.name, 'x') }}", `r.yaml:3:14: unexpected "contains" [expr.syntax]
  hint: write it between two values: x contains y`},
		{"${{ inputs.name | upper }}", `r.yaml:3:28: "upper" is not called [expr.syntax]
  hint: write x | upper(), or upper(x)`},
		{"${{ now() }}", `r.yaml:3:14: unknown function "now" [expr.unknownName]
  hint: expressions have no clock: take the time as an input or from a step`},
		{"${{ let inputs = 1; 2 }}", `r.yaml:3:18: the name "inputs" is taken [expr.unknownName]`},
		{"${{ map([1], #acc) }}", `r.yaml:3:23: unknown name "#acc" [expr.unknownName]
  hint: there are #, #index and, in reduce, #acc`},

		{"${{ inputs.flag + 1 }}", `r.yaml:3:26: + needs two operands of one type, a number or a string, not a boolean and a number [expr.type]`},
		{"${{ inputs.s + 1 }}", `r.yaml:3:23: + needs two operands of one type, a number or a string, not a string and a number [expr.type]`},
		{"${{ inputs.s * 2 }}", `r.yaml:3:14: the left side of * must be a number, not a string [expr.type]`},
		{"${{ inputs.flag == 'yes' }}", `r.yaml:3:26: a boolean and a string are never equal [expr.type]`},
		{"${{ !inputs.n }}", `r.yaml:3:14: the operand of ! must be a boolean, not a number [expr.type]`},
		{"${{ inputs.flag && 1 }}", `r.yaml:3:29: an operand of && must be a boolean, not a number [expr.type]`},
		{"${{ inputs.n.x }}", `r.yaml:3:23: inputs.n is a number, which has no field "x" [expr.type]`},
		{"${{ null.x }}", `r.yaml:3:19: null is null, which has no field "x" [expr.type]
  hint: read what may be null with ?.`},
		{"${{ inputs.open[1] }}", `r.yaml:3:26: inputs.open is a map, whose keys are strings, not a number [expr.type]`},
		{"${{ 1 in inputs.s }}", `r.yaml:3:19: the right side of in must be null or a list or a map, not a string [expr.type]`},
		{"${{ len(inputs.n) }}", `r.yaml:3:18: argument 1 of len must be a string or a list or a map, not a number [expr.type]`},
		{"${{ len() }}", `r.yaml:3:14: len takes 1 argument, not 0 [expr.type]`},
		{"${{ replace('a') }}", `r.yaml:3:14: replace takes 3 or 4 arguments, not 1 [expr.type]`},
		{"${{ filter(inputs.open, true) }}", `r.yaml:3:21: filter needs a list, not a map [expr.type]
  hint: use keys(m), values(m) or toPairs(m)`},
		{"${{ filter(inputs.list, # + 1) }}", `r.yaml:3:34: the predicate of filter must be a boolean, not a number [expr.type]`},
		{"${{ filter(inputs.list, # contains 'x') }}", `r.yaml:3:34: the left side of contains must be null or a string, not a number [expr.type]`},
		{"${{ 'a' matches '(' }}", `r.yaml:3:26: "(" is not a regular expression: missing closing ) [expr.syntax]`},
		{"${{ replaceAll('a', '(', '') }}", `r.yaml:3:30: "(" is not a regular expression: missing closing ) [expr.syntax]`},
		{"${{ merge(inputs.open, 1) }}", `r.yaml:3:33: argument 2 of merge must be a map, not a number [expr.type]`},
		{"${{ merge(inputs.open) }}", `r.yaml:3:14: merge takes 2 arguments, not 1 [expr.type]`},
		{"${{ item.get() }}", `r.yaml:3:19: values have no methods [expr.type]
  hint: values have fields only; functions are called as f(x) or x | f()`},
		{"${{ 1; 2 }}", `r.yaml:3:14: several expressions where one is expected [expr.type]`},
		{"${{ b'x' }}", `r.yaml:3:14: there are no byte strings here [expr.type]`},
		{"${{ {a: 1, a: 2} }}", `r.yaml:3:21: the key "a" appears twice in this map [expr.type]`},

		{"${{ secrets.TOKEN + 'x' }}", `r.yaml:3:14: secrets are not available here [expr.secret]
  hint: secrets.NAME stands alone in a ${{ }} in the with of a tool; the string around it may be longer`},
		// Every expression, and every mistake in one, is reported.
		{"${{ x1 + x2 }} ${{ x3 }}", `r.yaml:3:14: unknown name "x1" [expr.unknownName]
  hint: known here: claim, consts, index, inputs, item, run, steps
r.yaml:3:19: unknown name "x2" [expr.unknownName]
  hint: known here: claim, consts, index, inputs, item, run, steps
r.yaml:3:29: unknown name "x3" [expr.unknownName]
  hint: known here: claim, consts, index, inputs, item, run, steps`},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			tmpl, list := fakeScope().Text(source(tt.text))
			if tmpl != nil {
				t.Errorf("got a template")
			}
			got := ""
			if err := list.Err(); err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestPositions(t *testing.T) {
	pos := diagnostics.Position{File: "r.yaml", Line: 3, Column: 10}
	tests := []struct {
		name string
		src  Source
		want string
	}{
		{"plain", Source{Text: "é ${{ nope }}", Pos: pos}, "r.yaml:3:16"},
		{"quoted", Source{Text: "é ${{ nope }}", Pos: pos, Offset: 1}, "r.yaml:3:17"},
		{"unknown offset", Source{Text: "é ${{ nope }}", Pos: pos, Offset: -1}, "r.yaml:3:10"},
		{"unknown column", Source{Text: "é ${{ nope }}", Pos: diagnostics.Position{File: "r.yaml", Line: 3}}, "r.yaml:3"},
		{"several lines", Source{Text: "one\n\ntwo: ä ${{ nope }}", Pos: pos, Indent: 4}, "r.yaml:5:16"}, // 4 of indent, "two: ä ${{ "
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, list := fakeScope().Text(tt.src)
			if len(list) != 1 || list[0].Position.String() != tt.want {
				t.Errorf("got %v, want one at %s", list, tt.want)
			}
		})
	}
}

func TestRunErrors(t *testing.T) {
	tests := []struct {
		text string
		want string
	}{
		{"id ${{ steps.a.output.tagz }}", `r.yaml:3:13: expression "steps.a.output.tagz" failed: steps.a.output has no field "tagz" (did you mean "tags"?)`},
		{"${{ steps.skip.output.x }}", `r.yaml:3:10: expression "steps.skip.output.x" failed: steps.skip.output is null, which has no field "x" (read what may be null with ?.)`},
		{"${{ steps.a.output.null.x }}", `r.yaml:3:10: expression "steps.a.output.null.x" failed: steps.a.output.null is null, which has no field "x" (read what may be null with ?.)`},
		{"${{ steps.a.output?.nope.x }}", `r.yaml:3:10: expression "steps.a.output?.nope.x" failed: steps.a.output?.nope is null, which has no field "x" (read what may be null with ?.)`},
		{"${{ steps.a.output.text.x }}", `r.yaml:3:10: expression "steps.a.output.text.x" failed: steps.a.output.text is a string, which has no field "x"`},
		{"${{ steps.a.output.text?.x }}", `r.yaml:3:10: expression "steps.a.output.text?.x" failed: steps.a.output.text is a string, which has no field "x"`},
		{"${{ steps.a.output.tags[2] }}", `r.yaml:3:10: expression "steps.a.output.tags[2]" failed: steps.a.output.tags has no item 2, its length is 2`},
		{"${{ steps.a.output.tags['x'] }}", `r.yaml:3:10: expression "steps.a.output.tags['x']" failed: steps.a.output.tags is a list, which has no field "x"`},
		{"${{ steps.a.output[1] }}", `r.yaml:3:10: expression "steps.a.output[1]" failed: steps.a.output is a map, whose keys are strings, not a number`},
		{"${{ steps.a.output.tags[steps.a.output] }}", `r.yaml:3:10: expression "steps.a.output.tags[steps.a.output]" failed: steps.a.output.tags is a list, which has no item by a map`},
		{"${{ steps.a.output.tags[0.5] }}", `r.yaml:3:10: expression "steps.a.output.tags[0.5]" failed: steps.a.output.tags is a list, which has no item by a number`},
		{"${{ map(steps.a.output.rows, .scor) }}", `r.yaml:3:10: expression "map(steps.a.output.rows, .scor)" failed: # has no field "scor" (did you mean "score"?)`},
		{"${{ steps.a.output.text + 1 }}", `r.yaml:3:10: expression "steps.a.output.text + 1" failed: + adds two numbers or joins two strings, not a string and a number (string(x) makes a string of anything)`},
		{"${{ steps.a.output.text * 1 }}", `r.yaml:3:10: expression "steps.a.output.text * 1" failed: * calculates with two numbers, not a string and a number`},
		{"${{ steps.a.output.tags < 1 }}", `r.yaml:3:10: expression "steps.a.output.tags < 1" failed: < compares two numbers or two strings, not a list and a number`},
		{"${{ !steps.a.output.text }}", `r.yaml:3:10: expression "!steps.a.output.text" failed: the operand of ! must be a boolean, not a string`},
		{"${{ steps.a.output.text ? 1 : 2 }}", `r.yaml:3:10: expression "steps.a.output.text ? 1 : 2" failed: a condition must be a boolean, not a string`},
		{"${{ 'x' in steps.a.output.text }}", `r.yaml:3:10: expression "'x' in steps.a.output.text" failed: in looks into a list or the keys of a map, not a string (contains looks into strings)`},
		{"${{ map(steps.a.output, #) }}", `r.yaml:3:10: expression "map(steps.a.output, #)" failed: map needs a list, not a map (use keys(m), values(m) or toPairs(m))`},
		{"${{ map(steps.skip.output, #) }}", `r.yaml:3:10: expression "map(steps.skip.output, #)" failed: map needs a list, not null`},
		{"${{ upper(steps.a.output.b) }}", `r.yaml:3:10: expression "upper(steps.a.output.b)" failed: argument 1 of upper must be a string, not a map`},
		{"${{ inputs.n / 0 }}", `r.yaml:3:10: expression "inputs.n / 0" failed: division by zero`},
		{"${{ inputs.n % 0 }}", `r.yaml:3:10: expression "inputs.n % 0" failed: division by zero`},
		{"${{ 9223372036854775807 + inputs.n }}", `r.yaml:3:10: expression "9223372036854775807 + inputs.n" failed: the result of 9223372036854775807 + 3 does not fit in 64 bits`},
		{"${{ int(inputs.s) }}", `r.yaml:3:10: expression "int(inputs.s)" failed: "hi" is not an integer`},
		{"${{ fromJSON(inputs.s) }}", `r.yaml:3:10: expression "fromJSON(inputs.s)" failed: the text is not JSON: line 1, column 1: 'h' where a value should be`},
		{"${{ reduce([], #acc + #) }}", `r.yaml:3:10: expression "reduce([], #acc + #)" failed: reduce of an empty list needs a value to begin with`},
		{"${{ sort([1, 'a']) }}", `r.yaml:3:10: expression "sort([1, 'a'])" failed: sort compares two numbers or two strings, not a string and a number`},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			v, err := evaluate(t, tt.text)
			if err == nil {
				t.Fatalf("got %v, want an error", v)
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if e, ok := errors.AsType[*Error](err); !ok || e.Pos.Line != 3 || e.Err == nil || e.Source == "" {
				t.Errorf("got %#v, want an *Error", err)
			}
		})
	}
}

func TestErrorShortensTheExpression(t *testing.T) {
	_, err := evaluate(t, "${{ steps.skip.output['"+strings.Repeat("é", 80)+"'] }}")
	want := `r.yaml:3:10: expression "steps.skip.output['` + strings.Repeat("é", 40) + `…" failed: steps.skip.output is null, which has no field "` +
		strings.Repeat("é", 59) + `…" (read what may be null with ?.)`
	if diff := cmp.Diff(want, fmt.Sprint(err)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestCondition(t *testing.T) {
	tests := []struct {
		text string
		want any // a bool, or the error
	}{
		{`inputs.flag`, true},
		{`steps.a.status == "succeeded"`, true},
		{`inputs.flag || steps.skip.output?.decision == "approve"`, true},
		{`inputs.n > 3`, false},
		{`steps.a.output.text`, `r.yaml:3:10: expression "steps.a.output.text" failed: a condition must be a boolean, not a string`},
		{`inputs.n`, `r.yaml:3:10: a condition must be a boolean, not a number [expr.type]`},
		{`${{ inputs.flag }}`, "r.yaml:3:10: a condition is a bare expression [expr.syntax]\n  hint: leave out ${{ and }}"},
		{``, `r.yaml:3:10: the expression is empty [expr.syntax]`},
		{`secrets.TOKEN`, `r.yaml:3:10: a condition must be a boolean, not a string [expr.type]`},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			var got any
			p, list := fakeScope().Condition(source(tt.text))
			err := list.Err()
			if err == nil {
				got, err = p.Bool(fakeEnv{})
			}
			if err != nil {
				got = err.Error()
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestRefs(t *testing.T) {
	pos := func(column int) diagnostics.Position {
		return diagnostics.Position{File: "r.yaml", Line: 3, Column: column}
	}
	step := func(name string, ref StepRef, field string, optional bool, column int) Ref {
		return Ref{RefStep, name, ref, field, optional, pos(column)}
	}
	tests := []struct {
		text string
		want []Ref
	}{
		{"plain", nil},
		{"${{ steps.a.output }}", []Ref{step("a", StepRef{0, 0}, "output", true, 14)}},
		{"${{ steps.a.output.x }}", []Ref{step("a", StepRef{0, 0}, "output", false, 14)}},
		{"${{ steps.a.output?.x.y }}", []Ref{step("a", StepRef{0, 0}, "output", true, 14)}},
		{"${{ steps.a.output.x ?? 1 }}", []Ref{step("a", StepRef{0, 0}, "output", false, 14)}},
		{"${{ steps.a.output ?? 1 }}", []Ref{step("a", StepRef{0, 0}, "output", true, 14)}},
		{"${{ (steps.a.output ?? {}).x }}", []Ref{step("a", StepRef{0, 0}, "output", true, 15)}},
		{"${{ steps.skip.status }} ${{ steps.out.error?.code }}", []Ref{
			step("skip", StepRef{0, 1}, "status", true, 14), step("out", StepRef{1, 4}, "error", true, 39)}},
		{"${{ steps.a.output[inputs.n] }}", []Ref{
			step("a", StepRef{0, 0}, "output", false, 14), {RefInput, "n", StepRef{}, "", true, pos(29)}}},
		{"${{ inputs }}", []Ref{{RefInput, "", StepRef{}, "", true, pos(14)}}},
		{"x ${{ secrets.TOKEN }}", []Ref{{RefSecret, "TOKEN", StepRef{}, "", true, pos(16)}}},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			tmpl, list := fakeScope().Text(source(tt.text))
			if err := list.Err(); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, tmpl.Refs()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	p, list := fakeScope().Condition(source("steps.a.output.x && inputs.flag"))
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	want := []Ref{step("a", StepRef{0, 0}, "output", false, 10), {RefInput, "flag", StepRef{}, "", true, pos(30)}}
	if diff := cmp.Diff(want, p.Refs()); diff != "" {
		t.Errorf("Condition: -want +got:\n%s", diff)
	}
}

func TestSecrets(t *testing.T) {
	scope := fakeScope()
	tmpl, list := scope.Text(source("Bearer ${{ secrets.TOKEN }}/${{ inputs.n }}${{ secrets.OTHER }}."))
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	alone, _ := scope.Text(source("${{ secrets.TOKEN }}"))
	all := Map([]string{"auth", "list"}, []*Template{tmpl, List([]*Template{alone, Literal("x")})})
	if !all.HasSecrets() || all.IsLiteral() || Literal("x").HasSecrets() {
		t.Errorf("HasSecrets = %t, IsLiteral = %t", all.HasSecrets(), all.IsLiteral())
	}
	got, err := all.Eval(fakeEnv{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"auth": Sealed{[]SealedPart{{Text: "Bearer "}, {Secret: "TOKEN"}, {Text: "/3"}, {Secret: "OTHER"}, {Text: "."}}},
		"list": []any{Sealed{[]SealedPart{{Secret: "TOKEN"}}}, "x"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("-want +got:\n%s", diff)
	}
	secrets := map[string]string{"TOKEN": "t0p", "OTHER": "0th"}
	opened, err := Open(got, func(part SealedPart) (string, error) { return secrets[part.Secret], nil })
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(any(map[string]any{"auth": "Bearer t0p/30th.", "list": []any{"t0p", "x"}}), opened); diff != "" {
		t.Errorf("Open: -want +got:\n%s", diff)
	}
	missing := errors.New("no such secret")
	if _, err := Open(got, func(SealedPart) (string, error) { return "", missing }); err != missing {
		t.Errorf("Open = %v, want %v", err, missing)
	}

	scope.Secrets = false
	if _, list := scope.Text(source("${{ secrets.TOKEN }}")); len(list) != 1 || list[0].Code != diagnostics.CodeExprSecret {
		t.Errorf("without Secrets: got %v", list)
	}
}

func TestLiterals(t *testing.T) {
	text := func(s string) *Template {
		tmpl, list := fakeScope().Text(source(s))
		if err := list.Err(); err != nil {
			t.Fatal(err)
		}
		return tmpl
	}
	folded := Map([]string{"a", "b", "c"}, []*Template{Literal(int64(1)), List([]*Template{text("x"), text("${{ 2 }}")}), nil})
	want := map[string]any{"a": int64(1), "b": []any{"x", int64(2)}, "c": nil}
	if diff := cmp.Diff(any(want), folded.Literal()); diff != "" || !folded.IsLiteral() {
		t.Errorf("-want +got:\n%s", diff)
	}
	// What Eval returns belongs to the caller.
	first, _ := folded.Eval(fakeEnv{})
	first.(map[string]any)["b"].([]any)[0] = "changed"
	if second, _ := folded.Eval(fakeEnv{}); !cmp.Equal(any(want), second) {
		t.Errorf("after a change Eval = %v", second)
	}
	mixed := Map([]string{"n", "l"}, []*Template{text("${{ inputs.n }}"), Literal([]any{"x"})})
	first, _ = mixed.Eval(fakeEnv{})
	first.(map[string]any)["l"].([]any)[0] = "changed"
	if second, _ := mixed.Eval(fakeEnv{}); !cmp.Equal(any(map[string]any{"n": int64(3), "l": []any{"x"}}), second) {
		t.Errorf("after a change Eval = %v", second)
	}
	if mixed.IsLiteral() || mixed.Literal() != nil {
		t.Errorf("a map with an expression is a literal")
	}
	for _, s := range []string{"${{ consts.limits }}", "${{ inputs.flag ? consts.limits : 1 }}"} {
		tmpl := text(s)
		first, _ = tmpl.Eval(fakeEnv{})
		first.(map[string]any)["max"] = "changed"
		if second, _ := tmpl.Eval(fakeEnv{}); !cmp.Equal(any(map[string]any{"max": int64(5)}), second) {
			t.Errorf("%s: after a change Eval = %v", s, second)
		}
	}
	for s, want := range map[string]any{"${{ 1 }}": int64(1), "${{ -1.5 }}": -1.5, "a${{ consts.url }}": "ahttps://x", "${{ null }}": nil, "$${{": "${{"} {
		if tmpl := text(s); !tmpl.IsLiteral() || !cmp.Equal(want, tmpl.Literal()) {
			t.Errorf("%q: literal %t, %v; want %v", s, tmpl.IsLiteral(), tmpl.Literal(), want)
		}
	}
	var none *Template
	if v, err := none.Eval(nil); v != nil || err != nil || !none.IsLiteral() || none.Literal() != nil || none.Refs() != nil || none.HasSecrets() {
		t.Errorf("a nil Template is not the literal null")
	}
}

func TestConcurrent(t *testing.T) {
	tmpl, list := fakeScope().Text(source("${{ let n = inputs.n; map(1..50, string(# * n) matches ('^' + string(n))) | filter(#) | len() }} ${{ steps.a.output.b.c }}"))
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				// 3, 30, 33, 36, 39 and no others up to 150 begin with 3
				if got, err := tmpl.Eval(fakeEnv{}); err != nil || got != "5 7" {
					t.Errorf("got %v, %v", got, err)
					return
				}
			}
		})
	}
	wg.Wait()
}
