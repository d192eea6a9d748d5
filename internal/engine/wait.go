package engine

import (
	"fmt"
	"time"

	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// pauseOf makes the pause of a human or a wait step from its arguments, as the recipe's reader and
// expressions made them.
func pauseOf(kind program.WaitKind, input any, now time.Time) (p resume.Pause, err error) {
	fields, _ := input.(map[string]any)
	text := func(name string) string {
		v, known := fields[name]
		s, ok := v.(string)
		if known && v != nil && !ok && err == nil {
			err = fmt.Errorf("%s must be text, not %s", name, value.TypeName(v))
		}
		return s
	}
	length := func(name string) time.Duration {
		s := text(name)
		if s == "" {
			return 0
		}
		d, bad := value.Duration(s)
		if (bad != nil || d <= 0) && err == nil {
			err = fmt.Errorf("%s is %q, not a duration like 90s", name, s)
		}
		return d
	}
	if kind == program.WaitTime {
		switch event := text("event"); {
		case event != "":
			p = resume.Pause{Kind: resume.External, Reason: event}
			if d := length("timeout"); d > 0 {
				p.ExpiresAt = now.Add(d)
			}
		case fields["at"] != nil:
			p.Kind = resume.System
			var bad error
			if p.RetryAt, bad = value.Time(text("at")); bad != nil && err == nil {
				err = fmt.Errorf("at is %q, not a time like 2026-01-31T12:00:00Z", text("at"))
			}
		default:
			p = resume.Pause{Kind: resume.System, RetryAt: now.Add(length("duration"))}
		}
		return p, err
	}
	p = resume.Pause{Kind: resume.Human, Prompt: text("prompt"), Show: fields["show"],
		Schema: fields["form"], Decisions: []string{"approve", "reject"}}
	if fields["form"] != nil {
		p.Default = "approve"
	}
	if fields["answer"] != nil {
		p.Schema, p.Decisions = fields["answer"], nil
	}
	if list, ok := fields["decisions"].([]any); ok {
		p.Default = ""
		p.Decisions = nil
		for _, d := range list {
			s, _ := d.(string)
			p.Decisions = append(p.Decisions, s)
		}
	}
	if to, given := fields["to"]; given && err == nil {
		p.To, err = program.PeopleOf("to", to)
	}
	p.FourEyes = fields["four_eyes"] == true
	if d := length("expires"); d > 0 {
		p.ExpiresAt = now.Add(d)
	}
	if err == nil {
		p.OnExpire, err = resume.ParseExpiry(fields["on_expire"])
	}
	if err == nil {
		err = p.CheckExpiry()
	}
	return p, err
}

// badWait is the failure of a step whose arguments do not say what it waits for, or says.
func badWait(err error) *machine.Failure {
	return &machine.Failure{Category: string(runtime.CategoryConfig), Code: "wait.arguments", Err: err}
}
