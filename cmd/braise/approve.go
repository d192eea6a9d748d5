package main

import (
	"context"

	"github.com/braise-run/braise/internal/terminal"
	"github.com/braise-run/braise/runtime"
)

// approver asks at the terminal about calls of agents that cannot wait for an answer. Those that can are asked about
// when nothing else of the run can continue.
type approver struct {
	app   *app
	shown *terminal.Progress // makes room meanwhile; nil: there is none
	turn  chan struct{}      // holds one while a person is asked
}

// newApprover is the approver of an execution; nil where no person can be asked.
func (a *app) newApprover(shown *terminal.Progress) runtime.Approver {
	if !a.interactive() {
		return nil
	}
	return &approver{a, shown, make(chan struct{}, 1)}
}

// Approve implements runtime.Approver.
func (p *approver) Approve(ctx context.Context, r runtime.ApprovalRequest) (runtime.ApprovalDecision, error) {
	if r.Pauses {
		return runtime.ApprovalDecision{}, runtime.ErrNoDecision
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return runtime.ApprovalDecision{}, ctx.Err()
	}
	if p.shown != nil {
		p.shown.Hold(true)
		defer p.shown.Hold(false)
	}
	answer, ok := p.app.ask(ctx, r.Question())
	if !ok {
		return runtime.ApprovalDecision{}, runtime.ErrNoDecision
	}
	return runtime.DecisionOf(answer), nil
}
