package workflow

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// openPause is a pause that nobody has answered yet.
type openPause struct {
	resume.Pause
	task    *machine.Task
	inAgent string // what the agent calls it whose pause it is; "": it is the step's own
	again   bool   // in an agent: a call that failed waits for its next attempt
	key     engine.PauseKey
	timer   *time.Timer // for what is due while the run goes on; nil: nothing
}

// openWait opens what a human or a wait step waits for. A short wait, and any wait for a time in a
// run without a store, is slept through.
func (r *run) openWait(c machine.Command) {
	if c.Task.Status() != machine.Waiting {
		return // it has ended meanwhile
	}
	if c.Task.Node().Kind == machine.Receive {
		r.openReceive(c.Task)
		return
	}
	p, err := pauseOf(c.Task.Node().Adapter.(program.WaitKind), c.Input, r.events.now)
	if err != nil {
		r.refuseWait(c.Task, r.m.Decided(), &machine.Failure{Category: string(runtime.CategoryConfig),
			Code: "wait.arguments", Err: err})
		return
	}
	if left := p.RetryAt.Sub(r.events.now); !p.RetryAt.IsZero() && (left <= r.limits.InlineWait || r.rt.Store == nil) {
		r.m.Keep(c.Task)
		r.after(left, func() { r.waitOver(c.Task) })
		return
	}
	r.pause(c.Task, r.m.Decided(), journal.PauseOpened{Pause: p})
}

// refuseWait ends the waiting of a task for which no pause can be opened.
func (r *run) refuseWait(t *machine.Task, n int64, failure *machine.Failure) {
	what := journal.What(journal.WaitOver{Failure: failure})
	if t.Node().Kind == machine.Call { // which waits already
		what = journal.CallEnded{Failure: failure}
	}
	r.noteAfter(n, r.events.path(t), what)
	r.answerTask(t, nil, failure)
}

// waitOver ends a short wait that was slept through.
func (r *run) waitOver(t *machine.Task) {
	if t.Status() == machine.Waiting && !r.cancelled {
		r.record(t, t.Path(), journal.WaitOver{})
	}
}

// suspend opens the pause that a call asked for.
func (r *run) suspend(in *invocation) {
	n := r.m.Decided()
	if r.m.Suspend(in.task); in.task.Status() != machine.Waiting { // it was told to stop meanwhile
		if !r.cancelled {
			r.noteAfter(n, in.path, journal.CallEnded{Failure: in.task.Failure(), Models: in.models()})
			r.m.Spend(in.task, in.used.Micros)
		}
		return
	}
	r.pause(in.task, n, journal.PauseOpened{Pause: *in.pause, Progress: in.Progress, Models: in.models()})
}

// shownPause is a pause that an adapter asked for, secrets out.
func (in *invocation) shownPause(p resume.Pause) *resume.Pause {
	redact := in.run.prepared.redact
	p.Prompt, p.Reason = redact.Text(p.Prompt), redact.Text(p.Reason)
	p.Show, p.Schema, p.OnExpire.Value = redact.Value(p.Show), redact.Value(p.Schema), redact.Value(p.OnExpire.Value)
	p.Decisions = slices.Clone(p.Decisions)
	for i := range p.Decisions {
		p.Decisions[i] = redact.Text(p.Decisions[i])
	}
	return &p
}

// pause gives a pause its identity, writes it down and tells whoever wants to know.
func (r *run) pause(t *machine.Task, n int64, what journal.PauseOpened) {
	path := r.events.path(t)
	what.Pause.ID = pauseID(path, r.opened[path]+1)
	if err := r.openPause(t, path, n, what); err != nil {
		r.refuseWait(t, n, &machine.Failure{Category: string(runtime.CategoryTool), Code: "pause.invalid", Err: err})
	}
}

// openPause opens a pause, which then looks as it will to whoever reads the journal.
func (r *run) openPause(t *machine.Task, path string, n int64, what journal.PauseOpened) error {
	what.Interrupt = r.interrupt
	rec, err := journal.Encode(journal.Event{At: r.events.now, Path: path, After: n, What: what})
	if err != nil {
		return err
	}
	e, err := journal.Decode(rec)
	if err != nil {
		return err
	}
	r.recordAll(t, []journal.Event{e})
	opened := r.pauses[len(r.pauses)-1]
	if r.answerFromBefore(opened) {
		return nil
	}
	reached(pauseNoted)
	r.events.emit(t, trace.StepWaiting, path, trace.Data{{Key: "pauseKind", Value: string(opened.Kind)}}, nil)
	r.announce(opened)
	return nil
}

// announce sets the timers of a pause that was opened, and tells OnPause.
func (r *run) announce(p *openPause) {
	r.watchPause(p)
	if r.rt.OnPause == nil || r.rt.Store == nil {
		return
	}
	shown := p.Pause
	shown.Token = r.mint(p)
	r.flush()
	if r.journal.err == nil {
		go func() {
			defer func() {
				if v := recover(); v != nil {
					r.warn(fmt.Sprintf("OnPause panicked: %v", v))
				}
			}()
			r.rt.OnPause(shown)
		}()
	}
}

// watchPause sees to it that what is due while the run goes on happens.
func (r *run) watchPause(p *openPause) {
	due := p.ExpiresAt
	if due.IsZero() || !p.RetryAt.IsZero() && p.RetryAt.Before(due) {
		due = p.RetryAt
	}
	if !due.IsZero() {
		p.timer = r.after(time.Until(due), func() {
			if !r.cancelled {
				r.goOn(p)
			}
		})
	}
}

