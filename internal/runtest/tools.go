package runtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/runtime/runtimetest"
)

// FailingSecrets has no secret.
type FailingSecrets struct{}

// Secret fails.
func (FailingSecrets) Secret(context.Context, string) (string, error) {
	return "", errors.New("the vault is locked")
}

// RawTool is the tool test.it, which returns these bytes.
type RawTool string

// Spec names the tool.
func (RawTool) Spec() runtime.ToolSpec { return runtime.ToolSpec{Name: "test.it"} }

// Call returns the bytes.
func (t RawTool) Call(context.Context, json.RawMessage) (json.RawMessage, error) {
	return json.RawMessage(t), nil
}

// Idempotent is a tool that may be called again.
type Idempotent struct{ JSONTool }

// Spec says that the tool may be called again.
func (t Idempotent) Spec() runtime.ToolSpec {
	spec := t.JSONTool.Spec()
	spec.Effect = runtime.Idempotent
	return spec
}

// Lookup is a tool with a schema.
var Lookup = runtime.NewTool(runtime.ToolSpec{Name: "crm.lookup"}, func(_ context.Context, in struct {
	ID    string   `json:"id"`
	Depth int      `json:"depth,omitempty"`
	Tags  []string `json:"tags,omitempty"`
}) (map[string]any, error) {
	return map[string]any{"id": in.ID, "depth": in.Depth}, nil
})

// Shelves is a searcher that finds the query, and says what it has used.
type Shelves struct{ Asked []runtime.Query }

// Search finds the query.
func (s *Shelves) Search(_ context.Context, q runtime.Query) (runtime.Found, error) {
	s.Asked = append(s.Asked, q)
	return runtime.Found{
		Documents: []runtime.Document{{ID: "1", Text: q.Text, Score: 0.5}, {ID: "2", Text: "more"}},
		Used:      []runtime.Spent{{Name: "embed", Usage: runtime.Usage{InputTokens: 7}}},
	}, nil
}

// Effects is a log of what tools did, outside of the run.
type Effects struct {
	mutex sync.Mutex
	Lines []string
}

// Add adds a line.
func (e *Effects) Add(line string) {
	e.mutex.Lock()
	defer e.mutex.Unlock()
	e.Lines = append(e.Lines, line)
}

// External is a tool that adds to the log.
func (e *Effects) External(name string) runtime.Tool {
	return Tool(name, func(ctx context.Context, args map[string]any) (any, error) {
		if resume.IdempotencyKey(ctx) == "" {
			return nil, errors.New("no idempotency key")
		}
		e.Add(fmt.Sprint(name, " ", args["n"]))
		return args["n"], nil
	})
}

// Gate is a tool that asks somebody before it says yes.
var Gate = Tool("test.gate", func(ctx context.Context, args map[string]any) (any, error) {
	if answer, ok := resume.Answer(ctx); ok {
		return answer.(map[string]any)["decision"], nil
	}
	return nil, resume.Suspend(resume.Pause{
		Kind: resume.Human, Prompt: fmt.Sprint("Continue with ", args["n"], "?"),
		Decisions: []string{"approve", "reject"},
	})
})

// Hang waits until it is told to stop.
var Hang = Tool("test.hang", func(ctx context.Context, _ map[string]any) (any, error) {
	<-ctx.Done()
	return nil, ctx.Err()
})

// Shelf is a retriever of a function.
type Shelf func(ctx context.Context, query string, topK int) ([]runtime.Document, error)

// Retrieve calls the function.
func (s Shelf) Retrieve(ctx context.Context, query string, topK int) ([]runtime.Document, error) {
	return s(ctx, query, topK)
}

// UndoRuntime has tools that act and undo, of which test.again is idempotent, and one that fails.
func UndoRuntime(log *Effects, store checkpoint.Store) *runtime.Runtime {
	boom := Tool("test.boom", func(context.Context, map[string]any) (any, error) {
		log.Add("test.boom")
		return nil, &runtime.Error{Category: runtime.CategoryTool, Code: "boom", Err: errors.New("boom")}
	})
	var mutex sync.Mutex
	spec := runtime.ToolSpec{Name: "test.again", Effect: runtime.Idempotent}
	again := &runtimetest.Tool{ToolSpec: spec, Func: func(ctx context.Context, _ json.RawMessage) (any, error) {
		mutex.Lock()
		defer mutex.Unlock()
		log.mutex.Lock()
		defer log.mutex.Unlock()
		if line := "test.again " + resume.IdempotencyKey(ctx); !slices.Contains(log.Lines, line) {
			log.Lines = append(log.Lines, line)
		}
		return nil, nil
	}}
	return &runtime.Runtime{
		Tools: []runtime.Tool{log.External("test.act"), log.External("test.undo"), again, boom}, Store: store,
		Resume: resume.PassThrough{}, Reporter: &Quiet{}, NewRunID: func() string { return "r1" },
	}
}

// ToolFunc is what a tool does, over decoded JSON.
type ToolFunc func(ctx context.Context, args map[string]any) (any, error)

// Tool makes a tool that takes and returns JSON.
func Tool(name string, f ToolFunc) runtime.Tool { return JSONTool{name, f} }

// JSONTool is a tool that takes and returns JSON.
type JSONTool struct {
	Name string
	F    ToolFunc
}

// Spec names the tool.
func (t JSONTool) Spec() runtime.ToolSpec { return runtime.ToolSpec{Name: t.Name} }

// Call decodes the arguments, and encodes the result.
func (t JSONTool) Call(ctx context.Context, text json.RawMessage) (json.RawMessage, error) {
	args, err := value.Decode(text)
	if err != nil {
		return nil, err
	}
	result, err := t.F(ctx, args.(map[string]any))
	if err != nil {
		return nil, err
	}
	return value.JSON(result)
}

// ValueTool makes a tool that takes and returns values.
func ValueTool(name string, f ToolFunc) runtime.Tool { return ByValue{JSONTool{name, f}} }

// ByValue is a tool that takes and returns values.
type ByValue struct{ JSONTool }

// Call fails: whoever has values calls by value.
func (t ByValue) Call(context.Context, json.RawMessage) (json.RawMessage, error) {
	return nil, errors.New("called by JSON although it takes values")
}

// CallValue calls the function.
func (t ByValue) CallValue(ctx context.Context, args map[string]any) (any, error) {
	return t.F(ctx, args)
}

// Echo gives back its arguments.
var Echo = Tool("test.echo", func(_ context.Context, args map[string]any) (any, error) {
	return args, nil
})

// Broken is a tool that fails.
var Broken = Tool("test.break", func(context.Context, map[string]any) (any, error) {
	return nil, errors.New("broken")
})

// Busy is a runtime with tools that say when they were called: test.work takes 10 s unless its context ends,
// test.quick none. Time runs as in a synctest bubble.
func Busy(store checkpoint.Store, log *Effects) *runtime.Runtime {
	began := time.Now()
	note := func(name string, args map[string]any) {
		log.Add(fmt.Sprintf("%s%v at %v", name, args["n"], time.Since(began).Round(time.Second)))
	}
	work := func(ctx context.Context, args map[string]any) (any, error) {
		note("work", args)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(10 * time.Second):
			return "worked", nil
		}
	}
	return &runtime.Runtime{
		Store: store, Resume: resume.PassThrough{}, Reporter: &Quiet{}, NewRunID: func() string { return "r1" },
		Tools: []runtime.Tool{Idempotent{JSONTool{"test.work", work}}, Tool("test.outside", work),
			Tool("test.quick", func(_ context.Context, args map[string]any) (any, error) {
				note("quick", args)
				return "done", nil
			})},
	}
}
