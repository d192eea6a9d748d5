package temporal

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"
)

// turns bounds how many updates of a run are under way from this process. A server that has ten refuses the next one, and
// thereby forgets those that no worker has taken yet, and the task that was to bring them: where many more come at once,
// and are repeated, none gets through. The zero value is ready.
type turns struct {
	mu sync.Mutex
	of map[string]*turn // by run, while somebody has or awaits a turn
}

// updates has the turns of all engines.
var updates turns

type turn struct {
	taken chan struct{}
	users int // who have or await a turn
}

// take waits for a turn of a run. Whoever has it gives it back. The error is that of ctx, which has ended before.
func (t *turns) take(ctx context.Context, run string) (give func(), err error) {
	one := t.join(run)
	select {
	case one.taken <- struct{}{}:
		return func() { <-one.taken; t.leave(run) }, nil
	case <-ctx.Done():
		t.leave(run)
		return nil, ctx.Err()
	}
}

func (t *turns) join(run string) *turn {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = map[string]*turn{}
	}
	if t.of[run] == nil {
		t.of[run] = &turn{taken: make(chan struct{}, maxAtOnce)}
	}
	t.of[run].users++
	return t.of[run]
}

func (t *turns) leave(run string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of[run].users--; t.of[run].users == 0 {
		delete(t.of, run)
	}
}

// rest waits before an update is made again, two thirds of a second at most. The error is that of ctx, which has ended.
func rest(ctx context.Context, try int) error {
	wait := time.NewTimer(rand.N(10 * time.Millisecond << min(try+1, 6)))
	defer wait.Stop()
	select {
	case <-wait.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
