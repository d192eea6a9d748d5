package checkpoint

import (
	"encoding/hex"
	"fmt"
	"slices"
)

// folding is a Summary while records are added to it. However many pauses are open, each record costs the same: the
// list of them is copied once, and what is over stays in it, without an ID, until the sum is asked for.
type folding struct {
	Summary
	places map[string]int // in Pauses, by ID; nil: the list is still the caller's
	gone   int            // pauses in the list that are over
}

// sum returns what the records added up to. Nothing is added after it.
func (f *folding) sum() Summary {
	if f.gone > 0 {
		f.Pauses = slices.DeleteFunc(f.Pauses, func(p Pause) bool { return p.ID == "" })
	}
	return f.Summary
}

// add adds the next record of the journal. When the record cannot follow, it says why, and the sum is as it was.
func (f *folding) add(rec *Record) error {
	if err := f.apply(rec); err != nil {
		return fmt.Errorf("record %d (%s): %w", rec.Seq, rec.Kind, err)
	}
	f.Seq, f.UpdatedAt = rec.Seq, rec.At
	return nil
}

func (f *folding) apply(rec *Record) error {
	switch {
	case rec.Seq != f.Seq+1:
		return fmt.Errorf("behind record %d", f.Seq)
	case f.Status.Ended():
		return fmt.Errorf("behind the end")
	case (rec.Kind == RunCreated) != (rec.Seq == 1):
		return fmt.Errorf("a journal begins with %s, and has only one", RunCreated)
	}
	switch rec.Kind {
	case RunCreated, RunPaused, RunEnded, PauseOpened, PauseAnswered, PauseClosed, TokenMinted:
		d, err := decodeData(*rec)
		if err != nil {
			return err
		}
		return f.applyData(rec, d)
	case RunExecution:
		if f.Status == Queued {
			f.Status = Running
		}
	}
	return nil
}

func (f *folding) applyData(rec *Record, d *members) error {
	next := f.Summary
	switch rec.Kind {
	case RunCreated:
		if err := next.create(rec, d); err != nil {
			return err
		}
	case RunPaused:
		next.Status = Paused
		d.usage(&next)
	case RunEnded:
		next.Status, next.EndedAt, next.Pauses = Status(d.text("status")), rec.At, nil
		d.usage(&next)
		if failure, ok := d.m["error"].(map[string]any); ok {
			e := &members{m: failure}
			next.Error = Failure{e.optional("code"), e.optional("message"), e.optional("step"), e.optional("category")}
		}
		if !next.Status.Ended() {
			return fmt.Errorf("a run cannot end as %q", next.Status)
		}
	default:
		return f.applyPause(rec, d)
	}
	if d.err == nil {
		f.Summary = next
	}
	return d.err
}

// applyPause checks the record first, and then changes the list.
func (f *folding) applyPause(rec *Record, d *members) error {
	if f.places == nil {
		f.Pauses, f.places = slices.Clone(f.Pauses), make(map[string]int, len(f.Pauses))
		for i := range f.Pauses {
			f.places[f.Pauses[i].ID] = i
		}
	}
	id := d.text("pause")
	i, open := f.places[id]
	switch {
	case rec.Kind == PauseOpened && open:
		return fmt.Errorf("pause %q is open already", id)
	case rec.Kind == PauseOpened:
		p := Pause{ID: id, Kind: d.text("kind"), Step: rec.Path, Seq: rec.Seq,
			ExpiresAt: d.time("expiresAt", false), DueAt: d.time("dueAt", false)}
		if d.err == nil {
			f.places[id], f.Pauses = len(f.Pauses), append(f.Pauses, p)
		}
		return d.err
	case !open:
		return fmt.Errorf("no open pause %q", id)
	case d.err != nil:
		return d.err
	case rec.Kind == TokenMinted:
		hash, expires := d.text("hash"), d.time("expiresAt", false)
		if raw, err := hex.DecodeString(hash); err != nil || hex.EncodeToString(raw) != hash {
			return fmt.Errorf("hash is not in hex")
		}
		if d.err == nil {
			p := &f.Pauses[i]
			p.Tokens = append(slices.Clip(p.Tokens), Token{hash, expires})
		}
		return d.err
	}
	delete(f.places, id)
	f.Pauses[i] = Pause{}
	if f.gone++; rec.Kind == PauseAnswered {
		f.Status = Running
	}
	return nil
}
