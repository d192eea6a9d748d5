package engine

import (
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/value"
)

// reservation is what a call that waits in a batch may use.
type reservation struct {
	accounts []*account
	amount   journal.Amount
}

// hold reserves what a call that waits in a batch may use. It replaces what was reserved for the same request.
func (b *budget) hold(t *machine.Task, request string, amount journal.Amount) {
	b.unhold(t, request)
	if b.held == nil {
		b.held = map[*machine.Task]map[string]reservation{}
	}
	if b.held[t] == nil {
		b.held[t] = map[string]reservation{}
	}
	res := reservation{b.accountsOf(t), amount}
	for _, a := range res.accounts {
		a.reserved = a.reserved.Plus(amount)
	}
	b.held[t][request] = res
}

// unhold gives back what is reserved for a request of a task.
func (b *budget) unhold(t *machine.Task, request string) {
	res := b.held[t][request]
	for _, a := range res.accounts {
		a.reserved = a.reserved.Minus(res.amount)
	}
	delete(b.held[t], request)
}

// unholdAll gives back what is reserved for the requests of a task.
func (b *budget) unholdAll(t *machine.Task) {
	for _, request := range value.SortedKeys(b.held[t]) {
		b.unhold(t, request)
	}
	delete(b.held, t)
}

// take reserves an amount for the next attempt.
func (p *pending) take(want journal.Amount) {
	p.reserved = want
	for _, a := range p.accounts {
		a.reserved = a.reserved.Plus(want)
	}
}
