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

// effectTime is how long a tool may take to say which effect a call would have.
const effectTime = time.Minute

// alone asks a tool for its effect, guarded. It panics if the tool panics, ends the goroutine, or takes more than
// effectTime.
func alone(of func(json.RawMessage) runtime.Effect) func(json.RawMessage) runtime.Effect {
	return func(args json.RawMessage) runtime.Effect {
		ctx, cancel := context.WithTimeout(context.Background(), effectTime)
		defer cancel()
		effect, err := guard.Port(ctx, runtime.CategoryInfra, "step.panic", "its EffectOf",
			func() (runtime.Effect, error) { return of(args), nil })
		if err != nil {
			panic(err)
		}
		return effect
	}
}
