package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/failpoint"
	"github.com/braise-run/braise/internal/guard"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/ledger"
	"github.com/braise-run/braise/internal/past"
	"github.com/braise-run/braise/internal/value"
)

// How long a run is executed before its store is watched for signals, and how long at least lies between two looks.
var (
	WatchAfter = 200 * time.Millisecond
	LookEvery  = 250 * time.Millisecond
)

// signals is what others asked of a run. A signal is open until it is done; see [checkpoint.Signals].
type signals struct {
	seen  []checkpoint.Signal // all that were open
	known map[string]bool     // those that the run has dealt with; nil: it never saw one
	notes map[string]bool     // known ones that an agent has not recorded; nil: there are none
	over  []string            // carried out, and no longer needed
	kept  []string            // open until the run waits for a person, or ends
	cut   context.CancelCauseFunc
	again bool // another execution must take a signal
}

// ErrCancelled is why the context of a run ends that somebody cancels.
var ErrCancelled = errors.New("a signal cancels it")

// inbox returns where the signals of the run are; nil: its store has none.
func (r *Run) inbox() checkpoint.Signals {
	if r.rt.Store == nil {
		return nil
	}
	inbox, _ := r.Store.Store.(checkpoint.Signals)
	return inbox
}

// Signals returns the open signals of a run; nil if its store has none.
func Signals(ctx context.Context, store checkpoint.Store, runID string) ([]checkpoint.Signal, error) {
	inbox, ok := store.(checkpoint.Signals)
	if !ok {
		return nil, nil
	}
	return guard.Store(ctx, func(ctx context.Context) ([]checkpoint.Signal, error) {
		return inbox.Signals(ctx, runID, true)
	})
}

// Signalled tells the run which signals were open when it was claimed. It returns those that its journal, as was has
// it, does not name: the caller carries them out, and says so by Carried.
func (r *Run) Signalled(open []checkpoint.Signal, was *past.Past) (left []checkpoint.Signal) {
	for _, s := range open {
		r.saw(s)
		if s.Kind == checkpoint.SignalTake || was.Signals[s.ID] {
			r.Carried(s)
		} else {
			left = append(left, s)
		}
	}
	return left
}

// saw notes that a signal was open.
func (r *Run) saw(s checkpoint.Signal) {
	if !slices.ContainsFunc(r.signals.seen, func(known checkpoint.Signal) bool { return known.ID == s.ID }) {
		r.signals.seen = append(r.signals.seen, s)
	}
}

// Carried notes that a signal was carried out, and that the journal names it.
func (r *Run) Carried(s checkpoint.Signal) {
	if r.signals.known == nil {
		r.signals.known = map[string]bool{}
	}
	r.signals.known[s.ID] = true
	if s.Kind == checkpoint.SignalTake || s.Kind == checkpoint.SignalAnswer {
		r.signals.kept = append(r.signals.kept, s.ID)
	} else {
		r.signals.over = append(r.signals.over, s.ID)
	}
}

// look looks for signals, and has the run take those that it does not know. The caller does not have the turn.
func (r *Run) look() {
	if open := r.open(); len(open) > 0 {
		r.happened(func() { r.take(open) })
	}
}

// Look looks for signals, and takes those that the run does not know. It is for other drivers.
func (r *Run) Look() {
	if open := r.open(); len(open) > 0 {
		r.take(open)
	}
}

// open returns the open signals of the run. After an error there are none: the next look finds them.
func (r *Run) open() []checkpoint.Signal {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), ledger.LeaseTime/3)
	defer cancel()
	open, err := Signals(ctx, r.Store.Store, r.ID)
	if err != nil {
		return nil
	}
	return open
}

// take carries out signals while the run is executed.
func (r *Run) take(open []checkpoint.Signal) {
	e := r.Engine
	took := false
	for _, s := range open {
		r.saw(s)
		switch stands := e.View().Standing(); {
		case r.signals.known[s.ID]:
		case stands.Cancelled || stands.ForGood || stands.Undoes:
			return // the next execution takes them, if there is one
		case s.Kind == checkpoint.SignalTake:
			r.Carried(s)
		case s.Kind == checkpoint.SignalCancel:
			r.signals.again = true
			r.signals.cut(ErrCancelled)
			return
		case s.Kind == checkpoint.SignalTell && r.Tell(s):
		default:
			e.TakeNow(e.Carry(s))
			r.Carried(s)
			took = true
		}
	}
	if r.told(); took || len(r.signals.over) > 0 {
		r.flush()
		failpoint.Reached(failpoint.SignalTaken)
		r.endSignals(r.signals.over)
		r.signals.over = nil
	}
}

