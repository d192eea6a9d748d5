package wire

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

// Fault is an error on its way to another process. A fault that is itself of a type which the engine knows has one of
// Known, Failure, Pause and Panic; any other one has what errors.As finds in its chain.
type Fault struct {
	Text    string   `json:"text"`
	Known   *Known   `json:"known,omitempty"`
	Failure *failure `json:"failure,omitempty"`
	Pause   *Pause   `json:"pause,omitempty"`
	Panic   *string  `json:"panic,omitempty"` // the stack
	Is      string   `json:"is,omitempty"`    // canceled or deadline, of the context package
	Inside  bool     `json:"inside,omitempty"`
}

// Known is a [runtime.Error].
type Known struct {
	Category runtime.Category `json:"category,omitempty"`
	Code     string           `json:"code,omitempty"`
	Step     string           `json:"step,omitempty"`
	Err      *Fault           `json:"err"`
}

// failure is a [retry.Failure].
type failure struct {
	Reason retry.Reason  `json:"reason,omitempty"`
	Status int           `json:"status,omitempty"`
	After  time.Duration `json:"after,omitempty"`
	Sent   bool          `json:"sent,omitempty"`
	Err    *Fault        `json:"err"`
}

// Pause is a [resume.Pause].
type Pause struct {
	resume.Pause
	Schema          *Value `json:"schema,omitempty"`
	Show            *Value `json:"show,omitempty"`
	OnExpire        *Value `json:"onExpire,omitempty"`
	OnExpireAnswers bool   `json:"onExpireAnswers,omitempty"`
}

// FaultOf takes an error apart; nil is nil.
func FaultOf(err error) *Fault {
	if err == nil {
		return nil
	}
	f := &Fault{Text: err.Error()}
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
			f.Failure = &failure{Reason: reason, Sent: true, Err: &Fault{Text: f.Text}}
		}
	}
	return f
}

// put notes an error of a type that the engine knows; false: it does not.
func (f *Fault) put(err error) bool {
	switch e := err.(type) {
	case *runtime.Error:
		f.Known = &Known{Category: e.Category, Code: e.Code, Step: e.Step, Err: FaultOf(e.Err)}
	case *retry.Failure:
		f.Failure = &failure{e.Reason, e.Status, e.After, e.Sent, FaultOf(e.Err)}
	case *resume.Suspension:
		f.Pause = PauseOf(&e.Pause)
	case *engine.PanicError:
		f.Panic = &e.Stack
	default:
		return false
	}
	return true
}

// Restore puts the error together again; nil is nil.
func (f *Fault) Restore() error {
	if f == nil {
		return nil
	}
	var list []error
	if k := f.Known; k != nil {
		list = append(list, k.Restore())
	}
	if e := f.Failure; e != nil {
		list = append(list, &retry.Failure{Reason: e.Reason, Status: e.Status, After: e.After, Sent: e.Sent,
			Err: e.Err.Restore()})
	}
	if f.Pause != nil {
		list = append(list, &resume.Suspension{Pause: f.Pause.Restore()})
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

// Restore puts the error together again.
func (k *Known) Restore() *runtime.Error {
	return &runtime.Error{Category: k.Category, Code: k.Code, Step: k.Step, Err: k.Err.Restore()}
}

// worded is an error of another process: its text, and what its chain had.
type worded struct {
	text  string
	chain []error
}

func (e *worded) Error() string   { return e.text }
func (e *worded) Unwrap() []error { return e.chain }

// PauseOf takes a pause apart.
func PauseOf(p *resume.Pause) *Pause {
	w := &Pause{Pause: *p, OnExpireAnswers: p.OnExpire.Answered}
	w.Pause.Schema, w.Pause.Show = nil, nil
	if p.Schema != nil {
		w.Schema = &Value{p.Schema}
	}
	if p.Show != nil {
		w.Show = &Value{p.Show}
	}
	if p.OnExpire.Value != nil {
		w.OnExpire = &Value{p.OnExpire.Value}
	}
	if p.Call != nil {
		c := *p.Call
		w.Pause.Call = &c
	}
	return w
}

// Restore puts the pause together again.
func (w *Pause) Restore() resume.Pause {
	p := w.Pause
	if p.OnExpire.Answered = w.OnExpireAnswers; w.OnExpire != nil {
		p.OnExpire.Value = w.OnExpire.V
	}
	if w.Schema != nil {
		p.Schema = w.Schema.V
	}
	if w.Show != nil {
		p.Show = w.Show.V
	}
	return p
}

// Redact removes secrets from the texts of a fault: a redacted error shows its parts to errors.As as they were.
func (f *Fault) Redact(r *value.Redactor) {
	if f == nil {
		return
	}
	f.Text = r.Text(f.Text)
	if f.Known != nil {
		f.Known.Err.Redact(r)
	}
	if f.Failure != nil {
		f.Failure.Err.Redact(r)
	}
}
