package checkpoint

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/braise-run/braise/internal/value"
)

// Clock counts the leases of a store of files. The processes of a machine share one clock that nobody can set: the
// time since the machine was booted. A lease that was given by it ends by it. Any other lease, of another machine, of
// an earlier boot or of a version that knew the wall clock only, has ended when this process has seen it unchanged for
// as long as it lasts. So a wall clock that is set takes no run from a living owner, and keeps none for a dead one.
//
// On other systems than Linux each process has a clock of its own, and watches the leases of all others, unless they
// were given back. The zero value is ready.
type Clock struct {
	mu   sync.Mutex
	seen map[string]sight // by run: the leases of other clocks
}

// sight is when a lease was first seen, by the monotonic clock of this process.
type sight struct {
	lease Lease
	at    time.Time
}

const (
	// wallLease is how long a lease lasts if only the time of its end by the wall clock is known: the length of leases
	// in the versions that recorded no more.
	wallLease = 15 * time.Second
	maxSeen   = 10_000 // beyond, all are forgotten, and the watches begin again
	watchStep = 500 * time.Millisecond
	maxWatch  = time.Minute
)

// Give returns a lease that begins now. A ttl of 0 or less is one that has run out already.
func (c *Clock) Give(runID, owner string, epoch int64, ttl time.Duration) Lease {
	id, now := bootClock()
	return Lease{RunID: runID, Owner: owner, Epoch: epoch, Until: time.Now().Add(ttl).Round(0),
		Clock: id, Ends: now + ttl, Length: ttl}
}

// left returns how long a lease still lasts, as far as this process can tell, and whether it has to watch it to know.
func (c *Clock) left(l Lease, gone func(owner string) bool) (left time.Duration, watched bool) {
	id, now := bootClock()
	length := l.Length
	if l.Clock == "" {
		length = wallLease
	}
	ours := l.Clock == id && now >= l.Ends-length // else this machine is a copy, or was set back to a snapshot
	switch {
	case l.Owner == "" || length <= 0 || ours && now >= l.Ends || gone(l.Owner):
		return 0, false
	case ours:
		return l.Ends - now, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.seen[l.RunID]
	if !ok || !s.lease.same(l) {
		if c.seen == nil || len(c.seen) >= maxSeen {
			c.seen = map[string]sight{}
		}
		s = sight{l, time.Now()}
		c.seen[l.RunID] = s
	}
	return max(0, length-time.Since(s.at)), true
}

// same reports whether a lease was not renewed or taken since.
func (l Lease) same(now Lease) bool {
	return l.Newest(now) && l.Until.Equal(now.Until) && l.Clock == now.Clock && l.Ends == now.Ends
}

// Held reports whether a lease keeps others from its run. Of one that has to be watched it says what the wall clocks
// let expect; what counts is [Clock.Free].
func (c *Clock) Held(l Lease) bool { return c.held(l, OwnerGone) }

// Look returns [Clock.Held] for one look at many leases: it looks for the process of each owner once.
func (c *Clock) Look() func(l Lease) bool {
	known := map[string]bool{}
	return func(l Lease) bool {
		return c.held(l, func(owner string) bool {
			gone, ok := known[owner]
			if !ok {
				gone = OwnerGone(owner)
				known[owner] = gone
			}
			return gone
		})
	}
}

func (c *Clock) held(l Lease, gone func(owner string) bool) bool {
	left, watched := c.left(l, gone)
	return left > 0 && (!watched || l.expected(time.Now()))
}

// expected reports whether a lease lasts by the wall clock.
func (l Lease) expected(now time.Time) bool {
	length := l.Length
	if l.Clock == "" {
		length = wallLease
	}
	return now.Before(l.Until) && !now.Before(l.Until.Add(-length))
}

// Free returns an ErrBusy while a lease keeps others from its run.
func (c *Clock) Free(l Lease) error {
	left, watched := c.left(l, OwnerGone)
	switch {
	case left == 0:
		return nil
	case watched && left <= maxWatch && !l.expected(time.Now()):
		return &unsure{l, left}
	}
	return Busy(l.RunID, l.Owner)
}

// unsure is an ErrBusy of a lease that may have ended.
type unsure struct {
	lease Lease
	left  time.Duration
}

func (u *unsure) Error() string {
	return fmt.Sprintf("%v, unless its lease stays as it is for another %v",
		Busy(u.lease.RunID, u.lease.Owner), u.left.Round(time.Millisecond))
}

func (u *unsure) Unwrap() error { return ErrBusy }

// Watch calls take, which takes a run that [Clock.Free] lets it have, again and again while that watches the run's
// lease. It returns the error of the last call: nil, or ErrBusy as soon as the lease was renewed. take looks after its
// context itself.
func (c *Clock) Watch(ctx context.Context, take func() error) error {
	var first *unsure
	for {
		err := take()
		u, ok := errors.AsType[*unsure](err)
		if !ok || ctx.Err() != nil || first != nil && !first.lease.same(u.lease) {
			return err
		}
		if first == nil {
			first = u
		}
		select {
		case <-ctx.Done():
		case <-time.After(min(u.left, watchStep)):
		}
	}
}

// processClock is a clock of this process alone, for where there is none of the machine.
func processClock() (id string, now time.Duration) { return processID, time.Since(processStart) }

var (
	processID    = "process/" + rand.Text()
	processStart = time.Now()
)

// leaseKind is the kind of the record in which a store of files keeps a lease; it is in no journal.
const leaseKind Kind = "lease"

// Line returns the form in which a store of files keeps a lease, with a checksum: a record whose seq is the
// epoch, its time that of the wall clock at which the lease runs out, its path the owner, and its data what the
// [Clock] knows.
func (l Lease) Line() ([]byte, error) {
	rec := Record{Seq: l.Epoch, At: l.Until.Round(0), Kind: leaseKind, Path: l.Owner}
	var err error
	if l.Clock != "" {
		rec, err = NewRecord(l.Until, leaseKind, l.Owner,
			map[string]any{"clock": l.Clock, "ends": int64(l.Ends), "length": int64(l.Length)})
		rec.Seq = l.Epoch
	}
	if err == nil {
		err = rec.Check()
	}
	if err != nil {
		return nil, fmt.Errorf("run %q: lease: %w", l.RunID, err)
	}
	return rec.AppendLine(nil), nil
}

// ParseLeaseLine returns the lease of a run that Line wrote, here or in an earlier version; ErrCorrupt when line
// is anything else.
func ParseLeaseLine(runID string, line []byte) (Lease, error) {
	rec, err := ParseLine(line)
	if err == nil && rec.Kind != leaseKind {
		err = fmt.Errorf("%w: it is a %s", ErrCorrupt, rec.Kind)
	}
	l := Lease{RunID: runID, Owner: rec.Path, Epoch: rec.Seq, Until: rec.At}
	if err == nil && rec.Data != nil {
		v, _ := value.Decode(rec.Data)
		m, _ := v.(map[string]any)
		ends, ok := m["ends"].(int64)
		length, ok2 := m["length"].(int64)
		l.Clock, _ = m["clock"].(string)
		l.Ends, l.Length = time.Duration(ends), time.Duration(length)
		if !ok || !ok2 || l.Clock == "" {
			err = fmt.Errorf("%w: its clock is not known", ErrCorrupt)
		}
	}
	if err != nil {
		return Lease{}, fmt.Errorf("run %q: lease: %w", runID, err)
	}
	return l, nil
}
