package resume

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/internal/value"
)

// Kind says whom a pause waits for.
type Kind string

// The kinds.
const (
	Human    Kind = "human"    // a person
	External Kind = "external" // an event from outside
	System   Kind = "system"   // a time, or an answer from the operator of the engine
)

// BatchReason is the reason of an external pause in which a call of a model waits for its answer in a batch.
const BatchReason = "model.batch"

// InBatch reports whether a call of a model waits for its answer in a batch. Nobody is asked: the pause ends when the
// batch is over. An answer to it only has the batch looked at earlier.
func (p Pause) InBatch() bool { return p.Kind == External && p.Reason == BatchReason }

// Pause is a point where a step waits. Its JSON is that of an outcome's pauses; a journal keeps it
// as a record, see [Pause.Record]. Times are in UTC, and zero where there is none.
//
// An outcome has a fresh token for each new pause, and for the first 100 that had one before. The earlier
// tokens of the others are as good, see [Tokens].
//
// Printed or logged as a whole it does not show its token.
type Pause struct {
	ID        string   `json:"id"`              // unique in the run
	Token     string   `json:"token,omitempty"` // fresh; "" of some of many, see above
	Kind      Kind     `json:"kind"`
	Step      string   `json:"step"` // the path
	Prompt    string   `json:"prompt,omitempty"`
	Decisions []string `json:"decisions,omitempty"` // nil: the answer is not a decision
	// Default is the decision of an answer that fills in the form and names none. "": one must be named, if there are
	// several.
	Default string `json:"default,omitempty"`
	// JSON Schema of the form, without decisions of the answer; nil: anything
	Schema any `json:"schema,omitempty"`
	Show   any `json:"show,omitempty"` // what to look at, decoded JSON
	// To names the people and groups of whom one may answer, see [Pause.Allows]; nil: anybody may.
	To        []string  `json:"to,omitempty"`
	FourEyes  bool      `json:"fourEyes,omitempty"` // not by whoever began the run
	Reason    string    `json:"reason,omitempty"`   // why the system pauses: indeterminate
	CreatedAt time.Time `json:"createdAt"`
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	RetryAt   time.Time `json:"retryAt,omitzero"` // when the step continues without an answer
	OnExpire  Expiry    `json:"-"`                // not needed for an answer
	// The call that a system pause with the reason indeterminate is about; nil for other pauses, and where the
	// journal of an earlier version does not say.
	Call *Call `json:"call,omitempty"`
}

// Call is what is known of a call whose outcome a person must find out.
type Call struct {
	Tool      string    `json:"tool"`
	Arguments any       `json:"arguments,omitempty"` // decoded JSON, secrets out; nil: not known
	Key       string    `json:"key"`                 // see [Key]
	Attempt   int       `json:"attempt,omitempty"`   // from 1; 0: not known, the process died
	At        time.Time `json:"at,omitzero"`         // when that began
	Owner     string    `json:"owner,omitempty"`     // the process that made it, as leases name it; "": not known
	// Given is what a person has said became of the call, {decision, form}: now the question is whether to make it
	// again. nil: nobody has.
	Given any `json:"given,omitempty"`
	// PIDs are the processes of the call on this host that still lived when the pause was shown; nil: none, or nothing
	// can be known. They are not in a journal.
	PIDs []int `json:"pids,omitempty"`
}

// members are those of the call in a record.
func (c *Call) members() map[string]any {
	m := map[string]any{"tool": c.Tool, "key": c.Key}
	if c.Arguments != nil {
		m["arguments"] = c.Arguments
	}
	if c.Attempt > 0 {
		m["attempt"] = int64(c.Attempt)
	}
	if !c.At.IsZero() {
		m["at"] = c.At.Format(time.RFC3339Nano)
	}
	if c.Owner != "" {
		m["owner"] = c.Owner
	}
	if c.Given != nil {
		m["given"] = c.Given
	}
	return m
}

