package machine

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/braise-run/braise/internal/value"
)

// The simulation drives machines of random graphs as the driver of package workflow does, with a
// journal, crashes and a virtual clock, and without goroutines. A failure names the seed that
// repeats it; longer runs have more checks:
//
//	go test ./internal/machine -run Simulat -rapid.checks 20000
//	go test ./internal/machine -run TestSimulatedOrder/3 -rapid.seed 123456789

// kind is what an entry of the journal says.
type kind uint8

const (
	finished  kind = iota // the end of a call
	fired                 // a timer has come due
	opened                // a wait is in the journal: the call or the wait step will be answered
	answered              // the end of a wait
	callAgain             // the end of a wait, after which the call is made once more
	sentIn                // a value from outside, for the channel whose index is in timer
)

// entry is what the machine was told, as far as a journal keeps it.
type entry struct {
	n      int64 // what the machine had decided by then
	kind   kind
	path   string
	timer  Timer
	output any
	failed string // the text of a failure; empty: none
}

func (e entry) failure() *Failure {
	if e.failed == "" {
		return nil
	}
	return &Failure{Category: "tool", Code: "test", Err: errors.New(e.failed)}
}

// tell tells a machine what an entry says. size is that of the output.
func (e entry) tell(m *Machine, t *Task, size value.Extent) {
	switch e.kind {
	case finished:
		m.Finish(t, e.output, size, e.failure())
	case fired:
		m.Due(t, e.timer)
	case opened:
		m.Suspend(t) // if it is a call
	case answered:
		m.Answer(t, e.output, e.failure())
	case callAgain:
		m.Again(t)
	case sentIn:
		m.Send(int(e.timer), e.output)
	}
}

// fate is what happens to a task, whenever that is.
type fate struct {
	suspends int  // how many times its call suspends
	keep     bool // its wait is short
	fails    bool
	length   time.Duration // of its call or wait
}

// sim is one simulated run.
type sim struct {
	*watch
	graph   *Graph
	opts    Options
	smooth  bool // nothing fails
	fates   map[string]*fate
	journal []entry
	asked   map[string]int // how many times a call suspended, by path
	cancels bool           // it may be cancelled
	crashes int            // that may still come
	events  int
	frozen  int64 // when the run was cancelled: what the machine had decided

	clock bool // things happen in the order of their times
	now   time.Duration
	leg   time.Duration // when the run began, or went on after it had waited or its process had died
	due   map[Command]time.Duration

	shadow *watch // an earlier machine, which is told the same
}

func newSim(t *rapid.T, g *Graph, smooth bool, fates map[string]*fate) *sim {
	s := &sim{graph: g, smooth: smooth, fates: fates, due: map[Command]time.Duration{}, asked: map[string]int{},
		opts: Options{MaxParallel: rapid.IntRange(1, 3).Draw(t, "parallel"), MaxItems: 10, MaxTasks: 10_000, MaxOutput: 1000, MaxOutputs: 100_000, Grace: 5 * time.Second,
			Skips: true}}
	if !smooth {
		s.opts.WallTime = time.Duration(rapid.IntRange(0, 1).Draw(t, "wall_time")) * time.Hour
	}
	g.Channels = testChannels
	s.watch = newWatch(t, g, s.opts)
	return s
}

// fate draws what happens to t.
func (s *sim) fate(t *Task) *fate {
	path := t.Path()
	f := s.fates[path]
	if f == nil {
		f = &fate{keep: rapid.IntRange(0, 2).Draw(s.T, "keep") == 0}
		if rapid.IntRange(0, 3).Draw(s.T, "suspends") == 0 {
			f.suspends = rapid.IntRange(1, 2).Draw(s.T, "times")
		}
		if !s.smooth {
			f.fails = rapid.IntRange(0, 3).Draw(s.T, "fails") == 0
		}
		if s.clock {
			f.length = time.Duration(rapid.IntRange(1, 200).Draw(s.T, "length")) * time.Second
		}
		s.fates[path] = f
	}
	return f
}

