package machine

import (
	"errors"
	"slices"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// watch executes the machine's commands, and checks every one of them.
type watch struct {
	*rapid.T
	m        *Machine
	known    map[string]*Task // that began, by path
	owners   map[timerName]*Task
	begun    map[*Task]bool // true: ended
	order    []*Task        // that began
	running  []*Task        // calls
	waiting  []*Task        // for an answer
	unopened []*Task        // of them, those that Open named and that the driver has not dealt with
	stopped  map[*Task]bool
	recorded map[string]bool // what will not run any more: its end was reported
	timers   []Command       // that are armed
	late     []Command       // that came due since the machine last had nothing to do
	cut      map[*Task]int64 // what timed out, and how many tasks had begun by then
	over     map[*Task]bool  // whose grace is over
	polled   bool            // something was reported while commands were queued
	cancel   int64           // -1, or how many tasks had begun when the run was cancelled
	parked   bool
	done     bool
}

// timerName names a timer in the journal.
type timerName struct {
	path  string
	timer Timer
}

func newWatch(t *rapid.T, g *Graph, opts Options) *watch {
	return &watch{T: t, m: New(g, nil, opts), known: map[string]*Task{}, owners: map[timerName]*Task{}, begun: map[*Task]bool{}, stopped: map[*Task]bool{},
		recorded: map[string]bool{}, cut: map[*Task]int64{}, over: map[*Task]bool{}, cancel: -1}
}

func without(list []*Task, t *Task) []*Task {
	return slices.DeleteFunc(list, func(other *Task) bool { return other == t })
}

// execute executes a command.
func (w *watch) execute(c Command) {
	t := c.Task
	if w.done || w.parked {
		w.Fatalf("op %d after the end", c.Op)
	}
	ended, begun := w.begun[t]
	switch c.Op {
	case Began:
		w.began(t)
	case Ended:
		if !begun || ended || slices.Contains(w.running, t) || slices.Contains(w.m.paused, t) {
			w.Fatalf("%s ended: begun %v, ended %v", t.Path(), begun, ended)
		}
		if (t.Failure() != nil) != (t.Status() == Failed || t.Status() == Cancelled) || t.Failure() != nil && t.Output() != nil {
			w.Fatalf("%s is %s, its failure %v, its output %v", t.Path(), t.Status(), t.Failure(), t.Output())
		}
		w.begun[t] = true
		w.waiting, w.unopened = without(w.waiting, t), without(w.unopened, t)
	case Skipped:
		if begun || t.Status() != SkippedWhen && t.Status() != SkippedUpstream {
			w.Fatalf("%s was skipped, it is %s; begun %v", t.Path(), t.Status(), begun)
		}
	case Start:
		w.starts(c)
	case Open:
		if !begun || ended || t.Node().Kind != Wait && (!t.opened || t.Node().OnEmpty.Fail) {
			w.Fatalf("%s opens: begun %v, ended %v", t.Path(), begun, ended)
		}
		w.waiting, w.unopened = append(w.waiting, t), append(w.unopened, t)
	case Stop:
		if w.stopped[t] || ended || c.Err == nil || !slices.Contains(w.running, t) && !w.polled {
			w.Fatalf("%s is told to stop because of %v; told before: %v, ended: %v", t.Path(), c.Err, w.stopped[t], ended)
		}
		w.stopped[t] = true
	case Arm:
		if slices.ContainsFunc(w.timers, c.same) {
			w.Fatalf("timer %d of %q is armed twice", c.Timer, t.Path())
		}
		w.timers = append(w.timers, c)
		w.owners[timerName{t.Path(), c.Timer}] = t
	case Disarm:
		if i := slices.IndexFunc(w.timers, c.same); i >= 0 {
			w.timers = slices.Delete(w.timers, i, i+1)
		} else if !slices.ContainsFunc(w.late, c.same) {
			w.Fatalf("timer %d of %q is disarmed, but it is not armed", c.Timer, t.Path())
		}
	case Done:
		w.parked = w.m.Result().Status == Waiting
		w.done = !w.parked
	}
}

// same reports whether two commands are of one timer.
func (c Command) same(other Command) bool { return c.Task == other.Task && c.Timer == other.Timer }

// starts checks that a call may start.
func (w *watch) starts(c Command) {
	t := c.Task
	if ended, begun := w.begun[t]; !begun || ended || w.recorded[t.Path()] || slices.Contains(w.running, t) || slices.Contains(w.waiting, t) {
		w.Fatalf("%s starts: begun %v, ended %v, its end is recorded %v", t.Path(), begun, ended, w.recorded[t.Path()])
	}
	if w.running = append(w.running, t); len(w.running) > w.m.opts.MaxParallel {
		w.Fatalf("%d calls at once, the limit is %d", len(w.running), w.m.opts.MaxParallel)
	}
	if w.polled {
		return // it may have been decided before
	}
	if w.cancel >= 0 {
		w.Fatalf("%s starts after the run was cancelled", t.Path())
	}
	doom(t, func(owner *Task) {
		if w.over[owner] {
			w.Fatalf("%s starts; the grace of %q is over", t.Path(), owner.Path())
		}
	})
}

// began checks that t may begin.
func (w *watch) began(t *Task) {
	if _, twice := w.begun[t]; twice || w.known[t.Path()] != nil || w.cancel >= 0 && t.began > w.cancel {
		w.Fatalf("%s begins: twice %v, cancelled %v", t.Path(), twice, w.cancel)
	}
	if g := t.frame.graph; t.item < 0 {
		for j, succ := range g.Succ {
			if s := t.frame.steps[j].status; slices.Contains(succ, t.node) && (s == Pending || s == Running || s == Waiting) {
				w.Fatalf("%s begins while %s, which it needs, is %s", t.Path(), g.Nodes[j].ID, s)
			}
		}
	}
	for _, other := range w.order {
		failed := w.begun[other] && other.Status() == Failed
		switch {
		case !failed:
		case t.item < 0 && other.item < 0 && t.frame == other.frame && t.frame.of == nil && !other.Node().OnError.Continue && t.Node().Trigger != AllDone:
			w.Fatalf("%s begins after %s failed", t.Path(), other.Path())
		case t.item >= 0 && other.item >= 0 && t.whole() == other.whole() && !t.Node().Foreach.Collect:
			w.Fatalf("%s begins after %s failed", t.Path(), other.Path())
		}
	}
	atEnd := false // it is part of a finally, which begins whatever the body has come to
	for owner := t; owner != nil; owner = owner.frame.parent {
		ended, begun := w.begun[owner]
		if cut, timedOut := w.cut[owner]; owner != t && (!begun || ended || !atEnd && timedOut && t.began > cut) {
			w.Fatalf("%s begins inside %s, which has begun: %v, ended: %v, timed out: %v", t.Path(), owner.Path(), begun, ended, timedOut)
		}
		atEnd = atEnd || owner.frame.of != nil
	}
	w.begun[t], w.known[t.Path()] = false, t
	w.order = append(w.order, t)
}

// doom visits what t stands in and has failed or was cancelled so that t's result is worth nothing:
// a body's own task, or a foreach step.
func doom(t *Task, visit func(owner *Task)) {
	for t != nil {
		s, f := t, t.frame
		if t.item >= 0 {
			if s = t.whole(); s.each.overAt > 0 {
				visit(s)
			}
		}
		if f.cancelled || f.failedAt > 0 && s.began <= f.failedAt {
			visit(&f.self)
		}
		if f.of != nil { // what comes at the end of a body does not end with the body
			return
		}
		t = f.parent
	}
}

// inside reports whether t is owner, an item of it, or in a body of it, a finally included.
func inside(t, owner *Task) bool {
	for ; t != nil; t = t.frame.parent {
		if t == owner || t.Whole() == owner {
			return true
		}
	}
	return false
}

// quiet checks the machine when it has nothing to do.
func (w *watch) quiet() {
	if w.m.Next().Op != None || w.m.Queued() {
		w.Fatal("it has something to do after all")
	}
	paused, calls := w.m.Paused(), w.m.Calls()
	paused = slices.DeleteFunc(paused, func(t *Task) bool { return t.receiving && !t.opened && !w.parked })
	for i := range w.m.root.channels {
		for _, t := range w.m.root.channels[i].receivers {
			if t.status != Waiting || len(w.m.root.channels[i].values) > 0 {
				w.Fatalf("%s waits for a value: it is %s, the channel has %v", t.Path(), t.status, w.m.root.channels[i].values)
			}
		}
	}
	for _, t := range paused {
		if !slices.Contains(w.waiting, t) || t.Status() != Waiting || slices.Contains(calls, t) {
			w.Fatalf("%s is paused and %s; opened: %v, call under way: %v", t.Path(), t.Status(), slices.Contains(w.waiting, t), slices.Contains(calls, t))
		}
		doom(t, func(owner *Task) { w.Fatalf("%s waits, though %q has failed", t.Path(), owner.Path()) })
	}
	for _, t := range calls {
		if !slices.Contains(w.running, t) || t.Status() != Running {
			w.Fatalf("the call of %s is under way: %v, its status is %s", t.Path(), slices.Contains(w.running, t), t.Status())
		}
		doom(t, func(owner *Task) {
			if !w.stopped[t] && owner.armed&(1<<Grace) == 0 {
				w.Fatalf("nothing stops the call of %s, though %q has failed", t.Path(), owner.Path())
			}
		})
	}
	switch kept := slices.ContainsFunc(paused, func(t *Task) bool { return t.kept }); {
	case len(paused) != len(w.waiting) || len(calls) != len(w.running) || w.m.armed != len(w.timers):
		w.Fatalf("%d paused, %d calls, %d timers; want %d, %d, %d", len(paused), len(calls), w.m.armed, len(w.waiting), len(w.running), len(w.timers))
	case len(w.m.waiting) > 0 && len(calls) < w.m.opts.MaxParallel:
		w.Fatalf("%d calls wait for a slot, %d of %d are taken", len(w.m.waiting), len(calls), w.m.opts.MaxParallel)
	case w.done && len(calls)+len(paused) > 0:
		w.Fatalf("the run is over, %d calls are under way and %d tasks wait", len(calls), len(paused))
	case w.parked && (len(paused) == 0 || len(calls) > 0 || kept):
		w.Fatalf("the run waits: %d calls are under way, %d tasks wait, kept: %v", len(calls), len(paused), kept)
	case !w.done && !w.parked && len(calls) == 0 && !kept:
		w.Fatal("no call is under way, nothing to do, and the run is not over")
	}
	w.late, w.polled = nil, false
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
	walked, artefact := 0, 0
	var first, last *Task
	w.m.Walk(func(task *Task) {
		walked++
		if s := task.Status(); s == Pending || s == Running || s == Waiting {
			w.Fatalf("%s is %s at the end", task.Path(), s)
		}
		if last != nil && !inside(last, task) && !inside(task, last) && !before(last, task) {
			w.Fatalf("the walk has %s before %s", last.Path(), task.Path())
		}
		last = task
		if task.Nested() {
			return
		}
		if output, there := w.m.Artefact()[task.Node().ID]; there != (task.Status() == Succeeded) || there && !cmp.Equal(output, task.Output()) {
			w.Fatalf("%s is %s; in the artefact: %v", task.Path(), task.Status(), there)
		} else if there {
			artefact++
		}
		if first == nil && task.Status() == Failed && !task.Node().OnError.Continue {
			first = task
		}
	}, func(*Task) {})
	if walked < len(w.begun) || artefact != len(w.m.Artefact()) {
		w.Fatalf("%d tasks began, the walk has %d; the artefact has %d outputs, not %d", len(w.begun), walked, len(w.m.Artefact()), artefact)
	}
	got := w.m.Result()
	switch {
	case w.cancel >= 0:
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
