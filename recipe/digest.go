package recipe

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"github.com/braise-run/braise/internal/value"
)

// ComputeDigest returns what Digest is for a recipe that was read. It looks at the fields as they are,
// so it also serves for a recipe that was built or changed in Go. The error says that a value in it
// is not decoded JSON.
func (r *Recipe) ComputeDigest() (string, error) { return digests{}.recipe(r) }

// digests holds the digests of a recipe and of those that it calls. What a recipe calls counts with
// its digest, so that a file that is called in many places is encoded once.
type digests map[*Recipe]string

func (d digests) recipe(r *Recipe) (string, error) {
	if digest, ok := d[r]; ok {
		return digest, nil
	}
	d[r] = "" // what a recipe finds that calls itself
	agents := map[string]any{}
	for _, a := range r.Agents {
		agents[a.ID] = map[string]any{"spec": a.Spec.essence(), "instructions": a.Instructions}
	}
	steps, err := d.steps(r.Steps)
	if err != nil {
		return "", err
	}
	text, err := value.JSON(map[string]any{
		"apiVersion": APIVersion,
		"name":       r.Name,
		"version":    r.Version,
		"requires":   []any{texts(r.Requires.Capabilities), texts(r.Requires.Tools), texts(r.Requires.Secrets)},
		"inputs":     inputsEssence(r.Inputs),
		"consts":     constsEssence(r),
		"defaults":   r.Defaults.essence(),
		"limits":     []any{int64(r.Limits.WallTime), int64(r.Limits.MaxParallel)},
		"agents":     agents,
		"steps":      steps,
		"output":     r.Output.Decoded(),
	})
	if err != nil {
		return "", err
	}
	d[r] = fmt.Sprintf("sha256:%x", sha256.Sum256(text))
	return d[r], nil
}

// steps returns a list, for the order of steps counts.
func (d digests) steps(steps []Step) ([]any, error) {
	list := make([]any, len(steps))
	for i := range steps {
		e := steps[i].essence()
		if b := steps[i].Body; b != nil {
			body, err := d.body(b)
			if err != nil {
				return nil, err
			}
			e["body"] = body
		}
		list[i] = e
	}
	return list, nil
}

func (d digests) body(b *Body) (map[string]any, error) {
	if b.Ref.Text == "" {
		steps, err := d.steps(b.Steps)
		return map[string]any{"steps": steps, "output": b.Output.Decoded()}, err
	}
	e := map[string]any{"inputs": b.Inputs.Decoded()}
	if b.Recipe == nil {
		e["ref"] = b.Ref.Text
		return e, nil
	}
	digest, err := d.recipe(b.Recipe)
	e["digest"] = digest
	return e, err
}

// essence is what counts of a step, but for its body.
func (s *Step) essence() map[string]any {
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
	add("retry", s.Retry != nil, s.Retry.essence())
	add("idempotency_key", s.IdempotencyKey != nil, s.IdempotencyKey.Decoded())
	if r := s.Rollback; r != nil {
		e["rollback"] = []any{r.Uses.Text, r.With.Decoded()}
	}
	if h := s.Human; h != nil {
		e["human"] = []any{h.Prompt.Decoded(), h.Show.Decoded(), texts(h.Decisions), h.Form != nil, h.FormJSON,
			int64(h.Expires), h.OnExpire.Reject, h.OnExpire.Set != nil, h.OnExpire.Set.Decoded()}
	}
	if w := s.Wait; w != nil {
		e["wait"] = []any{w.Duration.Decoded(), w.At.Decoded(), w.Event.Text, int64(w.Timeout)}
	}
	if f := s.Foreach; f != nil {
		e["foreach"] = []any{f.In.Decoded(), f.As.Text, int64(f.MaxParallel), f.Collect, int64(f.MaxItems)}
	}
	if o := s.Output; o != nil {
		e["output"] = []any{o.SchemaJSON != nil, o.SchemaJSON, int64(o.MaxBytes)}
	}
	return e
}

func (d Defaults) essence() []any {
	e := []any{d.Model, int64(d.Timeout)}
	if d.Retry == nil {
		return e
	}
	retries := map[string]any{}
	for kind, r := range d.Retry {
		retries[kind] = r.essence()
	}
	return append(e, retries)
}

// essence is what is given of r; nil for nil.
func (r *Retry) essence() map[string]any {
	if r == nil {
		return nil
	}
	e := map[string]any{"max_attempts": int64(r.MaxAttempts), "jitter": r.Jitter, "mode": r.Mode}
	if r.RetryOn != nil {
		e["retry_on"] = anys(r.RetryOn)
	}
	for key, d := range map[string]*time.Duration{"backoff": r.Backoff, "max_backoff": r.MaxBackoff, "timeout": r.Timeout} {
		if d != nil {
			e[key] = int64(*d)
		}
	}
	return e
}

func inputsEssence(inputs []Input) map[string]any {
	e := map[string]any{}
	for _, in := range inputs {
		e[in.Name] = []any{in.SchemaJSON, in.HasDefault, in.Default}
	}
	return e
}

func constsEssence(r *Recipe) any { return (&Value{IsMap: true, Map: r.Consts}).Decoded() }

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
