package recipe

import (
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/braise-run/braise/internal/value"
)

// digest returns the Digest of a recipe without errors, and sets those of the recipes that it
// calls. What a recipe calls counts with its digest, so that a file that is called in many places
// is encoded once.
func digest(r *Recipe) string {
	if r.Digest != "" {
		return r.Digest
	}
	agents := map[string]any{}
	for _, a := range r.Agents {
		agents[a.ID] = map[string]any{"spec": a.Spec.essence(), "instructions": a.Instructions}
	}
	inputs := map[string]any{}
	for _, in := range r.Inputs {
		inputs[in.Name] = []any{in.SchemaJSON, in.HasDefault, in.Default}
	}
	text, err := value.JSON(map[string]any{
		"apiVersion": APIVersion,
		"name":       r.Name,
		"version":    r.Version,
		"requires":   []any{texts(r.Requires.Capabilities), texts(r.Requires.Tools), texts(r.Requires.Secrets)},
		"inputs":     inputs,
		"consts":     (&Value{IsMap: true, Map: r.Consts}).Decoded(),
		"defaults":   []any{r.Defaults.Model, int64(r.Defaults.Timeout)},
		"limits":     []any{int64(r.Limits.WallTime), int64(r.Limits.MaxParallel)},
		"agents":     agents,
		"steps":      stepsEssence(r.Steps),
		"output":     r.Output.Decoded(),
	})
	if err != nil {
		panic("recipe: what was parsed is JSON: " + err.Error())
	}
	return fmt.Sprintf("sha256:%x", sha256.Sum256(text))
}

// stepsEssence is a list, for the order of steps counts.
func stepsEssence(steps []Step) []any {
	list := make([]any, len(steps))
	for i, s := range steps {
		e := map[string]any{"id": s.ID, "uses": s.Uses.Text}
		add := func(key string, given bool, v any) {
			if given {
				e[key] = v
			}
		}
		add("with", s.With != nil, s.With.Decoded())
		add("needs", s.Needs != nil, texts(s.Needs))
		add("when", s.When.Text != "", s.When.Text)
		add("trigger", s.Trigger != "" && s.Trigger != AllSuccess, string(s.Trigger))
		add("timeout", s.Timeout != 0, int64(s.Timeout))
		add("priority", s.Priority != 0, int64(s.Priority))
		add("continue", s.OnError.Continue, true)
		add("set", s.OnError.Set != nil, s.OnError.Set.Decoded())
		if b := s.Body; b != nil {
			e["body"] = b.essence()
		}
		if f := s.Foreach; f != nil {
			e["foreach"] = []any{f.In.Decoded(), f.As.Text, int64(f.MaxParallel), f.Collect, int64(f.MaxItems)}
		}
		if o := s.Output; o != nil {
			e["output"] = []any{o.SchemaJSON != nil, o.SchemaJSON, int64(o.MaxBytes)}
		}
		list[i] = e
	}
	return list
}

func (b *Body) essence() any {
	if b.Ref.Text == "" {
		return map[string]any{"steps": stepsEssence(b.Steps), "output": b.Output.Decoded()}
	}
	e := map[string]any{"inputs": b.Inputs.Decoded()}
	if b.Recipe == nil {
		e["ref"] = b.Ref.Text
	} else {
		b.Recipe.Digest = digest(b.Recipe)
		e["digest"] = b.Recipe.Digest
	}
	return e
}

// essence is what counts of an agent's keys.
func (v *Value) essence() any {
	keys, _ := v.Decoded().(map[string]any)
	for key := range keys {
		if key == "description" || key == "instructions" || strings.HasPrefix(key, "x-") {
			delete(keys, key)
		}
	}
	return keys
}

func texts(names []Name) []any {
	list := make([]any, len(names))
	for i, n := range names {
		list[i] = n.Text
	}
	return list
}
