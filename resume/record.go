package resume

import (
	"fmt"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/value"
)

// Record returns the record that opens the pause in a journal, at CreatedAt. All but the token is in
// it: Step as its path, the rest as its data, where ID is called pause and RetryAt dueAt, as stores
// know them, and OnExpire is what [ParseExpiry] reads.
//
// The pause that [Opened] makes of the record is the one to show: then it looks the same in the
// process that opened it and in any later one. The error says that the pause has no ID or
// CreatedAt, or that something in it is not JSON.
func (p Pause) Record() (checkpoint.Record, error) {
	data, err := p.Members()
	var rec checkpoint.Record
	if err == nil {
		rec, err = checkpoint.NewRecord(p.CreatedAt, checkpoint.PauseOpened, p.Step, data)
	}
	if err != nil && data != nil {
		err = fmt.Errorf("%s: %w", p, err)
	}
	return rec, err
}

// Members returns the data of that record, to which others may be added. The error is the same.
func (p Pause) Members() (map[string]any, error) {
	fail := func(err error) (map[string]any, error) { return nil, fmt.Errorf("%s: %w", p, err) }
	n, err := p.normal()
	if err != nil {
		return fail(err)
	}
	if n.ID == "" || n.CreatedAt.IsZero() {
		return fail(fmt.Errorf("it has no id or no time"))
	}
	data := map[string]any{"pause": n.ID, "kind": string(n.Kind)}
	for name, s := range map[string]string{"prompt": n.Prompt, "reason": n.Reason, "default": n.Default} {
		if s != "" {
			data[name] = s
		}
	}
	for name, t := range map[string]time.Time{"expiresAt": n.ExpiresAt, "dueAt": n.RetryAt} {
		if !t.IsZero() {
			data[name] = t.Format(time.RFC3339Nano)
		}
	}
	for name, v := range map[string]any{"schema": n.Schema, "show": n.Show} {
		if v != nil {
			data[name] = v
		}
	}
	if len(n.Decisions) > 0 {
		data["decisions"] = n.Decisions
	}
	if len(n.To) > 0 {
		data["to"] = n.To
	}
	if n.FourEyes {
		data["fourEyes"] = true
	}
	if n.Call != nil {
		data["about"] = n.Call.members()
	}
	if n.OnExpire.Answered {
		data["onExpire"] = map[string]any{"set": n.OnExpire.Value}
	}
	return data, nil
}

// Opened returns the pause that a record opened, without a token. Members of the data that are not a pause's
// are passed over. [checkpoint.ErrCorrupt] when the record is of another kind, or no pause.
func Opened(rec checkpoint.Record) (Pause, error) {
	p, err := opened(rec)
	if err != nil {
		return Pause{}, fmt.Errorf("record %d (%s): %w: %w", rec.Seq, rec.Kind, checkpoint.ErrCorrupt, err)
	}
	return p, nil
}

func opened(rec checkpoint.Record) (p Pause, err error) {
	if rec.Kind != checkpoint.PauseOpened {
		return p, fmt.Errorf("it opens no pause")
	}
	v, err := value.DecodeStrict(rec.Data)
	if err != nil {
		return p, fmt.Errorf("data: %w", err)
	}
	m, _ := v.(map[string]any)
	p = Pause{
		ID:        member[string](m, "pause", &err),
		Kind:      Kind(member[string](m, "kind", &err)),
		Step:      rec.Path,
		Prompt:    member[string](m, "prompt", &err),
		Schema:    m["schema"],
		Show:      m["show"],
		Reason:    member[string](m, "reason", &err),
		Default:   member[string](m, "default", &err),
		FourEyes:  member[bool](m, "fourEyes", &err),
		CreatedAt: rec.At,
		ExpiresAt: moment(m, "expiresAt", &err),
		RetryAt:   moment(m, "dueAt", &err),
	}
	p.Call = callOf(member[map[string]any](m, "about", &err), &err)
	p.Decisions, p.To = texts(m, "decisions", "a decision", &err), texts(m, "to", "a name", &err)
	if err != nil {
		return p, err
	}
	if p.OnExpire, err = ParseExpiry(m["onExpire"]); err != nil {
		return p, fmt.Errorf("onExpire: %w", err)
	}
	if p.ID == "" {
		return p, fmt.Errorf("no pause")
	}
	return p.normal()
}

// texts returns a list of strings, nil when it is missing; one is what each of them is.
func texts(m map[string]any, name, one string, err *error) (list []string) {
	for _, v := range member[[]any](m, name, err) {
		list = append(list, member[string](map[string]any{one: v}, one, err))
	}
	return list
}

// member returns a member of m, zero when it is missing. The first that is not a T becomes err.
func member[T any](m map[string]any, name string, err *error) T {
	v, there := m[name]
	t, ok := v.(T)
	if there && !ok && *err == nil {
		*err = fmt.Errorf("%s is %s", name, value.TypeName(v))
	}
	return t
}

func moment(m map[string]any, name string, err *error) time.Time {
	text := member[string](m, name, err)
	if text == "" {
		return time.Time{}
	}
	t, bad := time.Parse(time.RFC3339Nano, text)
	if bad != nil && *err == nil {
		*err = fmt.Errorf("%s: %w", name, bad)
	}
	return t
}
