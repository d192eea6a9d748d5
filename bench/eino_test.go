package bench

import (
	"context"
	"maps"
	"testing"

	"github.com/cloudwego/eino/compose"
)

func init() {
	// What meets at a node of a graph is equal; eino's own way of merging maps refuses equal keys. In Fan each has a key of its own.
	compose.RegisterValuesMergeFunc(func(values []value) (value, error) {
		if _, equal := values[0]["n"]; equal {
			return values[0], nil
		}
		all := make(value, len(values))
		for _, v := range values {
			maps.Copy(all, v)
		}
		return all, nil
	})
}

// einoDAG starts a node when all before it have ended.
func einoDAG(tb testing.TB, g graph) job {
	return eino(tb, g, compose.WithNodeTriggerMode(compose.AllPredecessor))
}

// einoPregel, the default, goes in super-steps.
func einoPregel(tb testing.TB, g graph) job {
	return eino(tb, g, compose.WithMaxRunSteps(len(g)+10))
}

func eino(tb testing.TB, g graph, mode compose.GraphCompileOption) job {
	c := compose.NewGraph[value, value]()
	edge := func(from, to string) {
		if err := c.AddEdge(from, to); err != nil {
			tb.Fatal(err)
		}
	}
	for i, needs := range g {
		node := compose.InvokableLambda(func(_ context.Context, v value) (value, error) { return add1(v), nil })
		if err := c.AddLambdaNode(id(i), node); err != nil {
			tb.Fatal(err)
		}
		for _, n := range needs {
			edge(id(n), id(i))
		}
		if len(needs) == 0 {
			edge(compose.START, id(i))
		}
	}
	for _, i := range g.ends() {
		edge(id(i), compose.END)
	}
	run, err := c.Compile(context.Background(), mode)
	if err != nil {
		tb.Fatal(err)
	}
	return func(ctx context.Context) (value, error) { return run.Invoke(ctx, zero()) }
}
