package temporal

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sample is a recipe of testdata, with its inputs and what its runs are told when they wait for somebody.
type sample struct {
	name string
	in   any
	say  []said
}

var yes = object("decision", "approve", "form", object("amount", int64(5)))

func decides(pause, decision string) said { return answerTo(pause, object("decision", decision)) }

var samples = []sample{
	{"demo", object("ticket", "T-1", "list", []any{int64(1), int64(2), int64(3)}, "nap", "1100ms"),
		[]said{answerTo("approve", yes)}},
	{"parts", nil, []said{valueFor("jobs", "from outside")}},
	{"undone", nil, nil},
	{"talk", nil, []said{answerTo("chat#1/hear", "And T-2?"), answerTo("chat#2/hear", "bye")}},
	{"handed", nil, nil},
	{"guarded", object("list", []any{int64(1), int64(2), int64(3), int64(4), int64(5)}), []said{decides("sure", "approve")}},
}

// A run ends on a cluster as it does on one machine.
func TestSameOutcome(t *testing.T) {
	for _, tt := range samples {
		t.Run(tt.name, func(t *testing.T) {
			wf := compiled(t, tt.name)
			var here, there effects
			want := onOneMachine(t, wf, tt.in, demoRuntime(t, &here), tt.say...)
			got := onCluster(t, wf, tt.in, demoRuntime(t, &there), nil, tt.say...)
			if diff := cmp.Diff(plain(t, want), plain(t, got)); diff != "" {
				t.Errorf("outcome (-one machine +cluster):\n%s", diff)
			}
			if diff := cmp.Diff(here.count, there.count); diff != "" {
				t.Errorf("effects (-one machine +cluster):\n%s", diff)
			}
		})
	}
}
