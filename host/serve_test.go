package host_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/host"
)

func TestServeConfig(t *testing.T) {
	env := environ(map[string]string{"CI": "0123456789abcdef", "HOOK": "whsec_MDEyMzQ1Njc4OWFiY2RlZg=="})
	c, err := host.ParseConfig("braise.yaml", []byte(`
serve:
  listen: 0.0.0.0:80
  url: https://braise.test
  hosts: [braise.test]
  tls: {cert: c.pem, key: k.pem}
  recipes: [./recipes]
  queues: [fast, slow]
  max_runs: {"*": 8, report: 1}
  max_body: 1000
  max_queued: 20
  drain: 10s
  retention: 720h
  tokens: {ci: {token: "${CI}", roles: [start], recipes: [refund], groups: [bots]}}
  proxy: {from: [10.0.0.7, 10.1.0.0/16], user: X-User, groups: X-Groups, roles: {operate: [platform], read: ["*"]}}
  triggers:
    tickets: {recipe: triage, signature: github, secret: "${CI}", inputs: {t: "${{ body.issue }}", more: [1, "${{ body.n }}"]}, key: "${{ headers.id }}"}
    alarms: {recipe: alarm, signature: standard, secret: "${HOOK}", queue: fast, labels: {from: pager}}
  schedules:
    nightly: {recipe: report, cron: "0 2 * * *", zone: Europe/Berlin, missed: last, inputs: {n: 1}, labels: {a: b}, queue: slow}
`), env)
	if err != nil {
		t.Fatal(err)
	}
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	want := &host.Serve{
		Listen: "0.0.0.0:80", URL: "https://braise.test", Hosts: []string{"braise.test"},
		TLS: &host.TLS{Cert: "c.pem", Key: "k.pem"}, Recipes: []string{"./recipes"}, Queues: []string{"fast", "slow"},
		MaxRuns: 8, MaxRunsOf: map[string]int{"report": 1}, MaxBody: 1000, MaxQueued: 20,
		Drain: 10 * time.Second, Retention: 720 * time.Hour,
		Tokens: map[string]host.ServeToken{"ci": {Token: "0123456789abcdef", Roles: []string{"start"},
			Recipes: []string{"refund"}, Groups: []string{"bots"}}},
		Proxy: &host.ServeProxy{From: []netip.Prefix{netip.MustParsePrefix("10.0.0.7/32"), netip.MustParsePrefix("10.1.0.0/16")},
			User: "X-User", Groups: "X-Groups", Roles: map[string][]string{"operate": {"platform"}, "read": {"*"}}},
		Triggers: []host.ServeTrigger{
			{Name: "alarms", Recipe: "alarm", Signature: "standard", Secret: "whsec_MDEyMzQ1Njc4OWFiY2RlZg==", Queue: "fast",
				Labels: map[string]string{"from": "pager"}, Positions: map[string]diagnostics.Position{}},
			{Name: "tickets", Recipe: "triage", Signature: "github", Secret: "0123456789abcdef",
				Inputs: map[string]any{"t": "${{ body.issue }}", "more": []any{int64(1), "${{ body.n }}"}}, Key: "${{ headers.id }}",
				Positions: map[string]diagnostics.Position{"inputs/t": {File: "braise.yaml", Line: 17, Column: 79},
					"inputs/more/1": {File: "braise.yaml", Line: 17, Column: 110}, "key": {File: "braise.yaml", Line: 17, Column: 134}}},
		},
		Schedules: []host.ServeSchedule{{Name: "nightly", Recipe: "report", Cron: "0 2 * * *", Zone: berlin, Queue: "slow",
			Inputs: map[string]any{"n": int64(1)}, Labels: map[string]string{"a": "b"}, Last: true}},
	}
	opts := cmp.Options{cmpopts.EquateComparable(netip.Prefix{}), cmp.Comparer(func(a, b *time.Location) bool { return a.String() == b.String() })}
	if diff := cmp.Diff(want, c.Serve, opts); diff != "" {
		t.Error(diff)
	}
}

func TestServeConfigMistakes(t *testing.T) {
	env := environ(map[string]string{"OK": "0123456789abcdef", "SHORT": "0123"})
	for _, tt := range []struct{ text, want string }{
		{`serve: {port: 1}`, `"port"`},
		{`serve: {tokens: {ci: {token: abcdefghijklmnop, roles: [start]}}}`, `the secret "token" may not stand in the file`},
		{`serve: {tokens: {ci: {token: "${SHORT}", roles: [start]}}}`, `"token" needs at least 16 bytes`},
		{`serve: {tokens: {ci: {token: "${OK}", roles: [strat]}}}`, `did you mean "start"?`},
		{`serve: {tokens: {ci: {roles: [start]}}}`, `token`},
		{`serve: {proxy: {from: [10.0.0.300], user: U, roles: {read: ["*"]}}}`, `"10.0.0.300" is not an address`},
		{`serve: {proxy: {from: [10.0.0.3], user: U, roles: {raed: ["*"]}}}`, `did you mean "read"?`},
		{`serve: {url: braise.test}`, `"url" is not the URL of a server`},
		{`serve: {notify: []}`, `notify stands at the top of the file`},
		{`serve: {schedules: {n: {recipe: r, cron: "0 2 * * *", zone: Berlin}}}`, `there is no time zone "Berlin"`},
		{`serve: {schedules: {n: {recipe: r, cron: "0 2 * * *", zone: Local}}}`, `there is no time zone "Local"`},
		{`serve: {schedules: {n: {recipe: r}}}`, `cron`},
		{`serve: {max_runs: -1}`, `max_runs`},
		{`serve: {drain: 0s}`, `"drain" must be more than 0`},
	} {
		_, err := host.ParseConfig("braise.yaml", []byte(tt.text), env)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.text, err, tt.want)
		}
	}
}

// A variable that is not set leaves serve out, and the rest works.
func TestServeConfigLacksAVariable(t *testing.T) {
	c, err := host.ParseConfig("braise.yaml", []byte(`{serve: {tokens: {ci: {token: "${GONE}", roles: [start]}}}, skills: s}`),
		environ(nil))
	if err != nil || c.Serve != nil || c.Skills != "s" {
		t.Errorf("serve is %v, skills %q: %v", c.Serve, c.Skills, err)
	}
}
