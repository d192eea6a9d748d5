package host

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/braise-run/braise/adapters/script"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/regular"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// replayed is the provider of models whose names alone are read, see Options.Replay.
const replayed = "replay"

// Record returns a copy of rt for one run of the workflow whose plan it gets: what models answer
// is written to filename as a cassette when the Recorder is closed. The secrets that the workflow
// uses stand in it as ***.
func Record(
	ctx context.Context, rt *runtime.Runtime, filename string, plan *workflow.Plan,
) (*runtime.Runtime, *script.Recorder, error) {
	var secrets []string
	for _, name := range plan.Requires.Secrets {
		if rt.Secrets == nil {
			break
		}
		secret, err := rt.Secrets.Secret(ctx, name)
		switch {
		case err == nil:
			secrets = append(secrets, secret)
		case !errors.Is(err, runtime.ErrNoSecret):
			return nil, nil, fmt.Errorf("recording: secret %q: %w", name, err)
		}
	}
	recorder, err := script.NewRecorder(filename, script.Header{Recipe: plan.Recipe, Digest: plan.Digest}, secrets)
	if err != nil {
		return nil, nil, err
	}
	changed := *rt
	changed.Models = make(map[string]runtime.Model, len(rt.Models))
	for name, m := range rt.Models {
		if m != nil {
			m = recorder.Model(name, m)
		}
		changed.Models[name] = m
	}
	return &changed, recorder, nil
}

// Replay returns a copy of rt in which every model answers from the cassette in filename: those of
// rt, those that the plan of the workflow names, and those that the cassette has. None of rt's is
// called. Everything but models is as it was: tools run. The recipe may have changed since it was
// recorded, but a cassette of a recipe with another name is refused. The error is a
// *diagnostics.Error.
func Replay(rt *runtime.Runtime, filename string, plan *workflow.Plan) (*runtime.Runtime, error) {
	shown := filepath.ToSlash(filename)
	data, err := regular.ReadFile(filename)
	if err != nil {
		return nil, unreadable(diagnostics.Position{}, "cassette", shown, err).Err()
	}
	cassette, err := script.LoadCassette(shown, data)
	if err != nil {
		return nil, err
	}
	if cassette.Header.Recipe != plan.Recipe {
		return nil, diagnostics.List{{
			Level: diagnostics.ErrorLevel, Kind: diagnostics.KindRecipe, Code: diagnostics.CodeInvalidValue,
			Message:  fmt.Sprintf("the cassette is of the recipe %q, not of %q", cassette.Header.Recipe, plan.Recipe),
			Position: diagnostics.Position{File: shown, Line: 1, Column: 1},
		}}.Err()
	}
	changed := *rt
	changed.Models = map[string]runtime.Model{}
	for name := range rt.Models {
		changed.Models[name] = cassette.Model(name)
	}
	for _, name := range slices.Concat(plan.Requires.Models, cassette.Models()) {
		changed.Models[name] = cassette.Model(name)
	}
	return &changed, nil
}
