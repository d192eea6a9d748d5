package execution

import (
	"cmp"

	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// expects refuses a value for a step that waits for another one: its where is false. It looks at the run as its journal
// has it. Where that does not tell, the run refuses the value itself when it takes the signal.
func (c *sending) expects(p *resume.Pause, v any) error {
	if p.Kind != resume.External {
		return nil
	}
	program, err := c.program()
	if err != nil || !program.Wheres {
		return nil
	}
	begun := &c.past.Begun
	inputs := begun.Inputs
	if c.past.Definition.From > 0 {
		if inputs, err = program.Inputs.Check(inputs); err != nil {
			return nil
		}
	}
	limits := runtime.Limits{}.WithDefaults()
	r := engine.New(program, engine.Options{ID: c.runID, Now: c.signal.At, Interrupt: begun.Interrupt,
		Limits: limits, Durable: true, Kept: true,
		Parallel: cmp.Or(begun.Parallel, program.Recipe.Limits.MaxParallel, limits.MaxParallel)})
	if r.View(inputs, c.past, true) != nil {
		return nil
	}
	if open := r.PauseByID(p.ID); open != nil {
		return r.Refuses(open, v)
	}
	return nil
}
