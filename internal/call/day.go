package call

import (
	"context"

	"github.com/braise-run/braise/internal/engine"
)

// reserveDay reserves what the attempt may cost on its day, and returns what settles that once its result is known. The
// error says that a limit leaves less, or that the store failed.
func (a *attempt) reserveDay() (settle func(*engine.Result), err error) {
	r, err := a.Day.Reserve(a.ctx, named(a.call), engine.Wanted(a.call, a.rt.Prices).Micros)
	if err != nil {
		return nil, a.shown(err)
	}
	ctx := context.WithoutCancel(a.ctx) // what was paid counts, however the run ends
	return func(res *engine.Result) {
		err := a.Day.Settle(ctx, r, engine.Used(a.call, res, a.rt.Prices).Micros)
		if err != nil && a.Warn != nil {
			a.Warn("the cost of a call is not counted on its day: "+err.Error(), a.call.Path)
		}
	}, nil
}
