// Package retry classifies failures of adapter calls: whether trying again could help, and when.
package retry

import (
	"context"
	"errors"
	"math"
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

// Failure is a failed call with its reason. Adapters return it, or wrap it.
type Failure struct {
	Reason Reason        // "": never retried
	Status int           // the HTTP status or exit code; 0 when there is none
	After  time.Duration // the least wait the other side asked for (Retry-After); 0: none
	Sent   bool          // the request may have reached the other side
	Err    error         // what happened; not nil
}

// Error prints the cause.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns the cause.
func (f *Failure) Unwrap() error { return f.Err }

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
// which some servers write a fraction, or a date. It returns 0 for a text that is neither, for a
// moment that has passed, and for more than 2^31 seconds.
func ParseAfter(text string) time.Duration {
	if seconds, err := strconv.ParseFloat(text, 64); err == nil {
		if seconds >= 0 && seconds <= math.MaxInt32 {
			return time.Duration(seconds * float64(time.Second))
		}
		return 0
	}
	if at, err := http.ParseTime(text); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}

// ReasonOf returns why err happened: the Reason of a [*Failure] in its chain, "" for a cancelled
// context, Timeout for a passed deadline, Network for a network error, else Unknown. It is "" for
// nil.
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
	}
	return Unknown
}
