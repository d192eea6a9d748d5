package program

import (
	"cmp"
	"time"

	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/retry"
)

// layersOf lowers the retry settings of a step and its recipe; nil for none.
func layersOf(step, defaults *recipe.Retry) *retry.Layers {
	if step == nil && defaults == nil {
		return nil
	}
	return &retry.Layers{Step: policyOf(step), Recipe: policyOf(defaults)}
}

func policyOf(r *recipe.Retry) (p retry.Policy) {
	if r == nil {
		return p
	}
	length := func(d *time.Duration) time.Duration {
		if d == nil {
			return 0
		}
		return cmp.Or(*d, retry.None)
	}
	p = retry.Policy{
		MaxAttempts: r.MaxAttempts, Backoff: length(r.Backoff), MaxBackoff: length(r.MaxBackoff),
		Jitter: retry.Jitter(r.Jitter), Mode: retry.Mode(r.Mode), Timeout: length(r.Timeout),
	}
	if r.RetryOn != nil {
		p.RetryOn = make([]retry.Reason, len(r.RetryOn))
		for i, reason := range r.RetryOn {
			p.RetryOn[i] = retry.Reason(reason)
		}
	}
	return p
}
