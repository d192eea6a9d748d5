package ledger

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/guard"
	"github.com/braise-run/braise/runtime"
)

// cached is the store of one run that is kept in the runtime's cache, in these entries:
//
//   - the run: its definition and its journal, a line each. It stays until an execution has ended the run.
//   - ".turn": exactly one of many processes can delete it. That one may look whether the run is held, and take the
//     run; then it puts the entry back. The value is when the run expires.
//   - ".held": who executes the run. It expires with the lease of a process that died.
//   - ".asked": shows that the cache can be written to, before ".turn" is deleted. Nobody reads it.
//
// What an execution records is in its own memory, and comes into the cache with an answer and at its end.
type cached struct {
	*checkpoint.Memory
	cache checkpoint.Cache
	runID string
	mine  string // the value of ".held" while this process executes the run; "": it does not
}

// newCached makes the store of a run that the cache does not have yet.
func newCached(cache checkpoint.Cache, runID string) *cached {
	return &cached{Memory: &checkpoint.Memory{}, cache: cache, runID: runID}
}

func (c *cached) key(part string) string { return "braise.run." + c.runID + part }

// limited is the context of all that one call of the store asks of the cache. It has the time of a store, and does not
// end with that of the caller: nobody would put back the turn that was taken.
func limited(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), guard.StoreTime)
}

// ask calls the cache.
func ask[T any](ctx context.Context, f func(context.Context) (T, error)) (T, error) {
	v, err := guard.Port(ctx, runtime.CategoryInfra, "store.failed", "the cache", func() (T, error) { return f(ctx) })
	if err != nil {
		err = fmt.Errorf("cache: %w", err)
	}
	return v, err
}

func (c *cached) get(ctx context.Context, part string) ([]byte, bool, error) {
	found := false
	val, err := ask(ctx, func(ctx context.Context) (val []byte, err error) {
		val, found, err = c.cache.Get(ctx, c.key(part))
		return val, err
	})
	return val, err == nil && found, err
}

func (c *cached) set(ctx context.Context, part string, val []byte, ttl time.Duration) error {
	_, err := ask(ctx, func(ctx context.Context) (any, error) {
		return nil, c.cache.Set(ctx, c.key(part), val, max(ttl, 1)) // 0 would be for good
	})
	return err
}

func (c *cached) delete(ctx context.Context, part string) (bool, error) {
	return ask(ctx, func(ctx context.Context) (bool, error) { return c.cache.Delete(ctx, c.key(part)) })
}

// Read reads what the cache has of the run; nothing if it has none.
func (c *cached) Read(ctx context.Context) error {
	ctx, cancel := limited(ctx)
	defer cancel()
	return c.read(ctx)
}

func (c *cached) read(ctx context.Context) error {
	text, ok, err := c.get(ctx, "")
	if c.Memory = new(checkpoint.Memory); err != nil || !ok {
		return err
	}
	lines := bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	var recs []checkpoint.Record
	for _, line := range lines[1:] {
		rec, err := checkpoint.ParseLine(line)
		if err != nil {
			return err
		}
		recs = append(recs, rec)
	}
	sum, err := checkpoint.Fold(c.runID, recs)
	if err != nil {
		return err
	}
	run := sum.Run
	if run.Definition, err = checkpoint.ParseDefinitionLine(run.Digest, lines[0]); err != nil {
		return err
	}
	_, err = c.Create(ctx, run, Owner(), 0, recs[1:]...)
	return err
}

// Keep puts the run into the cache as it is now.
func (c *cached) Keep(ctx context.Context, ttl time.Duration) error {
	ctx, cancel := limited(ctx)
	defer cancel()
	if err := c.still(ctx); err != nil {
		return err
	}
	sum, recs, err := c.Load(ctx, c.runID, 0)
	if err != nil {
		return err
	}
	run := sum.Run
	if run.Definition, err = c.Definition(ctx, run.Digest); err != nil {
		return err
	}
	text := append(checkpoint.DefinitionLine(run), '\n')
	for _, rec := range recs {
		text = append(rec.AppendLine(text), '\n')
	}
	if err = c.set(ctx, "", text, ttl); err == nil {
		err = c.set(ctx, ".turn", []byte(time.Now().Add(ttl).Format(time.RFC3339Nano)), ttl)
	}
	return err
}

