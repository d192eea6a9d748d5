package command

import (
	"context"

	"github.com/braise-run/braise/internal/terminal"
	"github.com/braise-run/braise/runtime"
)

// person is the one for whom runs are executed with rt.
func (s *session) person(rt *runtime.Runtime) Person { return Person{rt.By, s.host.Groups()} }

// approver asks at the terminal about calls of agents that cannot wait for an answer. Those that can are asked about
// when nothing else of the run can continue.
type approver struct {
	app   *app
	shown *terminal.Progress // makes room meanwhile; nil: there is none
	turn  chan struct{}      // holds one while a person is asked
	who   Person
}

// newApprover is the approver of an execution, by the person at the terminal; nil where no person can be asked.
func (a *app) newApprover(shown *terminal.Progress, who Person) runtime.Approver {
	if !a.interactive() {
		return nil
	}
	return &approver{a, shown, make(chan struct{}, 1), who}
}

// Approve implements runtime.Approver.
func (p *approver) Approve(ctx context.Context, r runtime.ApprovalRequest) (runtime.ApprovalDecision, error) {
	question := r.Question()
	if r.Pauses || question.Allows(p.who.Name, p.who.Groups, "") != nil {
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
	answer, ok := p.app.ask(ctx, question)
	if !ok {
		return runtime.ApprovalDecision{}, runtime.ErrNoDecision
	}
	return runtime.DecisionOf(answer), nil
}
