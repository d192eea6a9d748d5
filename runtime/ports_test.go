package runtime_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// ports is every port of somebody, who is its name.
type ports string

func (p ports) Retrieve(context.Context, string, int) ([]runtime.Document, error) { return nil, nil }
func (p ports) Load(context.Context, []string) ([]runtime.Skill, error)           { return nil, nil }
func (p ports) Instructions(context.Context) (string, error)                      { return "", nil }
func (p ports) Tools() []runtime.Tool                                             { return nil }
func (p ports) Emit(trace.Event)                                                  {}
func (p ports) Approve(context.Context, runtime.ApprovalRequest) (runtime.ApprovalDecision, error) {
	return runtime.ApprovalDecision{}, nil
}

// conversations is a memory of somebody.
type conversations string

func (c conversations) Load(context.Context, runtime.Conversation) ([]runtime.Message, error) {
	return nil, nil
}
func (c conversations) Save(context.Context, runtime.Conversation, string, []runtime.Message) error {
	return nil
}

// with is a plugin with every port, and prices.
func with(key string, prices map[string]runtime.Price) runtime.Plugin {
	p := ports(key)
	return runtime.Plugin{Key: key, Retriever: p, Memory: conversations(key), Skills: p, Env: p, Approver: p,
		Trace: []trace.Sink{p}, Prices: prices}
}

// trust 1.13: a plugin may carry every port; slots and Runtime.Providers choose as they do for models and tools.
func TestPluginsCarryPorts(t *testing.T) {
	one, two := runtime.Price{Input: 1}, runtime.Price{Input: 2}
	a, b := with("a", map[string]runtime.Price{"m": one, "n": one}), with("b", map[string]runtime.Price{"m": two})
	over := with("c", nil)
	over.Mode, over.OverrideKey = runtime.Override, "a"
	const conflict = `plugins "a" and "b" both offer a retriever, the first one's is used [provider.conflict]`
	for _, tt := range []struct {
		name  string
		rt    runtime.Runtime
		owner string // of the retriever
		sinks []trace.Sink
		m     runtime.Price
		says  string // one of the diagnostics; "": there is none
	}{
		{"the only one", runtime.Runtime{Plugins: []runtime.Plugin{a}}, "a", []trace.Sink{ports("a")}, one, ""},
		{"of two the first", runtime.Runtime{Plugins: []runtime.Plugin{a, b}}, "a", []trace.Sink{ports("a"), ports("b")}, one, conflict},
		{"an override", runtime.Runtime{Plugins: []runtime.Plugin{a, over}}, "c", []trace.Sink{ports("c")}, runtime.Price{}, ""},
		{"a choice", runtime.Runtime{Plugins: []runtime.Plugin{a, b}, Providers: map[string]string{"retriever": "b", "price:m": "b"}}, "b",
			[]trace.Sink{ports("a"), ports("b")}, two, `both offer a memory`},
		{"a choice that nobody offers", runtime.Runtime{Plugins: []runtime.Plugin{a}, Providers: map[string]string{"retriever": "x"}}, "a",
			[]trace.Sink{ports("a")}, one, `"x" is chosen for a retriever and does not offer it`},
		{"the host's own", runtime.Runtime{Plugins: []runtime.Plugin{a}, Retriever: ports("host"), Prices: map[string]runtime.Price{"m": two},
			Trace: []trace.Sink{ports("host")}}, "host", []trace.Sink{ports("host"), ports("a")}, two, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.rt.Validate(); err != nil {
				t.Fatal(err)
			}
			r, own := tt.rt.Resolve(), tt.rt.Trace
			if diff := cmp.Diff(r.Runtime.Trace, tt.rt.Equipped().Trace); diff != "" || len(tt.rt.Trace) != len(own) {
				t.Errorf("trust 1.13: Equipped and Resolve disagree, or changed the runtime: %s", diff)
			}
			got := r.Runtime
			if got.Retriever != ports(tt.owner) || !r.Has("retriever") || got.Prices["m"] != tt.m {
				t.Errorf("trust 1.13: retriever of %v, price %v, want %s, %v", got.Retriever, got.Prices["m"], tt.owner, tt.m)
			}
			if tt.owner != "host" && tt.rt.Providers == nil && (got.Memory != conversations(tt.owner) || got.Skills != ports(tt.owner) || got.Env != ports(tt.owner) || got.Approver != ports(tt.owner)) {
				t.Errorf("trust 1.13: not all ports are of %s: %+v", tt.owner, got)
			}
			if diff := cmp.Diff(tt.sinks, got.Trace); diff != "" {
				t.Errorf("trust 1.13: sinks (-want +got):\n%s", diff)
			}
			if says := strings.Join(said(r.Diagnostics), "\n"); !strings.Contains(says, tt.says) || tt.says == "" && says != "" {
				t.Errorf("trust 1.13: findings:\n%s\nwant %q", says, tt.says)
			}
			for _, c := range r.Capabilities() {
				if want := map[bool]string{true: "host", false: "plugin"}[tt.owner == "host"]; c.Key == "retriever" && c.From != want {
					t.Errorf("trust 1.13: the capability is of the %s, want %s", c.From, want)
				}
			}
		})
	}
}

func TestPluginsWithBadPorts(t *testing.T) {
	rt := runtime.Runtime{Plugins: []runtime.Plugin{{Key: "a", Trace: []trace.Sink{nil}, Prices: map[string]runtime.Price{"m": {Input: math.NaN()}}}}}
	err := rt.Validate()
	for _, want := range []string{`plugin "a": trace sink 0 is nil`, `plugin "a": the price of model "m" is not an amount of money`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("trust 1.13: got %v, want %q", err, want)
		}
	}
}