// callOf reads them; nil: there are none.
func callOf(m map[string]any, err *error) *Call {
	if m == nil {
		return nil
	}
	return &Call{
		Tool: member[string](m, "tool", err), Arguments: m["arguments"], Key: member[string](m, "key", err),
		Attempt: int(member[int64](m, "attempt", err)), At: moment(m, "at", err),
		Owner: member[string](m, "owner", err), Given: m["given"],
	}
}

// String names the pause.
func (p Pause) String() string { return fmt.Sprintf("%s pause %q of step %q", p.Kind, p.ID, p.Step) }

// Question identifies what is asked, and who: the SHA-256, in hex, of the canonical JSON of prompt, show, schema,
// decisions, to (sorted) and fourEyes, without those that are empty. An answer is for the question that was shown.
func (p Pause) Question() string {
	about := map[string]any{}
	if p.Prompt != "" {
		about["prompt"] = p.Prompt
	}
	if p.Show != nil {
		about["show"] = p.Show
	}
	if p.Schema != nil {
		about["schema"] = p.Schema
	}
	if len(p.Decisions) > 0 {
		about["decisions"] = p.Decisions
	}
	if len(p.To) > 0 {
		about["to"] = slices.Sorted(slices.Values(p.To))
	}
	if p.FourEyes {
		about["fourEyes"] = true
	}
	text, err := value.JSON(about)
	if err != nil {
		text = []byte(err.Error()) // no pause of a journal has such values
	}
	return fmt.Sprintf("%x", sha256.Sum256(text))
}

// LogValue keeps the token out of logs.
func (p Pause) LogValue() slog.Value { return slog.StringValue(p.String()) }

// Suspension is the error of a step that pauses.
type Suspension struct{ Pause Pause }

// Error says that the step pauses, for callers of the tool outside of a run.
func (s *Suspension) Error() string {
	return fmt.Sprintf("the call pauses its step (%s)", s.Pause.Kind)
}

// Suspend returns the error by which a tool, or another adapter, pauses the step that calls it: a
// [*Suspension], for errors.As. When there is an answer the tool is called again, with the same
// arguments and idempotency key, and finds it with [Answer], or in [Replies] if it may pause more than once. It
// repeats what it did before it paused, unless it looks there first.
//
// The engine fills in ID, Token, Step and CreatedAt. If p is not fit for a pause, the error is not
// a Suspension, and the step fails with it.
func Suspend(p Pause) error {
	p, err := p.normal()
	if err != nil {
		return fmt.Errorf("cannot pause: %w", err)
	}
	return &Suspension{p}
}

// normal returns the pause with decoded JSON and times in UTC.
func (p Pause) normal() (Pause, error) {
	if p.Kind != Human && p.Kind != External && p.Kind != System {
		return p, fmt.Errorf("unknown kind %q\n  hint: it is %q, %q or %q", p.Kind, Human, External, System)
	}
	seen := map[string]bool{"": true}
	for _, d := range p.Decisions {
		if seen[d] {
			return p, fmt.Errorf("decisions: %q is empty or repeated", d)
		}
		seen[d] = true
	}
	if !seen[p.Default] {
		return p, fmt.Errorf("the default %q is none of the decisions", p.Default)
	}
	if slices.Contains(p.To, "") {
		return p, errors.New("to: a name is empty")
	}
	var err error
	for _, v := range []struct {
		name string
		at   *any
	}{{"schema", &p.Schema}, {"show", &p.Show}, {"on_expire", &p.OnExpire.Value}} {
		if *v.at, err = value.Normalise(*v.at); err != nil {
			return p, fmt.Errorf("%s: %w", v.name, err)
		}
	}
	switch p.Schema.(type) {
	case nil, bool, map[string]any:
	default:
		return p, fmt.Errorf("schema is %s, not an object", value.TypeName(p.Schema))
	}
	for _, t := range []*time.Time{&p.CreatedAt, &p.ExpiresAt, &p.RetryAt} {
		*t = t.UTC().Round(0)
		if y := t.Year(); y < 1 || y > 9999 {
			return p, fmt.Errorf("the year %d is not between 1 and 9999", y)
		}
	}
	return p, nil
}

