package workflow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/braise-run/braise/internal/execution"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// maxToolDepth limits how deep recipes may call each other as tools; it is the limit for bodies too.
const maxToolDepth = 64

// Tool makes the workflow a tool for steps and agents of other recipes. The tool is named recipe.NAME, its
// arguments are the inputs, and its result is the output. Each call is a separate run with rt, which may be nil.
// The sinks of rt receive its trace.
//
// With rt.Store the id of the run is derived from the idempotency key of the call. A call that is repeated, after a
// crash or an answer, resumes that run, so the tool counts as idempotent. Without a Store it is external. If the run
// pauses, the call pauses, and the answer to the call answers the run. While another execution holds the run, the
// call waits.
func (wf *Workflow) Tool(rt *runtime.Runtime) runtime.Tool {
	if rt == nil {
		rt = &runtime.Runtime{}
	}
	return &recipeTool{wf, rt}
}

type recipeTool struct {
	wf *Workflow
	rt *runtime.Runtime
}

// Spec describes the tool.
func (t *recipeTool) Spec() runtime.ToolSpec {
	properties, required := map[string]any{}, []any{}
	for _, in := range t.wf.program.Inputs.List {
		properties[in.Name] = in.SchemaJSON
		if text, _ := value.JSON(in.SchemaJSON); strings.Contains(string(text), `"$ref"`) {
			properties[in.Name] = map[string]any{} // it has references into its own schema; the run checks it
		}
		if !in.HasDefault {
			required = append(required, in.Name)
		}
	}
	parameters, _ := value.JSON(map[string]any{"type": "object", "properties": properties, "required": required,
		"additionalProperties": false})
	spec := runtime.ToolSpec{Name: "recipe." + t.wf.program.Recipe.Name, Description: t.wf.program.Recipe.Description,
		Parameters: parameters}
	if t.rt.Store != nil {
		spec.Effect = runtime.Idempotent
	}
	return spec
}

type toolDepth struct{}

// pauseMark precedes the id of the run's pause in the reason of the call's pause.
const pauseMark = "recipe:"

// busyWait is how long a call waits before it checks again whether its run is still held.
const busyWait = time.Second

func isBusy(out *Outcome) bool {
	e := out.Failure()
	return e != nil && e.Code == "run.busy"
}

// Call runs the workflow, or resumes the run of the call.
func (t *recipeTool) Call(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
	depth, _ := ctx.Value(toolDepth{}).(int)
	if depth++; depth > maxToolDepth {
		return nil, &runtime.Error{Category: runtime.CategoryConfig, Code: "recipe.depth",
			Err: fmt.Errorf("recipes call each other as tools more than %d deep", maxToolDepth)}
	}
	inputs, err := value.Decode(args)
	if err != nil {
		return nil, err
	}
	rt, key := *t.rt, resume.IdempotencyKey(ctx)
	answer, answered := resume.Answer(ctx)
	replies := resume.Replies(ctx)
	// the key and the answer are this call's, not the run's
	ctx = resume.WithIdempotencyKey(&resume.CallContext{Context: ctx}, "")
	ctx = context.WithValue(ctx, toolDepth{}, depth)
	id := "call-" + key[:min(len(key), 32)]
	once := func() (out *Outcome) {
		switch {
		case key == "":
			out, _ = t.wf.Run(ctx, inputs, &rt)
		case answered:
			rt.Resume = resume.PassThrough{}
			pause := strings.TrimPrefix(replies[len(replies)-1].To, pauseMark)
			out, _ = outcomeOf(execution.Answer(ctx, id, pause, answer, &rt,
				execution.Options{Program: t.wf.program, Vouched: true})) // by whoever answered the call
			e := out.Failure()
			if e != nil && rt.Store != nil && (e.Code == "resume.invalidToken" || e.Code == "answer.unfit") {
				// another execution resumed it
				out, _ = t.wf.Recover(ctx, id, &rt)
			}
		default:
			rt.NewRunID = func() string { return id }
			out, _ = t.wf.Run(ctx, inputs, &rt)
			if e := out.Failure(); e != nil && e.Code == "run.exists" {
				out, _ = t.wf.Recover(ctx, id, &rt)
			}
		}
		return out
	}
	out := once()
	for isBusy(out) && ctx.Err() == nil { // held by another execution, or by a dead process until its lease expires
		select {
		case <-time.After(busyWait):
			out = once()
		case <-ctx.Done():
		}
	}
	switch e := out.Failure(); {
	case e != nil && ctx.Err() != nil:
		return nil, errors.Join(ctx.Err(), e)
	case e != nil:
		return nil, &runtime.Error{Category: e.Category, Code: e.Code,
			Err: fmt.Errorf("recipe %q: %w", t.wf.program.Recipe.Name, e)}
	case out.Status == StatusPaused:
		p := out.Pauses[0]
		return nil, resume.Suspend(resume.Pause{Kind: p.Kind, Prompt: p.Prompt, Show: p.Show,
			Schema: p.Schema, Decisions: p.Decisions, To: p.To, FourEyes: p.FourEyes,
			ExpiresAt: p.ExpiresAt, OnExpire: p.OnExpire, RetryAt: p.RetryAt, Reason: pauseMark + p.ID})
	}
	return value.JSON(out.Output)
}
