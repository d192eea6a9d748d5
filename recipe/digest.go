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
	steps, err := d.steps(r.Steps)
	if err != nil {
		return "", err
	}
	e := map[string]any{
		"apiVersion": APIVersion,
		"name":       r.Name,
		"version":    r.Version,
		"requires":   []any{texts(r.Requires.Capabilities), texts(r.Requires.Tools), texts(r.Requires.Secrets)},
		"inputs":     inputsEssence(r.Inputs),
		"consts":     constsEssence(r),
		"defaults":   r.Defaults.essence(),
		"limits":     r.Limits.essence(),
		"agents":     agentsEssence(r.Agents),
		"steps":      steps,
		"output":     r.Output.Decoded(),
	}
	if len(r.Channels) > 0 {
		e["channels"] = channelsEssence(r)
	}
	if r.Finally != nil {
		if e["finally"], err = d.steps(r.Finally); err != nil {
			return "", err
		}
	}
	if len(r.inGo) > 0 {
		e["agentsInGo"] = inGoEssence(r.inGo)
	}
	if len(r.tools) > 0 && r.toolOf == nil {
		if e["tools"], err = d.tools(r, nil); err != nil {
			return "", err
		}
	}
	text, err := value.JSON(e)
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
		if l := steps[i].Loop; l != nil && l.Wait != nil { // which among the digests of steps has one of its own
			e["wait"] = l.Wait.Decoded()
		}
		for name, b := range steps[i].Bodies() {
			body, err := d.body(b)
			if err != nil {
				return nil, err
			}
			e[bodyKey(name)] = body
		}
		list[i] = e
	}
	return list, nil
}

// bodyKey is what a step's essence has a body under.
func bodyKey(name string) string { return strings.TrimSuffix("body/"+name, "/") }

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

// essence is what counts of a step, but for its bodies.
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
	add("limits", s.Limits != nil, s.Limits.essence())
	add("retry", s.Retry != nil, s.Retry.essence())
	add("idempotency_key", s.IdempotencyKey != nil, s.IdempotencyKey.Decoded())
	add("on_indeterminate", s.OnIndeterminate != "", string(s.OnIndeterminate))
	if r := s.Rollback; r != nil {
		e["rollback"] = []any{r.Uses.Text, r.With.Decoded()}
	}
	if h := s.Human; h != nil {
		decisions := texts(h.Decisions)
		if h.Decisions == nil { // runs have begun when the default stood here
			decisions = []any{"approve", "reject"}
		}
		e["human"] = []any{h.Prompt.Decoded(), h.Show.Decoded(), decisions, h.Form != nil, h.FormJSON,
			int64(h.Expires), h.OnExpire.Reject, h.OnExpire.Set != nil, h.OnExpire.Set.Decoded()}
		add("to", h.To != nil, h.To.Decoded())
		add("four_eyes", h.FourEyes, true)
		add("answer", h.AnswerJSON != nil, h.AnswerJSON)
	}
	if w := s.Wait; w != nil {
		e["wait"] = []any{w.Duration.Decoded(), w.At.Decoded(), w.Event.Text, int64(w.Timeout)}
	}
	s.addControl(e)
	if f := s.Foreach; f != nil {
		e["foreach"] = []any{f.In.Decoded(), f.As.Text, int64(f.MaxParallel), f.Collect, int64(f.MaxItems)}
	}
	if o := s.Output; o != nil {
		e["output"] = []any{o.SchemaJSON != nil, o.SchemaJSON, int64(o.MaxBytes)}
		var checks []any
		for _, c := range o.Checks {
			checks = append(checks, []any{c.That.Text, c.Else.Decoded()})
		}
		add("checks", checks != nil, checks)
		if o.Repairs != nil {
			e["repairs"] = int64(*o.Repairs)
		}
	}
	return e
}

// addControl adds what counts of the kinds that own bodies, and of those that work with channels
// and documents.
func (s *Step) addControl(e map[string]any) {
	if l := s.Loop; l != nil {
		e["loop"] = []any{l.Until.Text, int64(l.MaxIterations), l.Next != nil, l.Next.Decoded(),
			l.Continue, l.FailAtLimit}
		if rounds := l.rounds(); rounds != nil {
			e["rounds"] = rounds
		}
	}
	if f := s.Fork; f != nil {
		branches := make([]any, len(f.Branches))
		for i, b := range f.Branches {
			branches[i] = b.Name
		}
		e["fork"] = []any{f.Mode, int64(f.MaxParallel), branches}
	}
	if c := s.Switch; c != nil {
		cases := make([]any, len(c.Cases))
		for i, b := range c.Cases {
			cases[i] = []any{b.Name.Text, b.When.Text}
		}
		e["switch"] = cases
	}
	if x := s.Send; x != nil {
		e["send"] = []any{x.Channel.Text, x.Value.Decoded()}
	}
	if r := s.Receive; r != nil {
		e["receive"] = []any{r.Channel.Text, int64(r.Timeout),
			r.OnEmpty.Fail, r.OnEmpty.Set != nil, r.OnEmpty.Set.Decoded()}
	}
	if r := s.Retrieve; r != nil {
		e["retrieve"] = r.essence()
	}
	if x := s.Index; x != nil {
		e["index"] = x.essence()
	}
}

// rounds is what older recipes could not say; nil: l says none of it.
func (l *Loop) rounds() map[string]any {
	e := map[string]any{}
	for key, v := range map[string]*Value{"over": l.Over, "first": l.First, "max": l.MaxExpression} {
		if v != nil {
			e[key] = v.Decoded()
		}
	}
	if l.Over != nil {
		e["as"] = l.As.Text
	}
	if l.Wait != nil {
		e["waits"] = true
	}
	if len(e) == 0 {
		return nil
	}
	return e
}

// essence leaves out what older recipes could not say; nil for nil.
func (l *Limits) essence() []any {
	if l == nil {
		return nil
	}
	e := []any{int64(l.WallTime), int64(l.MaxParallel)}
	if l.Tokens != 0 || l.CostUSD != 0 || l.Pause {
		e = append(e, int64(l.Tokens), l.CostUSD, l.Pause)
	}
	if l.ToolCalls != 0 {
		e = append(e, int64(l.ToolCalls))
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
	if r.When.Text != "" {
		e["when"] = r.When.Text
	}
	for key, d := range map[string]*time.Duration{
		"backoff": r.Backoff, "max_backoff": r.MaxBackoff, "timeout": r.Timeout,
	} {
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

func channelsEssence(r *Recipe) map[string]any {
	e := map[string]any{}
	for _, c := range r.Channels {
		e[c.Name] = c.Kind
	}
	return e
}

func agentsEssence(agents []Agent) map[string]any {
	e := map[string]any{}
	for _, a := range agents {
		e[a.ID] = map[string]any{"spec": a.Spec.essence(), "instructions": a.Instructions}
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