// run drives the machine to its end.
func (s *sim) run() {
	for {
		for s.clock || rapid.IntRange(0, 19).Draw(s.T, "poll") > 0 { // else it is told something in between
			c := s.m.Next()
			if c.Op == None {
				s.quiet()
				break
			}
			s.live(c)
		}
		if s.done {
			return
		}
		s.happen()
		if s.events++; s.events > 20+10*s.m.tasks {
			s.Fatalf("%d events, and %d tasks have not ended", s.events, s.m.tasks)
		}
	}
}

// live executes a command, and plans what comes of it.
func (s *sim) live(c Command) {
	s.execute(c)
	switch c.Op {
	case Start:
		s.due[Command{Task: c.Task}] = s.now + s.fate(c.Task).length
	case Stop: // calls return soon
		s.due[Command{Task: c.Task}] = min(s.due[Command{Task: c.Task}], s.now+250*time.Millisecond)
	case Arm:
		s.due[Command{Task: c.Task, Op: Arm, Timer: c.Timer}] = s.now + c.Wait
	case Open:
		s.open(c.Task)
	}
}

// open deals with what a wait step waits for, unless it has ended meanwhile.
func (s *sim) open(t *Task) {
	if s.unopened = without(s.unopened, t); t.Status() != Waiting {
		return
	}
	s.due[Command{Task: t}] = s.now + s.fate(t).length
	if s.fate(t).keep {
		s.m.Keep(t)
		s.m.Keep(t)
		s.parked = false
		return
	}
	s.note(entry{kind: opened}, t)
}

// note tells the journal, the shadow and then the machine. What follows a cancel is noted as if the
// run had not gone on: somebody may recover it.
func (s *sim) note(e entry, t *Task) {
	e.path = t.Path()
	e.n = s.m.Decided()
	s.tellShadow(e)
	if s.cancel >= 0 {
		e.n = s.frozen
	}
	if s.cancel < 0 || e.kind == finished && e.failed == "" {
		s.journal = append(s.journal, e)
	}
	size := unknown
	if e.output != nil {
		_, size, _ = value.Take(e.output, s.opts.MaxOutput)
	}
	s.told(e, t, size)
}

// told tells the machine, and keeps account of it.
func (w *watch) told(e entry, t *Task, size value.Extent) {
	w.polled = w.polled || w.m.Queued() || len(w.m.ready) > 0
	was := t.Status()
	switch e.kind {
	case finished:
		w.running = without(w.running, t)
		w.recorded[e.path] = true
	case fired:
		a := Command{Task: t, Timer: e.timer}
		w.timers = slices.DeleteFunc(w.timers, a.same)
		w.late = append(w.late, a)
		if e.timer == Grace {
			w.over[t] = true
		} else {
			w.cut[t] = w.m.began
		}
	case answered:
		w.recorded[e.path] = w.recorded[e.path] || was == Waiting
		fallthrough
	case callAgain:
		w.waiting, w.unopened = without(w.waiting, t), without(w.unopened, t)
		w.parked = w.parked && was != Waiting
	case opened:
		w.unopened = without(w.unopened, t)
	}
	e.tell(w.m, t, size)
	if e.kind == sentIn || e.kind == fired { // a timer fires where waits were kept, which a journal does not tell
		w.parked = w.parked && w.m.Result() != nil && w.m.Result().Status == Waiting
	}
	if e.kind == sentIn {
		return
	}
	if e.kind == opened && was == Running {
		w.running = without(w.running, t)
		w.waiting = append(w.waiting, t)
	}
	before := snapshot(w.m)
	if e.kind != opened || t.Status() == Waiting {
		e.tell(w.m, t, size) // once more: too late
	}
	if diff := gocmp.Diff(before, snapshot(w.m)); diff != "" {
		w.Fatalf("told %+v once more:\n%s", e, diff)
	}
}

