package retry_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	_ "github.com/braise-run/braise/internal/seedtest/rapidseed"
	"github.com/braise-run/braise/retry"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const ms = time.Millisecond

func ExampleResolved_Decide() {
	resolved := retry.Resolve(retry.Layers{Step: retry.Policy{MaxAttempts: 3, Backoff: 100 * ms}})
	failure := retry.FailureOf(&retry.Failure{Reason: retry.ServerError, Status: 503, Sent: true, Err: errors.New("busy")})
	for attempt := 1; ; attempt++ {
		d := resolved.Decide(failure, retry.Call{Attempt: attempt, Repeatable: true})
		if !d.Retry {
			fmt.Println(d.Why)
			break
		}
		fmt.Println("again in", d.Delay)
	}
	// Output:
	// again in 100ms
	// again in 200ms
	// calls that are allowed: 3
}

func TestDelay(t *testing.T) {
	const longest = time.Duration(math.MaxInt64)
	for _, tt := range []struct {
		name            string
		backoff, cap    time.Duration
		attempt         int
		after, expected time.Duration
	}{
		{"the first wait", 100 * ms, 250 * ms, 1, 0, 100 * ms},
		{"doubled", 100 * ms, 250 * ms, 2, 0, 200 * ms},
		{"capped", 100 * ms, 250 * ms, 3, 0, 250 * ms},
		{"capped for good", 100 * ms, 250 * ms, 1000, 0, 250 * ms},
		{"exactly the cap", 100 * ms, 400 * ms, 3, 0, 400 * ms},
		{"one less than the cap", 100, 201, 2, 0, 200},
		{"one more than the cap", 100, 199, 2, 0, 199},
		{"a cap below the backoff", 100 * ms, 50 * ms, 1, 0, 50 * ms},
		{"the cap of all", 100 * ms, 0, 6, 0, 3200 * ms},
		{"the cap of all, reached", time.Minute, 0, 4, 0, 5 * time.Minute}, // trust 8.10
		{"the cap of all, for good", time.Second, 0, math.MaxInt, 0, 5 * time.Minute},
		{"a backoff above the cap of all", time.Hour, 0, 3, 0, time.Hour},
		{"no backoff", 0, 250 * ms, 5, 0, 0},
		{"no backoff and no cap, late", 0, retry.None, 1 << 40, 0, 0},
		{"the last doubling that fits", 1, retry.None, 63, 0, 1 << 62},
		{"the first that does not", 1, retry.None, 64, 0, longest},
		{"far beyond", time.Second, retry.None, math.MaxInt, 0, longest},
		{"no attempt yet", 100 * ms, 0, 0, 0, 100 * ms},
		{"Retry-After is longer", 100 * ms, 250 * ms, 2, 230 * ms, 230 * ms},
		{"Retry-After is shorter", 100 * ms, 250 * ms, 2, 150 * ms, 200 * ms},
		{"Retry-After is over the cap", 100 * ms, 250 * ms, 1, time.Minute, time.Minute},
		{"Retry-After without a backoff", 0, 0, 1, 3 * time.Second, 3 * time.Second},
		{"a negative Retry-After", 0, 0, 1, -time.Second, 0},
	} {
		r := retry.Resolve(retry.Layers{Run: retry.Policy{Backoff: tt.backoff, MaxBackoff: tt.cap}})
		if got := r.Delay(tt.attempt, tt.after, retry.Seed{Run: "r", Step: "s", Call: 1}); got != tt.expected {
			t.Errorf("%s: waits %v, want %v", tt.name, got, tt.expected)
		}
	}
}

// Delays are exact to the nanosecond up to 104 days: the product by hand, for every cap.
func TestDelayIsExact(t *testing.T) {
	const exact = int64(1) << 53
	rapid.Check(t, func(t *rapid.T) {
		backoff := rapid.Int64Range(0, exact).Draw(t, "backoff")
		limit := rapid.Int64Range(1, exact).Draw(t, "cap")
		attempt := rapid.IntRange(1, 200).Draw(t, "attempt")
		want := min(backoff, limit)
		for n := 1; n < attempt; n++ {
			want = min(2*want, limit)
		}
		p := retry.Policy{Backoff: time.Duration(backoff), MaxBackoff: time.Duration(limit)}
		got := retry.Resolve(retry.Layers{Run: p}).Delay(attempt, 0, retry.Seed{})
		if got != time.Duration(want) {
			t.Errorf("attempt %d waits %d, want %d", attempt, got, want)
		}
	})
}

