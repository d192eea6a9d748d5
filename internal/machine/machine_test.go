package machine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/expr"
	_ "github.com/braise-run/braise/internal/seedtest/rapidseed"
)

// random is a graph of calls, with what each call will do.
type random struct {
	graph *Graph
	needs [][]int
	fails []bool
	when  []bool
	skips bool // see [Options]
}

func condition(t *rapid.T, text string) *expr.Program {
	p, list := (&expr.Scope{}).Condition(expr.Source{Text: text, Pos: diagnostics.Position{File: "test"}})
	if list != nil {
		t.Fatal(list)
	}
	return p
}

// draw makes a random graph. Each node needs only nodes declared before it, so the declaration
// order is a plan order.
func draw(t *rapid.T, handled bool) random {
	n := rapid.IntRange(1, 12).Draw(t, "nodes")
	r := random{graph: &Graph{Nodes: make([]Node, n), Succ: make([][]int32, n), Preds: make([]int32, n), Rank: make([]int32, n), Listed: map[int32][]int32{}},
		needs: make([][]int, n), fails: make([]bool, n), when: make([]bool, n), skips: rapid.Bool().Draw(t, "skips")}
	for i := range n {
		node := Node{ID: fmt.Sprintf("n%d", i), Kind: Call, Trigger: Trigger(rapid.IntRange(0, 3).Draw(t, "trigger"))}
		r.when[i] = rapid.IntRange(0, 3).Draw(t, "when") > 0
		if !r.when[i] {
			node.When = condition(t, "false")
		}
		r.fails[i] = rapid.IntRange(0, 3).Draw(t, "fails") == 0
		node.OnError.Continue = handled || rapid.Bool().Draw(t, "continue")
		for j := range i {
			if rapid.IntRange(0, 2).Draw(t, "edge") == 0 {
				r.needs[i] = append(r.needs[i], j)
				r.graph.Succ[j] = append(r.graph.Succ[j], int32(i))
				r.graph.Preds[i]++
				if node.Trigger == NoneFailed && rapid.Bool().Draw(t, "listed") {
					r.graph.Listed[int32(i)] = append(r.graph.Listed[int32(i)], int32(j))
				}
			}
		}
		r.graph.Nodes[i] = node
		r.graph.Order = append(r.graph.Order, int32(i))
		r.graph.Rank[i] = int32(i)
	}
	return r
}

// expected works the statuses out from the rules of the format, a second time and without the
// machine. All failures are handled.
func (r *random) expected() []Status {
	status := make([]Status, len(r.needs))
	unreached := make([]bool, len(r.needs))          // a step before it failed
	skippers := make([]map[int32]bool, len(r.needs)) // whose conditions skipped it
	for i, needs := range r.needs {
		count := map[Status]int{}
		skippers[i] = map[int32]bool{}
		for _, j := range needs {
			count[status[j]]++
			unreached[i] = unreached[i] || status[j] == Failed || status[j] == SkippedUpstream && unreached[j]
			if status[j] == SkippedWhen {
				skippers[i][int32(j)] = true
			} else if status[j] == SkippedUpstream {
				maps.Copy(skippers[i], skippers[j])
			}
		}
		branch := false
		listed := r.graph.Listed[int32(i)]
		for _, head := range listed {
			for _, j := range listed {
				branch = branch || status[j] == SkippedUpstream && len(skippers[j]) == 1 && skippers[j][head]
			}
		}
		runs := map[Trigger]bool{
			AllSuccess: count[Succeeded] == len(needs),
			NoneFailed: !unreached[i] && (count[SkippedUpstream] == 0 || r.skips && !branch),
			AllDone:    true,
			AnySuccess: count[Succeeded] > 0 || len(needs) == 0,
		}[r.graph.Nodes[i].Trigger]
		switch {
		case !runs:
			status[i] = SkippedUpstream
		case !r.when[i]:
			status[i] = SkippedWhen
		case r.fails[i]:
			status[i] = Failed
		default:
			status[i] = Succeeded
		}
	}
	return status
}

var errStep = errors.New("failed")

// play drives a machine to its end. Calls that are under way end in random order; event is asked
// before each, and may do something to the machine.
func (r *random) play(t *rapid.T, m *Machine, parallel int, event func(step int)) (started []int) {
	var running []*Task
	done := 0
	for step := 0; ; step++ {
		c := m.Next()
		switch c.Op {
		case None:
			if done > 0 {
				return started
			}
			if len(running) == 0 {
				t.Fatal("nothing to do, and the run is not over")
			}
			event(step)
			i := rapid.IntRange(0, len(running)-1).Draw(t, "ends")
			task := running[i]
			running = slices.Delete(running, i, i+1)
			if r.fails[task.node] {
				m.Finish(task, nil, unknown, &Failure{Category: "tool", Code: "test", Err: errStep})
			} else {
				m.Finish(task, int64(task.node), unknown, nil)
			}
		case Start:
			if done > 0 {
				t.Fatal("a call began after the end")
			}
			if slices.Contains(started, int(c.Task.node)) {
				t.Fatalf("%s began twice", c.Task.Path())
			}
			for _, j := range r.needs[c.Task.node] {
				if s := m.root.steps[j].status; s == Pending || s == Running {
					t.Fatalf("%s began while %d is %s", c.Task.Path(), j, s)
				}
			}
			started = append(started, int(c.Task.node))
			running = append(running, c.Task)
			if len(running) > parallel {
				t.Fatalf("%d calls at once, the limit is %d", len(running), parallel)
			}
		case Done:
			if done++; done > 1 || len(running) > 0 {
				t.Fatalf("%d ends, %d calls still run", done, len(running))
			}
		}
	}
}