// happen lets one thing happen.
func (s *sim) happen() {
	if s.crashes > 0 && rapid.IntRange(0, 9).Draw(s.T, "crash") == 0 {
		s.crashes--
		s.crash()
		return
	}
	if s.cancels && s.cancel < 0 && (s.m.Result() == nil || s.parked) && rapid.IntRange(0, 9).Draw(s.T, "cancel") == 0 {
		s.cancel, s.frozen = s.m.began, s.m.Decided()
		if s.shadow != nil {
			s.advanceShadow()
			s.shadow.m.Cancel(errStep)
		}
		s.m.Cancel(errStep)
		s.polled, s.parked = true, false
		return
	}
	if !s.smooth && s.cancel < 0 && rapid.IntRange(0, 19).Draw(s.T, "send") == 0 {
		parked, channel := s.parked, rapid.IntRange(0, len(testChannels)-1).Draw(s.T, "channel")
		s.note(entry{kind: sentIn, timer: Timer(channel), output: "from outside"}, &s.m.root.self)
		if parked && !s.parked {
			s.goOn()
		}
		return
	}
	var list []Command
	for _, t := range s.running {
		list = append(list, Command{Task: t})
	}
	for _, t := range s.waiting {
		if s.cancel < 0 { // else nobody answers
			list = append(list, Command{Task: t})
		}
	}
	for _, a := range s.timers {
		if !s.parked {
			list = append(list, Command{Task: a.Task, Op: Arm, Timer: a.Timer})
		}
	}
	if len(list) == 0 {
		return // what the machine was told last is not executed yet
	}
	var c Command
	if s.clock {
		c = slices.MinFunc(list, func(a, b Command) int { return cmp.Compare(s.due[a], s.due[b]) })
		s.now = max(s.now, s.due[c])
		s.inTime()
	} else {
		c = rapid.SampledFrom(list).Draw(s.T, "event")
	}
	f := s.fate(c.Task)
	switch {
	case c.Op == Arm:
		s.note(entry{kind: fired, timer: c.Timer}, c.Task)
	case slices.Contains(s.running, c.Task):
		s.returns(c.Task, f)
	default:
		again := c.Task.Node().Kind == Call && (s.smooth || rapid.IntRange(0, 3).Draw(s.T, "again") > 0)
		parked := s.parked
		switch {
		case again:
			s.note(entry{kind: callAgain}, c.Task)
		case f.fails:
			s.note(entry{kind: answered, failed: "nobody answered"}, c.Task)
		default:
			s.note(entry{kind: answered, output: "answer"}, c.Task)
		}
		if parked {
			s.goOn()
		}
	}
}

// returns ends a call.
func (s *sim) returns(t *Task, f *fate) {
	path := t.Path()
	switch {
	case s.asked[path] < f.suspends && !s.stopped[t]:
		s.asked[path]++
		s.due[Command{Task: t}] = s.now + f.length
		s.note(entry{kind: opened}, t)
	case f.fails:
		s.note(entry{kind: finished, failed: "failed"}, t)
	default:
		s.note(entry{kind: finished, output: "output of " + path}, t)
	}
}

// inTime checks that limits of time are kept. Calls that are told to stop return within 250 ms.
func (s *sim) inTime() {
	finals := 0 // that may be at work after it
	s.m.root.each(func(f *frame) {
		if f.of != nil {
			finals++
		}
	})
	if s.opts.WallTime > 0 && s.now > s.leg+s.opts.WallTime+time.Second+time.Duration(finals)*(FinallyTime+time.Second) {
		s.Fatalf("the run goes on after %v, wall_time is %v", s.now-s.leg, s.opts.WallTime)
	}
}

// goOn makes the run a live one: waits are opened, and timers have their whole time again.
func (s *sim) goOn() {
	s.leg = s.now
	for _, a := range s.timers {
		s.due[Command{Task: a.Task, Op: Arm, Timer: a.Timer}] = s.now + a.Wait
	}
	for _, t := range s.running {
		key := Command{Task: t}
		if s.due[key] = s.now + s.fate(t).length; s.stopped[t] {
			s.due[key] = s.now + 250*time.Millisecond
		}
	}
	for _, t := range s.waiting {
		s.due[Command{Task: t}] = s.now + s.fate(t).length
	}
	for _, t := range slices.Clone(s.unopened) {
		s.open(t)
	}
}