func TestJitter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := retry.Policy{
			Backoff:    time.Duration(rapid.Int64Min(0).Draw(t, "backoff")),
			MaxBackoff: time.Duration(rapid.Int64Min(0).Draw(t, "cap")),
		}
		attempt := rapid.IntRange(1, 100).Draw(t, "attempt")
		after := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "after"))
		seed := retry.Seed{Run: rapid.String().Draw(t, "run"), Step: rapid.String().Draw(t, "step"), Call: rapid.Int().Draw(t, "call")}
		whole := retry.Resolve(retry.Layers{Run: p}).Delay(attempt, 0, seed)
		p.Jitter = retry.FullJitter
		r := retry.Resolve(retry.Layers{Run: p})

		got := r.Delay(attempt, 0, seed)
		if got < 0 || got > whole {
			t.Errorf("a wait of %v is not within [0, %v]", got, whole)
		}
		if again := r.Delay(attempt, 0, seed); again != got {
			t.Errorf("waits %v, then %v", got, again)
		}
		if floored := r.Delay(attempt, after, seed); floored != max(got, after) {
			t.Errorf("with a floor of %v waits %v, want %v", after, floored, max(got, after))
		}
	})
}

// Every part of the seed counts, and the attempt; the parts do not run into one another.
func TestJitterDependsOnTheCall(t *testing.T) {
	r := retry.Resolve(retry.Layers{Run: retry.Policy{Backoff: time.Hour, MaxBackoff: time.Hour, Jitter: retry.FullJitter}})
	seen := map[time.Duration]string{}
	for _, seed := range []retry.Seed{
		{"r", "s", 1}, {"r2", "s", 1}, {"r", "s2", 1}, {"r", "s", 2}, {"rs", "", 1}, {"", "rs", 1}, {`r" "s`, "", 1},
	} {
		for attempt := 1; attempt <= 2; attempt++ {
			d, what := r.Delay(attempt, 0, seed), fmt.Sprint(seed, attempt)
			if seen[d] != "" {
				t.Errorf("%s waits as long as %s", what, seen[d])
			}
			seen[d] = what
		}
	}
}

// The waits fill their range, the whole delay included: of 4000, each tenth has about 400 (six
// standard deviations are 114).
func TestJitterIsUniform(t *testing.T) {
	r := retry.Resolve(retry.Layers{Run: retry.Policy{Backoff: 999, Jitter: retry.FullJitter}})
	var tenths [10]int
	for call := range 4000 {
		tenths[r.Delay(1, 0, retry.Seed{Run: "r", Step: "s", Call: call})/100]++
	}
	for i, n := range tenths {
		if n < 286 || n > 514 {
			t.Errorf("%d waits in the tenth %d, want about 400", n, i)
		}
	}
	least := retry.Resolve(retry.Layers{Run: retry.Policy{Backoff: 1, Jitter: retry.FullJitter}})
	seen := map[time.Duration]bool{}
	for call := range 100 {
		seen[least.Delay(1, 0, retry.Seed{Call: call})] = true
	}
	if diff := cmp.Diff(map[time.Duration]bool{0: true, 1: true}, seen); diff != "" {
		t.Errorf("waits within [0, 1]: (-want +got)\n%s", diff)
	}
}

// The failures that decisions are made on.
var (
	limited  = retry.Failure{Reason: retry.RateLimit, Status: 429, Sent: true}
	status   = retry.Failure{Reason: retry.ServerError, Status: 500, Sent: true}
	gateway  = retry.Failure{Reason: retry.Timeout, Status: 504, Sent: true}
	exitCode = retry.Failure{Reason: retry.Unknown, Status: 3, Sent: true}
	noDial   = retry.Failure{Reason: retry.Network}
	noAnswer = retry.Failure{Reason: retry.Timeout}
	late     = retry.Failure{Reason: retry.Timeout, Sent: true}
	lost     = retry.Failure{Reason: retry.Network, Sent: true}
	reported = retry.Failure{Reason: retry.Unknown, Sent: true}
	refused  = retry.Failure{Status: 400, Sent: true}

	everyFailure = map[string]retry.Failure{
		"429": limited, "500": status, "504": gateway, "exit code 3": exitCode, "connection refused": noDial,
		"timeout of the dial": noAnswer, "timeout": late, "connection lost": lost, "an error": reported, "refused": refused,
	}
)

