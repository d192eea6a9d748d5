package workflow

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// leaseTime is how long a process that died keeps its runs, and recordTime how long a record waits
// at most for others to share a commit with (semantics 7.3, 7.5). Tests change them.
var (
	leaseTime  = 15 * time.Second
	recordTime = 50 * time.Millisecond
)

// The kinds of records that the engine adds to those of checkpoint. Events of the machine have a
// member "n": what the machine had decided by then, see [machine.Machine.Decided].
const (
	recInput    checkpoint.Kind = "run.input"   // inputs, interrupt?
	recBegun    checkpoint.Kind = "call.begun"  // n, ordinal: the call may have had its effect from here on
	recEnded    checkpoint.Kind = "call.ended"  // n, output | error, draws?, usage?, settled? (see words), unknown?: a call is over
	recGiven    checkpoint.Kind = "call.given"  // n, output: a call that another run, or an earlier definition, had made
	recFired    checkpoint.Kind = "timer.fired" // n, timer
	recStopped  checkpoint.Kind = "run.stopped" // it was cancelled, and may be gone on with
	recSent     checkpoint.Kind = "value.sent"  // n, channel, value: from outside, and not only the answer to a pause
	recWaitOver checkpoint.Kind = "wait.over"   // n, output?: a wait for which no pause was opened

	recRolling   checkpoint.Kind = "rollback.begun" // it may have had its effect from here on
	recRolled    checkpoint.Kind = "rollback.ended" // error?
	recCancelled checkpoint.Kind = "run.cancelling" // reason: nothing goes on but rolling back
)

// entry is a record before it is encoded.
type entry struct {
	kind    checkpoint.Kind
	at      time.Time
	path    string
	n       int64 // of an event of the machine
	output  any
	failure *machine.Failure
	timer   machine.Timer
	ordinal int
	unknown bool               // of recEnded: the run ended the call, which may have had its effect
	asked   *asked             // by a call of models; nil: nothing
	agent   *agentBatch        // of recAgent
	rec     *checkpoint.Record // instead of all that
}

// asked is what a call asked of models.
type asked struct {
	model string // that draws are of
	draws []int
	used  amount
}

// recorder is what a run keeps so that somebody can go on with it: entries, and behind a store's back
// the records that they become. Without a store the entries stay here until the run pauses.
type recorder struct {
	store   checkpoint.Store
	run     checkpoint.Run
	inputs  map[string]any
	seq     int64 // of the last record in the store; 0: the store does not have the run yet
	entries []entry
	urgent  bool // an entry must be in the store before any further call
	armed   *time.Timer
	err     error // the first failure of the store: nothing is written any more

	mu      sync.Mutex // guards lease and renewed, which a goroutine of its own renews
	lease   checkpoint.Lease
	renewed time.Time     // not after the store gave lease, by the monotonic clock; zero: nothing is held
	stop    chan struct{} // ends that goroutine; nil: there is none
	ended   sync.WaitGroup
}

// durable reports whether what happens is written down before it counts.
func (j *recorder) durable() bool { return j.store != nil && j.err == nil }

// note keeps an entry.
func (r *run) note(e *entry) {
	j := &r.journal
	if e.at = r.events.now; e.rec != nil {
		e.at = e.rec.At
	}
	r.m.Tell(e.at) // as whoever replays the journal will
	j.entries = append(j.entries, *e)
	if j.durable() && j.armed == nil {
		j.armed = time.AfterFunc(recordTime, func() { r.happened(func() { r.journal.armed = nil; r.flush() }) })
	}
}

// noteData keeps a record whose data are JSON, as those of the engine are.
func (r *run) noteData(kind checkpoint.Kind, path string, data map[string]any) {
	if rec, err := checkpoint.NewRecord(r.events.now, kind, path, data); err == nil { // always
		r.note(&entry{rec: &rec})
	}
}

// flush writes what is waiting. After a failure the run is stopped, and its journal stays as it is.
func (r *run) flush() {
	j := &r.journal
	if !j.durable() || len(j.entries) == 0 && j.seq > 0 {
		return
	}
	if j.armed != nil {
		j.armed.Stop()
		j.armed = nil
	}
	if err := r.write(); err != nil {
		j.err = err
		if !r.cancelled {
			r.stopAll(err)
		}
		return
	}
	j.entries, j.urgent = j.entries[:0], false
}

// write encodes the entries and appends them, or begins the journal with them.
func (r *run) write() error {
	j := &r.journal
	recs := make([]checkpoint.Record, 0, len(j.entries)+1)
	if j.seq == 0 {
		data := map[string]any{"inputs": j.inputs}
		if r.interrupt == resume.Restart {
			data["interrupt"] = string(resume.Restart)
		}
		rec, err := checkpoint.NewRecord(j.run.StartedAt, recInput, "", data)
		if err != nil {
			return err
		}
		recs = append(recs, rec)
	}
	for i := range j.entries {
		rec, err := j.entries[i].record()
		if err != nil {
			return fmt.Errorf("step %q: %w", j.entries[i].path, err)
		}
		recs = append(recs, rec)
	}
	ctx := context.WithoutCancel(r.ctx)
	if j.seq == 0 {
		over := recs[len(recs)-1].Kind == checkpoint.RunEnded || recs[len(recs)-1].Kind == checkpoint.RunPaused
		reached(beforeCreate)
		ttl := leaseTime
		if over { // nobody has to hold the run, and one write is enough
			ttl = 0
		}
		asked := time.Now()
		lease, err := j.store.Create(ctx, j.run, owner(), ttl, recs...)
		reached(afterCreate)
		if err != nil {
			return err
		}
		if j.seq = 1 + int64(len(recs)); !over {
			r.hold(lease, asked)
		}
		return nil
	}
	if err := r.stamp(recs); err != nil {
		return err
	}
	reached(beforeAppend)
	if err := j.store.Append(ctx, j.held(), j.seq, recs...); err != nil {
		return err
	}
	reached(afterAppend)
	j.seq += int64(len(recs))
	return nil
}

