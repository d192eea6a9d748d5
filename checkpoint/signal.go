package checkpoint

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/braise-run/braise/internal/value"
)

// Signal is what others ask of the process that works on a run. It stands beside the journal: anyone may leave one,
// and the process that holds the run carries it out and records that.
type Signal struct {
	ID   string          // unique among the signals that the run ever got; 1 to 1,000 bytes of UTF-8 without NUL
	Kind string          // what is asked: one of the kinds below
	Data json.RawMessage // a canonical JSON object; nil: none
	By   string          // who asks, as the host names them; "": not known
	At   time.Time       // when it was left, UTC
	Done bool            // nobody has to look at it any more; not set in PutSignal
}

// The kinds of signals, with the members of their data.
const (
	SignalAnswer = "answer" // pause, value?, question?, force?: answers a pause; its id is Pause.AnswerID
	SignalCancel = "cancel" // reason?, force?: cancels the run for good
	SignalSend   = "send"   // channel, value: sends a value to a channel
	SignalTake   = "take"   // a worker is to resume the run
	SignalTell   = "tell"   // step?, text: a note to an agent
)

// AnswerID is the id of the signal that answers the pause: a pause has one answer. No other signal has such an id.
func (p Pause) AnswerID() string { return answerPrefix + p.ID }

const answerPrefix = "answer:"

// Signals is an optional interface of a Store, which all stores of this module have. Of several reasons to refuse, the
// first of the order that Store names is the error; ErrExists comes before ErrConflict.
type Signals interface {
	// PutSignal leaves a signal for the process that holds the run, or the next one that will; durable when it returns
	// without an error. ErrExists when the run ever had a signal of that ID, ErrConflict when the run is over,
	// ErrInvalid when [Signal.Check] refuses it. Nobody has to hold the run. Signals go when their run does.
	PutSignal(ctx context.Context, runID string, s Signal) error

	// Signals returns the signals of a run in the order in which they were put; open leaves out those that are done.
	Signals(ctx context.Context, runID string, open bool) ([]Signal, error)

	// EndSignals notes that signals are done. ErrFenced when the lease is not the newest. An id that the run does
	// not have is ignored. The run may be over.
	EndSignals(ctx context.Context, l Lease, ids ...string) error
}

// maxSignalID is how many bytes the id of a signal may have.
const maxSignalID = 1000

// Check returns an ErrInvalid for a signal that no store can take.
func (s Signal) Check() error {
	problem := ""
	switch data := s.Data; {
	case s.ID == "" || len(s.ID) > maxSignalID || !isText(s.ID):
		problem = fmt.Sprintf("its id is not UTF-8 of 1 to %d bytes without NUL", maxSignalID)
	case (s.Kind == SignalAnswer) != strings.HasPrefix(s.ID, answerPrefix):
		problem = fmt.Sprintf("its kind is %q; the ids of answers, and no others, begin with %q", s.Kind, answerPrefix)
	case s.Kind == "" || !utf8.ValidString(s.Kind) || !utf8.ValidString(s.By):
		problem = "it has no kind, or text that is not UTF-8"
	case data != nil && !isCanonical(data):
		problem = "its data is not a canonical JSON object"
	}
	if err := (Record{At: s.At, Kind: signal, Data: s.Data}).check(); problem == "" && err != nil {
		problem = err.Error()
	}
	if problem != "" {
		return fmt.Errorf("signal %q: %w: %s", s.ID[:min(len(s.ID), 40)], ErrInvalid, problem)
	}
	return nil
}

// isCanonical reports whether data is the canonical JSON of a value.
func isCanonical(data json.RawMessage) bool {
	v, err := value.DecodeStrict(data)
	if err != nil {
		return false
	}
	again, err := value.JSON(v)
	return err == nil && bytes.Equal(again, data)
}

// signal is the kind of the record in which a signal is kept; it is in no journal.
const signal Kind = "signal"

// Line returns the form in which a store keeps the signal of a run, but for Done; ErrInvalid as for [Signal.Check].
func (s Signal) Line() ([]byte, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	data := map[string]any{"kind": s.Kind}
	if s.By != "" {
		data["by"] = s.By
	}
	if s.Data != nil {
		data["data"] = s.Data
	}
	rec, err := NewRecord(s.At, signal, s.ID, data)
	rec.Seq = 1
	return rec.AppendLine(nil), err
}

// ParseSignalLine returns the signal that Signal.Line wrote; ErrCorrupt when line is anything else.
func ParseSignalLine(line []byte) (Signal, error) {
	rec, err := ParseLine(line)
	if err != nil {
		return Signal{}, err
	}
	var data struct {
		Kind string          `json:"kind"`
		By   string          `json:"by"`
		Data json.RawMessage `json:"data"`
	}
	s := Signal{ID: rec.Path, At: rec.At}
	err = json.Unmarshal(rec.Data, &data)
	s.Kind, s.By, s.Data = data.Kind, data.By, data.Data
	if err == nil && rec.Kind != signal {
		err = fmt.Errorf("it is a record of kind %q", rec.Kind)
	}
	if again, lineErr := s.Line(); err == nil && (lineErr != nil || !bytes.Equal(again, line)) {
		err = cmp.Or(lineErr, errors.New("the line is not in canonical form"))
	}
	if err != nil {
		return Signal{}, fmt.Errorf("signal: %w: %w", ErrCorrupt, err)
	}
	return s, nil
}