// decision is the part of a Decision that these tables are about, and whether somebody has to be asked.
func decision(d retry.Decision, f *retry.Failure, repeatable bool) string {
	switch {
	case d.Retry:
		return "again"
	case !repeatable && f.OutcomeUnknown():
		return "ask"
	}
	return "fail"
}

// Which failures lead to a second call, by effect and by who says what. The reasons are all listed
// unless a policy says otherwise. "ask" is a failure with an unknown outcome.
func TestWhatIsTriedAgain(t *testing.T) {
	three := retry.Policy{MaxAttempts: 3}
	on := func(reasons ...retry.Reason) retry.Policy { return retry.Policy{RetryOn: reasons} }
	and := func(p retry.Policy, reasons ...retry.Reason) retry.Policy { p.RetryOn = reasons; return p }

	everything := "429, 500, 504, exit code 3, connection refused, timeout of the dial, timeout, connection lost, an error"
	safe := "429, connection refused, timeout of the dial"
	known := safe + ", 500, 504, exit code 3, an error"
	unknown := "timeout, connection lost"
	for _, tt := range []struct {
		name       string
		layers     retry.Layers
		repeatable bool
		again, ask string
	}{
		{"no policy", retry.Layers{}, true, "", ""},
		{"no policy, external", retry.Layers{}, false, "", unknown},
		{"one call", retry.Layers{Step: retry.Policy{MaxAttempts: 1}}, true, "", ""},
		{"no attempts, only a timeout", retry.Layers{Step: retry.Policy{Timeout: time.Second}}, true, "", ""},

		{"repeatable, by the run", retry.Layers{Run: three}, true, everything, ""},
		{"repeatable, by the step", retry.Layers{Step: three}, true, everything, ""},
		{"repeatable, by the host", retry.Layers{Host: three}, true, everything, ""},
		{"repeatable, by the recipe", retry.Layers{Recipe: three}, true, everything, ""},
		{"repeatable, by the adapter", retry.Layers{Adapter: &retry.Metadata{Policy: three}}, true, everything, ""},
		{"repeatable, two reasons", retry.Layers{Recipe: and(three, retry.RateLimit, retry.Network)}, true, "429, connection refused, connection lost", ""},
		{"repeatable, no reasons", retry.Layers{Recipe: and(three, []retry.Reason{}...)}, true, "", ""},

		{"external, by the run", retry.Layers{Run: three}, false, safe, unknown},
		{"external, by the host", retry.Layers{Host: three}, false, safe, unknown},
		{"external, by the recipe", retry.Layers{Recipe: three}, false, safe, unknown},
		{"external, by the adapter", retry.Layers{Adapter: &retry.Metadata{Policy: three}}, false, safe, unknown},
		{"external, reasons by the host", retry.Layers{Host: and(three, retry.Timeout, retry.ServerError)}, false, "timeout of the dial", unknown},

		{"external, by the step", retry.Layers{Step: three}, false, known, unknown},
		{"the step names timeout", retry.Layers{Step: and(three, retry.Timeout)}, false, "504, timeout of the dial, timeout", "connection lost"},
		{"the step names network", retry.Layers{Step: and(three, retry.Network, retry.RateLimit)}, false, "429, connection refused, connection lost", "timeout"},
		{"the step names 5xx", retry.Layers{Step: and(three, retry.ServerError)}, false, "500", unknown},
		{"the step says when, the recipe how often", retry.Layers{Step: on(retry.Timeout), Recipe: three}, false, "504, timeout of the dial, timeout", "connection lost"},
		{"the step says neither", retry.Layers{Step: retry.Policy{Backoff: 1, Mode: retry.Wait}, Recipe: three}, false, safe, unknown},

		{"the run names what the step does not", retry.Layers{Run: on(retry.Timeout, retry.ServerError), Step: and(three, retry.Network)}, false, "timeout of the dial", unknown},
		{"the run leaves out what the step names", retry.Layers{Run: on(retry.RateLimit), Step: and(three, retry.Timeout)}, false, "429", unknown},
		{"the run names, the step has no reasons", retry.Layers{Run: on(retry.Timeout), Step: three}, false, "504, timeout of the dial", unknown},
		{"the run allows one call", retry.Layers{Run: retry.Policy{MaxAttempts: 1}, Step: three}, false, "", unknown},
		{"the step allows one call", retry.Layers{Run: three, Step: retry.Policy{MaxAttempts: 1}}, false, safe, unknown},
		{"the step allows no reason", retry.Layers{Run: and(three, retry.RateLimit, retry.ServerError), Step: retry.Policy{RetryOn: []retry.Reason{}}}, false, "429", unknown},
	} {
		want := map[string]string{}
		for name := range everyFailure {
			want[name] = "fail"
		}
		set := func(names, what string) {
			for _, name := range words(names) {
				if _, ok := everyFailure[name]; !ok {
					t.Fatalf("%s: no failure %q", tt.name, name)
				}
				want[name] = what
			}
		}
		set(tt.again, "again")
		set(tt.ask, "ask")
		got := map[string]string{}
		for name, f := range everyFailure {
			d := retry.Resolve(tt.layers).Decide(&f, retry.Call{Attempt: 1, Repeatable: tt.repeatable})
			got[name] = decision(d, &f, tt.repeatable)
			if (d.Why == "") != d.Retry {
				t.Errorf("%s: %s: retry is %v because of %q", tt.name, name, d.Retry, d.Why)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.name, diff)
		}
	}
}

