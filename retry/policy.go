package retry

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"
)

// Kind is a kind of adapter.
type Kind string

// The kinds of adapters that have policies.
const (
	Model     Kind = "model"
	Tool      Kind = "tool"
	Retriever Kind = "retriever"
	Memory    Kind = "memory"
)

// Jitter says how a delay is spread, so that many clients do not come back together.
type Jitter string

// The jitters. "" is unset.
const (
	NoJitter   Jitter = "none"
	FullJitter Jitter = "full" // anything from 0 to the delay

	// half of the delay to the delay: after a rate limit, a wait of nothing would be in vain. No policy asks for it.
	equalJitter Jitter = "equal"
)

// Mode says what happens to a run while it waits for its next attempt.
type Mode string

// The modes. "" is unset.
const (
	Wait  Mode = "wait"  // the run waits, however long
	Pause Mode = "pause" // a long wait pauses the run
)

// None is a duration that is none on purpose: no backoff, no cap, no timeout, where zero would mean
// the value of a lower layer.
const None time.Duration = -1

// DefaultMaxBackoff is the cap of a policy that has none, unless its Backoff is longer.
const DefaultMaxBackoff = 5 * time.Minute

// Policy says how often and on what to try again. Layers of policies are laid over one another
// field by field. A zero field is unset, so the layers below set it. A field that is unset in all
// layers has the default that stands beside it.
type Policy struct {
	MaxAttempts int // all calls, the first included. Defaults to 1
	// the wait after the first call; it doubles with every further one. [None], the default: no wait
	Backoff time.Duration
	// the cap of the doubling; and a wait beyond it that the other side asks for ends the attempts, or pauses the run
	// in the mode [Pause]. Defaults to [DefaultMaxBackoff]. [None]: no cap
	MaxBackoff time.Duration
	Jitter     Jitter        // defaults to [NoJitter]
	Mode       Mode          // defaults to [Wait]
	RetryOn    []Reason      // nil is unset, which defaults to every reason; empty means none
	Timeout    time.Duration // of each attempt. [None], the default: no timeout
}

// Policies are policies by the kind of the adapter that is called. Nil means none.
type Policies map[Kind]Policy

// Metadata is what an adapter declares about itself. Nil means nothing.
type Metadata struct {
	Policy Policy // for calls without a policy in any layer; it limits no other policy
	// With Policy, the wait after the first call, in place of Policy.Backoff, if that came to a [RateLimit] without a
	// word when to come back. It doubles, too, and is spread from half to whole. 0: Policy.Backoff and its jitter.
	RateLimited time.Duration
	Restartable bool // a stream that broke may be opened again from its start
}

// Validate reports every field that has no meaning, by the names that recipes use.
func (p Policy) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if p.MaxAttempts < 0 {
		bad("max_attempts is %d: it counts all calls, so 1 is the least", p.MaxAttempts)
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{{"backoff", p.Backoff}, {"max_backoff", p.MaxBackoff}, {"timeout", p.Timeout}} {
		if d.value < 0 && d.value != None {
			bad("%s is %v: it cannot be negative", d.name, d.value)
		}
	}
	if !slices.Contains([]Jitter{"", NoJitter, FullJitter}, p.Jitter) {
		bad("unknown jitter %q\n  hint: it is %q or %q", p.Jitter, NoJitter, FullJitter)
	}
	if !slices.Contains([]Mode{"", Wait, Pause}, p.Mode) {
		bad("unknown mode %q\n  hint: it is %q or %q", p.Mode, Wait, Pause)
	}
	reasons := []Reason{RateLimit, ServerError, Timeout, Network, Unknown}
	for _, r := range p.RetryOn {
		if !slices.Contains(reasons, r) {
			bad("unknown reason %q in retry_on\n  hint: the reasons are %q", r, reasons)
		}
	}
	return errors.Join(errs...)
}

