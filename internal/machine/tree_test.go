package machine

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/braise-run/braise/internal/expr"
)

// drawTree makes a random graph of all kinds of nodes, with bodies and foreach inside each other.
func drawTree(t *rapid.T, depth int) *Graph {
	n := rapid.IntRange(0, 4).Draw(t, "nodes")
	g := &Graph{Nodes: make([]Node, n), Succ: make([][]int32, n), Preds: make([]int32, n)}
	for i := range n {
		kinds := []Kind{Call, Call, Call, Set, Fail, Sub}
		node := Node{
			ID: fmt.Sprintf("n%d", i), Trigger: Trigger(rapid.IntRange(0, 3).Draw(t, "trigger")),
			Kind:    kinds[rapid.IntRange(0, len(kinds)-1).Draw(t, "kind")],
			Timeout: time.Duration(rapid.IntRange(0, 1).Draw(t, "timeout")) * time.Minute,
		}
		if node.Kind == Sub && depth == 0 {
			node.Kind = Call
		}
		if node.Kind == Sub {
			node.Body = &Body{Graph: drawTree(t, depth-1)}
		}
		if rapid.IntRange(0, 4).Draw(t, "when") == 0 {
			node.When = condition(t, "1 > 2")
		}
		switch rapid.IntRange(0, 3).Draw(t, "on_error") {
		case 0:
			node.OnError.Continue = true
		case 1:
			node.OnError.Set = expr.Literal("set")
		}
		if rapid.IntRange(0, 2).Draw(t, "foreach") == 0 {
			items := make([]any, rapid.IntRange(0, 4).Draw(t, "items")) // of null
			node.Foreach = &Foreach{In: expr.Literal(items), MaxParallel: rapid.IntRange(0, 2).Draw(t, "max_parallel"), Collect: rapid.Bool().Draw(t, "collect")}
		}
		for j := range i {
			if rapid.IntRange(0, 2).Draw(t, "edge") == 0 {
				g.Succ[j] = append(g.Succ[j], int32(i))
				g.Preds[i]++
			}
		}
		g.Nodes[i] = node
		g.Order, g.Rank = append(g.Order, int32(i)), append(g.Rank, int32(i))
	}
	return g
}

// watch is a driver that checks what the machine asks of it.
type watch struct {
	*rapid.T
	m         *Machine
	parallel  int
	begun     map[*Task]bool // true: ended
	order     []*Task        // that began
	running   []*Task        // calls
	stopped   map[*Task]bool
	timers    []Command // that are armed
	late      []Command // that came due since the commands before were executed
	cancelled bool
	done      bool
}

// drain executes the commands that are due now.
func (w *watch) drain() {
	for {
		c := w.m.Next()
		if w.done && c.Op != None {
			w.Fatalf("op %d after the end", c.Op)
		}
		ended, begun := w.begun[c.Task]
		switch c.Op {
		case None:
			if !w.done && len(w.running) == 0 {
				w.Fatal("no call is under way, nothing to do, and the run is not over")
			}
			w.late = nil
			return
		case Began:
			w.began(c.Task)
		case Ended:
			if !begun || ended || slices.Contains(w.running, c.Task) {
				w.Fatalf("%s ended: begun %v, ended %v", c.Task.Path(), begun, ended)
			}
			if (c.Task.Failure() != nil) != (c.Task.Status() == Failed || c.Task.Status() == Cancelled) {
				w.Fatalf("%s is %s, its failure %v", c.Task.Path(), c.Task.Status(), c.Task.Failure())
			}
			w.begun[c.Task] = true
		case Skipped:
			if begun {
				w.Fatalf("%s was skipped after it began", c.Task.Path())
			}
		case Start:
			if !begun || ended {
				w.Fatalf("%s starts: begun %v, ended %v", c.Task.Path(), begun, ended)
			}
			if c.Alone && len(w.running)+len(w.timers) > 0 {
				w.Fatalf("%s is not alone", c.Task.Path())
			}
			if w.running = append(w.running, c.Task); len(w.running) > w.parallel {
				w.Fatalf("%d calls at once, the most is %d", len(w.running), w.parallel)
			}
		case Stop:
			if w.stopped[c.Task] || ended || c.Err == nil {
				w.Fatalf("%s is told to stop because of %v; told before: %v, ended: %v", c.Task.Path(), c.Err, w.stopped[c.Task], ended)
			}
			w.stopped[c.Task] = true
		case Arm:
			w.timers = append(w.timers, c)
		case Disarm:
			same := func(a Command) bool { return a.Task == c.Task && a.Timer == c.Timer }
			if i := slices.IndexFunc(w.timers, same); i >= 0 {
				w.timers = slices.Delete(w.timers, i, i+1)
			} else if !slices.ContainsFunc(w.late, same) {
				w.Fatalf("timer %d of %q is disarmed, but it is not armed", c.Timer, c.Task.Path())
			}
		case Done:
			w.done = true
		}
	}
}

