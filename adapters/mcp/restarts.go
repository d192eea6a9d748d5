package mcp

import (
	"sync"
	"time"

	"github.com/braise-run/braise/retry"
)

// between is the policy of the waits between restarts: a second, two, four, and so on up to a minute.
var between = retry.Resolve(retry.Layers{Host: retry.Policy{Backoff: time.Second, MaxBackoff: time.Minute}})

// restarts limits how often a program is started again: at once after it has ended, then, as long as
// no call is answered, a second after it has ended again, two, four, and so on up to a minute.
type restarts struct {
	mu   sync.Mutex
	ends int // in a row
	last time.Time
}

// ended notes that the program has ended.
func (r *restarts) ended(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends++
	r.last = now
}

// worked notes that a call was answered.
func (r *restarts) worked() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends = 0
}

// allow returns how long it is until the program may be started again.
func (r *restarts) allow(now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ends < 2 {
		return 0
	}
	return max(0, r.last.Add(between.Delay(r.ends-1, 0, retry.Seed{})).Sub(now))
}
