package engine_test

import (
	"testing"

	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/engine/enginetest"
)

// newToy returns a toy that compares engines with others that were told the same journal.
func newToy(t *testing.T, seed uint64) *enginetest.Toy {
	y := enginetest.New(t, seed)
	y.Probe = enginetest.Probe{
		Begun:   (*engine.Run).Begun,
		Inherit: (*engine.Run).Inherit,
		Differ: func(live, replayed *engine.Run) string {
			replayed.Settle()
			return engine.Differ(live.State(), replayed.State())
		},
	}
	return y
}