// words splits a list of the tables.
func words(names string) []string {
	return strings.FieldsFunc(strings.ReplaceAll(names, ", ", ","), func(r rune) bool { return r == ',' })
}

// What was answered was sent, even when the failure does not say so.
func TestAnAnswerWasSent(t *testing.T) {
	r := retry.Resolve(retry.Layers{Host: retry.Policy{MaxAttempts: 2}})
	for _, f := range []retry.Failure{{Reason: retry.Unknown, Status: 1}, {Reason: retry.Timeout, Status: 504}, {Reason: retry.ServerError}} {
		if d := r.Decide(&f, retry.Call{Attempt: 1}); d.Retry || f.OutcomeUnknown() {
			t.Errorf("%+v: %+v, want the failure", f, d)
		}
	}
}

func TestExhausted(t *testing.T) {
	run := func(p retry.Policy) retry.Layers { return retry.Layers{Run: p} }
	step := func(p retry.Policy) retry.Layers { return retry.Layers{Step: p} }
	for _, tt := range []struct {
		name    string
		layers  retry.Layers
		failure retry.Failure
		call    retry.Call
		want    retry.Decision
	}{
		{"no policy", retry.Layers{}, status, retry.Call{Attempt: 1, Repeatable: true},
			retry.Decision{Why: "no policy asks for another call"}},
		{"only a timeout", step(retry.Policy{Timeout: time.Second}), late, retry.Call{Attempt: 1, Repeatable: true},
			retry.Decision{Why: "no policy asks for another call"}},
		{"one left", run(retry.Policy{MaxAttempts: 3}), status, retry.Call{Attempt: 2, Repeatable: true},
			retry.Decision{Retry: true}},
		{"none left", run(retry.Policy{MaxAttempts: 3}), status, retry.Call{Attempt: 3, Repeatable: true},
			retry.Decision{Exhausted: true, Why: "calls that are allowed: 3"}},
		{"one allowed less since", run(retry.Policy{MaxAttempts: 3}), status, retry.Call{Attempt: 4, Repeatable: true},
			retry.Decision{Exhausted: true, Why: "calls that are allowed: 3"}},
		{"another reason", run(retry.Policy{MaxAttempts: 3, RetryOn: []retry.Reason{retry.Network}}), status, retry.Call{Attempt: 1, Repeatable: true},
			retry.Decision{Exhausted: true, Why: `retry_on does not list "5xx"`}},
		{"refused", run(retry.Policy{MaxAttempts: 3}), refused, retry.Call{Attempt: 1, Repeatable: true},
			retry.Decision{Why: "trying again would not help"}},
		{"external", run(retry.Policy{MaxAttempts: 3}), status, retry.Call{Attempt: 1},
			retry.Decision{Exhausted: true, Why: `the call may have had an effect: only the step's own retry repeats it after "5xx"`}},
		{"external, unknown", step(retry.Policy{MaxAttempts: 3}), lost, retry.Call{Attempt: 1},
			retry.Decision{Exhausted: true, Why: `the call may have had its effect: only the step's own retry_on, by naming "network", repeats it`}},
		{"external, unknown to the end", step(retry.Policy{MaxAttempts: 3, RetryOn: []retry.Reason{retry.Network}}), lost, retry.Call{Attempt: 3},
			retry.Decision{Exhausted: true, Why: "calls that are allowed: 3"}},
		{"external, the run's longer limit", retry.Layers{Run: retry.Policy{MaxAttempts: 5}, Step: retry.Policy{MaxAttempts: 2}}, status, retry.Call{Attempt: 2},
			retry.Decision{Exhausted: true, Why: "calls that are allowed: 2"}},
		{"external, the run's shorter limit", retry.Layers{Run: retry.Policy{MaxAttempts: 2}, Step: retry.Policy{MaxAttempts: 5}}, status, retry.Call{Attempt: 2},
			retry.Decision{Exhausted: true, Why: "calls that are allowed: 2"}},
		{"external, the same after 429", retry.Layers{Run: retry.Policy{MaxAttempts: 5}, Step: retry.Policy{MaxAttempts: 2}}, limited, retry.Call{Attempt: 2},
			retry.Decision{Retry: true}},
	} {
		got := retry.Resolve(tt.layers).Decide(&tt.failure, tt.call)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.name, diff)
		}
	}
}

