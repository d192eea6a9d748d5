package bench

import (
	"context"
	"testing"

	flow "github.com/Azure/go-workflow"
)

// goWorkflow passes values by Input callbacks, from one step's output to the next one's input.
func goWorkflow(_ testing.TB, g graph) job {
	type step = flow.Function[value, value]
	w := new(flow.Workflow)
	steps := make([]*step, len(g))
	for i, needs := range g {
		steps[i] = flow.FuncIO(id(i), func(_ context.Context, v value) (value, error) { return add1(v), nil })
		add := flow.Step(steps[i]).Input(func(_ context.Context, s *step) error {
			s.Input = zero()
			if len(needs) > 0 {
				s.Input = steps[needs[0]].Output
			}
			return nil
		})
		for _, n := range needs {
			add = add.DependsOn(steps[n])
		}
		w.Add(add)
	}
	return func(ctx context.Context) (value, error) {
		err := w.Do(ctx)
		return steps[len(g)-1].Output, err
	}
}
