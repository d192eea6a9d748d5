package temporal

import (
	"cmp"
	"errors"
	"fmt"
	"unicode/utf8"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/execution"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/ledger"
	"github.com/braise-run/braise/internal/past"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/wire"
	"github.com/braise-run/braise/runtime"
)

// The names of updates, queries and the signal of a run.
const (
	answerUpdate = "answer"
	sendUpdate   = "send"
	partUpdate   = "part"
	outcomeQuery = "outcome"
	journalQuery = "journal"
	summaryQuery = "summary"
	waitsQuery   = "waits"
	cancelSignal = "cancel"
	moved        = "braise.moved" // the type of the error of an update that is to be made again
)

// said is an answer to a pause, or a value for a channel.
type said struct {
	Pause    string     `json:"pause,omitempty"`
	Channel  string     `json:"channel,omitempty"`
	Value    wire.Value `json:"value"`
	Question string     `json:"question,omitempty"` // that was answered; "": any
	By       string     `json:"by,omitempty"`
	Groups   []string   `json:"groups,omitempty"`
	Vouched  bool       `json:"vouched,omitempty"` // somebody else has checked who answers
	// ID is that of the update. The journal names it, so that a client which has lost the reply may ask the next execution again.
	ID string `json:"id,omitempty"`
	// Size is how many bytes the value has, as JSON, if it was sent before, in parts. 0: it is here.
	Size int `json:"size,omitempty"`
}

// asked is an update of a run, until it is done.
type asked struct {
	said
	done bool
	err  error
}

// listen lets others ask and tell the run something.
func (r *run) listen(ctx workflow.Context) error {
	workflow.Go(ctx, func(ctx workflow.Context) {
		free, _ := workflow.NewDisconnectedContext(ctx)
		ctx.Done().Receive(free, nil)
		r.cancelled = r.whyCancelled()
	})
	handle := func(ctx workflow.Context, s said) error {
		err := r.parts.whole(&s)
		if r.parts.drop(s.ID); r.store.carried[s.ID] {
			return nil
		}
		if err != nil {
			return err
		}
		q := &asked{said: s}
		r.asked = append(r.asked, q)
		free, _ := workflow.NewDisconnectedContext(ctx)
		_ = workflow.Await(free, func() bool { return q.done || r.over })
		if !q.done && r.carries {
			return again()
		}
		if !q.done {
			return forClient(r.closed(&s))
		}
		return forClient(q.err)
	}
	check := func(s said) error {
		switch {
		case r.store.carried[s.ID]:
			return nil
		case r.over && r.carries:
			return again()
		case r.over:
			return forClient(r.closed(&s))
		}
		if s.Size > 0 {
			return r.parts.whole(&s) // handle judges the value: its parts go with it
		}
		if r.engine == nil || r.caller == nil || !r.takes() && r.shown == nil {
			return nil // it waits until it can be judged
		}
		_, err := r.fits(&s)
		return forClient(err)
	}
	for _, name := range []string{answerUpdate, sendUpdate} {
		opts := workflow.UpdateHandlerOptions{Validator: check}
		if err := workflow.SetUpdateHandlerWithOptions(ctx, name, handle, opts); err != nil {
			return err
		}
	}
	if err := r.takeParts(ctx); err != nil {
		return err
	}
	if err := workflow.SetQueryHandler(ctx, outcomeQuery, r.pieceOf); err != nil {
		return err
	}
	if err := workflow.SetQueryHandler(ctx, summaryQuery,
		func() (checkpoint.Summary, error) { return r.store.sum, nil }); err != nil {
		return err
	}
	if err := workflow.SetQueryHandler(ctx, waitsQuery, r.waits); err != nil {
		return err
	}
	return workflow.SetQueryHandler(ctx, journalQuery,
		func(after int) ([]string, error) { return r.store.lines(after, maxPayload), nil })
}

// whyCancelled is what was said before the run was cancelled.
func (r *run) whyCancelled() *canceled {
	workflow.GetSignalChannel(r.free, cancelSignal).ReceiveAsync(&r.before.Cancel)
	why := r.before.Cancel
	return &why
}

// pieceOf is the piece of the last leg's outcome that begins at an offset. While the run is at work it says only that.
func (r *run) pieceOf(at int) (*piece, error) {
	if r.shown == nil {
		text := `{"status":"running"}`
		return &piece{Text: text, Size: len(text)}, nil
	}
	at = min(max(at, 0), len(r.text))
	end := min(len(r.text), at+maxPayload)
	for end < len(r.text) && !utf8.RuneStart(r.text[end]) {
		end--
	}
	return &piece{Text: string(r.text[at:end]), Size: len(r.text)}, nil
}

