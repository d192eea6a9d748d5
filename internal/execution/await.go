package execution

import (
	"context"
	"fmt"
	"time"

	"github.com/braise-run/braise/internal/guard"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/ledger"
	"github.com/braise-run/braise/internal/past"
	"github.com/braise-run/braise/runtime"
)

// awaitEvery is how often a journal is looked at for the end of a signal.
const awaitEvery = 100 * time.Millisecond

// await waits until the journal says what came of the signal that was left.
func (c *sending) await() error {
	id, seq := c.signal.ID, c.summary.Seq
	for until := time.Now().Add(c.o.Wait); ; {
		sum, recs, err := guard.Load(context.WithoutCancel(c.ctx), c.ledger.Store, c.runID, seq)
		if err != nil {
			return err
		}
		events, err := ledger.Decode(recs)
		if err != nil {
			return err
		}
		for i := range events {
			if dropped, ok := events[i].What.(journal.SignalDropped); ok && dropped.ID == id {
				return c.dropped(dropped.Why)
			}
		}
		seq += int64(len(recs))
		switch {
		case past.Signals(events)[id]:
			return nil
		case sum.Status.Ended():
			if err := c.load(); err != nil {
				return err
			}
			return c.over()
		case c.ctx.Err() != nil || !time.Now().Before(until):
			return &runtime.Error{Category: runtime.CategoryInfra, Code: "signal.open",
				Err: fmt.Errorf("the signal %q is left for run %q, which has not taken it yet", c.signal.Kind, c.runID)}
		}
		select {
		case <-time.After(awaitEvery):
		case <-c.ctx.Done():
		}
	}
}

// dropped is the error for a signal that did not apply; of an answer, who was first.
func (c *sending) dropped(why string) error {
	if err := c.load(); err != nil {
		return err
	}
	pause, _ := c.data["pause"].(string)
	return c.answeredBefore(pause, &runtime.Error{Category: runtime.CategoryInfra, Code: "signal.dropped",
		Err: fmt.Errorf("the signal %q did not apply: %s", c.signal.Kind, why)})
}
