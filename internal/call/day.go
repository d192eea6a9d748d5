package call

import (
	"github.com/braise-run/braise/internal/engine"
)

// onItsDay makes the attempt once what it may cost is reserved on its day, and settles that however the attempt ends.
// Its result says if a limit leaves less, or if the store failed.
func (a *attempt) onItsDay() (res engine.Result) {
	r, err := a.Day.Reserve(a.ctx, named(a.call), engine.Wanted(a.call, a.rt.Prices).Micros)
	if err != nil {
		return engine.Result{Bad: a.shown(err)}
	}
	defer func() { a.settleDay(r, engine.Used(a.call, &res, a.rt.Prices).Micros) }()
	return a.make()
}
