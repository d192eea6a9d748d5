package checkpoint

import (
	"bytes"
	"context"
	"sync"
	"time"
)

// MemoryCache is a Cache in the memory of the process. Its zero value is ready.
type MemoryCache struct {
	mu   sync.Mutex
	vals map[string]cached
	next int // sweep once there are that many
}

type cached struct {
	val   []byte
	until time.Time // zero: for good
}

func (c cached) live(now time.Time) bool { return c.until.IsZero() || now.Before(c.until) }

// Get implements Cache.
func (c *MemoryCache) Get(ctx context.Context, key string) ([]byte, bool, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v, ok := c.vals[key]; ok && v.live(time.Now()) {
		return v.val, true, ctx.Err()
	}
	return nil, false, ctx.Err()
}

// Set implements Cache.
func (c *MemoryCache) Set(ctx context.Context, key string, val []byte, ttl time.Duration) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	v := cached{val: bytes.Clone(val)}
	if ttl > 0 {
		v.until = now.Add(ttl)
	}
	if c.vals == nil {
		c.vals = map[string]cached{}
	}
	c.vals[key] = v
	// What has run out goes whenever the cache has doubled, so that a Set costs little on average
	// and no goroutine is needed.
	if len(c.vals) > max(c.next, 64) {
		for k, v := range c.vals {
			if !v.live(now) {
				delete(c.vals, k)
			}
		}
		c.next = 2 * len(c.vals)
	}
	return nil
}

// Delete implements Cache.
func (c *MemoryCache) Delete(ctx context.Context, key string) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.vals[key]
	delete(c.vals, key)
	return ok && v.live(time.Now()), nil
}
