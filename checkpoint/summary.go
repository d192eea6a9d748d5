package checkpoint

import (
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/braise-run/braise/internal/value"
)

// Status says how far a run has come.
type Status string

// The statuses. A run that is running and not held was interrupted.
const (
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
	Held      bool      `json:"-"`                // when the store was asked, Claim would have been refused
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

// Newest orders summaries as Store.List does.
func Newest(a, b Summary) int {
	if c := b.StartedAt.Compare(a.StartedAt); c != 0 {
		return c
	}
	return strings.Compare(b.ID, a.ID)
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
	}
	return Record{At: r.StartedAt, Kind: definition, Path: r.Recipe, Data: r.Definition}.check()
}

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
	next, kept := s, slices.Clone(recs)
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
		if err := next.Apply(*rec); err != nil {
			return fail(fmt.Errorf("%w: %w", ErrInvalid, err))
		}
	}
	return next, kept, nil
}

func (s Summary) checkAnswer(tokenHash []byte, recs []Record) error {
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
	s := Summary{Run: Run{ID: runID}}
	for _, rec := range recs {
		if err := s.Apply(rec); errors.Is(err, ErrVersion) {
			return s, fmt.Errorf("run %q: %w", runID, err)
		} else if err != nil {
			return s, fmt.Errorf("run %q: %w: %w", runID, ErrCorrupt, err)
		}
	}
	if s.Seq == 0 {
		return s, fmt.Errorf("run %q: %w: it is empty", runID, ErrCorrupt)
	}
	return s, nil
}

// Apply adds the next record of the journal. When the record cannot follow, it says why and s is
// as it was. The run that s is of may be given by its ID before the first record.
func (s *Summary) Apply(rec Record) error {
	next := *s
	if err := next.apply(rec); err != nil {
		return fmt.Errorf("record %d (%s): %w", rec.Seq, rec.Kind, err)
	}
	next.Seq, next.UpdatedAt = rec.Seq, rec.At
	*s = next
	return nil
}

func (s *Summary) apply(rec Record) error {
	switch {
	case rec.Seq != s.Seq+1:
		return fmt.Errorf("behind record %d", s.Seq)
	case s.Status.Ended():
		return fmt.Errorf("behind the end")
	case (rec.Kind == RunCreated) != (rec.Seq == 1):
		return fmt.Errorf("a journal begins with %s, and has only one", RunCreated)
	}
	switch rec.Kind {
	case RunCreated, RunEnded, PauseOpened, PauseAnswered, PauseClosed, TokenMinted:
		d, err := decodeData(rec)
		if err != nil {
			return err
		}
		if err := s.applyData(rec, d); err != nil {
			return err
		}
		return d.err
	case RunPaused:
		s.Status = Paused
	}
	return nil
}

// applyData changes s even when d turns out to be wrong; lists are copied before they change.
func (s *Summary) applyData(rec Record, d *members) error {
	switch rec.Kind {
	case RunCreated:
		return s.create(rec, d)
	case RunEnded:
		s.Status, s.EndedAt, s.Pauses = Status(d.text("status")), rec.At, nil
		if !s.Status.Ended() {
			return fmt.Errorf("a run cannot end as %q", s.Status)
		}
		return nil
	}
	return s.applyPause(rec, d)
}

func (s *Summary) create(rec Record, d *members) error {
	if format := d.m["format"]; format != int64(Format) { // nothing else is known then
		return fmt.Errorf("%w: %v", ErrVersion, format)
	}
	run := Run{ID: d.text("run"), Recipe: d.optional("recipe"), Digest: d.text("digest"),
		Parent: d.optional("parent"), StartedAt: rec.At}
	if d.err != nil {
		return d.err
	}
	if s.ID != "" && run.ID != s.ID {
		return fmt.Errorf("it is of run %q", run.ID)
	}
	if err := run.check(); err != nil {
		return err
	}
	s.Run, s.Status = run, Running
	return nil
}

func (s *Summary) applyPause(rec Record, d *members) error {
	id := d.text("pause")
	i := slices.IndexFunc(s.Pauses, func(p Pause) bool { return p.ID == id })
	if rec.Kind == PauseOpened {
		if i >= 0 {
			return fmt.Errorf("pause %q is open already", id)
		}
		s.Pauses = slices.Concat(s.Pauses, []Pause{{ID: id, Kind: d.text("kind"), Step: rec.Path, Seq: rec.Seq,
			ExpiresAt: d.time("expiresAt", false), DueAt: d.time("dueAt", false)}})
		return nil
	}
	if i < 0 {
		return fmt.Errorf("no open pause %q", id)
	}
	if rec.Kind == PauseAnswered || rec.Kind == PauseClosed {
		s.Pauses = slices.Concat(s.Pauses[:i], s.Pauses[i+1:])
		if rec.Kind == PauseAnswered {
			s.Status = Running
		}
		return nil
	}
	s.Pauses = slices.Clone(s.Pauses)
	p := &s.Pauses[i]
	hash := d.text("hash")
	if raw, err := hex.DecodeString(hash); err != nil || hex.EncodeToString(raw) != hash {
		return fmt.Errorf("hash is not in hex")
	}
	p.Tokens = slices.Concat(p.Tokens, []Token{{hash, d.time("expiresAt", false)}})
	return nil
}

// members are the data of a record; err is the first thing that was wrong with what was asked for.
type members struct {
	m   map[string]any
	err error
}

func decodeData(rec Record) (*members, error) {
	if rec.Data == nil {
		return &members{}, nil
	}
	v, err := value.DecodeStrict(rec.Data)
	if err != nil {
		return nil, fmt.Errorf("data: %w", err)
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("data is %s, not an object", value.TypeName(v))
	}
	return &members{m: m}, nil
}

func (d *members) optional(name string) string {
	v, ok := d.m[name]
	s, isText := v.(string)
	if ok && !isText && d.err == nil {
		d.err = fmt.Errorf("%s is %s, not a string", name, value.TypeName(v))
	}
	return s
}

func (d *members) text(name string) string {
	s := d.optional(name)
	if s == "" && d.err == nil {
		d.err = fmt.Errorf("no %s", name)
	}
	return s
}

func (d *members) time(name string, needed bool) time.Time {
	s := d.optional(name)
	if s == "" && !needed {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil && d.err == nil {
		d.err = fmt.Errorf("%s: %w", name, err)
	}
	return t.UTC()
}
