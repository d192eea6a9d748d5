package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/past"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/resume"
)

// possible refuses an event that is illegal whatever the machine decides before it.
func (r *Run) possible(e *journal.Event) error {
	if e.Ordered() && e.After < r.m.Decided() {
		return fmt.Errorf("it comes before decision %d, at %d", r.m.Decided(), e.After)
	}
	switch what := e.What.(type) {
	case journal.Redefined:
		if r.past.told {
			return errors.New("a definition comes first")
		}
	case journal.ValueSent:
		if program.ChannelIndex(r.program.Graph.Channels, what.Channel) < 0 {
			return fmt.Errorf("there is no channel %q", what.Channel)
		}
	case journal.PauseOpened:
		if what.Pause.ID == "" || r.waits.pause(what.Pause.ID) != nil {
			return fmt.Errorf("a pause %q cannot be opened", what.Pause.ID)
		}
	case journal.PauseAnswered:
		return possibleAnswer(&what, r.waits.pause(what.Pause) != nil, r.calls.generation)
	case journal.Restarted:
		if r.undo.restart == nil || what.Generation <= r.calls.generation {
			return fmt.Errorf("generation %d cannot begin", what.Generation)
		}
	case journal.StepDenied:
		if what.Failure == nil || r.past.denied[e.Path] != nil {
			return fmt.Errorf("step %q is denied without a reason, or twice", e.Path)
		}
	case journal.RollbackBegun, journal.RollbackEnded:
		if !strings.HasSuffix(e.Path, past.RollbackMark) {
			return fmt.Errorf("%q is not a rollback", e.Path)
		}
	}
	if t := r.past.known[taskPath(e)]; t != nil && ofTask(e) {
		return notOver(t)
	}
	return nil
}

// possibleAnswer is possible for the end of a pause, which is pending or not, in a generation.
func possibleAnswer(what *journal.PauseAnswered, pending bool, generation int) error {
	switch {
	case !pending:
		return fmt.Errorf("no pause %q is pending", what.Pause)
	case what.Next != resume.Answered && what.Next != resume.GoOn && what.Next != resume.Failed:
		return fmt.Errorf("a pause does not end by %q", what.Next)
	case what.Generation > 0 && what.Generation <= generation:
		return fmt.Errorf("it begins generation %d in generation %d", what.Generation, generation)
	}
	return nil
}

// taskPath is the path of the task of an event.
func taskPath(e *journal.Event) string {
	if what, ok := e.What.(journal.PauseOpened); ok && what.Agent != nil {
		return what.Agent.Step
	}
	return e.Path
}

// ofTask reports whether an event belongs to a task that has not ended.
func ofTask(e *journal.Event) bool {
	switch e.What.(type) {
	case journal.CallBegun, journal.CallFiles, journal.CallEnded, journal.AgentEvents,
		journal.StepDenied, journal.WaitOver, journal.Said, journal.PauseOpened:
		return true
	}
	return false
}

func notOver(t *machine.Task) error {
	if t.Status() >= machine.Succeeded {
		return fmt.Errorf("step %q has ended", t.Path())
	}
	return nil
}

// taskOf returns the task of an event, or nil if it has none. The task must be in a state that allows the event.
func (p *leftOver) taskOf(e *journal.Event, m *machine.Machine) (*machine.Task, error) {
	if !ofTask(e) {
		return nil, nil
	}
	path := taskPath(e)
	t := p.known[path]
	_, denied := e.What.(journal.StepDenied)
	switch {
	case t != nil:
	case denied: // the next decision begins it
		return nil, nil
	default:
		return nil, fmt.Errorf("step %q has not begun", path)
	}
	if err := notOver(t); err != nil {
		return nil, err
	}
	call, _ := t.Node().Adapter.(*program.Call)
	waits := t.Status() == machine.Waiting && !t.AtBreakpoint()
	ok := false
	switch what := e.What.(type) {
	case journal.StepDenied:
		ok = waits && call == nil || call != nil && underWay(t, m) && !t.Entered()
	case journal.WaitOver:
		ok = waits && call == nil
	case journal.Said:
		ok = waits && t.Node().Adapter == program.WaitSaid
	case journal.CallFiles:
		ok = underWay(t, m) && (call.Kind == program.ModelCall || call.Kind == program.AgentCall)
	case journal.AgentEvents:
		ok = underWay(t, m) && call.Kind == program.AgentCall
	case journal.PauseOpened:
		switch {
		case t.AtBreakpoint():
			ok = what.Agent == nil && what.Pause.Reason != journal.Indeterminate
		case what.Agent != nil:
			ok = underWay(t, m) && call.Kind == program.AgentCall
		case call == nil:
			ok = waits && what.Pause.Reason != journal.Indeterminate // it has no call
		default:
			ok = underWay(t, m)
		}
	default:
		ok = underWay(t, m)
	}
	if !ok {
		return nil, fmt.Errorf("step %q is %s: this cannot happen to it", path, t.Status())
	}
	return t, nil
}

// underWay reports whether the call of a task is in progress.
func underWay(t *machine.Task, m *machine.Machine) bool { return slices.Contains(m.Calls(), t) }
