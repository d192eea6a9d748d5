package temporal_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"go.temporal.io/sdk/client"

	"github.com/braise-run/braise"
	"github.com/braise-run/braise/cluster/temporal"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// A worker makes the calls of runs. It needs a Temporal server.
func ExampleWorker_Run() {
	c, err := client.Dial(client.Options{HostPort: "127.0.0.1:7233"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	rt := &runtime.Runtime{Resume: resume.PassThrough{}}
	w, err := temporal.NewWorker(c, rt, nil)
	if err != nil {
		log.Fatal(err)
	}
	if err := w.Run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// An engine starts runs, and answers their pauses. It needs a Temporal server, and a worker.
func ExampleEngine() {
	c, err := client.Dial(client.Options{HostPort: "127.0.0.1:7233"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	wf, err := braise.Load(os.DirFS("."), "order.yaml")
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	e := &temporal.Engine{Client: c}
	id, err := e.Start(ctx, wf, map[string]any{"order": 8}, &temporal.Options{By: "ann"})
	if err != nil {
		log.Fatal(err)
	}
	out, err := e.Wait(ctx, id)
	if err == nil && len(out.Pauses) > 0 {
		out, err = e.Answer(ctx, id, out.Pauses[0].ID, map[string]any{"decision": "approve"}, "bob")
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(out.Status)
}