// forClient is an error for a client; nil is nil.
func forClient(err error) error {
	if err == nil {
		return nil
	}
	known, _ := errors.AsType[*runtime.Error](err)
	if known == nil {
		known = &runtime.Error{Category: runtime.CategoryInfra, Code: "cluster.failed", Err: err}
	}
	return temporal.NewApplicationErrorWithOptions(known.Error(), known.Code,
		temporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{*wire.FaultOf(known)}})
}

// takes reports whether the engine takes answers and values now. Otherwise they wait for the next leg.
func (r *run) takes() bool {
	stands := r.engine.View().Standing()
	return r.cancelled == nil && r.shown == nil && !stands.Cancelled && !stands.ForGood && !stands.Undoes
}

// take takes an answer or a value while the run is at work.
func (r *run) take(q *asked) {
	events, err := r.events(&q.said)
	if err == nil {
		r.engine.TakeNow(events)
		err = r.save()
	}
	q.done, q.err = true, err
}

// answered drives the leg that an answer or a value begins. What does not fit begins none.
func (r *run) answered(q *asked) (*engine.End, error) {
	if _, err := r.fits(&q.said); err != nil {
		q.done, q.err = true, err
		return nil, nil
	}
	return r.again("resume", q.By, false, func() error {
		if err := r.put(q); err != nil || !r.carries { // otherwise the next execution is asked
			q.done, q.err = true, err
		}
		return nil
	})
}

// put records an answer or a value before the leg goes on. If the run stopped while it was being rolled back for a
// pause, put finishes the rollback first.
func (r *run) put(q *asked) error {
	e := r.engine
	if e.View().Standing().Undoes {
		if err := r.undo(); err != nil || r.carries {
			return err
		}
	}
	events, err := r.events(&q.said)
	if err != nil {
		return err
	}
	if !e.View().Standing().WasUndone {
		e.TellReplayed()
	}
	return r.write(events)
}

// events are the events of an answer or a value. The error says why the run does not take it.
func (r *run) events(s *said) ([]journal.Event, error) {
	v, err := r.fits(s)
	if err != nil {
		return nil, err
	}
	e := r.engine
	e.For(s.By, s.ID)
	defer e.For(r.by, "")
	if s.Channel != "" {
		return e.Send(program.ChannelIndex(r.program.Graph.Channels, s.Channel), v), nil
	}
	return e.Answer(e.View().Pause(s.Pause), v), nil
}

// fits checks an answer or a value, and returns it as it is recorded.
func (r *run) fits(s *said) (any, error) {
	e := r.engine
	if s.Channel != "" {
		index := program.ChannelIndex(r.program.Graph.Channels, s.Channel)
		if index < 0 {
			return nil, execution.NoChannel(r.program, s.Channel)
		}
		switch failure, over := e.View().Takes(index, s.Value.V); {
		case over:
			return nil, execution.Closed(r.id, s.Channel)
		case failure != nil:
			return nil, &runtime.Error{Category: runtime.Category(failure.Category), Code: failure.Code, Err: failure.Err}
		}
		return s.Value.V, nil
	}
	if !r.offer.Terms.Answers {
		return nil, execution.NoAdapter()
	}
	p := e.View().Pause(s.Pause)
	if p == nil {
		var open []string
		for _, p := range e.Pauses() {
			open = append(open, p.ID)
		}
		events, err := r.store.events()
		if err != nil {
			return nil, err
		}
		return nil, cmp.Or(execution.AnsweredBefore(events, s.Pause), execution.NoPause(r.id, s.Pause, open))
	}
	if s.Question != "" && s.Question != p.Question() {
		return nil, execution.Unfit(fmt.Errorf("%s asks something else by now", &p.Pause))
	}
	if !s.Vouched {
		if err := execution.Allowed(&p.Pause, s.By, s.Groups, r.in.By); err != nil {
			return nil, err
		}
	}
	v, err := e.View().Fits(p, s.Value.V)
	if err != nil {
		return nil, execution.Unfit(err)
	}
	return v, nil
}

// closed is the error for what comes when the run is over.
func (r *run) closed(s *said) error { return s.late(r.store.sum, r.store.recs) }

// late is the error for what comes when a run is over, of which this is the journal; nil: it was taken before.
func (s *said) late(run checkpoint.Summary, recs []checkpoint.Record) error {
	events, err := ledger.Decode(recs)
	switch {
	case err == nil && past.Signals(events)[s.ID]:
		return nil
	case s.Channel != "":
		return execution.Closed(run.ID, s.Channel)
	case err == nil:
		return cmp.Or(execution.AnsweredBefore(events, s.Pause), execution.Over(run))
	}
	return execution.Over(run)
}