// AnswerOf makes the answer to a pause of what a person typed: {decision, form} where the pause has
// decisions (a nil form is left out); without a decision the form itself, which is an event's
// payload, or {answer} for human.ask.
func AnswerOf(decision string, form any) any {
	switch {
	case decision == "":
		return form
	case form == nil:
		return map[string]any{"decision": decision}
	}
	return map[string]any{"decision": decision, "form": form}
}

// formless are the decisions that send no form, whatever the schema: there is nothing to fill in.
var formless = []string{"reject", "retry", "fail"}

// Check returns an answer as it is to be recorded, in decoded JSON, or says why it does not fit.
//
// A pause with decisions takes {decision, form?}, and Check returns both members. A lone decision need not be named,
// and what a form leaves out is taken from the defaults of its schema. A form that is left out is {} where there is a
// schema, as if it had been left empty, and else null; with the
// decisions reject, retry and fail it is null and not checked. A pause without decisions takes
// whatever matches the schema; nil and "" stand for the default of the schema where it has one. Names that the schema
// lacks are refused, unless it has additionalProperties.
func (p *Pause) Check(answer any) (any, error) {
	answer, err := value.Normalise(answer)
	if err != nil {
		return nil, fmt.Errorf("the answer to %s: %w", p, err)
	}
	fits := func(what string, v, whole any) (any, error) {
		if err := p.filledIn(v); err != nil {
			return nil, fmt.Errorf("the %s for %s: %w", what, p, err)
		}
		return whole, nil
	}
	if len(p.Decisions) == 0 {
		answer = p.preset(answer)
		return fits("answer", answer, answer)
	}

	m, _ := p.withDecision(answer).(map[string]any)
	decision, ok := m["decision"].(string)
	if !ok {
		return nil, fmt.Errorf("the answer to %s has no decision\n  hint: it is %s", p, p.choice())
	}
	if !slices.Contains(p.Decisions, decision) {
		return nil, fmt.Errorf("the answer to %s: unknown decision %.40q\n  hint: it is %s", p, decision, p.choice())
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if name != "decision" && name != "form" {
			return nil, fmt.Errorf("the answer to %s: unknown member %.40q"+
				"\n  hint: what a form holds goes into \"form\"", p, name)
		}
	}
	form, sent := m["form"]
	if !sent && p.Schema != nil && !slices.Contains(formless, decision) {
		form, sent = map[string]any{}, true
	}
	if sent && !slices.Contains(formless, decision) {
		form = p.withDefaults(form)
	}
	whole := map[string]any{"decision": decision, "form": form}
	if !sent {
		return whole, nil
	}
	return fits("form", form, whole)
}

// fits says how a value differs from the schema; nil: not at all.
func (p *Pause) fits(v any) error {
	if p.Schema == nil {
		return nil
	}
	want, err := compileSchema(p.Schema)
	if err != nil {
		return err
	}
	if problems := want.Check(v); problems != nil {
		return &schema.Misfit{Problems: problems}
	}
	return nil
}

func compileSchema(s any) (*schema.Schema, error) {
	compiled, err := schema.CompileValue(s)
	if err != nil {
		return nil, fmt.Errorf("its schema: %w", err)
	}
	return compiled, nil
}

// CheckExpiry says why the pause of a step cannot end with what OnExpire answers; nil: it can. Without decisions the
// answer must match the schema, and nothing stands for its defaults. With decisions it is free, but a form in it must
// match the schema.
func (p *Pause) CheckExpiry() error {
	if !p.OnExpire.Answered {
		return nil
	}
	v := p.OnExpire.Value
	if len(p.Decisions) > 0 {
		m, _ := v.(map[string]any)
		if v = m["form"]; v == nil {
			return nil
		}
	}
	if err := p.fits(v); err != nil {
		return fmt.Errorf("what on_expire sets: %w", err)
	}
	return nil
}

