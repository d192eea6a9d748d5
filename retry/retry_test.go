package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/braise-run/braise/retry"
)

func ExampleFailure() {
	err := fmt.Errorf("crm.lookup: %w", &retry.Failure{
		Reason: retry.ReasonOfStatus(503),
		Status: 503,
		After:  2 * time.Second,
		Sent:   true,
		Err:    errors.New("service unavailable"),
	})
	fmt.Println(err)
	fmt.Println(retry.ReasonOf(err))
	// Output:
	// crm.lookup: service unavailable
	// 5xx
}

func TestReasonOfStatus(t *testing.T) {
	for _, tt := range []struct {
		status int
		want   retry.Reason
	}{
		{0, ""}, {200, ""}, {301, ""}, {400, ""}, {401, ""}, {404, ""}, {409, ""},
		{408, retry.Timeout}, {504, retry.Timeout},
		{429, retry.RateLimit},
		{500, retry.ServerError}, {502, retry.ServerError}, {503, retry.ServerError}, {599, retry.ServerError},
		{600, ""},
	} {
		if got := retry.ReasonOfStatus(tt.status); got != tt.want {
			t.Errorf("ReasonOfStatus(%d) = %q, want %q", tt.status, got, tt.want)
		}
	}
}

func TestReasonOf(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	for _, tt := range []struct {
		name string
		err  error
		want retry.Reason
	}{
		{"nothing", nil, ""},
		{"cancelled", context.Canceled, ""},
		{"a failure because of cancelling", &retry.Failure{Reason: retry.Network, Err: context.Canceled}, ""},
		{"a failure", &retry.Failure{Reason: retry.RateLimit, Err: io.EOF}, retry.RateLimit},
		{"a refusal", &retry.Failure{Err: refused}, ""},
		{"a wrapped failure", fmt.Errorf("call: %w", &retry.Failure{Reason: retry.ServerError, Err: io.EOF}), retry.ServerError},
		{"a deadline", fmt.Errorf("call: %w", context.DeadlineExceeded), retry.Timeout},
		{"a network timeout", &net.OpError{Op: "read", Net: "tcp", Err: os.ErrDeadlineExceeded}, retry.Timeout},
		{"the network", fmt.Errorf("call: %w", refused), retry.Network},
		{"no such host", &net.DNSError{Name: "example.invalid", IsNotFound: true}, retry.Network},
		{"a body that broke off", fmt.Errorf("read: %w", io.ErrUnexpectedEOF), retry.Network},
		{"anything else", io.ErrClosedPipe, retry.Unknown},
	} {
		if got := retry.ReasonOf(tt.err); got != tt.want {
			t.Errorf("%s: reason %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestFailureIsItsCause(t *testing.T) {
	err := error(&retry.Failure{Err: io.ErrUnexpectedEOF})
	if err.Error() != "unexpected EOF" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the failure %v is not its cause", err)
	}
}

func TestParseAfter(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"3": 3 * time.Second, "0.5": 500 * time.Millisecond, "0": 0, "-1": 0, "soon": 0, "": 0, "1e30": 1 << 31 * time.Second, "Inf": 1 << 31 * time.Second, "NaN": 0,
		"Thu, 01 Jan 1970 00:00:00 GMT": 0, "Fri, 31 Dec 9999 00:00:00 GMT": 1 << 31 * time.Second,
	} {
		if got := retry.ParseAfter(text); got != want {
			t.Errorf("ParseAfter(%q) = %v, want %v", text, got, want)
		}
	}
	soon := time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)
	if got := retry.ParseAfter(soon); got < 59*time.Minute || got > time.Hour {
		t.Errorf("ParseAfter(%q) = %v, want about an hour", soon, got)
	}
}

func TestFailureOf(t *testing.T) {
	if f := retry.FailureOf(nil); f != nil {
		t.Errorf("nothing failed with %+v", *f)
	}
	slow := &retry.Failure{Reason: retry.RateLimit, Status: 429, After: time.Second, Sent: true, Err: io.EOF}
	for _, tt := range []struct {
		name string
		err  error
		want retry.Failure
	}{
		{"a failure", slow, *slow},
		{"a wrapped failure", fmt.Errorf("call: %w", slow), *slow},
		{"nothing sent", &retry.Failure{Reason: retry.Network, Err: io.EOF}, retry.Failure{Reason: retry.Network}},
		{"a refusal", &retry.Failure{Status: 400, Sent: true, Err: io.EOF}, retry.Failure{Status: 400, Sent: true}},
		{"a cancelled failure", &retry.Failure{Reason: retry.Timeout, Sent: true, Err: context.Canceled}, retry.Failure{Sent: true}},
		{"cancelled", context.Canceled, retry.Failure{Sent: true}},
		{"a deadline", context.DeadlineExceeded, retry.Failure{Reason: retry.Timeout, Sent: true}},
		{"any error", io.ErrClosedPipe, retry.Failure{Reason: retry.Unknown, Sent: true}},
	} {
		got := *retry.FailureOf(tt.err)
		tt.want.Err = tt.err
		if got != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

func TestOutcomeUnknown(t *testing.T) {
	for _, tt := range []struct {
		failure retry.Failure
		want    bool
	}{
		{retry.Failure{Reason: retry.Timeout, Sent: true}, true},
		{retry.Failure{Reason: retry.Network, Sent: true}, true},
		{retry.Failure{Reason: retry.Timeout}, false},
		{retry.Failure{Reason: retry.Network}, false},
		{retry.Failure{Reason: retry.Timeout, Status: 504, Sent: true}, false},
		{retry.Failure{Reason: retry.RateLimit, Sent: true}, false},
		{retry.Failure{Reason: retry.ServerError, Sent: true}, false},
		{retry.Failure{Reason: retry.Unknown, Sent: true}, false},
		{retry.Failure{Sent: true}, false},
	} {
		if got := tt.failure.OutcomeUnknown(); got != tt.want {
			t.Errorf("%+v: %v, want %v", tt.failure, got, tt.want)
		}
	}
}
