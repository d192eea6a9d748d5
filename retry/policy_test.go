package retry_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/retry"
)

func ExampleResolve() {
	recipe := retry.Policies{retry.Model: {
		MaxAttempts: 3,
		Backoff:     time.Second,
		RetryOn:     []retry.Reason{retry.RateLimit, retry.ServerError},
	}}
	resolved := retry.Resolve(retry.Layers{
		Step:   retry.Policy{MaxAttempts: 5, Timeout: 20 * time.Second},
		Recipe: recipe[retry.Model],
	})
	fmt.Println(resolved.MaxAttempts, resolved.Backoff, resolved.RetryOn, resolved.Timeout)
	// Output: 5 1s [rate_limit 5xx] 20s
}

// plain is the policy of defaults.
var plain = retry.Policy{MaxAttempts: 1, MaxBackoff: retry.DefaultMaxBackoff, Jitter: retry.NoJitter, Mode: retry.Wait}

// full is a policy that says something about every field, different for each n.
func full(n int) retry.Policy {
	d := time.Duration(n) * time.Second
	return retry.Policy{
		MaxAttempts: n + 1, Backoff: d, MaxBackoff: 10 * d, Timeout: 100 * d,
		Jitter: retry.FullJitter, Mode: retry.Pause, RetryOn: []retry.Reason{retry.Network},
	}
}

