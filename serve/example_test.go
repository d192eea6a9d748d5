package serve_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"github.com/braise-run/braise/checkpoint/sqlite"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/serve"
	"github.com/braise-run/braise/worker"
	"github.com/braise-run/braise/workflow"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// An app mounts the API in its own mux. Its token would come from its configuration.
func ExampleServer_Handler() {
	dir := must(os.MkdirTemp("", ""))
	defer os.RemoveAll(dir)
	store := must(sqlite.Open(context.Background(), filepath.Join(dir, "runs.db"), nil))
	defer store.Close()

	s := &serve.Server{
		Store: store,
		Access: serve.Access{Tokens: []serve.Token{
			{Name: "dashboard", Secret: "0123456789abcdef", Roles: []serve.Role{serve.Read}},
		}},
	}
	mux := http.NewServeMux()
	mux.Handle("/braise/", http.StripPrefix("/braise", s.Handler()))
	app := httptest.NewServer(mux)
	defer app.Close()

	req := must(http.NewRequest("GET", app.URL+"/braise/api/v1/me", nil))
	req.Header.Set("Authorization", "Bearer 0123456789abcdef")
	res := must(http.DefaultClient.Do(req))
	defer res.Body.Close()
	var me struct {
		Name  string
		Roles []string
	}
	if err := json.NewDecoder(res.Body).Decode(&me); err != nil {
		panic(err)
	}
	fmt.Println(res.StatusCode, me.Name, me.Roles)
	// Output: 200 dashboard [read]
}

// A run is started over HTTP. A worker in the same process executes it, and the request waits for the outcome.
func ExampleServer() {
	dir := must(os.MkdirTemp("", ""))
	defer os.RemoveAll(dir)
	store := must(sqlite.Open(context.Background(), filepath.Join(dir, "runs.db"), nil))
	defer store.Close()
	wf := must(workflow.Compile(must(recipe.Parse("hello.yaml", []byte(hello))), nil))

	s := &serve.Server{
		Store:   store,
		Recipes: func() []serve.Recipe { return []serve.Recipe{{Name: wf.Name(), Workflow: wf}} },
		Access: serve.Access{Tokens: []serve.Token{
			{Name: "shop", Secret: "0123456789abcdef", Roles: []serve.Role{serve.Start}},
		}},
	}
	ctx, stop := context.WithCancel(context.Background())
	w := &worker.Worker{Runtime: &runtime.Runtime{Store: store}, Queues: []string{"default"}}
	worked := make(chan error)
	go func() { worked <- w.Run(ctx) }()
	app := httptest.NewServer(s.Handler())

	req := must(http.NewRequest("POST", app.URL+"/api/v1/recipes/hello/runs", strings.NewReader(`{"inputs": {"who": "Ada"}}`)))
	req.Header.Set("Authorization", "Bearer 0123456789abcdef")
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", "order-4711")
	req.Header.Set("Prefer", "wait=30")
	res := must(http.DefaultClient.Do(req))
	var out struct{ Status, Output string }
	if err := json.NewDecoder(res.Body).Decode(&out); err != nil {
		panic(err)
	}
	res.Body.Close()
	fmt.Println(out.Status, out.Output)
	app.Close()
	stop()
	fmt.Println(<-worked)
	// Output:
	// ok Hello, Ada
	// <nil>
}