// mint makes a token of a pause.
func (r *run) mint(p *openPause) string {
	token, hash := resume.Mint(r.id)
	r.note(p.Step, journal.TokenMinted{Pause: p.ID, Hash: hash, ExpiresAt: p.ExpiresAt})
	reached(tokenMinted)
	return token
}

// goOn ends a pause because of the time, if it is due.
func (r *run) goOn(p *openPause) {
	if !slices.Contains(r.pauses, p) {
		return
	}
	next, answer := p.Due(r.events.now)
	if next == resume.Wait { // timers are not exact
		r.watchPause(p)
		return
	}
	events := []journal.Event{r.answered(p, next, answer)}
	if r.wasUndone {
		events = r.beginsAgain(p, events[0])
	}
	r.recordAll(nil, events)
}

// answered is the end of a pause, now.
func (r *run) answered(p *openPause, next resume.Next, answer any) journal.Event {
	what := journal.PauseAnswered{Pause: p.ID, Next: next}
	if next == resume.Answered {
		what.Answer = answer
	}
	return journal.Event{At: r.events.now, Path: p.Step, After: r.m.Decided(), What: what}
}

// answer goes on with a task whose pause is over.
func (r *run) answer(p *openPause, next resume.Next, answer any) {
	r.pauses = slices.DeleteFunc(r.pauses, func(q *openPause) bool { return q == p })
	if p.timer != nil {
		p.timer.Stop()
	}
	t := p.task
	switch {
	case p.inAgent != "":
		r.answerAgent(p, next, answer)
	case next == resume.Failed && t.Node().Kind == machine.Receive:
		r.answerTask(t, nil, t.ReceiveTimeout())
	case next == resume.Failed:
		r.answerTask(t, nil, nobodyAnswered(p))
	case t.Node().Kind == machine.Wait, t.Node().Kind == machine.Receive:
		r.answerTask(t, answer, nil)
	case p.Reason == journal.Indeterminate:
		r.decideCall(t, answer)
	case next == resume.Answered && asksForMore(p):
		r.decideMore(p, answer)
	default:
		if next == resume.Answered {
			if r.answers == nil {
				r.answers = map[*machine.Task]reply{}
			}
			r.answers[t] = reply{answer, p.Reason}
		}
		r.m.Again(t)
	}
}

func nobodyAnswered(p *openPause) *machine.Failure {
	return &machine.Failure{Category: string(runtime.CategoryConfirmation), Code: "pause.expired",
		Err: fmt.Errorf("nobody answered %s in time", &p.Pause)}
}

// closePauses forgets the pauses of a task that has ended without an answer: one, or several of an agent.
func (r *run) closePauses(t *machine.Task) {
	for i := 0; i < len(r.pauses); {
		p := r.pauses[i]
		if p.task != t {
			i++
			continue
		}
		r.pauses = slices.Delete(r.pauses, i, i+1)
		if p.timer != nil {
			p.timer.Stop()
		}
		if r.replaying || r.cancelled {
			continue
		}
		r.note(p.Step, journal.PauseClosed{Pause: p.ID})
	}
}

// decideCall goes on with a call of which nobody knew whether it had its effect.
func (r *run) decideCall(t *machine.Task, answer any) {
	output, failure, over := settledBy(t.Node().Adapter.(*program.Call), answer)
	if !over {
		r.m.Again(t)
		return
	}
	r.answerTask(t, output, failure)
}

// answerTask ends the waiting of a task.
func (r *run) answerTask(t *machine.Task, output any, failure *machine.Failure) {
	if t.First == 0 && !r.replaying {
		r.events.emit(t, trace.StepStart, t.Path(), nil, nil)
	}
	r.m.Answer(t, output, failure)
}

// pauseOf makes the pause of a human or a wait step of its arguments, which the recipe's reader and
// expressions have made.
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
		d, bad := time.ParseDuration(s)
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
			if p.RetryAt, bad = time.Parse(time.RFC3339, text("at")); bad != nil && err == nil {
				err = fmt.Errorf("at is %q, not a time like 2026-01-31T12:00:00Z", text("at"))
			}
		default:
			p = resume.Pause{Kind: resume.System, RetryAt: now.Add(length("duration"))}
		}
		return p, err
	}
	p = resume.Pause{Kind: resume.Human, Prompt: text("prompt"), Show: fields["show"],
		Schema: fields["form"], Decisions: []string{"approve", "reject"}}
	if list, ok := fields["decisions"].([]any); ok {
		p.Decisions = nil
		for _, d := range list {
			s, _ := d.(string)
			p.Decisions = append(p.Decisions, s)
		}
	}
	if d := length("expires"); d > 0 {
		p.ExpiresAt = now.Add(d)
	}
	if err == nil {
		p.OnExpire, err = resume.ParseExpiry(fields["on_expire"])
	}
	return p, err
}

// matches checks the form of an answer.
func matches(want, v any) error {
	s, err := schema.CompileValue(want)
	if err != nil {
		return fmt.Errorf("its schema: %w", err)
	}
	if problems := s.Check(v); problems != nil {
		return errors.New(schema.Describe(problems))
	}
	return nil
}

// invalidToken is the finding about a token that is worth nothing.
func invalidToken() diagnostics.Diagnostic {
	return diagnostics.Diagnostic{Level: diagnostics.ErrorLevel, Kind: diagnostics.KindResume,
		Code:    diagnostics.CodeInvalidToken,
		Message: "the token is unknown, used or expired"}
}
