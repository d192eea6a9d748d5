package serve

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// start is how a run begins.
type start struct {
	Inputs object            `json:"inputs,omitempty" doc:"Of the recipe."`
	Labels map[string]string `json:"labels,omitempty" doc:"For people and lists: at most 16."`
	Queue  string            `json:"queue,omitempty" doc:"Defaults to the first queue of the server."`
	RunID  string            `json:"runId,omitempty" doc:"By default, the server makes one."`
}

// accepted is a request that is recorded.
type accepted struct {
	RunID string `json:"runId"`
	URL   string `json:"url" doc:"The path of the run."`
}

// accept answers that a request about a run is recorded.
func (c *call) accept(status int, runID string) error {
	c.hub.changed(runID) // the store may take longer to say so
	at := c.pathOf(runID)
	c.w.Header().Set("Location", at)
	return c.reply(status, accepted{runID, at})
}

// startRun answers POST /recipes/{name}/runs.
func (c *call) startRun() error {
	r, err := c.named()
	if err != nil {
		return err
	}
	var in start
	if err := c.body(&in); err != nil {
		return err
	}
	if r.Workflow == nil {
		p := unfit("recipe.invalid", "recipe %q has never compiled\n  hint: correct it", r.Name)
		p.found = r.Diagnostics
		return p
	}
	id, key, err := c.newRun(in.RunID, r.Name)
	if err != nil {
		return err
	}
	patience, err := c.prefer()
	if err != nil {
		return err
	}
	if err := c.roomInQueue(); err != nil {
		return err
	}
	queue := c.queueOf(in.Queue)
	begun, err := r.Workflow.Enqueue(c.r.Context(), map[string]any(in.Inputs), c.runtimeOf(r.Workflow),
		&workflow.EnqueueOptions{RunID: id, Queue: queue, Labels: in.Labels, By: c.by(),
			Complete: c.Works(queue)})
	status := http.StatusAccepted
	if e, ok := errors.AsType[*runtime.Error](err); ok && e.Code == "run.exists" && key {
		begun, status = id, http.StatusOK
		err = c.sameStart(id, r.Workflow, in.Inputs)
	}
	if err != nil {
		c.backlog.less()
		return labelled(within("/inputs", err))
	}
	return c.acceptOrWait(status, begun, patience)
}

// newRun returns the id of a run that is about to begin: the one that is asked for, or that of the Idempotency-Key; "":
// any. about is what the key is for: a recipe, or what is forked.
func (c *call) newRun(asked, about string) (id string, byKey bool, err error) {
	key, byKey, err := c.header("Idempotency-Key")
	switch {
	case err != nil:
		return "", false, err
	case byKey && (key == "" || len(key) > 256):
		return "", false, malformed("request.parameter", "the Idempotency-Key has %d bytes"+
			"\n  hint: it has 1 to 256, such as a UUID", len(key))
	case byKey && asked != "":
		return "", false, malformed("request.body", "there are a runId and an Idempotency-Key"+
			"\n  hint: the key makes the id; leave one of them out")
	case byKey:
		return runOfKey(c.by(), about, key), true, nil
	case asked != "" && !isID(asked):
		return "", false, notID(asked)
	}
	return asked, false, nil
}

// runtimeOf is what starts of a recipe are checked against.
func (a *api) runtimeOf(wf *workflow.Workflow) *runtime.Runtime {
	if a.Assume == nil {
		return a.runtime
	}
	rt := *a.Assume(wf)
	rt.Store = a.Store
	return &rt
}

// labelled turns what a store refuses of a run into the mistake that it is.
func labelled(err error) error {
	if errors.Is(err, checkpoint.ErrInvalid) {
		message, _ := split(err.Error())
		return unfit("run.invalid", "%s\n  hint: at most 16 labels, with keys of 1 to 64 bytes "+
			"and values of at most 256; queues of at most 64 bytes", message)
	}
	return err
}

func (c *call) queueOf(name string) string {
	if name != "" {
		return name
	}
	return c.queue
}

// runOfKey is the id of the run for a key of a caller: the same on any server, at any time.
func runOfKey(caller, recipe, key string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s %d %s %s", len(caller), caller, len(recipe), recipe, key))
	return "k-" + hex.EncodeToString(sum[:16])
}

// sameStart refuses a key that began a run with other inputs.
func (c *call) sameStart(id string, wf *workflow.Workflow, inputs map[string]any) error {
	_, recs, err := c.load(id, 0)
	if err != nil {
		return err
	}
	for _, rec := range recs {
		e, err := journal.Decode(rec)
		if err != nil {
			return err
		}
		if begun, ok := e.What.(journal.Begun); ok && same(begun.Inputs, inputs, wf) {
			return nil
		}
	}
	return conflict("run.exists", "the Idempotency-Key began run %q with other inputs"+
		"\n  hint: send another key", id)
}