func TestNothingResolved(t *testing.T) {
	for name, layers := range map[string]retry.Layers{
		"no layers":            {},
		"no adapter policy":    {Adapter: &retry.Metadata{Restartable: true}},
		"a kind nobody names":  {Run: retry.Policies(nil)[retry.Model], Host: retry.Policies{retry.Tool: full(1)}[retry.Model]},
		"zero policies by all": {Run: retry.Policy{}, Step: retry.Policy{}, Host: retry.Policy{}, Recipe: retry.Policy{}},
	} {
		if diff := cmp.Diff(retry.Resolved{Policy: plain, Longest: plain.MaxBackoff}, retry.Resolve(layers)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

// Each field on its own: of the layers that say something about it, the strongest wins; a layer that
// says nothing about it, and something about every other field, lets it pass.
func TestLayersFieldByField(t *testing.T) {
	fields := []struct {
		name string
		set  func(p *retry.Policy, from retry.Policy)
	}{
		{"MaxAttempts", func(p *retry.Policy, from retry.Policy) { p.MaxAttempts = from.MaxAttempts }},
		{"Backoff", func(p *retry.Policy, from retry.Policy) { p.Backoff = from.Backoff }},
		{"MaxBackoff", func(p *retry.Policy, from retry.Policy) { p.MaxBackoff = from.MaxBackoff }},
		{"Jitter", func(p *retry.Policy, from retry.Policy) { p.Jitter = from.Jitter }},
		{"Mode", func(p *retry.Policy, from retry.Policy) { p.Mode = from.Mode }},
		{"RetryOn", func(p *retry.Policy, from retry.Policy) { p.RetryOn = from.RetryOn }},
		{"Timeout", func(p *retry.Policy, from retry.Policy) { p.Timeout = from.Timeout }},
	}
	names := []string{"run", "step", "host", "recipe"}
	base := retry.Policy{ // of a layer below the one that decides
		MaxAttempts: 90, Backoff: 91, MaxBackoff: 92, Timeout: 93,
		Jitter: retry.NoJitter, Mode: retry.Wait, RetryOn: []retry.Reason{retry.Unknown},
	}
	for _, field := range fields {
		for winner := range names {
			var layers [4]retry.Policy
			want := plain
			for i := range layers {
				switch {
				case i < winner: // everything but the field
					layers[i] = full(1)
					field.set(&layers[i], retry.Policy{})
					want = full(1)
				case i == winner:
					field.set(&layers[i], full(2))
				default:
					field.set(&layers[i], base)
				}
			}
			field.set(&want, full(2))
			got := retry.Resolve(retry.Layers{
				Run: layers[0], Step: layers[1], Host: layers[2], Recipe: layers[3],
				Adapter: &retry.Metadata{Policy: full(7)},
			})
			if diff := cmp.Diff(retry.Resolved{Policy: want, Set: true, Step: layers[1], Longest: want.MaxBackoff}, got); diff != "" {
				t.Errorf("%s of the %s: (-want +got)\n%s", field.name, names[winner], diff)
			}
		}
	}
}

func TestWhatIsSaidOnPurpose(t *testing.T) {
	off := retry.Policy{
		MaxAttempts: 1, Backoff: retry.None, MaxBackoff: retry.None, Timeout: retry.None,
		Jitter: retry.NoJitter, Mode: retry.Wait, RetryOn: []retry.Reason{},
	}
	want := plain
	want.RetryOn, want.MaxBackoff = []retry.Reason{}, 0
	got := retry.Resolve(retry.Layers{Run: off, Step: full(1), Host: full(2), Recipe: full(3)})
	if diff := cmp.Diff(retry.Resolved{Policy: want, Set: true, Step: full(1)}, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestAdapterPolicy(t *testing.T) {
	adapter := &retry.Metadata{Policy: full(7)}
	step := retry.Policy{Timeout: 2 * time.Second}
	onlyStep := plain
	onlyStep.Timeout = step.Timeout
	none := plain
	none.RetryOn = []retry.Reason{}
	narrow := &retry.Metadata{Policy: retry.Policy{MaxAttempts: 1, RetryOn: []retry.Reason{}}}
	for _, tt := range []struct {
		name   string
		layers retry.Layers
		want   retry.Resolved
	}{
		{"nobody else says anything", retry.Layers{Adapter: adapter}, retry.Resolved{Policy: full(7), Set: true, Longest: 5 * time.Minute}},
		{"one field elsewhere is enough", retry.Layers{Step: step, Adapter: adapter}, retry.Resolved{Policy: onlyStep, Set: true, Step: step, Longest: 5 * time.Minute}},
		{"no reasons are something", retry.Layers{Recipe: retry.Policy{RetryOn: []retry.Reason{}}, Adapter: adapter}, retry.Resolved{Policy: none, Set: true, Longest: 5 * time.Minute}},
		{"it limits no layer", retry.Layers{Run: full(1), Adapter: narrow}, retry.Resolved{Policy: full(1), Set: true, Longest: 10 * time.Second}},
	} {
		if diff := cmp.Diff(tt.want, retry.Resolve(tt.layers)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", tt.name, diff)
		}
	}
}

// trust 3.4: whether a call streams does not change how often it is made.
func TestStreams(t *testing.T) {
	restartable, other := &retry.Metadata{Policy: full(4), Restartable: true}, &retry.Metadata{Policy: full(4)}
	for _, tt := range []struct {
		name   string
		layers retry.Layers
		want   bool
	}{
		{"nothing", retry.Layers{}, true},
		{"one attempt", retry.Layers{Run: retry.Policy{MaxAttempts: 1}, Adapter: other}, true},
		{"a policy of the run, restartable", retry.Layers{Run: full(1), Adapter: restartable}, true},
		{"the adapter's own policy, restartable", retry.Layers{Adapter: restartable}, true},
		{"the adapter's own policy, not restartable", retry.Layers{Adapter: other}, false},
		{"a policy of the step, not restartable", retry.Layers{Step: full(1), Adapter: &retry.Metadata{}}, false},
		{"a policy of the host, which the adapter says nothing of", retry.Layers{Host: full(1)}, false},
	} {
		if got := retry.Resolve(tt.layers).Streams(tt.layers.Adapter); got != tt.want {
			t.Errorf("%s: streams is %t, want %t", tt.name, got, tt.want)
		}
	}
}

func TestValidate(t *testing.T) {
	for _, tt := range []struct {
		policy retry.Policy
		want   string // the message's lines, hints left out
	}{
		{retry.Policy{}, ""},
		{plain, ""},
		{full(3), ""},
		{retry.Policy{Backoff: retry.None, MaxBackoff: retry.None, Timeout: retry.None, RetryOn: []retry.Reason{}}, ""},
		{retry.Policy{RetryOn: []retry.Reason{retry.RateLimit, retry.ServerError, retry.Timeout, retry.Network, retry.Unknown}}, ""},
		{retry.Policy{MaxAttempts: -1}, "max_attempts is -1: it counts all calls, so 1 is the least"},
		{retry.Policy{Backoff: -time.Second}, "backoff is -1s: it cannot be negative"},
		{retry.Policy{MaxBackoff: -2}, "max_backoff is -2ns: it cannot be negative"},
		{retry.Policy{Timeout: -time.Minute}, "timeout is -1m0s: it cannot be negative"},
		{retry.Policy{Jitter: "half"}, `unknown jitter "half"`},
		{retry.Policy{Mode: "internal"}, `unknown mode "internal"`},
		{retry.Policy{RetryOn: []retry.Reason{"500", retry.Network, ""}}, "unknown reason \"500\" in retry_on\nunknown reason \"\" in retry_on"},
		{retry.Policy{MaxAttempts: -2, Mode: "no"}, "max_attempts is -2: it counts all calls, so 1 is the least\nunknown mode \"no\""},
	} {
		if got := message(tt.policy.Validate()); got != tt.want {
			t.Errorf("%+v: got %q, want %q", tt.policy, got, tt.want)
		}
	}
	all := retry.Policies{retry.Model: plain, retry.Tool: {Mode: "no"}, retry.Retriever: full(1), retry.Memory: {}, "cache": {}}
	if got, want := message(all.Validate()), "unknown kind \"cache\"\ntool: unknown mode \"no\""; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := retry.Policies(nil).Validate(); err != nil {
		t.Error(err)
	}
}

// message is the text of err without its hints.
func message(err error) string {
	if err == nil {
		return ""
	}
	var kept []string
	for line := range strings.Lines(err.Error()) {
		if !strings.HasPrefix(line, "  hint: ") {
			kept = append(kept, strings.TrimSpace(line))
		}
	}
	return strings.Join(kept, "\n")
}
