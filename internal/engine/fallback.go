package engine

import (
	"slices"

	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/trace"
)

// fallBack calls the next model that the host has named for a call whose model has failed in all its attempts. It
// returns false, and does nothing, if there is none, or if another model could not help.
func (p *pending) fallBack(r *Run, err error) bool {
	over := !p.deadline.IsZero() && !r.now.Before(p.deadline)
	helps := []retry.Reason{retry.RateLimit, retry.ServerError, retry.Network}
	if p.Kind != program.ModelCall || len(p.fallbacks) == 0 || over || r.ending.cutOff(p) || r.ending.broken ||
		!slices.Contains(helps, retry.FailureOf(err).Reason) {
		return false
	}
	to := p.fallbacks[0]
	p.fallbacks = p.fallbacks[1:]
	about, ok := r.o.Adapters.Model(to)
	if !ok || p.Request.Refused(about.Options) != "" {
		return p.fallBack(r, err)
	}
	r.trace.tell(p, r.now, trace.Event{Kind: trace.AdapterFallback, Step: p.Path,
		Data: trace.Data{{Key: "from", Value: p.Request.Model}, {Key: "to", Value: to}}}, nil)
	p.use.Tried = append(p.use.Tried, journal.Tried{Model: p.use.Model, Draws: p.use.Draws})
	p.use.Model, p.use.Draws, p.Attempts, p.last = to, nil, 0, err
	p.fellBack(p, to)
	next := *p.Request // the model may have kept the request
	next.Model, p.Request = to, &next
	p.Stream, p.polled, p.policy = about.Streams && r.o.Wants.Deltas, about.Polled, nil
	r.o.resolve(p, p.site.Retry, about.Retry)
	p.retry(r)
	return true
}

// withFallbacks adds to names of models those that may answer instead of them.
func (o *Options) withFallbacks(models ...string) []string {
	all := slices.Clone(models)
	for _, name := range models {
		about, _ := o.Adapters.Model(name)
		all = append(all, about.Fallbacks...)
	}
	return all
}
