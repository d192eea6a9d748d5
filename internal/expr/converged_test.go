package expr

import "testing"

func TestConverged(t *testing.T) {
	for _, tt := range []struct {
		expr string
		want bool
	}{
		{`converged([], 1)`, false},
		{`converged([1], 1)`, true},
		{`converged([1], 2)`, false},
		{`converged([1, 2, 2], 2)`, true},
		{`converged([1, 2, 2], 3)`, false},
		{`converged([2, 1, 2], 2)`, false},
		{`converged([1, 2, 2], 2.0)`, true},
		{`converged([1, 2.0, 2], 2)`, true},
		{`converged([1, "1"], 2)`, false},
		{`converged([null, null, null], 3)`, true},
		{`converged([false, null], 2)`, false},
		{`converged([{a: [1], b: "x"}, {b: "x", a: [1.0]}], 2)`, true},
		{`converged([{a: 1}, {a: 1, b: null}], 2)`, false},
		{`converged(inputs.list, inputs.n)`, false},
		{`converged(steps.a.output.tags, 9223372036854775807)`, false},
		{`[1, 1] | converged(2)`, true},
	} {
		if got, err := evaluate(t, "${{ "+tt.expr+" }}"); err != nil || got != tt.want {
			t.Errorf("%s: got %v, %v", tt.expr, got, err)
		}
	}
}

func TestConvergedErrors(t *testing.T) {
	for _, tt := range []struct{ expr, want string }{
		{`converged(inputs.s, 2)`, `r.yaml:3:24: argument 1 of converged must be a list, not a string [expr.type]`},
		{`converged(inputs.list, "2")`, `r.yaml:3:37: argument 2 of converged must be a number, not a string [expr.type]`},
		{`converged(inputs.list)`, `r.yaml:3:14: converged takes 2 arguments, not 1 [expr.type]`},
		{`converged(inputs.list, 1) + 1`, `r.yaml:3:40: + needs two operands of one type, a number or a string, not a boolean and a number [expr.type]`},
		{`converged(steps.a.output.text, 1)`, `r.yaml:3:10: expression "converged(steps.a.output.text, 1)" failed: argument 1 of converged must be a list, not a string`},
		{`converged(inputs.list, 0)`, `r.yaml:3:10: expression "converged(inputs.list, 0)" failed: the number of items must be at least 1`},
		{`converged(inputs.list, -1)`, `r.yaml:3:10: expression "converged(inputs.list, -1)" failed: the number of items must be at least 1`},
		{`converged(inputs.list, inputs.f)`, `r.yaml:3:10: expression "converged(inputs.list, inputs.f)" failed: the number of items must be an integer`},
	} {
		tmpl, list := fakeScope().Text(source("${{ " + tt.expr + " }}"))
		err := list.Err()
		if err == nil {
			_, err = tmpl.Eval(fakeEnv{})
		}
		if err == nil || err.Error() != tt.want {
			t.Errorf("%s: got %v\nwant %s", tt.expr, err, tt.want)
		}
	}
}