func (r *random) machine(parallel int) *Machine {
	return New(r.graph, nil, Options{MaxParallel: parallel, MaxItems: 10, MaxTasks: 100, MaxOutput: 1000, MaxOutputs: 1000, Grace: time.Second, Skips: r.skips})
}

func statuses(m *Machine) []Status {
	var list []Status
	for i := range m.root.steps {
		list = append(list, m.root.steps[i].status)
	}
	return list
}

func TestStatusesFollowTheRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := draw(t, true)
		parallel := rapid.IntRange(1, 4).Draw(t, "parallel")
		m := r.machine(parallel)
		r.play(t, m, parallel, func(int) {})
		if diff := cmp.Diff(r.expected(), statuses(m)); diff != "" {
			t.Fatalf("statuses (-want +got):\n%s", diff)
		}
		if m.Result().Status != Succeeded {
			t.Fatalf("result %+v", m.Result())
		}
	})
}

func TestFailuresEndTheRun(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := draw(t, false)
		parallel := rapid.IntRange(1, 4).Draw(t, "parallel")
		m := r.machine(parallel)
		r.play(t, m, parallel, func(int) {})
		want, first := Succeeded, ""
		for i, s := range statuses(m) {
			switch {
			case s == Pending || s == Running:
				t.Fatalf("n%d is %s at the end", i, s)
			case s == Failed && !r.graph.Nodes[i].OnError.Continue && first == "":
				want, first = Failed, r.graph.Nodes[i].ID
			}
		}
		got := m.Result()
		if got.Status != want || want == Failed && (got.Failure.Path != first || !errors.Is(got.Failure.Err, errStep)) {
			t.Fatalf("result %+v, want %v at %q", got, want, first)
		}
	})
}

func TestCancelEndsTheRun(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := draw(t, false)
		parallel := rapid.IntRange(1, 4).Draw(t, "parallel")
		at := rapid.IntRange(0, 20).Draw(t, "cancel at")
		m := r.machine(parallel)
		cancelled := false
		before := 0
		started := r.play(t, m, parallel, func(step int) {
			if step >= at && !cancelled {
				cancelled = true
				m.Cancel(errStep)
				before = int(m.began)
			}
		})
		if !cancelled {
			return
		}
		if got := m.Result(); got.Status != Cancelled || !errors.Is(got.Failure.Err, errStep) {
			t.Fatalf("result %+v", got)
		}
		if len(started) > before || int(m.began) != before {
			t.Fatalf("%d tasks began, %d before the cancel", m.began, before)
		}
	})
}

func TestReadyStepsStartByPriorityThenDeclaration(t *testing.T) {
	// Ranks as they are compiled: n2 has the highest priority.
	r := random{graph: &Graph{Nodes: make([]Node, 4), Succ: make([][]int32, 4), Preds: make([]int32, 4),
		Order: []int32{2, 0, 1, 3}, Rank: []int32{1, 2, 0, 3}},
		needs: make([][]int, 4), fails: make([]bool, 4)}
	for i := range r.graph.Nodes {
		r.graph.Nodes[i] = Node{ID: fmt.Sprint("n", i), Kind: Call}
	}
	m := r.machine(1)
	var got []string
	for {
		c := m.Next()
		if c.Op == Start {
			got = append(got, c.Task.Path())
			m.Finish(c.Task, nil, unknown, nil)
		}
		if c.Op == Done {
			break
		}
	}
	if want := []string{"n2", "n0", "n1", "n3"}; !cmp.Equal(want, got) {
		t.Errorf("started %v, want %v", got, want)
	}
}

// A driver that reads a journal learns after its last record only which waits it will end by itself.
func TestKeepInARunThatWaits(t *testing.T) {
	g := &Graph{Nodes: []Node{{ID: "soon", Kind: Wait}}, Succ: make([][]int32, 1), Preds: []int32{0}, Rank: []int32{0},
		Order: []int32{0}}
	m := New(g, nil, Options{MaxParallel: 1, MaxItems: 10, MaxTasks: 10, MaxOutput: 100, MaxOutputs: 100})
	all(m, Open)
	task := m.Paused()[0]
	if r := m.Result(); r == nil || r.Status != Waiting {
		t.Fatalf("result %+v before Keep, want one that waits", r)
	}
	m.Keep(task)
	if r, c := m.Result(), m.Next(); r != nil || c.Op != None {
		t.Errorf("result %+v and command %+v after Keep, want none", r, c)
	}
	m.Answer(task, nil, nil)
	all(m, Done)
	if r := m.Result(); r == nil || r.Status != Succeeded {
		t.Errorf("result %+v after the answer, want success", r)
	}
}