// withDecision puts the decision into an answer to a pause that has a single one, which need not be named: the answer
// is the form then, or {form}, or nil. So it is with the default decision, but then something must be filled in.
func (p *Pause) withDecision(answer any) any {
	m, isMap := answer.(map[string]any)
	decision := p.Default
	if len(p.Decisions) == 1 {
		decision = p.Decisions[0]
	}
	if _, named := m["decision"]; decision == "" || named || answer != nil && !isMap ||
		len(m) == 0 && decision == p.Default {
		return answer
	}
	whole := map[string]any{"decision": decision}
	if form, ok := m["form"]; ok && len(m) == 1 {
		whole["form"] = form
	} else if len(m) > 0 {
		whole["form"] = answer
	}
	return whole
}

// preset is an answer to a pause without decisions: no answer, or an empty one, stands for the default of the schema.
func (p *Pause) preset(answer any) any {
	s, _ := p.Schema.(map[string]any)
	if preset, given := s["default"]; given && (answer == nil || answer == "") {
		return preset
	}
	return p.withDefaults(answer)
}

// withDefaults fills in the fields that a form leaves out and that have a default.
func (p *Pause) withDefaults(form any) any {
	filled, isMap := form.(map[string]any)
	s, _ := p.Schema.(map[string]any)
	properties, _ := s["properties"].(map[string]any)
	if !isMap {
		return form
	}
	filled = maps.Clone(filled)
	for name, v := range properties {
		field, _ := v.(map[string]any)
		if _, given := filled[name]; !given {
			if v, ok := field["default"]; ok {
				filled[name] = v
			}
		}
	}
	return filled
}

// choice lists the decisions for a hint.
func (p *Pause) choice() string { return oneOf(p.Decisions) }

// oneOf lists words for a hint.
func oneOf(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = fmt.Sprintf("%q", w)
	}
	return strings.Join(quoted, " or ")
}

// Expiry says what happens to a pause without an answer in time. The zero Expiry fails the step.
type Expiry struct {
	Answered bool // the pause counts as answered, with Value
	Value    any  // decoded JSON
}

// ParseExpiry reads what on_expire says in a recipe, as decoded JSON: "fail" (also nil), "reject", which
// answers with that decision, or {"set": value}, which answers with the value. See [Pause.CheckExpiry].
func ParseExpiry(v any) (Expiry, error) {
	switch v {
	case nil, "fail":
		return Expiry{}, nil
	case "reject":
		return Expiry{Answered: true, Value: map[string]any{"decision": "reject", "form": nil}}, nil
	}
	if m, ok := v.(map[string]any); ok && len(m) == 1 {
		if set, ok := m["set"]; ok {
			return Expiry{Answered: true, Value: set}, nil
		}
	}
	return Expiry{}, errors.New(`it says none of "fail", "reject" and {set: value}`)
}

// Next is what the time makes of an open pause.
type Next string

// What there is to do.
const (
	Wait     Next = "wait"     // nothing is due
	GoOn     Next = "go on"    // enter the step again, without an answer
	Answered Next = "answered" // record the answer and continue
	Failed   Next = "failed"   // no answer came in time: the step fails
)

// Due says what to do at a time, and the answer if that is Answered. The earlier of RetryAt and
// ExpiresAt counts, however late it is by then; if they are equal, RetryAt does.
func (p *Pause) Due(now time.Time) (next Next, answer any) {
	retry, expires := p.RetryAt, p.ExpiresAt
	if !retry.IsZero() && (expires.IsZero() || !expires.Before(retry)) {
		if now.Before(retry) {
			return Wait, nil
		}
		return GoOn, nil
	}
	switch {
	case expires.IsZero() || now.Before(expires):
		return Wait, nil
	case p.OnExpire.Answered:
		return Answered, p.OnExpire.Value
	}
	return Failed, nil
}
