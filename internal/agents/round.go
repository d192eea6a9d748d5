package agents

import (
	"errors"
	"slices"
	"strings"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/trace"
)

// round is what an Execution has done about the tool calls of the last answer.
type round struct {
	first   int             // number of a call
	threads []*thread       // of the calls that were looked at, in their order
	left    int             // calls that were not looked at
	now     *thread         // that is being opened; nil: none
	sent    map[string]bool // sub-agents that may be at work
	over    bool            // nothing of it is under way any more
}

// thread is what an Execution does about one tool call. Above a concurrency of 1 they overlap.
type thread struct {
	*frame
	n     int // of the call
	trace *tracer
	alone bool // nothing else of the round runs meanwhile

	started   bool // so it was told
	permitted bool // by the policy
	told      bool // the policy sees the result, or is no matter of it
	due       bool // the call is to be made, or is under way
	job       *Job
	args      any   // of the call, decoded; nil: not in this execution, or the call has them
	cost      Reply // what the call of its tool took
	child     *frame
	after     func() // gives the call its result, when the child has ended
	done      bool
	err       error
}

// settle brings the calls of a round to results: those that need no answer. Results are
// recorded as they come; traces are kept in the order of the calls.
func (f *frame) settle() bool {
	if f.round == nil {
		f.beginRound()
		return true
	}
	if s := f.state(); f.loop.ToolConcurrency > 1 && len(s.Calls)-s.Round > 1 {
		return f.settleTogether(f.round)
	}
	return f.settleInOrder(f.round)
}

func (f *frame) beginRound() {
	s := f.state()
	calls := s.Calls[s.Round:]
	f.toolset()
	if !slices.ContainsFunc(calls, touched) {
		names := make([]any, 0, len(calls))
		for _, c := range calls {
			names = append(names, c.Name)
		}
		f.emit(trace.ToolCallsBegin, "tools", names)
	}
	f.round = &round{first: s.Round + 1, left: len(calls)}
}

// begin opens the next thread of a round.
func (f *frame) begin(r *round, to *tracer) *thread {
	r.now = &thread{frame: f, n: r.first + len(r.threads), trace: to}
	r.threads = append(r.threads, r.now)
	r.left--
	return r.now
}

// settleInOrder makes one call after the other.
func (f *frame) settleInOrder(r *round) bool {
	switch t := r.now; {
	case t == nil && (r.left == 0 || f.execution.resting):
		f.settled(r)
	case t == nil:
		f.begin(r, f.trace)
	case !t.done:
		return t.step()
	default:
		if r.now = nil; t.failed() || f.execution.cut != nil {
			t.cutShort()
			r.left = 0
		}
	}
	return true
}

// settleTogether makes several calls that may overlap. They are opened in their order.
func (f *frame) settleTogether(r *round) bool {
	if t := r.now; t != nil && (t.done || t.due && !t.alone) {
		r.now = nil
	}
	running := 0
	for _, t := range r.threads {
		if t.done {
			continue
		}
		if t.step() {
			return true
		}
		running++
	}
	switch {
	case r.now != nil || running >= f.loop.ToolConcurrency:
		return false
	case (f.execution.cut != nil || f.execution.resting) && r.left > 0:
		r.left = 0
		return true
	case r.left > 0:
		id, alone := subagentOf(f.call(r.first + len(r.threads)))
		if alone || r.sent[id] {
			if running > 0 { // so that it does not depend on who is faster
				return false
			}
			clear(r.sent)
		}
		if r.sent == nil {
			r.sent = map[string]bool{}
		}
		r.sent[id] = id != "" && !alone
		f.begin(r, &tracer{}).alone = alone
		return true
	case running > 0:
		return false
	}
	if !r.over {
		r.over = true
		for _, t := range r.threads {
			t.cutShort()
		}
		return true
	}
	f.settled(r)
	return true
}

// settled ends a round when nothing of it is under way.
func (f *frame) settled(r *round) {
	for _, t := range r.threads {
		if t.trace != f.trace {
			f.trace.list, f.trace.found = append(f.trace.list, t.trace.list...), append(f.trace.found, t.trace.found...)
		}
	}
	f.round = nil
	if f.execution.cut != nil {
		f.finish(f.execution.stopped)
		return
	}
	for _, t := range r.threads {
		if t.failed() {
			f.finish(t.err)
			return
		}
	}
	if f.state().Phase == Calling {
		f.finish(errPaused)
	} else if err := f.follow(); err != nil {
		f.finish(err)
	}
}

// call returns a copy of a call.
func (f *frame) call(n int) agentloop.Call { return f.state().Calls[n-1] }

// touched reports whether anything has been done about the call.
func touched(c agentloop.Call) bool { return c.Begun || c.Decided || c.Pauses > 0 || c.Done }

// subagent returns the sub-agent that a call gives a task to. Calls that deal with sub-agents otherwise, and those that
// hand off, are made alone.
func subagentOf(c agentloop.Call) (id string, alone bool) {
	if strings.HasPrefix(c.Name, agentloop.HandoffPrefix) {
		return "", true
	}
	if !strings.HasPrefix(c.Name, agentloop.SubagentPrefix) {
		return "", false
	}
	m, _ := Decoded(c.Arguments).(map[string]any)
	id, _ = m["id"].(string)
	return id, c.Name != sendSpec.Name
}

// step does the next thing about the call; false: there is none before a call under way has ended.
func (t *thread) step() bool {
	switch c := t.call(t.n); {
	case t.rests():
	case t.job != nil:
		return false
	case t.child != nil && !t.child.done:
		return t.child.step()
	case t.child != nil:
		t.childEnded()
	case c.Done || c.Waits:
		t.done = true
	case t.due:
		t.make(c)
	default:
		t.open(c)
	}
	return true
}

// end ends the thread with an error, which ends the frame unless it is errPaused; nil: the call can do nothing now.
func (t *thread) end(err error) { t.err, t.done = err, true }

// broke takes that an event about the call is not recorded.
func (t *thread) broke(err error) { t.end(err) }

func (t *thread) failed() bool { return t.err != nil && !errors.Is(t.err, errPaused) }

// cutShort closes the trace of a call that has no result because the loop is being cancelled.
func (t *thread) cutShort() {
	if c := t.call(t.n); t.execution.cut != nil && !c.Done && !c.Waits {
		t.emit(trace.ToolEnd, "call", t.n, "tool", c.Name, "error", "step.cancelled")
	}
}