// crash ends the process: another machine is brought to where the journal ends, and goes on. Its
// last entries may be lost.
func (s *sim) crash() {
	lost := 0
	if rapid.IntRange(0, 2).Draw(s.T, "lose") == 0 {
		lost = rapid.IntRange(0, min(len(s.journal), 4)).Draw(s.T, "lost")
	}
	s.journal = s.journal[:len(s.journal)-lost]
	w := newWatch(s.T, s.graph, s.opts)
	clear(s.asked)
	for _, e := range s.journal {
		w.advance(e.n)
		t := w.find(e)
		if e.kind == opened && t.Node().Kind == Call {
			s.asked[e.path]++
		}
		w.told(e, t, unknown)
	}
	w.advance(0) // what the last one led to
	old := s.watch
	same := lost == 0 && s.cancel < 0
	s.watch, s.shadow = w, nil
	if s.goOn(); !same || rapid.Bool().Draw(s.T, "new order") {
		return
	}
	// What the old machine has decided since, the new one decides too.
	for s.m.Decided() < old.m.Decided() {
		if c := s.m.Next(); c.Op != None {
			s.live(c)
		} else if s.m.Decided() < old.m.Decided() {
			s.Fatalf("the machine decided %d more", old.m.Decided()-s.m.Decided())
		}
	}
	s.shadow = old
	if diff := gocmp.Diff(snapshot(old.m), snapshot(w.m)); diff != "" {
		s.Fatalf("the journal gives another state (-live +replayed):\n%s", diff)
	}
}

// advance brings a machine to where it was when it was told something.
func (w *watch) advance(n int64) {
	for w.m.Decided() < n || w.m.Queued() {
		if c := w.m.Next(); c.Op != None {
			w.execute(c)
		} else if w.m.Decided() < n {
			w.Fatalf("the run never came to decision %d, only to %d", n, w.m.Decided())
		}
	}
	if w.m.Decided() > n && n > 0 {
		w.Fatalf("decision %d is over, %d are decided", n, w.m.Decided())
	}
}

// find finds the task of an entry by its path.
func (w *watch) find(e entry) *Task {
	t := w.known[e.path]
	switch e.kind {
	case sentIn:
		return &w.m.root.self
	case fired:
		t = w.owners[timerName{e.path, e.timer}]
	}
	if t == nil {
		w.Fatalf("%s has not begun", e.path)
	}
	return t
}

// tellShadow tells the shadow the same, at the same time.
func (s *sim) tellShadow(e entry) {
	if s.shadow == nil {
		return
	}
	s.advanceShadow()
	size := unknown
	e.tell(s.shadow.m, s.shadow.find(e), size)
}

func (s *sim) advanceShadow() {
	w := s.shadow
	w.parked = false
	for w.m.Decided() < s.m.Decided() || w.m.Queued() {
		c := w.m.Next()
		switch c.Op {
		case Began:
			w.known[c.Task.Path()] = c.Task
		case Arm:
			w.owners[timerName{c.Task.Path(), c.Timer}] = c.Task
		}
		if c.Op == None && w.m.Decided() < s.m.Decided() {
			s.Fatalf("the machine that went on never came to decision %d, only to %d", s.m.Decided(), w.m.Decided())
		}
	}
}

// end checks the run after its end, and that the shadow has ended the same.
func (s *sim) end() {
	s.check()
	if s.shadow == nil {
		return
	}
	s.advanceShadow()
	if diff := gocmp.Diff(snapshot(s.m), snapshot(s.shadow.m)); diff != "" {
		s.Fatalf("the run that was gone on with ended otherwise (-new +old):\n%s", diff)
	}
}