// began checks that t may begin.
func (w *watch) began(t *Task) {
	if _, twice := w.begun[t]; twice || w.cancelled {
		w.Fatalf("%s begins: twice %v, cancelled %v", t.Path(), twice, w.cancelled)
	}
	for _, other := range w.order {
		failed := w.begun[other] && other.Status() == Failed
		switch {
		case !failed:
		case t.item < 0 && other.item < 0 && t.frame == other.frame && !other.Node().OnError.Continue && t.Node().Trigger != AllDone:
			w.Fatalf("%s begins after %s failed", t.Path(), other.Path())
		case t.item >= 0 && other.item >= 0 && t.whole() == other.whole() && !t.Node().Foreach.Collect:
			w.Fatalf("%s begins after %s failed", t.Path(), other.Path())
		}
	}
	for owner := t; owner != nil; owner = owner.frame.parent {
		if ended, begun := w.begun[owner]; owner != t && (!begun || ended || owner.timeout) {
			w.Fatalf("%s begins inside %s, which has begun: %v, ended: %v, timed out: %v", t.Path(), owner.Path(), begun, ended, owner.timeout)
		}
	}
	w.begun[t] = false
	w.order = append(w.order, t)
}

// event does one random thing to the machine.
func (w *watch) event(cancel bool) {
	kind := rapid.IntRange(0, 9).Draw(w.T, "event")
	switch {
	case cancel && kind == 0:
		w.m.Cancel(errStep)
		w.cancelled = true
	case kind <= 2 && len(w.timers) > 0:
		i := rapid.IntRange(0, len(w.timers)-1).Draw(w.T, "due")
		c := w.timers[i]
		w.timers = slices.Delete(w.timers, i, i+1)
		w.late = append(w.late, c)
		w.m.Due(c.Task, c.Timer)
		w.m.Due(c.Task, c.Timer) // once more: stale
	default:
		i := rapid.IntRange(0, len(w.running)-1).Draw(w.T, "ends")
		task := w.running[i]
		w.running = slices.Delete(w.running, i, i+1)
		if rapid.IntRange(0, 2).Draw(w.T, "fails") == 0 {
			w.m.Finish(task, nil, Unknown, &Failure{Category: "tool", Code: "test", Err: errStep})
		} else {
			w.m.Finish(task, "output", Unknown, nil)
		}
		w.m.Finish(task, "late", Unknown, nil)
	}
}

func testTrees(t *testing.T, cancel bool) {
	rapid.Check(t, func(rt *rapid.T) {
		g := drawTree(rt, 2)
		w := &watch{T: rt, parallel: rapid.IntRange(1, 3).Draw(rt, "parallel"), begun: map[*Task]bool{}, stopped: map[*Task]bool{}}
		wall := time.Duration(rapid.IntRange(0, 1).Draw(rt, "wall_time")) * time.Hour
		w.m = New(g, nil, Options{MaxParallel: w.parallel, MaxItems: 10, MaxTasks: 10_000, MaxOutput: 1000, MaxOutputs: 100_000, Grace: time.Second, WallTime: wall})
		for w.drain(); !w.done; w.drain() {
			// Sometimes several things happen before the machine goes on.
			for more := true; more && len(w.running) > 0; more = rapid.IntRange(0, 3).Draw(rt, "more") == 0 {
				w.event(cancel && !w.cancelled)
			}
		}
		w.check()
	})
}

// check looks at the machine after the end.
func (w *watch) check() {
	for task, ended := range w.begun {
		if !ended {
			w.Fatalf("%s began and did not end", task.Path())
		}
	}
	if len(w.timers) > 0 {
		w.Fatalf("%d timers are still armed: %+v", len(w.timers), w.timers[0])
	}
	walked, first := 0, (*Task)(nil)
	w.m.Walk(func(task *Task) {
		walked++
		if s := task.Status(); s == Pending || s == Running {
			w.Fatalf("%s is %s at the end", task.Path(), s)
		}
		if first == nil && task.item < 0 && task.frame.parent == nil && task.Status() == Failed && !task.Node().OnError.Continue {
			first = task
		}
	}, func(*Task) {})
	if walked < len(w.begun) {
		w.Fatalf("%d tasks began, the walk has %d", len(w.begun), walked)
	}
	got := w.m.Result()
	switch {
	case w.cancelled:
		if got.Status != Cancelled || !errors.Is(got.Failure.Err, errStep) {
			w.Fatalf("cancelled: result %+v", got)
		}
	case w.m.root.self.timeout:
		if got.Status != Failed || got.Failure.Code != "limits.wall_time" {
			w.Fatalf("wall time: result %+v", got)
		}
	case first == nil:
		if got.Status != Succeeded {
			w.Fatalf("result %+v, %v", got, got.Failure)
		}
	default:
		if got.Status != Failed || got.Failure != first.Failure() {
			w.Fatalf("result %+v, want the failure of %s", got, first.Path())
		}
	}
	seen := map[*Failure]bool{got.Failure: true}
	for _, f := range w.m.Others() {
		if seen[f] || f.Category == "cancelled" || f.Path == "" {
			w.Fatalf("other failure %+v; seen before: %v", f, seen[f])
		}
		seen[f] = true
	}
}

func TestTreesEnd(t *testing.T)       { testTrees(t, false) }
func TestCancelledTrees(t *testing.T) { testTrees(t, true) }
