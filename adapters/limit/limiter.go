package limit

import (
	"slices"
	"sync"
	"time"

	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// window is how long a request counts. It is longer than a minute, since one request may take longer than the next to
// reach its endpoint, which counts when they come.
const window = time.Minute + time.Second

// limiter has the calls of one model, those that wait and those that count.
//
//	enter ─▶ queue ──▶ counted (for a window), busy (until it ends)
//	           │
//	           └─▶ leave
type limiter struct {
	Limits

	mu      sync.Mutex
	shared  *shared // where calls wait for their turn after that here; nil: nowhere
	queue   []*turn // that wait, in the order in which they came
	busy    int     // calls under way
	counted []*turn // sent within the window, the oldest first; none without RPM and TPM
	tokens  int64   // of those
	timer   *time.Timer
}

// turn is one call.
type turn struct {
	of     *limiter
	tokens int64         // what it may use, and then what it has used
	sent   time.Time     // when its turn came; zero: it waits
	shared *shared       // where it waits after that; nil: nowhere
	place  *place        // its turn there; nil: it has none
	ready  chan struct{} // closed then
}

// waiting says what a call waits for.
type waiting struct {
	limit string // the key of the limit; "": for nothing
	ahead int    // calls that wait for it already
}

// enter adds a call at the end of the queue.
func (l *limiter) enter(req *runtime.Request) (*turn, waiting) {
	t := &turn{of: l, ready: make(chan struct{}), tokens: agents.TokensOf(req) + agents.AnswerTokens(req)}
	l.mu.Lock()
	defer l.mu.Unlock()
	t.shared = l.shared
	l.queue = append(l.queue, t)
	limit := l.next()
	if !t.sent.IsZero() {
		return t, waiting{}
	}
	return t, waiting{limit, len(l.queue) - 1}
}

// next lets calls have their turn, as far as the limits allow, and returns the limit that the next one waits for; "":
// there is none.
func (l *limiter) next() (limit string) {
	now := time.Now()
	old := 0
	for old < len(l.counted) && now.Sub(l.counted[old].sent) >= window {
		old++
	}
	l.uncount(0, old)
	for len(l.queue) > 0 {
		t := l.queue[0]
		if limit = l.limits(t); limit != "" {
			break
		}
		l.queue = slices.Delete(l.queue, 0, 1)
		t.sent = now
		l.busy++
		if l.RPM > 0 || l.TPM > 0 {
			l.counted = append(l.counted, t)
			l.tokens += t.tokens
		}
		close(t.ready)
	}
	if l.timer != nil {
		l.timer.Stop()
		l.timer = nil
	}
	if limit != "" && limit != "max_parallel" {
		l.timer = time.AfterFunc(window-now.Sub(l.counted[0].sent), func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.next()
		})
	}
	return limit
}

// limits returns the limit that keeps a call from being sent now; "": none does.
func (l *limiter) limits(t *turn) string { return l.over(l.busy, len(l.counted), l.tokens, t.tokens) }

// over returns the limit that one more call would exceed, beside those under way and what was sent within the window;
// "": none.
func (l Limits) over(busy, requests int, tokens, more int64) string {
	switch {
	case l.MaxParallel > 0 && busy >= l.MaxParallel:
		return "max_parallel"
	case l.RPM > 0 && requests >= l.RPM:
		return "rpm"
	case l.TPM > 0 && tokens > 0 && tokens+more > int64(l.TPM):
		return "tpm"
	}
	return ""
}

// uncount takes away calls that counted.
func (l *limiter) uncount(from, to int) {
	for _, t := range l.counted[from:to] {
		l.tokens -= t.tokens
	}
	l.counted = slices.Delete(l.counted, from, to)
}

// leave takes a call back that has not been sent, and never will be.
func (t *turn) leave() {
	l := t.of
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.sent.IsZero() {
		l.queue = slices.DeleteFunc(l.queue, func(other *turn) bool { return other == t })
	} else {
		l.unsent(t)
	}
	l.next()
}

// unsent ends a call that was not sent: it counts for nothing.
func (l *limiter) unsent(t *turn) {
	l.busy--
	if i := slices.Index(l.counted, t); i >= 0 {
		l.uncount(i, i+1)
	}
}

// end ends a call whose turn it was. One that does not say what it used counts as what it might have used.
func (t *turn) end(resp *runtime.Response, err error) {
	l := t.of
	unsent, used := err != nil && retry.FailureOf(err).Unsent(), int64(0)
	if resp != nil {
		used = int64(resp.Usage.InputTokens) + int64(resp.Usage.OutputTokens)
	}
	if t.place != nil {
		t.shared.end(t.place, used, unsent)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if unsent {
		l.unsent(t)
		l.next()
		return
	}
	l.busy--
	if used > 0 && slices.Contains(l.counted, t) {
		l.tokens += used - t.tokens
		t.tokens = used
	}
	l.next()
}