// same reports whether inputs are those that were recorded. An input that is left out has its default.
func same(recorded, given map[string]any, wf *workflow.Workflow) bool {
	for name, v := range given {
		if was, ok := recorded[name]; !ok || !value.Equal(was, v) {
			return false
		}
	}
	for _, in := range wf.Recipe().Inputs {
		if _, isGiven := given[in.Name]; isGiven {
			continue
		}
		if was, ok := recorded[in.Name]; ok && !value.Equal(was, in.Default) {
			return false
		}
	}
	return true
}

// backlog is how many runs wait in queues, as far as it is known. The zero backlog is ready.
type backlog struct {
	mu       sync.Mutex
	n        int       // as counted, and the starts since that count began
	since    int       // the starts since the last count began
	at       time.Time // when the last one ended
	counting bool
}

// The backlog is counted again after countTime; in between, starts are added. A start waits for a count that takes
// longer than slowCount no more: the store is slow enough then.
const (
	countTime  = 250 * time.Millisecond
	slowCount  = time.Second
	queueRetry = 5 * time.Second
)

// roomInQueue refuses a start while too many runs are queued. One start at a time has them counted, and no other waits
// for it.
func (c *call) roomInQueue() error {
	b := &c.backlog
	if b.stale() {
		if err := c.countQueued(); err != nil {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.n >= c.maxQueued {
		p := fail(http.StatusTooManyRequests, "queue.full", "%d runs are queued\n  hint: send the request again later",
			b.n)
		p.retry = queueRetry
		return p
	}
	b.n++
	b.since++
	return nil
}

// countQueued counts the runs that wait. A count that takes too long is no error.
func (c *call) countQueued() error {
	n := 0
	defer func() { c.backlog.counted(n) }() // also if the store panics
	ctx, cancel := context.WithTimeout(c.r.Context(), slowCount)
	defer cancel()
	queued := checkpoint.Filter{Phases: []checkpoint.Phase{checkpoint.PhaseQueued}}
	found, err := c.store.Count(ctx, queued, c.maxQueued)
	n = found[checkpoint.PhaseQueued]
	if ctx.Err() != nil && c.r.Context().Err() == nil {
		return nil
	}
	return err
}

// stale reports whether the runs are to be counted, by who asks: counted ends that.
func (b *backlog) stale() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.counting || time.Since(b.at) <= countTime {
		return false
	}
	b.counting, b.since = true, 0
	return true
}

// counted notes the end of a count, and its result. Without one, 0, only the starts since then are known: those of
// earlier times may have begun long ago.
func (b *backlog) counted(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counting, b.at, b.n = false, time.Now(), n+b.since
}

// less is one start that recorded nothing.
func (b *backlog) less() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.n = max(0, b.n-1)
	b.since = max(0, b.since-1)
}

// maxPatience is how long a request may wait for a run.
const maxPatience = 60 * time.Second

// prefer reads the header Prefer: how long the request waits for the run. 0: it does not. Other preferences are
// ignored.
func (c *call) prefer() (time.Duration, error) {
	for _, text := range c.r.Header.Values("Prefer") {
		n, found, err := waitOf(text)
		if err != nil {
			return 0, err
		}
		if found {
			return n, nil
		}
	}
	return 0, nil
}

// waitOf reads one header Prefer.
func waitOf(text string) (patience time.Duration, found bool, err error) {
	for one := range strings.SplitSeq(text, ",") {
		name, v, _ := strings.Cut(strings.TrimSpace(one), "=")
		if !strings.EqualFold(name, "wait") {
			continue
		}
		n, err := strconv.Atoi(strings.Trim(v, `"`))
		if err != nil || n < 0 || n > int(maxPatience.Seconds()) {
			return 0, false, malformed("request.parameter", "the header Prefer has wait=%.20q"+
				"\n  hint: it is a number of seconds from 0 to %d", v, int(maxPatience.Seconds()))
		}
		return time.Duration(n) * time.Second, true, nil
	}
	return 0, false, nil
}

// acceptOrWait answers that a request about a run is recorded, or, if the request waits, how the run came out. A server
// that is about to end does not let it wait.
func (c *call) acceptOrWait(status int, runID string, patience time.Duration) error {
	if patience == 0 {
		return c.accept(status, runID)
	}
	c.hub.changed(runID)
	c.w.Header().Set("Preference-Applied", fmt.Sprintf("wait=%d", int(patience.Seconds())))
	ctx, cancel := context.WithTimeout(c.r.Context(), patience)
	defer cancel()
	c.clock.Stop()
	err := c.hub.until(ctx, c.Drain, runID, func() (bool, error) { return c.settled(ctx, runID) })
	c.clock.Reset(storeTime)
	switch {
	case ctx.Err() != nil, errors.Is(err, errStopped):
		return c.accept(status, runID)
	case err != nil:
		return err
	}
	return c.outcome(runID)
}
