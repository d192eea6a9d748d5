package memory_test

import (
	"context"
	"fmt"
	"log"

	"github.com/braise-run/braise/adapters/memory"
	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
	"github.com/braise-run/braise/workflow"
)

// An agent of a second run knows what was said in the first.
func ExampleNew() {
	ctx := context.Background()
	store := &checkpoint.Memory{} // or one of sqlite.Open, jsonl.Open, postgres.Open
	defer store.Close()
	conversations := memory.New(store)
	rt := &runtime.Runtime{Models: map[string]runtime.Model{"fast": runtimetest.Texts("Hello Ann.", "You are Ann.")}, Memory: conversations}

	agent := &agentloop.Loop{Name: "host", Model: "fast", Memory: runtime.Conversation{Thread: "T-1", Resource: "ann"}}
	wf, err := workflow.Agent(agent, nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, prompt := range []string{"I am Ann.", "Who am I?"} {
		if _, err := wf.Run(ctx, map[string]any{"prompt": prompt}, rt); err != nil {
			log.Fatal(err)
		}
	}
	messages, err := conversations.Load(ctx, agent.Memory)
	if err != nil {
		log.Fatal(err)
	}
	for _, m := range messages {
		fmt.Println(m.Role+":", m.Text)
	}
	// Output:
	// user: I am Ann.
	// assistant: Hello Ann.
	// user: Who am I?
	// assistant: You are Ann.
}
