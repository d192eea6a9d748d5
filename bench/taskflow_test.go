package bench

import (
	"context"
	"testing"

	"github.com/noneback/go-taskflow"
)

// goTaskflow only orders the tasks: the values pass by a slice beside it.
func goTaskflow(_ testing.TB, g graph) job {
	values := make([]value, len(g))
	flow := gotaskflow.NewTaskFlow("bench")
	tasks := make([]*gotaskflow.Task, len(g))
	for i, needs := range g {
		tasks[i] = flow.NewTask(id(i), func() { values[i] = add1(g.input(values, i)) })
		for _, n := range needs {
			tasks[n].Precede(tasks[i])
		}
	}
	executor := gotaskflow.NewExecutor(1000)
	return func(context.Context) (value, error) {
		clear(values)
		executor.Run(flow).Wait()
		return values[len(g)-1], nil
	}
}