func TestPause(t *testing.T) {
	for _, tt := range []struct {
		name    string
		mode    retry.Mode
		backoff time.Duration
		after   time.Duration
		inline  time.Duration
		want    retry.Decision
	}{
		{"a wait", retry.Wait, time.Hour, 0, time.Second, retry.Decision{Retry: true, Delay: time.Hour}},
		{"a long wait", retry.Pause, 1001 * ms, 0, time.Second, retry.Decision{Retry: true, Delay: 1001 * ms, Pause: true}},
		{"a wait that is not longer", retry.Pause, time.Second, 0, time.Second, retry.Decision{Retry: true, Delay: time.Second}},
		{"a long Retry-After", retry.Pause, 0, time.Minute, time.Second, retry.Decision{Retry: true, Delay: time.Minute, Pause: true}},
		{"no inline wait", retry.Pause, 1, 0, 0, retry.Decision{Retry: true, Delay: 1, Pause: true}},
		{"nothing to wait for", retry.Pause, 0, 0, 0, retry.Decision{Retry: true}},
	} {
		r := retry.Resolve(retry.Layers{Step: retry.Policy{MaxAttempts: 2, Backoff: tt.backoff, Mode: tt.mode}})
		f := limited
		f.After = tt.after
		got := r.Decide(&f, retry.Call{Attempt: 1, InlineWait: tt.inline})
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.name, diff)
		}
	}
}

