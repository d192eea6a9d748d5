package execution_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/runtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// moody is test.act with an effect that another installation may say otherwise.
type moody struct {
	runtime.Tool
	effect runtime.Effect
}

func (m moody) Spec() runtime.ToolSpec {
	spec := m.Tool.Spec()
	spec.EffectOf = func(json.RawMessage) runtime.Effect { return m.effect }
	return spec
}

// What EffectOf says is recorded with the intention, and recovery goes by the record: trust 7.4.
func TestRecoveryGoesByTheRecordedEffect(t *testing.T) {
	const one = runtest.Head + "steps:\n  a: {uses: test.act, with: {n: 1}}\n"
	const undone = runtest.Head + `steps:
  a: {uses: test.act, with: {n: 1}, rollback: {uses: test.act, with: {n: 2}}}
  b: {uses: fail, needs: [a], with: {message: no}}
`
	const external, idempotent = runtime.External, runtime.Idempotent
	for _, tt := range []struct {
		recipe    string
		writes    int // that still work
		then, now runtime.Effect
		status    workflow.Status
		want      []string
	}{
		{one, 1, external, idempotent, workflow.StatusPaused, []string{"test.act 1"}},
		{one, 1, idempotent, external, workflow.StatusOK, []string{"test.act 1", "test.act 1"}},
		{undone, 2, external, idempotent, workflow.StatusError, []string{"test.act 1", "test.act 2"}},
		{undone, 2, idempotent, external, workflow.StatusError, []string{"test.act 1", "test.act 2", "test.act 2"}},
	} {
		t.Run(fmt.Sprintf("trust 7.4 %s, now %s, %d writes", tt.then, tt.now, tt.writes), func(t *testing.T) {
			log, memory := &runtest.Effects{}, &checkpoint.Memory{}
			runtimeOf := func(effect runtime.Effect, store checkpoint.Store) *runtime.Runtime {
				return &runtime.Runtime{Tools: []runtime.Tool{moody{log.External("test.act"), effect}}, Store: store,
					Resume: resume.PassThrough{}, Reporter: &runtest.Quiet{}, NewRunID: func() string { return "r1" }}
			}
			out, err := runtest.Load(t, []byte(tt.recipe)).Run(t.Context(), nil,
				runtimeOf(tt.then, &runtest.Dead{Store: memory, After: tt.writes}))
			if out.Failure().Code != "store.failed" {
				t.Fatalf("%s, %v", out.Status, err)
			}
			out, err = workflow.Recover(context.Background(), "r1", runtimeOf(tt.now, memory), nil)
			if out.Status != tt.status {
				t.Errorf("%s, %v, want %s", out.Status, err, tt.status)
			}
			if diff := cmp.Diff(tt.want, log.Lines); diff != "" {
				t.Errorf("effects (-want +got)\n%s", diff)
			}
		})
	}
}
