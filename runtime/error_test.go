package runtime_test

import (
	"errors"
	"testing"

	"github.com/braise-run/braise/runtime"
)

// Trust 5.8 and 7.13: the text of an error has its position first, then its step.
func TestErrorsNameTheirStep(t *testing.T) {
	for _, tt := range []struct{ step, text, want string }{
		{"who", "customer 8 is unknown", `step "who": customer 8 is unknown`},
		{"who", "order.yaml:7:5: a is missing", `order.yaml:7:5: step "who": a is missing`},
		{"who", `step "who" timed out`, `step "who" timed out`},
		{"who", "GET http://h:80/x: no", `step "who": GET http://h:80/x: no`},
		{"", "the run was cancelled", "the run was cancelled"},
	} {
		if got := (&runtime.Error{Step: tt.step, Err: errors.New(tt.text)}).Error(); got != tt.want {
			t.Errorf("%q of %q: %q, want %q", tt.text, tt.step, got, tt.want)
		}
	}
}
