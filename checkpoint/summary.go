package checkpoint

import (
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Status says how far a run has come.
type Status string

// The statuses. A run that is running and not held was interrupted.
const (
	Queued    Status = "queued" // recorded, and no execution has begun
	Running   Status = "running"
	Paused    Status = "paused"
	OK        Status = "ok"
	Failed    Status = "error"
	Cancelled Status = "cancelled"
)

// Ended reports whether a run with this status is over for good.
func (s Status) Ended() bool { return s == OK || s == Failed || s == Cancelled }

// Summary is what a store has about a run. All but Held follows from the journal, by Apply. Callers must not
// change its lists. Its JSON form holds everything but Held and is fit for a column of a table.
type Summary struct {
	Run
	Seq       int64     `json:"seq"`       // of the last record
	UpdatedAt time.Time `json:"updatedAt"` // of the last record
	Status    Status    `json:"status"`
	EndedAt   time.Time `json:"endedAt,omitzero"`
	Pauses    []Pause   `json:"pauses,omitempty"` // that are open, in the order of their opening
	Error     Failure   `json:"error,omitzero"`   // why the run ended as error; zero: it did not, or it is not known
	Usage     Usage     `json:"usage,omitzero"`   // when the run last paused, or ended
	// Models is Usage by the name of the model that answered; "": not known. nil: nothing, or records of a version that
	// did not tell it.
	Models map[string]Usage `json:"models,omitempty"`
	Held   bool             `json:"-"` // when the store was asked, Claim would have been refused
}

// Failure is why a run failed.
type Failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`        // without secrets, at most 300 bytes
	Step    string `json:"step,omitempty"` // its path; "": none
	// Category is the runtime.Category of the error; "": not known.
	Category string `json:"category,omitempty"`
}

// Usage is what a run used of models, over all its executions.
type Usage struct {
	Calls            int64 `json:"calls,omitempty"`
	InputTokens      int64 `json:"inputTokens,omitempty"`      // all of the input
	CachedTokens     int64 `json:"cachedTokens,omitempty"`     // of the input, those read from the provider's cache
	CacheWriteTokens int64 `json:"cacheWriteTokens,omitempty"` // of the input, those written to it
	OutputTokens     int64 `json:"outputTokens,omitempty"`
	ReasoningTokens  int64 `json:"reasoningTokens,omitempty"` // of the output, those of its thinking
	Micros           int64 `json:"micros,omitempty"`          // millionths of a US dollar; 0: nothing, or not known
}

// Pause is an open pause.
type Pause struct {
	ID        string    `json:"id"`
	Kind      string    `json:"kind"`
	Step      string    `json:"step,omitempty"`
	Seq       int64     `json:"seq"` // of the record that opened it
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
	DueAt     time.Time `json:"dueAt,omitzero"` // when the run resumes by itself
	Tokens    []Token   `json:"tokens,omitempty"`
}

// Token is what a store has of a token that can take an answer.
type Token struct {
	Hash      string    `json:"hash"` // in hex, lower case
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
}

// Due returns the first time at which the run needs attention without an answer: the due time or the
// expiry of a pause. Zero when there is none.
func (s Summary) Due() time.Time {
	var first time.Time
	sooner := func(t time.Time) {
		if first.IsZero() || !t.IsZero() && t.Before(first) {
			first = t
		}
	}
	for _, p := range s.Pauses {
		sooner(p.DueAt)
		sooner(p.ExpiresAt)
	}
	return first
}

// Find returns the pause that a token belongs to, if the token is live at the given time.
func (s Summary) Find(tokenHash []byte, at time.Time) (Pause, bool) {
	hash := hex.EncodeToString(tokenHash)
	for _, p := range s.Pauses {
		for _, t := range p.Tokens {
			if t.Hash == hash {
				return p, t.ExpiresAt.IsZero() || at.Before(t.ExpiresAt)
			}
		}
	}
	return Pause{}, false
}

// Prunable reports whether Store.Prune may remove the run if nobody holds it.
func (s Summary) Prunable(before time.Time, statuses []Status) bool {
	if len(statuses) == 0 {
		return s.Status.Ended() && s.UpdatedAt.Before(before)
	}
	return slices.Contains(statuses, s.Status) && s.UpdatedAt.Before(before)
}

// Check returns an ErrInvalid for a run that no journal could begin with.
func (r Run) Check() error {
	if err := r.check(); err != nil {
		return fmt.Errorf("run %q: %w: %w", r.ID, ErrInvalid, err)
	}
	return nil
}

func (r Run) check() error {
	switch {
	case !isName(r.ID, "-_."):
		return fmt.Errorf("run id %q", r.ID)
	case !isName(r.Digest, "-_.:"):
		return fmt.Errorf("digest %q", r.Digest)
	case r.Parent != "" && !isName(r.Parent, "-_."):
		return fmt.Errorf("parent %q", r.Parent)
	case len(r.Queue) > maxLabelKey || !isText(r.Queue):
		return fmt.Errorf("queue %q is not UTF-8 of at most %d bytes without NUL", r.Queue, maxLabelKey)
	case !utf8.ValidString(r.By):
		return fmt.Errorf("by is not UTF-8")
	case len(r.Labels) > maxLabels:
		return fmt.Errorf("it has %d labels, and at most %d are possible", len(r.Labels), maxLabels)
	}
	for _, key := range slices.Sorted(maps.Keys(r.Labels)) {
		v := r.Labels[key]
		if key == "" || len(key) > maxLabelKey || len(v) > maxLabelValue || !isText(key) || !isText(v) {
			return fmt.Errorf("label %q is not UTF-8 without NUL, a key of 1 to %d bytes and a value of at most %d",
				key[:min(len(key), maxLabelKey)], maxLabelKey, maxLabelValue)
		}
	}
	return Record{At: r.StartedAt, Kind: definition, Path: r.Recipe, Data: r.Definition}.check()
}

// What labels may be, see Run.
const (
	maxLabels     = 16
	maxLabelKey   = 64
	maxLabelValue = 256
)

// isText reports whether every store can look for s: PostgreSQL takes no NUL.
func isText(s string) bool { return utf8.ValidString(s) && !strings.ContainsRune(s, 0) }

// isName reports whether s is fit for a file's name: letters, digits and some more, but those not first.
func isName(s, more string) bool {
	for i, c := range s {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			i > 0 && strings.ContainsRune(more, c)) {
			return false
		}
	}
	return s != "" && len(s) <= 128
}

// Begin returns the records with which a new journal begins, numbered from 1, and what they add up
// to: the record of the run, and recs. ErrInvalid when they do not fit.
func Begin(run Run, recs []Record) (Summary, []Record, error) {
	if err := run.Check(); err != nil {
		return Summary{}, nil, err
	}
	data := map[string]any{"format": int64(Format), "run": run.ID, "recipe": run.Recipe, "digest": run.Digest}
	if run.Parent != "" {
		data["parent"] = run.Parent
	}
	if run.Queue != "" {
		data["queue"] = run.Queue
	}
	if len(run.Labels) > 0 {
		data["labels"] = run.Labels
	}
	if run.By != "" {
		data["by"] = run.By
	}
	if run.Queued {
		data["queued"] = true
	}
	first, err := NewRecord(run.StartedAt, RunCreated, "", data)
	if err != nil {
		return Summary{}, nil, fmt.Errorf("run %q: %w: %w", run.ID, ErrInvalid, err)
	}
	return Summary{Run: Run{ID: run.ID}}.Next(0, slices.Concat([]Record{first}, recs))
}

// Next returns what the run will be once recs are in the journal behind the record with the number
// after, and the records as they are to be kept: numbered, with times in UTC. It makes all the
// checks of Store.Append but those of the lease. It changes neither s nor recs.
func (s Summary) Next(after int64, recs []Record) (Summary, []Record, error) {
	return s.next(after, recs, func() error { return nil })
}

// Answer is Next for an answer by token, with all the checks of Store.AnswerPause but those of the
// lease.
func (s Summary) Answer(after int64, tokenHash []byte, recs []Record) (Summary, []Record, error) {
	return s.next(after, recs, func() error { return s.checkAnswer(tokenHash, recs) })
}

func (s Summary) next(after int64, recs []Record, check func() error) (Summary, []Record, error) {
	fail := func(err error) (Summary, []Record, error) {
		return s, nil, fmt.Errorf("run %q: %w", s.ID, err)
	}
	if len(recs) > 0 && (after != s.Seq || s.Status.Ended()) {
		return fail(fmt.Errorf("%w: its last is %d (%s), not %d", ErrConflict, s.Seq, s.Status, after))
	}
	if err := check(); err != nil {
		return fail(err)
	}
	next, kept := folding{Summary: s}, slices.Clone(recs)
	for i := range kept {
		rec := &kept[i]
		if err := rec.Check(); err != nil {
			return fail(err)
		}
		if want := after + 1 + int64(i); rec.Seq == 0 {
			rec.Seq = want
		} else if rec.Seq != want {
			return fail(fmt.Errorf("%w: record %d where %d should be", ErrConflict, rec.Seq, want))
		}
		rec.At = rec.At.UTC().Round(0)
		if err := next.add(rec); err != nil {
			return fail(fmt.Errorf("%w: %w", ErrInvalid, err))
		}
	}
	return next.sum(), kept, nil
}

func (s Summary) checkAnswer(tokenHash []byte, recs []Record) error {
	if len(recs) > 0 && recs[0].Kind == RunExecution {
		recs = recs[1:]
	}
	if len(recs) == 0 || recs[0].Kind != PauseAnswered {
		return fmt.Errorf("%w: an answer begins with %s", ErrInvalid, PauseAnswered)
	}
	d, err := decodeData(recs[0])
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if p, ok := s.Find(tokenHash, recs[0].At); !ok || p.ID != d.text("pause") {
		return ErrToken
	}
	return nil
}

// Fold returns what a whole journal adds up to. ErrCorrupt when it is not one of the run, ErrVersion
// when a later version wrote it.
func Fold(runID string, recs []Record) (Summary, error) {
	f := folding{Summary: Summary{Run: Run{ID: runID}}}
	for i := range recs {
		if err := f.add(&recs[i]); errors.Is(err, ErrVersion) {
			return f.sum(), fmt.Errorf("run %q: %w", runID, err)
		} else if err != nil {
			return f.sum(), fmt.Errorf("run %q: %w: %w", runID, ErrCorrupt, err)
		}
	}
	if f.Seq == 0 {
		return f.sum(), fmt.Errorf("run %q: %w: it is empty", runID, ErrCorrupt)
	}
	return f.sum(), nil
}

// Apply adds the next record of the journal. When the record cannot follow, it says why and s is
// as it was. The run that s is of may be given by its ID before the first record.
func (s *Summary) Apply(rec Record) error {
	f := folding{Summary: *s}
	if err := f.add(&rec); err != nil {
		return err
	}
	*s = f.sum()
	return nil
}

func (s *Summary) create(rec *Record, d *members) error {
	if format := d.m["format"]; format != int64(Format) { // nothing else is known then
		return fmt.Errorf("%w: %v", ErrVersion, format)
	}
	run := Run{ID: d.text("run"), Recipe: d.optional("recipe"), Digest: d.text("digest"),
		Parent: d.optional("parent"), StartedAt: rec.At,
		Queue: d.optional("queue"), Labels: d.texts("labels"), By: d.optional("by"), Queued: d.m["queued"] == true}
	if d.err != nil {
		return d.err
	}
	if s.ID != "" && run.ID != s.ID {
		return fmt.Errorf("it is of run %q", run.ID)
	}
	if err := run.check(); err != nil {
		return err
	}
	if s.Run, s.Status = run, Running; run.Queued {
		s.Status = Queued
	}
	return nil
}
