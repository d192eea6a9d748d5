package call

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/files"
	"github.com/braise-run/braise/internal/guard"
	"github.com/braise-run/braise/runtime"
)

// maxRemembered is how many bytes of files a run keeps in memory.
const maxRemembered = 64 << 20

// Content is what is in the files that the calls of a run have shown, by SHA-256: in the store of the run, if that
// keeps documents, and the last of it in memory. It is safe for concurrent use.
type Content struct {
	run   string
	store checkpoint.Documents // nil: memory has to do

	mu    sync.Mutex
	last  []remembered // the newest last
	bytes int
}

type remembered struct {
	sum  string
	data []byte
}

// NewContent makes the Content of a run that is in that store; nil: it is in none. The result is nil for a store that
// keeps no documents: other processes would not find what this one has in memory.
func NewContent(store checkpoint.Store, run string) *Content {
	c := &Content{run: run}
	if store == nil {
		return c
	}
	docs, ok := store.(checkpoint.Documents)
	if !ok {
		return nil
	}
	c.store = guard.Documented(docs)
	return c
}

// put keeps a content, which belongs to c from then on, and returns its SHA-256. The store does not get a secret one.
func (c *Content) put(ctx context.Context, data []byte, secret bool) (string, error) {
	sum := files.Sum(data)
	if c == nil || c.remembers(sum) != nil {
		return sum, nil
	}
	if c.store != nil && !secret {
		if _, err := files.Put(ctx, c.store, c.run, data); err != nil {
			return "", ofStore(err)
		}
	}
	c.remember(sum, data)
	return sum, nil
}

// Share keeps for the run what another run of its store has. What is missing is left out.
func (c *Content) Share(ctx context.Context, sums []string) error {
	if c == nil || c.store == nil {
		return nil
	}
	for _, sum := range sums {
		if err := files.Share(ctx, c.store, c.run, sum); err != nil && !errors.Is(err, checkpoint.ErrNotFound) {
			return ofStore(err)
		}
	}
	return nil
}

// get returns a content; nil: it is not kept, or no longer.
func (c *Content) get(ctx context.Context, sum string) ([]byte, error) {
	if c == nil {
		return nil, nil
	}
	if data := c.remembers(sum); data != nil {
		return data, nil
	}
	if c.store == nil {
		return nil, nil
	}
	data, err := files.Get(ctx, c.store, sum)
	if errors.Is(err, checkpoint.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, ofStore(err)
	}
	c.remember(sum, data)
	return data, nil
}

// ofStore is the error of a store that cannot keep or return a content.
func ofStore(err error) error {
	if _, ok := errors.AsType[*runtime.Error](err); ok || errors.Is(err, checkpoint.ErrCorrupt) {
		return err
	}
	return &runtime.Error{Category: runtime.CategoryInfra, Code: "store.failed", Err: err}
}

func (c *Content) remembers(sum string) []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.last, func(r remembered) bool { return r.sum == sum })
	if i < 0 {
		return nil
	}
	found := c.last[i]
	c.last = append(slices.Delete(c.last, i, i+1), found)
	return found.data
}

func (c *Content) remember(sum string, data []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last, c.bytes = append(c.last, remembered{sum, data}), c.bytes+len(data)
	for c.bytes > maxRemembered {
		c.bytes -= len(c.last[0].data)
		c.last = slices.Delete(c.last, 0, 1)
	}
}
