package call

import (
	"context"
	"encoding/json"
	"time"

	"github.com/braise-run/braise/internal/guard"
	"github.com/braise-run/braise/runtime"
)

// Validate is rt.Validate, which asks each tool for its Spec, guarded.
func Validate(ctx context.Context, rt *runtime.Runtime) error {
	_, err := guard.Port(ctx, runtime.CategoryConfig, "runtime.invalid", "the Spec of a tool",
		func() (any, error) { return nil, rt.Validate() })
	return err
}

// toolsOf returns the tools of an environment. Each is asked for its Spec, guarded.
func toolsOf(ctx context.Context, env runtime.Env) ([]runtime.Tool, error) {
	if env == nil {
		return nil, nil
	}
	return guard.Port(ctx, runtime.CategoryInfra, "env.failed", "the environment", func() ([]runtime.Tool, error) {
		tools := env.Tools()
		for _, t := range tools {
			if t != nil {
				_ = t.Spec()
			}
		}
		return tools, nil
	})
}

// alone asks a tool for its effect in a goroutine of its own. It panics if the tool panics, ends the goroutine, or
// takes more than a minute.
func alone(of func(json.RawMessage) runtime.Effect) func(json.RawMessage) runtime.Effect {
	type result struct {
		effect   runtime.Effect
		panicked any
	}
	return func(args json.RawMessage) runtime.Effect {
		done := make(chan result, 1)
		go func() {
			r := result{panicked: "its EffectOf ended its goroutine"}
			defer func() {
				if p := recover(); p != nil {
					r.panicked = p
				}
				done <- r
			}()
			r = result{effect: of(args)}
		}()
		limit := time.NewTimer(time.Minute)
		defer limit.Stop()
		select {
		case r := <-done:
			if r.panicked != nil {
				panic(r.panicked)
			}
			return r.effect
		case <-limit.C:
			panic("its EffectOf does not return")
		}
	}
}