// owner names this process in leases.
var owner = sync.OnceValue(checkpoint.NewOwner)

// hold keeps a lease alive until let go. asked is when the store was asked for it.
func (r *run) hold(lease checkpoint.Lease, asked time.Time) {
	j := &r.journal
	stop := make(chan struct{})
	j.stop = stop
	j.keep(lease, asked)
	j.ended.Go(func() {
		ticker := time.NewTicker(leaseTime / 3)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
			}
			err := r.renew()
			if errors.Is(err, checkpoint.ErrFenced) || errors.Is(err, checkpoint.ErrNotFound) || errors.Is(err, checkpoint.ErrClosed) {
				r.happened(func() { r.fence(err) })
				return
			}
		}
	})
}

// renew renews the lease.
func (r *run) renew() error {
	j := &r.journal
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), leaseTime/3)
	defer cancel()
	asked := time.Now()
	next, err := j.store.Renew(ctx, j.held(), leaseTime)
	if err == nil {
		j.keep(next, asked)
	}
	return err
}

// owned makes sure that the run is still this process's, as long as a lease lasts: without a word of the
// store for that long, somebody else may have it. The error is [checkpoint.ErrFenced]. Nil where nothing is held.
func (r *run) owned() error {
	j := &r.journal
	j.mu.Lock()
	renewed := j.renewed
	j.mu.Unlock()
	if renewed.IsZero() || time.Since(renewed) < leaseTime {
		return nil
	}
	if err := r.renew(); err != nil {
		return fmt.Errorf("run %q: %w: its lease of %v ran out, and was not renewed: %w", r.id, checkpoint.ErrFenced, leaseTime, err)
	}
	return nil
}

func (j *recorder) keep(lease checkpoint.Lease, asked time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.lease = lease; asked.After(j.renewed) {
		j.renewed = asked
	}
}

func (j *recorder) held() checkpoint.Lease {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lease
}

// letGo ends the renewing and gives the run back.
func (r *run) letGo() {
	j := &r.journal
	if j.armed != nil {
		j.armed.Stop()
	}
	if j.stop == nil {
		return
	}
	close(j.stop)
	j.stop = nil
	j.ended.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), leaseTime/3)
	defer cancel()
	reached(beforeRelease)
	defer reached(afterRelease)
	err := j.store.Release(ctx, j.lease)
	if err != nil && !errors.Is(err, checkpoint.ErrFenced) {
		err = j.store.Release(ctx, j.lease) // a connection may have been lost; if it was released, it is fenced now
	}
	if err != nil && !errors.Is(err, checkpoint.ErrFenced) && j.err == nil {
		r.warn("the run's lease was not released, it runs out by itself", slog.String("error", err.Error()))
	}
}

// record encodes an entry.
func (e *entry) record() (checkpoint.Record, error) {
	if e.rec != nil {
		return *e.rec, nil
	}
	data := map[string]any{}
	switch e.kind {
	case recBegun:
		data["n"], data["ordinal"] = e.n, int64(e.ordinal)
	case recEnded:
		data["n"] = e.n
		if e.failure == nil {
			data["output"] = e.output
		}
		if e.unknown {
			data["unknown"] = true
		}
		if a := e.asked; a != nil {
			if len(a.draws) > 0 {
				list := make([]any, len(a.draws))
				for i, n := range a.draws {
					list[i] = int64(n)
				}
				data["draws"], data["model"] = list, a.model
			}
			if usage := a.used.usage(); usage != nil {
				data["usage"] = usage
			}
		}
	case recFired:
		data["n"], data["timer"] = e.n, int64(e.timer)
	case recAgent:
		data["n"] = e.n
		e.agent.members(data)
	default:
		if data["n"] = e.n; e.output != nil {
			data["output"] = e.output
		}
	}
	if f := e.failure; f != nil {
		data["error"] = errorData(f)
	}
	return checkpoint.NewRecord(e.at, e.kind, e.path, data)
}

// storeError words a failure of the store as the error of a run.
func storeError(err error) *runtime.Error {
	if e, ok := errors.AsType[*runtime.Error](err); ok {
		return e
	}
	return &runtime.Error{Category: runtime.CategoryInfra, Code: checkpoint.Code(err), Err: err}
}

// errorData is a failure as a record has it.
func errorData(f *machine.Failure) map[string]any {
	return map[string]any{"category": f.Category, "code": f.Code, "message": f.Err.Error()}
}

// failureOf reads what errorData made.
func failureOf(v any) *machine.Failure {
	m, _ := v.(map[string]any)
	if m == nil {
		return nil
	}
	f := &machine.Failure{}
	f.Category, _ = m["category"].(string)
	f.Code, _ = m["code"].(string)
	message, _ := m["message"].(string)
	f.Err = errors.New(message)
	return f
}

// dataOf decodes the data of a record.
func dataOf(rec checkpoint.Record) (map[string]any, error) {
	if rec.Data == nil {
		return nil, nil
	}
	v, err := value.Decode(rec.Data)
	m, ok := v.(map[string]any)
	if err != nil || !ok {
		return nil, fmt.Errorf("record %d (%s): %w: its data", rec.Seq, rec.Kind, checkpoint.ErrCorrupt)
	}
	return m, nil
}
