package expr

import (
	"fmt"
	"strings"
	"testing"

	"github.com/braise-run/braise/internal/seedtest"
	"github.com/braise-run/braise/internal/value"
)

// billion is an expression whose value has 10^levels items, nearly all of them shared.
func billion(levels int, result string) string {
	var b strings.Builder
	b.WriteString("let a0 = [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]; ")
	for i := range levels {
		fmt.Fprintf(&b, "let a%d = [%s]; ", i+1, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("a%d, ", i), 10), ", "))
	}
	return b.String() + fmt.Sprintf(result, levels)
}

// doubled wraps an expression n times in one in which the parser shares it.
func doubled(n int, open, inner, end string) string {
	return strings.Repeat(open, n) + inner + strings.Repeat(end, n)
}

func TestHostile(t *testing.T) {
	const work, memory, long, large = "too much work", "of memory", "over the limit of 1 MiB", "too large"
	tests := []struct {
		name, expr, want string // part of the error; "": any value or error that comes in time
	}{
		{"nested predicates", `all(1..1000, all(1..1000, all(1..1000, true)))`, work},
		{"long predicate", `map(1..700000, # * 2.5 / 3 + # % 7 - (# > 3 ? 1 : 2)) | len()`, work},
		{"a million predicates", `filter(1..1000000, # % 2 == 0) | len()`, ""},
		{"nested map", `map(1..10000, map(1..10000, [#, #]))`, memory},
		{"reduce", `reduce(1..1000000, #acc + [#], [])`, ""},
		{"list in a loop", `let l = 1..100000; map(l, # in l) | len()`, work},
		{"equality in a loop", `let l = 1..100000; map(1..100000, l == map(l, #)) | len()`, work},
		{"long strings compared", `let s = repeat("ab", 400000); let t = repeat("ab", 400000); sort(map(1..10000, # % 2 == 0 ? s : t)) | len()`, work},
		{"length in a loop", `let s = repeat("x", 1000000); map(1..100000, len(s)) | len()`, work},
		{"search in a loop", `let s = repeat("x", 1000000); map(1..100000, s contains "y") | len()`, work},

		{"range", `1..1000000000`, "too long"},
		{"range of everything", `-9223372036854775807..9223372036854775807`, "too long"},
		{"repeat", `repeat("x", 9223372036854775807)`, long},
		{"doubling", `reduce(1..100, #acc + #acc, "x")`, long},
		{"many strings", `map(1..1000, repeat("x", 1000000)) | len()`, memory},
		{"replace", `replace(repeat("x", 1000000), "", repeat("y", 1000))`, long},
		{"join", `join(map(1..100000, repeat("x", 10)), repeat("y", 100))`, long},
		{"upper", `upper(repeat("ŉ", 500000))`, ""},
		{"split", `map(1..100, split(repeat("x", 1000000), "")) | len()`, ""},
		{"groupBy", `groupBy(1..1000000, #) | len()`, memory},
		{"decoded JSON", `map(1..300, fromJSON("[" + repeat("[],", 300000) + "1]")) | len()`, memory},
		{"decoded CSV", `fromCSV(repeat("x\n", 900000)) | len()`, ""},
		{"many decoded CSVs", `map(1..300, fromCSV("a,b\n" + repeat("x,y\n", 200000))) | len()`, memory},
		{"wide CSV", `fromCSV(join(1..100000, ",")) | len()`, ""},
		{"deep JSON", `fromJSON(repeat("[", 100000))`, "nested more than"},
		{"deep value", `reduce(1..5000, [#acc], [])`, "nested more than"},
		{"deep flatten", `flatten(reduce(1..5000, [#acc], []))`, "nested more than"},

		{"billion laughs", billion(20, "a%d"), memory},
		{"billion laughs as text", billion(20, "toJSON(a%d)"), long},
		{"billion laughs in a string", billion(20, "string([a%d])"), long},
		{"billion laughs flat", billion(20, "flatten(a%d)"), ""},
		{"billion laughs compared", billion(20, "a%[1]d == a%[1]d"), work},
		{"billion laughs searched", billion(20, "a%[1]d in [a%[1]d]"), work},
		{"billion laughs by uniq", billion(20, "uniq([a%d])"), long},

		{"shared comparisons", doubled(800, "(1 < ", "1", " < 2 ? 1 : 2)"), large},
		{"shared choices", "let b = true; " + doubled(500, "(", "b", " ?: b)"), large},
		{"many mistakes", doubled(1000, "", "x", " + x"), "unknown name"},
		{"parentheses", doubled(8000, "(", "1", ")"), ""},
		{"unclosed lists", strings.Repeat("[", 16000), ""},
		{"unclosed maps", strings.Repeat("{a:", 5000), ""},
		{"negations", strings.Repeat("!", 16000) + "true", large},
		{"a long sum", strings.Repeat("1+", 8000) + "1", large},
		{"members", "item" + strings.Repeat(".y", 8000), large},
		{"let", strings.Repeat("let a=", 2700), ""},
		{"a long text", strings.Repeat(" ", maxSource) + "1", "over the limit of 16 KiB"},
		{"invalid UTF-8", "\"\xff\"", "UTF-8"},

		{"slow pattern", `repeat("a", 1000000) matches "(.*a){50}b"`, work},
		{"quadratic replaceAll", `replaceAll(repeat("a", 1000000), ".*x|a", "")`, work},
		{"many matches", `replaceAll(repeat("a", 1000000), "a", "") | len()`, ""},
		{"slow replaceAll", `replaceAll(repeat("a", 1000000), "(.*a){50}b", "")`, work},
		{"replaceAll that grows", `replaceAll(repeat("a", 100000), "a", repeat("b", 1000))`, "over the limit of 1 MiB"},
		{"replaceAll with many groups", `replaceAll(repeat("a", 100000), "a+", repeat("$0", 1000))`, "over the limit of 1 MiB"},
		{"replaceAll of each", `map(1..100000, replaceAll("x", "a{900}b" + string(#), "")) | len()`, work},
		{"ambiguous pattern", `repeat("a", 1000000) matches "(a|aa)+$"`, ""},
		{"repeated pattern", `"x" matches "((a{100}){100}){100}"`, "invalid repeat count"},
		{"huge pattern", `"x" matches "` + strings.Repeat(".{1000}", 140) + `"`, "too complex"},
		{"long pattern", `"x" matches "` + strings.Repeat("a", 1001) + `"`, "over the limit of 1000"},
		{"many patterns", `map(1..100000, "x" matches ("a{900}b" + string(#))) | len()`, work},

		{"infinity", `2 ** 10000`, "not a finite number"},
		{"not a number", `(-1) ** 0.5`, "not a finite number"},
		{"parsed infinity", `float("Inf")`, "not a finite number"},
		{"smallest integer", `(-9223372036854775807 - 1) * -1`, "does not fit"},
		{"smallest integer divided", `(-9223372036854775807 - 1) % -1`, ""},
		{"huge index", `[1][9223372036854775807]`, "has no item"},
		{"huge negative index", `"abc"[-9223372036854775807]`, "has no item"},
		{"bytes that are no text", `fromBase64("/w==")`, "not UTF-8"},
		{"rows of other lengths", `fromCSV("a,b\n1,2\n3\n")`, "the text is not CSV: record on line 3: wrong number of fields"},
		{"a quote in a field", `fromCSV("a\nx\"y\n")`, `the text is not CSV: parse error on line 2, column 2: bare " in non-quoted-field`},
		{"a column twice", `fromCSV("a,b,a\n")`, `two columns are named "a"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var v any
			tmpl, list := fakeScope().Text(source("${{" + tt.expr + "}}"))
			err := list.Err()
			if err == nil {
				v, err = tmpl.Eval(fakeEnv{})
			}
			if len(list) > maxProblems {
				t.Errorf("%d diagnostics", len(list))
			}
			if err == nil && tt.want != "" || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %.100v, error %.500v; want an error with %q", v, err, tt.want)
			}
		})
	}
}

func TestTextIsBounded(t *testing.T) {
	tmpl, list := fakeScope().Text(source(strings.Repeat(`${{ repeat("x", 1000 * inputs.n) }}`, 400)))
	if err := list.Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := tmpl.Eval(fakeEnv{}); err == nil || !strings.Contains(err.Error(), "over the limit of 1 MiB") {
		t.Errorf("got %v", err)
	}
}

func TestManyExpressions(t *testing.T) {
	for _, text := range []string{"${{1}}", "${{nope}}", "${{", "$${{", "${{inputs}}", "${{'}}"} {
		_, list := fakeScope().Text(source(strings.Repeat(text, 1<<20/len(text))))
		if len(list) > 2*maxProblems {
			t.Errorf("%q: %d diagnostics", text, len(list))
		}
	}
}

// FuzzExpression compiles any text both ways and evaluates what compiles: there is an error, or
// decoded JSON. Nothing panics inside either.
func FuzzExpression(target *testing.F) {
	f := seedtest.Fuzz(target)
	for _, s := range []string{
		`inputs.n + 1`, `steps.a.output?.b.c ?? "x"`, `steps.a.output.rows | filter(.score > 0.8) | map(.id)`,
		`let x = [1, 2]; x[0] in x ? x : {a: x}`, `reduce(1..9, #acc + #, 0)`, `"a" matches "^a" && not false`,
		`sortBy(steps.a.output.rows, .score, "desc")[:1]`, `toJSON({b: 1, a: [nil, 1.5, "x"]})`, `-2 ** 3 % 5`,
		`${{ inputs.s }} and $${{ ${{ {a: {b: 1}} }}`, `${{ secrets.TOKEN }}`, `if true { 1 } else { "}}" }`, `1 < 2 < 3`, "`raw` + 'q\\'' + \"\\u00e9\"",
		`groupBy(inputs.list, # > 1) | toPairs() | fromPairs()`, `uniq(flatten([1, [2]])) | join("-") | split("-")`, `#`, `item.y?.[0]`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		inspect := func(v any, err error) {
			if err != nil {
				if strings.Contains(err.Error(), "internal error") {
					t.Errorf("%q: %v", text, err)
				}
				return
			}
			if w, err := value.Normalise(v); err != nil || !value.Equal(v, w) {
				t.Errorf("%q: %#v is not decoded JSON: %v", text, v, err)
			}
		}
		for _, s := range []string{text, "${{ " + text + " }}"} {
			if tmpl, list := fakeScope().Text(source(s)); !list.HasErrors() && !tmpl.HasSecrets() {
				v, err := tmpl.Eval(fakeEnv{})
				inspect(v, err)
			}
		}
		if p, list := fakeScope().Condition(source(text)); !list.HasErrors() {
			_, err := p.Bool(fakeEnv{})
			inspect(nil, err)
		}
	})
}

// What one expression may cost is bounded, and what all those of a template may cost together too.
func TestTemplatesAreBoundedAsAWhole(t *testing.T) {
	for _, text := range []string{
		`${{ reduce(1..900000, #acc + #, inputs.n) }}`,          // work
		`${{ map(1..500000, # + 0.5) }}`,                        // memory
		`x${{ repeat(inputs.s, 250000) }}${{ repeat("y", 1) }}`, // text
	} {
		part, list := fakeScope().Text(source(text))
		if list != nil {
			t.Fatal(list)
		}
		if _, err := part.Eval(fakeEnv{}); err != nil {
			t.Errorf("once: %v", err)
		}
		parts := make([]*Template, 10_000)
		for i := range parts {
			parts[i] = part
		}
		for range 2 { // the limit is for each evaluation
			if _, err := List(parts).Eval(fakeEnv{}); err == nil || !strings.Contains(err.Error(), "it was stopped") {
				t.Errorf("%d times %s: error %v", len(parts), text, err)
			}
		}
	}
}
