package retry

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Seed names one call of a run. Jitter is drawn from it and from nothing else, so that a replay
// waits as long as the run did.
type Seed struct {
	Run  string // the run's id
	Step string // the path of the step that calls
	Call int    // this is the step's n-th call, from 1; its attempts share the number
}

// Delay returns the wait between an attempt, counted from 1, and the next: Backoff × 2^(attempt−1),
// at most MaxBackoff, then spread by the jitter. It is never shorter than after, whatever the cap.
// The doubling is done in floating point, so a wait of more than 2^53 ns (104 days) may be rounded
// to whole microseconds.
func (r Resolved) Delay(attempt int, after time.Duration, seed Seed) time.Duration {
	delay := r.doubled(attempt)
	if r.Jitter == FullJitter || r.Jitter == equalJitter {
		least := time.Duration(0)
		if r.Jitter == equalJitter {
			least = delay / 2
		}
		sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %d %d", seed.Run, seed.Step, seed.Call, attempt))
		// The high word of a product spreads 64 random bits evenly over [0, delay-least].
		high, _ := bits.Mul64(binary.BigEndian.Uint64(sum[:]), uint64(delay-least)+1)
		delay = least + time.Duration(high)
	}
	return max(delay, after)
}

// doubled returns the wait after an attempt, before the jitter. The calculator has neither
// randomness, which would be a global one, nor a limit of the time that has passed.
func (r Resolved) doubled(attempt int) time.Duration {
	limit := r.MaxBackoff
	if limit == 0 {
		limit = math.MaxInt64
	}
	waits := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(min(r.Backoff, limit)),
		backoff.WithMultiplier(2),
		backoff.WithMaxInterval(limit),
		backoff.WithRandomizationFactor(0),
		backoff.WithMaxElapsedTime(0),
		backoff.WithClockProvider(stopped{}),
	)
	delay := waits.NextBackOff()
	for n := 1; n < attempt && 0 < delay && delay < limit; n++ {
		delay = waits.NextBackOff()
	}
	return delay
}

// stopped is a clock that is never read for what it says: the calculator has no time limit.
type stopped struct{}

// Now returns the zero time.
func (stopped) Now() time.Time { return time.Time{} }

// Call is what a decision must know of a call beside its policy and its failure.
type Call struct {
	Attempt    int           // the attempts made so far, all failed; at least 1
	Repeatable bool          // a second call does no harm: a model, or a tool that is read-only or idempotent
	Seed       Seed          // for the jitter
	InlineWait time.Duration // the longest wait that does not pause a run in the mode [Pause]; 0: every wait does
	Unpausable bool          // the mode counts as [Wait]: there is nothing that a pause could be kept in
}

// Decision is what to do after an attempt failed.
type Decision struct {
	Retry     bool          // call again, after Delay
	Delay     time.Duration // 0 unless Retry
	Pause     bool          // pause the run for the Delay instead of waiting
	Exhausted bool          // the policy allows several calls, and there will be none after this one
	Why       string        // why there is no other call, in a few words; "" if there is one
}

// Decide says what follows a failed attempt. The failure's Err does not count. Whether the step
// may still run at all (its own time is not up, nobody cancelled it) is for the caller to see first.
//
// A failure without a reason is final, and so is one whose reason RetryOn leaves out. A repeatable
// call is made again while there are attempts left. A call that is not repeatable is made again
// after RateLimit and when nothing was sent. A wait that the other side asks for and that is longer than Longest
// is waited for only in a pause. Anything else takes the step's own MaxAttempts or RetryOn:
// they cover every failure that was answered or reported, but one whose
// outcome is unknown only if the step's RetryOn names the reason. Other layers neither widen nor
// lengthen what the step sets; they may narrow it.
func (r Resolved) Decide(f *Failure, c Call) Decision {
	if why := r.refusal(f, c); why != "" {
		return Decision{Exhausted: r.MaxAttempts > 1 && f.Reason != "", Why: why}
	}
	mayPause := r.Mode == Pause && !c.Unpausable
	if r.Longest > 0 && f.After > r.Longest && !mayPause {
		return Decision{Exhausted: true,
			Why: fmt.Sprintf("it asks for a wait of %s, the longest is %s", f.After, r.Longest)}
	}
	if f.Reason == RateLimit && f.After <= 0 && r.RateLimited > 0 {
		r.Backoff, r.Jitter = r.RateLimited, equalJitter
	}
	delay := r.Delay(c.Attempt, f.After, c.Seed)
	return Decision{Retry: true, Delay: delay, Pause: mayPause && delay > c.InlineWait}
}

// refusal says why there is no other attempt; "" if there is one.
func (r Resolved) refusal(f *Failure, c Call) string {
	limit := r.MaxAttempts
	own := r.Step.MaxAttempts > 0 || r.Step.RetryOn != nil
	named := slices.Contains(r.Step.RetryOn, f.Reason)
	switch {
	case f.Reason == "":
		return "trying again would not help"
	case limit <= 1:
		return "no policy asks for another call"
	case r.RetryOn != nil && !slices.Contains(r.RetryOn, f.Reason):
		return fmt.Sprintf("retry_on does not list %q", f.Reason)
	case c.Repeatable, f.Reason == RateLimit, f.Unsent(): // a second call cannot be a repetition
	case f.OutcomeUnknown() && !named:
		return fmt.Sprintf("the call may have had its effect: only the step's own retry_on, by naming %q, repeats it",
			f.Reason)
	case !own, r.Step.RetryOn != nil && !named:
		return fmt.Sprintf("the call may have had an effect: only the step's own retry repeats it after %q", f.Reason)
	case r.Step.MaxAttempts > 0:
		limit = min(limit, r.Step.MaxAttempts)
	}
	if c.Attempt >= limit {
		return fmt.Sprintf("calls that are allowed: %d", limit)
	}
	return ""
}