// Validate reports unknown kinds, and what [Policy.Validate] says of each policy.
func (p Policies) Validate() error {
	if len(p) == 0 {
		return nil // at once: every run asks
	}
	kinds := []Kind{Model, Tool, Retriever, Memory}
	var errs []error
	for _, kind := range slices.Sorted(maps.Keys(p)) {
		if !slices.Contains(kinds, kind) {
			errs = append(errs, fmt.Errorf("unknown kind %q\n  hint: the kinds are %q", kind, kinds))
		}
		if err := p[kind].Validate(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", kind, err))
		}
	}
	return errors.Join(errs...)
}

// isZero reports whether all fields of p are unset.
func (p Policy) isZero() bool { return reflect.ValueOf(p).IsZero() }

// Layers are the policies for one call, the strongest first. All of them may be zero.
type Layers struct {
	Run     Policy    // of this run: the host's override for the adapter's kind
	Step    Policy    // the step's own
	Host    Policy    // the host's default for the kind
	Recipe  Policy    // the recipe's default for the kind
	Adapter *Metadata // the adapter's own, which counts if no other layer has a policy
}

// Resolved is the policy of one call, made by [Resolve]: its fields have their
// defaults, and no duration is negative. A zero MaxBackoff is no cap, a zero Timeout no timeout, and
// nil RetryOn every reason.
type Resolved struct {
	Policy
	Set         bool          // a layer has a policy; if not, there is one call and retrying has no events
	Step        Policy        // what the step itself sets: it counts for more, see [Resolved.Decide]
	Longest     time.Duration // the longest wait that the other side may ask for; 0: it may ask for any
	RateLimited time.Duration // see [Metadata]
}

// Resolve lays Run over Step over Host over Recipe, field by field. The adapter's policy counts only
// if none of them has one, and its MaxBackoff is that of its own waits alone.
func Resolve(l Layers) Resolved {
	p, byLayer := l.merge()
	r := Resolved{Set: byLayer, Step: l.Step}
	if !byLayer && l.Adapter != nil {
		p, r.RateLimited = l.Adapter.Policy, l.Adapter.RateLimited
		r.Set = !p.isZero()
	}
	p.MaxBackoff = cmp.Or(p.MaxBackoff, max(p.Backoff, DefaultMaxBackoff))
	p.MaxAttempts = max(p.MaxAttempts, 1)
	p.Backoff, p.MaxBackoff, p.Timeout = max(p.Backoff, 0), max(p.MaxBackoff, 0), max(p.Timeout, 0)
	p.Jitter, p.Mode = cmp.Or(p.Jitter, NoJitter), cmp.Or(p.Mode, Wait)
	if r.Policy, r.Longest = p, p.MaxBackoff; !byLayer && r.Longest > 0 {
		r.Longest = max(r.Longest, DefaultMaxBackoff)
	}
	return r
}

// Streams reports whether a call with this policy may be made as a stream: it has one attempt, or the adapter can
// open a stream again. Other calls are made whole, so that it does not matter whether a sink receives events.
func (r Resolved) Streams(adapter *Metadata) bool {
	return r.MaxAttempts <= 1 || adapter != nil && adapter.Restartable
}

// merge returns what the layers above the adapter say, and whether they say anything.
func (l Layers) merge() (p Policy, said bool) {
	for _, q := range []Policy{l.Run, l.Step, l.Host, l.Recipe} {
		p.MaxAttempts = cmp.Or(p.MaxAttempts, q.MaxAttempts)
		p.Backoff = cmp.Or(p.Backoff, q.Backoff)
		p.MaxBackoff = cmp.Or(p.MaxBackoff, q.MaxBackoff)
		p.Jitter = cmp.Or(p.Jitter, q.Jitter)
		p.Mode = cmp.Or(p.Mode, q.Mode)
		if p.RetryOn == nil {
			p.RetryOn = q.RetryOn
		}
		p.Timeout = cmp.Or(p.Timeout, q.Timeout)
	}
	return p, !p.isZero()
}
