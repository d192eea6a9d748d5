package agents

import (
	"fmt"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/runtime"
)

// bound says why the loop is over between two steps; "" if it is not.
func (f *frame) bound() (agentloop.StopReason, error) {
	s := f.state()
	if f.loop.Until != nil && !s.fresh() {
		over, err := f.ask("until", f.loop.Until)
		if err != nil {
			return "", fail(runtime.CategoryConfig, "agent.until", err)
		}
		if over {
			return agentloop.StopUntil, nil
		}
	}
	switch {
	case s.Repeats >= maxRounds && f.loop.OnRepetition != agentloop.RepetitionGoOn:
		fails := f.loop.FailAtLimit
		if f.loop.OnRepetition != "" {
			fails = f.loop.OnRepetition == agentloop.RepetitionFail
		}
		return agentloop.StopRepetition, f.limited(fails, runtime.CategoryLimit, diagnostics.CodeRepetition,
			fmt.Sprintf("made the same calls with the same results %d times", s.Repeats))
	case s.Refusals >= maxRounds:
		return agentloop.StopRefused, f.limited(f.loop.FailAtLimit, runtime.CategoryLimit, diagnostics.CodeRefused,
			fmt.Sprintf("asked %d times for nothing but calls that are refused", s.Refusals))
	case s.left() > 0:
		return "", nil
	}
	return agentloop.StopMaxSteps, f.limited(f.loop.FailAtLimit, runtime.CategoryLimit, diagnostics.CodeMaxSteps,
		fmt.Sprintf("gave no answer in %d steps", s.Steps))
}

// limited is the failure of a loop that ends without an answer of its own; nil: it ends with a warning.
func (f *frame) limited(fails bool, category runtime.Category, code diagnostics.Code, what string) error {
	if fails {
		return fail(category, string(code), fmt.Errorf("agent %q %s", f.loop.Name, what))
	}
	f.warn(code, "agent %q %s, and was stopped", f.loop.Name, what)
	return nil
}

// stops ends the loop because of what the model said, or did not say.
func (f *frame) stops(reason agentloop.StopReason, category runtime.Category, code diagnostics.Code, what string) {
	if err := f.limited(f.loop.FailAtLimit, category, code, what); err != nil {
		f.finish(err)
		return
	}
	f.ends = reason
}

// refused reports whether a call was refused by a limit, by a policy or as unknown, without anybody being asked. What a
// person or the Approver refuses is another matter: each time they may say why.
func refused(c agentloop.Call) bool {
	switch c.Code {
	case toolLimit, toolUnknown:
		return true
	case toolDenied:
		return !c.Decided
	}
	return false
}

// What an event and its parts take of memory, as a rule, in bytes: in the journal, in the state, in the trace and on
// the way there. A call has an event of its own for each thing that happens to it, which counts here.
const (
	weightOfEvent   = 1 << 10
	weightOfMessage = 1 << 9
	weightOfCall    = 4 << 10
)

// Weight is how many bytes of memory an event makes the run keep, roughly. What comes of a call counts when the model
// asks for it, but for the texts.
func (e *Event) Weight() int {
	more := e.Rest()
	sum := len(e.Text) + len(more.Summary) + len(more.Arguments)
	if e.Kind == Started || e.Kind == ModelBegan || e.Kind == ModelEnded {
		sum += weightOfEvent
	}
	if s := more.Start; s != nil {
		sum += len(s.Prompt) + len(s.Context)
		for _, f := range s.Files {
			sum += len(f.URL)
		}
		for _, m := range s.Before {
			sum += weightOfMessage + len(m.Text)
		}
	}
	for i := range e.Messages {
		sum += weightOfText(&e.Messages[i])
	}
	for _, n := range more.Notes {
		sum += weightOfMessage + len(n.Text)
	}
	for _, d := range more.Documents {
		sum += weightOfMessage + len(d.Text)
	}
	for _, k := range more.Skills {
		sum += weightOfMessage + len(k.Text)
	}
	return sum
}

func weightOfText(m *runtime.Message) int {
	sum := weightOfMessage + len(m.Text)
	for _, p := range m.Parts {
		sum += len(p.Data)
	}
	for _, f := range m.Files {
		sum += len(f.URL)
	}
	for i := range m.ToolCalls {
		c := &m.ToolCalls[i]
		sum += weightOfCall + len(c.Arguments)
		for _, p := range c.Parts {
			sum += len(p.Data)
		}
	}
	return sum
}
