// Package retry decides whether and when to retry failed calls of adapters. A
// [Failure] describes a failed call. A [Policy] defines how often and for which reasons to retry.
// [Resolve] combines the policies of a call, and [Resolved.Decide] makes the decision.
// Nothing in the package waits, and only [ParseAfter] reads a clock.
package retry

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// Reason is why a call failed, as far as trying again is concerned.
type Reason string

// The reasons. Cancellation, refusals and programmer errors have none: they are never retried.
const (
	RateLimit   Reason = "rate_limit" // HTTP 429
	ServerError Reason = "5xx"
	Timeout     Reason = "timeout"
	Network     Reason = "network"
	Unknown     Reason = "unknown"
)

// Failure is a failed call with what is known of it. Adapters return it, or wrap it.
//
// Sent and Status decide whether a call that may have changed something is made again. Sent is a
// promise when it is false: nothing has reached the other side, so a second call cannot be a
// repetition. An adapter that is not sure sets it. A Status says that the other side answered, as
// RateLimit and ServerError do; a Timeout or Network without one, after sending, leaves open what
// the call has done.
type Failure struct {
	Reason Reason        // "": never retried
	Status int           // the HTTP status, exit code or other code of the answer; 0: none
	After  time.Duration // the least wait the other side asked for (Retry-After); 0: none
	Sent   bool          // the request may have reached the other side
	Err    error         // what happened; not nil
}

// Error prints the cause.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

// FailureOf returns what is known of err: a copy of the [*Failure] in its chain, or a new one that
// counts as sent, with the reason of [ReasonOf] and with Err set to err itself. It is nil for nil.
func FailureOf(err error) *Failure {
	if err == nil {
		return nil
	}
	known := Failure{Sent: true}
	if f, ok := errors.AsType[*Failure](err); ok {
		known = *f
	}
	known.Reason, known.Err = ReasonOf(err), err
	return &known
}

// OutcomeUnknown reports whether the call may have had its effect: it was sent, and then timed out
// or lost its connection before an answer came.
func (f *Failure) OutcomeUnknown() bool {
	return f.Sent && !f.answered() && (f.Reason == Timeout || f.Reason == Network)
}

// Unsent reports whether nothing has reached the other side: nothing was sent, and nothing came back.
func (f *Failure) Unsent() bool { return !f.Sent && !f.answered() }

// answered reports whether the failure is what the other side said.
func (f *Failure) answered() bool {
	return f.Status != 0 || f.Reason == RateLimit || f.Reason == ServerError
}

// ReasonOfStatus returns the reason behind an HTTP status: RateLimit for 429, Timeout for 408 and
// 504, ServerError for the other 5xx, else "" (the request itself was refused).
func ReasonOfStatus(status int) Reason {
	switch {
	case status == 429:
		return RateLimit
	case status == 408 || status == 504:
		return Timeout
	case status >= 500 && status <= 599:
		return ServerError
	}
	return ""
}

// ParseAfter reads the value of a Retry-After header (RFC 9110, 10.2.3): a number of seconds, for
// which some servers write a fraction, or a date. It returns 0 for a text that is neither and for a
// moment that has passed. More than 2^31 seconds are 2^31 seconds.
func ParseAfter(text string) time.Duration {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		if seconds > 0 { // not NaN
			return time.Duration(min(seconds, 1<<31) * float64(time.Second))
		}
		return 0
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(0, time.Until(at)), 1<<31*time.Second)
	}
	return 0
}

// ReasonOf returns why err happened: the Reason of a [*Failure] in its chain, "" for a cancelled
// context, Timeout for a passed deadline, Network for a network error or an input that broke off,
// else Unknown. It is "" for nil.
func ReasonOf(err error) Reason {
	var f *Failure
	var netErr net.Error
	switch {
	case err == nil, errors.Is(err, context.Canceled):
		return ""
	case errors.As(err, &f):
		return f.Reason
	case errors.Is(err, context.DeadlineExceeded):
		return Timeout
	case errors.As(err, &netErr):
		if netErr.Timeout() {
			return Timeout
		}
		return Network
	case errors.Is(err, io.ErrUnexpectedEOF): // net/http, of a body that the other side did not finish
		return Network
	}
	return Unknown
}
