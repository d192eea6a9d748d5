// Package clock says what time it is for the runs of a store.
package clock

import (
	"context"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/guard"
)

// Of returns the time in UTC by the clock that counts for the runs of a store: its own, if it has one, else that of
// this machine. With an error the clock of the store cannot be read; the time is that of this machine then.
func Of(ctx context.Context, store checkpoint.Store) (time.Time, error) {
	now, err := time.Now(), error(nil)
	if c, ok := store.(checkpoint.Clocked); ok {
		if shown, failed := guard.Store(ctx, c.Now); failed != nil {
			err = failed
		} else {
			now = shown
		}
	}
	return now.UTC(), err
}