// Forget removes the run from the cache.
func (c *cached) Forget(ctx context.Context) error {
	ctx, cancel := limited(ctx)
	defer cancel()
	err := c.still(ctx)
	for _, part := range []string{"", ".turn"} {
		if err == nil {
			_, err = c.delete(ctx, part)
		}
	}
	return err
}

// Claim implements checkpoint.Store: it reads the run again.
func (c *cached) Claim(ctx context.Context, runID, owner string, ttl time.Duration) (checkpoint.Lease, error) {
	ctx, cancel := limited(ctx)
	defer cancel()
	if err := c.hold(ctx, ttl); err != nil {
		return checkpoint.Lease{}, err
	}
	err := c.read(ctx)
	var l checkpoint.Lease
	if err == nil {
		l, err = c.Memory.Claim(ctx, runID, owner, ttl)
	}
	if err != nil {
		c.letGo(ctx)
	}
	return l, err
}

// hold notes that this process executes the run, unless another one does.
func (c *cached) hold(ctx context.Context, ttl time.Duration) error {
	until, there, err := c.get(ctx, ".turn")
	if err != nil {
		return err
	}
	if err := c.set(ctx, ".asked", nil, ttl); err != nil {
		return err // a cache that takes nothing would lose the turn
	}
	won := false
	if there {
		won, err = c.delete(ctx, ".turn")
	}
	if err != nil {
		return err
	}
	if !won {
		return c.busy()
	}
	_, held, err := c.get(ctx, ".held")
	if err == nil && !held {
		c.mine = checkpoint.NewOwner()
		err = c.set(ctx, ".held", []byte(c.mine), ttl)
	}
	expires, _ := time.Parse(time.RFC3339Nano, string(until))
	if back := c.set(ctx, ".turn", until, time.Until(expires)); err == nil {
		err = back
	}
	if err == nil && held {
		err = c.busy()
	}
	return err
}

func (c *cached) busy() error { return fmt.Errorf("run %q: %w", c.runID, checkpoint.ErrBusy) }

// still refuses what only the process may do that executes the run, if that is another one now.
func (c *cached) still(ctx context.Context) error {
	if c.mine == "" {
		return nil
	}
	who, held, err := c.get(ctx, ".held")
	if err == nil && (!held || string(who) != c.mine) {
		err = fmt.Errorf("run %q: %w", c.runID, checkpoint.ErrFenced)
	}
	return err
}

// Renew implements checkpoint.Store.
func (c *cached) Renew(ctx context.Context, l checkpoint.Lease, ttl time.Duration) (checkpoint.Lease, error) {
	ctx, cancel := limited(ctx)
	defer cancel()
	err := c.still(ctx)
	if err == nil {
		err = c.set(ctx, ".held", []byte(c.mine), ttl)
	}
	if err != nil {
		return checkpoint.Lease{}, err
	}
	return c.Memory.Renew(ctx, l, ttl)
}

// Release implements checkpoint.Store.
func (c *cached) Release(ctx context.Context, l checkpoint.Lease) error {
	ctx, cancel := limited(ctx)
	defer cancel()
	c.letGo(ctx)
	return c.Memory.Release(ctx, l)
}

// letGo gives the run back; if the cache fails, it expires.
func (c *cached) letGo(ctx context.Context) {
	if c.mine != "" && c.still(ctx) == nil {
		_, _ = c.delete(ctx, ".held")
	}
	c.mine = ""
}

// PauseTime is how long a run without a store is kept: at a pause that does not expire, and after an interrupted
// execution.
const PauseTime = 24 * time.Hour
