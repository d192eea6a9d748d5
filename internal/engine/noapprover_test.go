package engine_test

import (
	"testing"

	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/runtime"
)

// trust 1.6: a diagnostic before the first step where calls need an approval that nobody can give, and only there.
func TestNobodyCanApprove(t *testing.T) {
	asks := approver(nil)
	for _, tt := range []struct {
		agent    string
		approver runtime.Approver
		found    bool
	}{
		{"tools: all, approval: always", nil, true},
		{"tools: all, approval: always", asks, false},
		{"tools: all, approval: pause", nil, false},
		{"tools: [t.send], approval: {t.send: always}", nil, true},
		{"tools: [t.send], approval: {t.send: pause, '*': always}", nil, false},
		{"tools: [t.send, human.ask], approval: {external: always}", nil, true},
		{"tools: [t.send], approval: {read_only: always}", nil, false},
		{"tools: [exec.run], approval: {'exec.run:git': always}", nil, true},
		{"deny: [t.send], tools: [t.send], approval: always", nil, false},
		{"tools: [], delegates: [other], approval: always", nil, true},
		{"tools: []", nil, false},
	} {
		t.Run(tt.agent, func(t *testing.T) {
			rt := runtest.Approving(&runtest.Effects{})
			rt.Approver = tt.approver
			wf := runtest.Load(t, []byte(runtest.Head+"agents: {clerk: {model: m, "+tt.agent+"}, other: {model: m, tools: []}}\nsteps:\n  a: {uses: agent, with: {agent: clerk, prompt: x}}\n"))
			checked, err := wf.Check(t.Context(), rt)
			if err != nil {
				t.Fatal(err)
			}
			found := 0
			for _, d := range append(checked, wf.Unapproved(rt)...) {
				if d.Code == "agent.noApprover" && d.Position.Line > 0 {
					found++
				}
			}
			if want := map[bool]int{true: 2}[tt.found]; found != want {
				t.Errorf("%d diagnostics, want %d", found, want)
			}
		})
	}
}