// Tell gives an agent the note of a signal, which is open until the agent has recorded it; false: no agent can.
func (r *Run) Tell(s checkpoint.Signal) bool {
	if r.Engine.Tell(s) != nil {
		return false
	}
	if r.signals.known == nil {
		r.signals.known = map[string]bool{}
	}
	if r.signals.notes == nil {
		r.signals.notes = map[string]bool{}
	}
	r.signals.known[s.ID], r.signals.notes[s.ID] = true, true
	return true
}

// told notes which notes agents have recorded.
func (r *Run) told() {
	for _, id := range r.Engine.Told() {
		delete(r.signals.notes, id)
		r.signals.over = append(r.signals.over, id)
	}
}

// dropLeft records which signals the run, which is about to end, has not carried out.
func (r *Run) dropLeft() {
	if inbox := r.inbox(); inbox == nil || r.Store.Seq == 0 { // nobody knew the run
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), ledger.LeaseTime/3)
	defer cancel()
	open, _ := Signals(ctx, r.Store.Store, r.ID) // after an error, those that were seen are all that is known
	for _, s := range open {
		r.saw(s)
	}
	r.told()
	for _, s := range r.signals.seen {
		if s.Kind == checkpoint.SignalTake || r.signals.known[s.ID] && !r.signals.notes[s.ID] {
			continue
		}
		why := "the run has ended"
		if r.Engine.View().Standing().EndsCancelled {
			why = "the run was cancelled"
		}
		switch s.Kind {
		case checkpoint.SignalAnswer:
			why = fmt.Sprintf("pause %q no longer needs an answer: %s", member(s, "pause"), why)
		case checkpoint.SignalTell:
			why = "no agent has taken the note: " + why
		}
		r.Engine.TakeNow([]journal.Event{r.Engine.Dropped(s, why)})
	}
}

// endSignals notes in the store that signals are done. If it fails, they stay open, and the next execution knows by
// the journal that they were carried out.
func (r *Run) endSignals(ids []string) {
	j := &r.Store
	inbox := r.inbox()
	if inbox == nil || len(ids) == 0 || j.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), ledger.LeaseTime/3)
	defer cancel()
	if _, err := guard.Store(ctx, func(ctx context.Context) (any, error) {
		return nil, inbox.EndSignals(ctx, j.Lease(), ids...)
	}); err != nil {
		r.warn("signals were carried out, and are still open in the store", slog.String("error", err.Error()))
	}
}

// endAllSignals is endSignals at the end of an execution: asks says that the run waits for a person, over that it has
// ended, so that no signal is of use any more.
func (r *Run) endAllSignals(asks, over bool) {
	s := &r.signals
	r.told()
	switch {
	case over:
		for _, one := range s.seen {
			s.over = append(s.over, one.ID)
		}
	case asks:
		s.over = slices.Concat(s.over, s.kept)
	}
	slices.Sort(s.over)
	r.endSignals(slices.Compact(s.over))
}

// lookAgain looks, once the run was given back, for signals that this execution did not take: another one must.
func (r *Run) lookAgain() {
	if r.inbox() == nil || r.draining() {
		return
	}
	open, err := Signals(context.WithoutCancel(r.ctx), r.Store.Store, r.ID)
	r.signals.again = err == nil && slices.ContainsFunc(open, func(s checkpoint.Signal) bool {
		return !r.signals.known[s.ID] && Wakes(s)
	})
}

// Answers reports whether a signal is an answer to a pause.
func Answers(s checkpoint.Signal, pause string) bool {
	return s.Kind == checkpoint.SignalAnswer && member(s, "pause") == pause
}

// Wakes reports whether a signal asks for something to be done while the run waits. A note waits for its agent, and a
// take is for workers.
func Wakes(s checkpoint.Signal) bool {
	return s.Kind != checkpoint.SignalTake && s.Kind != checkpoint.SignalTell
}

// Force reports whether a signal asks for what would otherwise be refused.
func Force(s checkpoint.Signal) bool { return member(s, "force") == true }

// Reason is the reason of a signal that cancels a run; "": none.
func Reason(s checkpoint.Signal) string {
	text, _ := member(s, "reason").(string)
	return text
}

func member(s checkpoint.Signal, name string) any {
	v, _ := value.Decode(s.Data)
	data, _ := v.(map[string]any)
	return data[name]
}
