package temporal

import (
	"context"
	"errors"
	"time"

	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// fault is an error on its way to another process. A fault that is itself of a type which the engine knows has one of
// Known, Failure, Pause and Panic; any other one has what errors.As finds in its chain.
type fault struct {
	Text    string   `json:"text"`
	Known   *known   `json:"known,omitempty"`
	Failure *failure `json:"failure,omitempty"`
	Pause   *pause   `json:"pause,omitempty"`
	Panic   *string  `json:"panic,omitempty"` // the stack
	Is      string   `json:"is,omitempty"`    // canceled or deadline, of the context package
	Inside  bool     `json:"inside,omitempty"`
}

// known is a [runtime.Error].
type known struct {
	Category runtime.Category `json:"category,omitempty"`
	Code     string           `json:"code,omitempty"`
	Step     string           `json:"step,omitempty"`
	Data     *decoded         `json:"data,omitempty"`
	Err      *fault           `json:"err"`
}

// failure is a [retry.Failure].
type failure struct {
	Reason retry.Reason  `json:"reason,omitempty"`
	Status int           `json:"status,omitempty"`
	After  time.Duration `json:"after,omitempty"`
	Sent   bool          `json:"sent,omitempty"`
	Err    *fault        `json:"err"`
}

// pause is a [resume.Pause].
type pause struct {
	resume.Pause
	Schema          *decoded `json:"schema,omitempty"`
	Show            *decoded `json:"show,omitempty"`
	OnExpire        *decoded `json:"onExpire,omitempty"`
	OnExpireAnswers bool     `json:"onExpireAnswers,omitempty"`
}

// faultOf takes an error apart; nil is nil.
func faultOf(err error) *fault {
	if err == nil {
		return nil
	}
	f := &fault{Text: err.Error()}
	if f.put(err) {
		return f
	}
	f.Inside = true
	if e, ok := errors.AsType[*runtime.Error](err); ok {
		f.put(e)
	}
	if e, ok := errors.AsType[*retry.Failure](err); ok {
		f.put(e)
	}
	if e, ok := errors.AsType[*resume.Suspension](err); ok {
		f.put(e)
	}
	if e, ok := errors.AsType[*engine.PanicError](err); ok {
		f.put(e)
	}
	if errors.Is(err, context.Canceled) {
		f.Is = "canceled"
	} else if errors.Is(err, context.DeadlineExceeded) {
		f.Is = "deadline"
	}
	if f.Failure == nil && f.Is == "" { // errors of the network are known by their types
		if reason := retry.ReasonOf(err); reason != retry.Unknown {
			f.Failure = &failure{Reason: reason, Sent: true, Err: &fault{Text: f.Text}}
		}
	}
	return f
}

// put notes an error of a type that the engine knows; false: it does not.
func (f *fault) put(err error) bool {
	switch e := err.(type) {
	case *runtime.Error:
		f.Known = &known{Category: e.Category, Code: e.Code, Step: e.Step, Err: faultOf(e.Err)}
		if e.Data != nil {
			f.Known.Data = &decoded{e.Data}
		}
	case *retry.Failure:
		f.Failure = &failure{e.Reason, e.Status, e.After, e.Sent, faultOf(e.Err)}
	case *resume.Suspension:
		f.Pause = pauseOf(&e.Pause)
	case *engine.PanicError:
		f.Panic = &e.Stack
	default:
		return false
	}
	return true
}

// err puts the error together again.
func (f *fault) err() error {
	if f == nil {
		return nil
	}
	var list []error
	if k := f.Known; k != nil {
		list = append(list, k.err())
	}
	if e := f.Failure; e != nil {
		list = append(list, &retry.Failure{Reason: e.Reason, Status: e.Status, After: e.After, Sent: e.Sent, Err: e.Err.err()})
	}
	if f.Pause != nil {
		list = append(list, &resume.Suspension{Pause: f.Pause.pause()})
	}
	if f.Panic != nil {
		list = append(list, &engine.PanicError{Text: f.Text, Stack: *f.Panic})
	}
	if len(list) == 1 && !f.Inside {
		return list[0]
	}
	switch f.Is {
	case "canceled":
		list = append(list, context.Canceled)
	case "deadline":
		list = append(list, context.DeadlineExceeded)
	}
	return &worded{f.Text, list}
}

// err puts the error together again.
func (k *known) err() *runtime.Error {
	e := &runtime.Error{Category: k.Category, Code: k.Code, Step: k.Step, Err: k.Err.err()}
	if k.Data != nil {
		e.Data = k.Data.v
	}
	return e
}

// worded is an error of another process: its text, and what its chain had.
type worded struct {
	text  string
	chain []error
}

func (e *worded) Error() string   { return e.text }
func (e *worded) Unwrap() []error { return e.chain }

func pauseOf(p *resume.Pause) *pause {
	w := &pause{Pause: *p, OnExpireAnswers: p.OnExpire.Answered}
	w.Pause.Schema, w.Pause.Show = nil, nil
	if p.Schema != nil {
		w.Schema = &decoded{p.Schema}
	}
	if p.Show != nil {
		w.Show = &decoded{p.Show}
	}
	if p.OnExpire.Value != nil {
		w.OnExpire = &decoded{p.OnExpire.Value}
	}
	if p.Call != nil {
		c := *p.Call
		w.Pause.Call = &c
	}
	return w
}

func (w *pause) pause() resume.Pause {
	p := w.Pause
	if p.OnExpire.Answered = w.OnExpireAnswers; w.OnExpire != nil {
		p.OnExpire.Value = w.OnExpire.v
	}
	if w.Schema != nil {
		p.Schema = w.Schema.v
	}
	if w.Show != nil {
		p.Show = w.Show.v
	}
	return p
}

// redact removes secrets from the texts of a fault: a redacted error shows its parts to errors.As as they were.
func (f *fault) redact(r *value.Redactor) {
	if f == nil {
		return
	}
	f.Text = r.Text(f.Text)
	if f.Known != nil {
		f.Known.Err.redact(r)
	}
	if f.Failure != nil {
		f.Failure.Err.redact(r)
	}
}