// trust 8.10: a wait that the other side asks for has an end.
func TestWaitsThatOthersAskFor(t *testing.T) {
	limited := func(after time.Duration) *retry.Failure {
		return retry.FailureOf(&retry.Failure{Reason: retry.RateLimit, Sent: true, After: after, Err: errors.New("busy")})
	}
	own := &retry.Metadata{Policy: retry.Policy{MaxAttempts: 2, Backoff: ms, MaxBackoff: 8 * time.Second}}
	policy := func(max time.Duration, mode retry.Mode) retry.Layers {
		return retry.Layers{Step: retry.Policy{MaxAttempts: 2, MaxBackoff: max, Mode: mode}, Adapter: own}
	}
	const year = 365 * 24 * time.Hour
	gaveUp := func(after, longest string) retry.Decision {
		return retry.Decision{Exhausted: true, Why: "it asks for a wait of " + after + ", the longest is " + longest}
	}
	for _, tt := range []struct {
		name   string
		layers retry.Layers
		after  time.Duration
		call   retry.Call
		want   retry.Decision
	}{
		{"as long as the default", policy(0, ""), 5 * time.Minute, retry.Call{}, retry.Decision{Retry: true, Delay: 5 * time.Minute}},
		{"beyond the default", policy(0, ""), 5*time.Minute + time.Second, retry.Call{}, gaveUp("5m1s", "5m0s")},
		{"within a longer cap", policy(time.Hour, ""), time.Hour, retry.Call{}, retry.Decision{Retry: true, Delay: time.Hour}},
		{"beyond a shorter cap", policy(time.Second, ""), 2 * time.Second, retry.Call{}, gaveUp("2s", "1s")},
		{"no cap, on purpose", policy(retry.None, ""), year, retry.Call{}, retry.Decision{Retry: true, Delay: year}},
		{"paused", policy(0, retry.Pause), year, retry.Call{}, retry.Decision{Retry: true, Delay: year, Pause: true}},
		{"nothing to pause in", policy(0, retry.Pause), year, retry.Call{Unpausable: true}, gaveUp("8760h0m0s", "5m0s")},
		{"the cap of the adapter's own waits", retry.Layers{Adapter: own}, time.Minute, retry.Call{}, retry.Decision{Retry: true, Delay: time.Minute}},
		{"beyond it and the default", retry.Layers{Adapter: own}, year, retry.Call{}, gaveUp("8760h0m0s", "5m0s")},
		{"as long as the backoff", retry.Layers{Host: retry.Policy{MaxAttempts: 2, Backoff: time.Hour}}, time.Hour, retry.Call{}, retry.Decision{Retry: true, Delay: time.Hour}},
	} {
		tt.call.Attempt, tt.call.Repeatable = 1, true
		got := retry.Resolve(tt.layers).Decide(limited(tt.after), tt.call)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", tt.name, diff)
		}
	}
}

// trust 8.10: after a rate limit that names no wait, the adapter's own policy waits from its RateLimited, doubling, half to
// whole; after anything else, and under any other policy, as that says.
func TestRateLimitWithoutAWait(t *testing.T) {
	own := &retry.Metadata{RateLimited: 2 * time.Second, Policy: retry.Policy{
		MaxAttempts: 9, Backoff: 500 * ms, MaxBackoff: 8 * time.Second, Jitter: retry.FullJitter}}
	other := retry.Policy{MaxAttempts: 9, Backoff: ms}
	rapid.Check(t, func(t *rapid.T) {
		seed := retry.Seed{Run: rapid.String().Draw(t, "run"), Step: "s", Call: 1}
		wait := func(l retry.Layers, reason retry.Reason, after time.Duration, attempt int) time.Duration {
			f := retry.FailureOf(&retry.Failure{Reason: reason, After: after, Err: errors.New("no")})
			return retry.Resolve(l).Decide(f, retry.Call{Attempt: attempt, Repeatable: true, Seed: seed}).Delay
		}
		for i, whole := range []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 8 * time.Second} {
			if got := wait(retry.Layers{Adapter: own}, retry.RateLimit, 0, i+1); got < whole/2 || got > whole {
				t.Errorf("attempt %d: waits %s, want %s to %s", i+1, got, whole/2, whole)
			}
		}
		if got := wait(retry.Layers{Adapter: own}, retry.RateLimit, time.Second, 1); got < time.Second || got > time.Second+500*ms {
			t.Errorf("with a Retry-After: waits %s", got)
		}
		if got := wait(retry.Layers{Adapter: own}, retry.ServerError, 0, 1); got > 500*ms {
			t.Errorf("after another reason: waits %s", got)
		}
		if got := wait(retry.Layers{Adapter: own, Recipe: other}, retry.RateLimit, 0, 1); got != ms {
			t.Errorf("under a policy of the recipe: waits %s", got)
		}
	})
}
