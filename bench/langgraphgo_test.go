package bench

import (
	"context"
	"testing"

	lg "github.com/smallnest/langgraphgo/graph"
)

// langgraphgo hands on one state; what nodes beside each other give is equal, so that any of it
// will do.
func langgraphgo(tb testing.TB, g graph) job {
	c := lg.NewStateGraph[value]()
	c.SetStateMerger(func(_ context.Context, _ value, values []value) (value, error) { return values[0], nil })
	c.AddNode("start", "", func(_ context.Context, v value) (value, error) { return v, nil })
	c.SetEntryPoint("start")
	for i, needs := range g {
		c.AddNode(id(i), "", func(_ context.Context, v value) (value, error) { return add1(v), nil })
		for _, n := range needs {
			c.AddEdge(id(n), id(i))
		}
		if len(needs) == 0 {
			c.AddEdge("start", id(i))
		}
	}
	for _, i := range g.ends() {
		c.AddEdge(id(i), lg.END)
	}
	run, err := c.Compile()
	if err != nil {
		tb.Fatal(err)
	}
	return func(ctx context.Context) (value, error) { return run.Invoke(ctx, zero()) }
}
