package bench

import (
	"context"
	"iter"
	"strconv"
	"sync/atomic"
	"testing"

	"google.golang.org/adk/agent"
	"google.golang.org/adk/agent/workflowagents/parallelagent"
	"google.golang.org/adk/agent/workflowagents/sequentialagent"
	"google.golang.org/adk/runner"
	"google.golang.org/adk/session"
)

// adkGo has no edges: layers are a sequence of parallel agents. Values pass by the session's
// state.
func adkGo(tb testing.TB, g graph) job {
	var stages []agent.Agent
	for i, level := range g.levels() {
		var nodes []agent.Agent
		for _, node := range level {
			a, err := agent.New(agent.Config{Name: id(node), Run: adkNode(g, node)})
			if err != nil {
				tb.Fatal(err)
			}
			nodes = append(nodes, a)
		}
		stage := nodes[0]
		if len(nodes) > 1 {
			var err error
			stage, err = parallelagent.New(parallelagent.Config{AgentConfig: agent.Config{Name: "level" + strconv.Itoa(i), SubAgents: nodes}})
			if err != nil {
				tb.Fatal(err)
			}
		}
		stages = append(stages, stage)
	}
	root, err := sequentialagent.New(sequentialagent.Config{AgentConfig: agent.Config{Name: "bench", SubAgents: stages}})
	if err != nil {
		tb.Fatal(err)
	}
	sessions := session.InMemoryService()
	r, err := runner.New(runner.Config{AppName: "bench", Agent: root, SessionService: sessions, AutoCreateSession: true})
	if err != nil {
		tb.Fatal(err)
	}
	var runs atomic.Int64
	last := id(len(g) - 1)
	return func(ctx context.Context) (result value, err error) {
		name := strconv.FormatInt(runs.Add(1), 10)
		for event, err := range r.Run(ctx, "me", name, nil, agent.RunConfig{}) {
			if err != nil {
				return nil, err
			}
			if v, ok := event.Actions.StateDelta[last]; ok {
				result = v.(value)
			}
		}
		return result, sessions.Delete(ctx, &session.DeleteRequest{AppName: "bench", UserID: "me", SessionID: name})
	}
}

// adkNode reads the state of its first need and sets its own.
func adkNode(g graph, node int) func(agent.InvocationContext) iter.Seq2[*session.Event, error] {
	return func(ctx agent.InvocationContext) iter.Seq2[*session.Event, error] {
		return func(yield func(*session.Event, error) bool) {
			in := zero()
			if needs := g[node]; len(needs) > 0 {
				v, err := ctx.Session().State().Get(id(needs[0]))
				if err != nil {
					yield(nil, err)
					return
				}
				in = v.(value)
			}
			event := session.NewEvent(ctx.InvocationID())
			event.Actions.StateDelta = map[string]any{id(node): add1(in)}
			yield(event, nil)
		}
	}
}