// snapshot is the state of a machine, by path, apart from what it has to hand out and from what the
// driver keeps.
func snapshot(m *Machine) map[string]string {
	state := map[string]string{}
	paths := func(list []*Task) string {
		var names []string
		for _, t := range list {
			names = append(names, t.Path())
		}
		return strings.Join(names, " ")
	}
	var frameState func(f *frame)
	taskState := func(t *Task) {
		text := fmt.Sprint(t.status, t.armed, t.timeout, t.stopped, t.again, t.receiving, t.opened, t.began, t.output, failureText(t.failure))
		if e := t.each; e != nil {
			text += fmt.Sprint(" items ", e.next, e.active, e.done, e.overAt)
		}
		if c := t.ctl; c != nil {
			text += fmt.Sprint(" bodies ", c.round, c.next, c.open, c.winner, c.over, c.last, c.outputs)
		}
		state[t.Path()] = text
		for _, body := range t.bodies() {
			frameState(body)
		}
	}
	frameState = func(f *frame) {
		if f.final != nil {
			frameState(f.final)
		}
		state[f.self.Path()+"/"] = fmt.Sprint(f.left, f.failedAt, f.cancelled, f.self.armed, f.self.timeout, failureText(f.self.failure))
		for i := range f.steps {
			s := &f.steps[i]
			taskState(&s.Task)
			state[s.Path()+" needs"] = fmt.Sprint(s.waits, s.failed, s.skippedWhen, s.skippedUpstream, s.failedUpstream, s.cause)
			for j := range s.Items() {
				taskState(&s.Items()[j])
			}
		}
	}
	frameState(m.root)
	for _, c := range m.root.channels {
		state["channel "+c.Name] = fmt.Sprint(c.values, paths(c.receivers))
	}
	state["ready"], state["slots"], state["calls"], state["paused"] = paths(m.ready), paths(m.waiting), paths(m.calls), paths(m.paused)
	state["counts"] = fmt.Sprint(m.began, m.decided, m.armed, m.size, m.largest, m.tasks)
	if r := m.result; r != nil && r.Status != Waiting {
		state["result"] = fmt.Sprint(r.Status, r.Output, failureText(r.Failure))
	}
	return state
}

func failureText(f *Failure) string {
	if f == nil {
		return ""
	}
	return fmt.Sprint(f.Category, " ", f.Code, " ", f.Path, ": ", f.Err)
}

// many checks a property often, with a seed each.
func many(t *testing.T, times int, property func(*rapid.T)) {
	for i := range times {
		t.Run(fmt.Sprint(i), func(t *testing.T) { rapid.Check(t, property) })
	}
}

// Calls, waits and timers come to their end in any order.
func TestSimulatedOrder(t *testing.T) {
	many(t, 5, func(t *rapid.T) {
		s := newSim(t, drawTree(t, 2, false), false, map[string]*fate{})
		s.run()
		s.end()
	})
}

func TestSimulatedCancel(t *testing.T) {
	many(t, 5, func(t *rapid.T) {
		s := newSim(t, drawTree(t, 2, false), false, map[string]*fate{})
		s.cancels, s.crashes = true, 1
		s.run()
		s.end()
	})
}

// A process may die whenever something happens.
func TestSimulatedCrashes(t *testing.T) {
	many(t, 10, func(t *rapid.T) {
		s := newSim(t, drawTree(t, 2, false), false, map[string]*fate{})
		s.crashes = 3
		s.run()
		s.end()
	})
}

// Things take their time, by a clock that is not the computer's.
func TestSimulatedTime(t *testing.T) {
	many(t, 10, func(t *rapid.T) {
		s := newSim(t, drawTree(t, 2, false), false, map[string]*fate{})
		s.clock, s.crashes = true, 1
		s.run()
		s.end()
	})
}

// In whatever order calls end and pauses are answered, at any number of slots: the artefact is the
// same if nothing fails.
func TestSimulatedOrderDoesNotMatter(t *testing.T) {
	many(t, 5, func(t *rapid.T) {
		g, fates := drawTree(t, 2, true), map[string]*fate{}
		var want map[string]any
		var result *Result
		for i := range 3 {
			s := newSim(t, g, true, fates)
			s.crashes = i
			s.run()
			s.end()
			if i == 0 {
				want, result = s.m.Artefact(), s.m.Result()
			} else if diff := gocmp.Diff(want, s.m.Artefact()) + gocmp.Diff(result, s.m.Result()); diff != "" {
				t.Fatalf("run %d (-first +this):\n%s", i, diff)
			}
		}
	})
}
