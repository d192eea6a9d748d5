package machine

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/braise-run/braise/internal/value"
)

// Op says what a command asks of the driver.
type Op uint8

// The commands.
const (
	None    Op = iota // nothing to do until an event
	Began             // Task has begun
	Ended             // Task has ended; its status, output and failure say how
	Skipped           // Task was skipped; its status says why
	Start             // call Task's adapter with Input; Finish or Suspend reports the result
	Open              // Task waits, with Input; Answer ends that
	Stop              // tell the call of Task to stop, because of Err; Finish is still due
	Arm               // report Due(Task, Timer) after Wait
	Disarm            // forget that timer
	Done              // the run is over, or nothing can go on without an answer: Result
)

// Timer tells a task's timers apart.
type Timer uint8

// The timers.
const (
	Timeout Timer = iota // the task's whole time
	Grace                // what is left to those that run when a body or a foreach has failed
)

// Command is one thing for the driver to do. Which fields are set, Op says.
type Command struct {
	Op    Op
	Task  *Task
	Input any
	Timer Timer
	Wait  time.Duration
	Err   error
	Again bool // of Start: the call was suspended, and has been answered
}

// Options are the bounds of a run.
type Options struct {
	MaxParallel  int           // calls at once; at least 1
	MaxItems     int           // of a foreach without a bound of its own
	WallTime     time.Duration // of the whole run; 0: none
	WallTimeName string        // what that bound is called
	Grace        time.Duration
	MaxTasks     int                   // steps and items, those of bodies each time
	MaxOutput    int                   // bytes of one output or input, as JSON
	MaxOutputs   int                   // bytes of all that the run keeps: outputs, items, inputs of files
	Run          func() map[string]any // makes what expressions see as run; asked once at most
}

// Result is how a run ended.
type Result struct {
	Status  Status // Succeeded, Failed, Cancelled, or Waiting: every task that goes on waits
	Output  any
	Failure *Failure
}

// Machine is the state of one run. It is not safe for concurrent use: one goroutine owns it.
type Machine struct {
	opts Options
	run  map[string]any // nil: nothing has asked for it yet

	root    *frame
	ready   queue     // all needs settled, nothing decided yet
	waiting queue     // calls that wait for a slot
	calls   []*Task   // that are under way
	paused  []*Task   // that wait, in the order in which they began to
	kept    int       // of them, those that the driver ends soon by itself
	began   int64     // tasks begun so far
	decided int64     // what Next decided so far
	now     time.Time // see Tell
	armed   int       // timers that have neither come due nor been disarmed

	size    int // of all that the run keeps so far
	largest int // of a value that expressions can name, so far
	tasks   int // steps and items so far

	out  []Command // to be handed out, from head on
	head int

	result *Result
}

// New makes the machine of one run of g. inputs are what the recipe's expressions see; nobody may
// change them any more.
func New(g *Graph, inputs map[string]any, opts Options) *Machine {
	m := &Machine{root: new(frame), opts: opts, tasks: len(g.Nodes)}
	m.largest, _ = value.Size(inputs, opts.MaxOutput)
	m.fill(m.root, g, nil, inputs)
	if opts.WallTime > 0 {
		m.arm(&m.root.self, Timeout, opts.WallTime)
	}
	if m.root.left == 0 {
		m.closeFrame(m.root)
	}
	return m
}

// Next returns the next thing to do; Op None when nothing is left to do until an event.
//
//  1. hand out what earlier work asked for
//  2. decide the first ready step: skip it, run it, or let it wait for a slot
//  3. give a free slot to the first waiting call
func (m *Machine) Next() Command {
	for {
		if m.head < len(m.out) {
			c := m.out[m.head]
			m.out[m.head] = Command{}
			m.head++
			return c
		}
		m.out, m.head = m.out[:0], 0
		switch {
		case m.result != nil:
			return Command{}
		case len(m.waiting) > 0 && len(m.calls) < m.opts.MaxParallel && (len(m.ready) == 0 || before(m.waiting[0], m.ready[0])):
			m.decided++
			m.begin(m.waiting.pop())
		case len(m.ready) > 0:
			m.decided++
			m.decide(m.ready.pop())
		case len(m.paused) > 0 && len(m.calls) == 0 && m.kept == 0:
			if m.openReceives() {
				m.decided++
				continue
			}
			m.result = &Result{Status: Waiting}
			m.out = append(m.out, Command{Op: Done})
		default:
			return Command{}
		}
	}
}

// Decided counts what Next has decided so far. A machine that was told the same events, each at the
// same count, is in the same state.
func (m *Machine) Decided() int64 { return m.decided }

// Queued reports whether Next has something to hand out that it decided before.
func (m *Machine) Queued() bool { return m.head < len(m.out) }

// Give ends a call that waits for a slot with an output that is known already; it is false when no
// call of that path does.
func (m *Machine) Give(path string, output any) bool {
	i := slices.IndexFunc(m.waiting, func(t *Task) bool { return t.Path() == path && !t.again })
	if i < 0 {
		return false
	}
	t := m.waiting[i]
	rest := slices.Delete(slices.Clone(m.waiting), i, i+1)
	m.waiting = nil
	for _, other := range rest {
		m.waiting.push(other)
	}
	m.start(t)
	m.end(t, output, Unknown, nil)
	return true
}

// Suspend reports that the call of t waits for an answer.
func (m *Machine) Suspend(t *Task) {
	if i := slices.Index(m.calls, t); i >= 0 {
		m.calls = slices.Delete(m.calls, i, i+1)
		if t.stopped || t.timeout { // nobody is going to answer
			m.end(t, nil, Unknown, &Failure{Category: "cancelled", Code: "step.cancelled", Err: errCancelled})
			return
		}
		m.disarm(t)
		m.wait(t)
	}
}

// wait puts t to those that wait.
func (m *Machine) wait(t *Task) {
	t.status = Waiting
	m.paused = append(m.paused, t)
	if t.item >= 0 { // another item may have its place
		t.whole().each.active--
		m.feed(t.whole())
	}
	if t.useless() {
		m.abandon(t, errCancelled)
	}
}

// Keep says that the driver will answer t soon by itself: the run goes on until then.
func (m *Machine) Keep(t *Task) {
	if t.status == Waiting && !t.kept {
		t.kept = true
		m.kept++
	}
}

// Answer ends the waiting of t: with an output of any size, or a failure.
func (m *Machine) Answer(t *Task, output any, failure *Failure) {
	if m.resume(t) {
		m.end(t, output, Unknown, failure)
	}
}

// Again ends the waiting of t by calling its adapter once more.
func (m *Machine) Again(t *Task) {
	if m.resume(t) {
		t.again = true
		m.waiting.push(t)
	}
}

// resume takes t from those that wait; it is false for any other task.
func (m *Machine) resume(t *Task) bool {
	i := slices.Index(m.paused, t)
	if i < 0 {
		return false
	}
	m.paused = slices.Delete(m.paused, i, i+1)
	if t.item >= 0 {
		t.whole().each.active++
	}
	if m.result != nil && m.result.Status == Waiting {
		m.result = nil
	}
	if t.kept {
		t.kept = false
		m.kept--
	}
	if t.receiving {
		t.channel().leave(t)
	}
	t.status = Running
	return true
}

// abandon cancels what waits in owner: nobody is going to answer.
func (m *Machine) abandon(owner *Task, cause error) {
	m.abandonIf(func(t *Task) bool { return t.within(owner) }, cause)
}

func (m *Machine) abandonIf(inside func(*Task) bool, cause error) {
	for _, t := range slices.Clone(m.paused) {
		if inside(t) && m.resume(t) {
			m.end(t, nil, Unknown, &Failure{Category: "cancelled", Code: "step.cancelled", Err: cause})
		}
	}
}

// Paused returns the tasks that wait, in the order in which they began to.
func (m *Machine) Paused() []*Task { return slices.Clone(m.paused) }

// Unknown is the size of a value that nobody has measured.
const Unknown = -1

// Finish reports how the call of t ended: with an output of so many bytes, as value.Size counts
// them up to Options.MaxOutput, or a failure.
func (m *Machine) Finish(t *Task, output any, size int, failure *Failure) {
	i := slices.Index(m.calls, t)
	if i < 0 {
		return
	}
	last := len(m.calls) - 1 // most often the only one
	copy(m.calls[i:], m.calls[i+1:])
	m.calls[last] = nil
	m.calls = m.calls[:last]
	m.end(t, output, size, failure)
}

// Due reports that a timer of t has come due. A timer that was disarmed meanwhile is ignored.
func (m *Machine) Due(t *Task, timer Timer) {
	if t.armed&(1<<timer) == 0 {
		return
	}
	m.armed--
	t.armed &^= 1 << timer
	if timer == Grace {
		m.stopOlder(t)
		return
	}
	if t.stopped || t.cancelled() {
		return // it is ending already, for another reason
	}
	if t.receiving {
		m.Answer(t, nil, t.ReceiveTimeout())
		return
	}
	t.timeout = true
	if t.node < 0 {
		m.cancelFrame(t.frame)
	} else {
		m.cancelBodies(t)
	}
	m.stop(t, m.timeoutError(t))
}

// Cancel ends the run early because of cause: nothing starts any more, calls are told to stop.
func (m *Machine) Cancel(cause error) {
	self := &m.root.self
	if m.result != nil && m.result.Status != Waiting || self.failure != nil {
		return
	}
	self.failure = &Failure{Category: "cancelled", Code: "run.cancelled", Err: cause}
	m.cancelFrame(m.root)
	m.stop(self, cause)
}

// Calls returns the calls that are under way.
func (m *Machine) Calls() []*Task { return slices.Clone(m.calls) }

// Result returns how the run ended; nil while it goes on.
func (m *Machine) Result() *Result { return m.result }

// Others returns the failures that neither decided the run's error nor were handled, in plan order.
func (m *Machine) Others() []*Failure {
	var list []*Failure
	seen := map[*Failure]bool{}
	m.root.unhandled(func(failure *Failure) {
		if decided := m.result.Failure; !seen[failure] && failure != decided && (decided == nil || failure.Path != decided.Path) && failure.Category != "cancelled" {
			list = append(list, failure)
		}
		seen[failure] = true
	})
	return list
}

// unhandled visits the failures in a body that no on_error handled. Those that a composite or a
// foreach has from inside come once more for it, before.
func (f *frame) unhandled(visit func(*Failure)) {
	for _, n := range f.graph.Order {
		if t := &f.steps[n].Task; t.status != Failed || !t.Node().OnError.Continue {
			t.unhandled(visit)
		}
	}
}

func (t *Task) unhandled(visit func(*Failure)) {
	if t.failure == nil {
		return
	}
	visit(t.failure)
	for _, body := range t.bodies() {
		body.unhandled(visit)
	}
	if items := t.items(); items != nil && !t.Node().Foreach.Collect {
		for i := range items {
			items[i].unhandled(visit)
		}
	}
}

// Artefact returns the outputs of the run's succeeded steps by id.
func (m *Machine) Artefact() map[string]any {
	artefact := make(map[string]any, len(m.root.steps))
	for i := range m.root.steps {
		if s := &m.root.steps[i]; s.status == Succeeded {
			artefact[m.root.graph.Nodes[i].ID] = s.output
		}
	}
	return artefact
}

// Undo returns the tasks that have succeeded and can be undone, in the order in which to do so: reverse
// plan order, a step before what is in its body. Of a foreach they are its items.
func (m *Machine) Undo() []*Task {
	var list []*Task
	m.Walk(func(*Task) {}, func(t *Task) {
		if n := t.Node(); n.Rollback != nil && t.status == Succeeded && (t.item >= 0 || n.Foreach == nil) {
			list = append(list, t)
		}
	})
	slices.Reverse(list)
	return list
}

// Walk visits every task in plan order, bodies in place: enter before what is inside, leave after.
func (m *Machine) Walk(enter, leave func(*Task)) { m.root.walk(enter, leave) }

func (f *frame) walk(enter, leave func(*Task)) {
	for _, n := range f.graph.Order {
		t := &f.steps[n].Task
		enter(t)
		items := t.items()
		for i := range items {
			item := &items[i]
			enter(item)
			for _, body := range item.bodies() {
				body.walk(enter, leave)
			}
			leave(item)
		}
		for _, body := range t.bodies() {
			body.walk(enter, leave)
		}
		leave(t)
	}
}

func (m *Machine) emit(op Op, t *Task) {
	m.out = append(m.out, Command{})
	c := &m.out[len(m.out)-1]
	c.Op, c.Task = op, t
}

func (m *Machine) arm(t *Task, timer Timer, wait time.Duration) {
	m.armed++
	t.armed |= 1 << timer
	m.out = append(m.out, Command{Op: Arm, Task: t, Timer: timer, Wait: wait})
}

// disarm forgets the timers of a task that has ended.
func (m *Machine) disarm(t *Task) {
	for timer := Timeout; timer <= Grace; timer++ {
		if t.armed&(1<<timer) != 0 {
			m.armed--
			t.armed &^= 1 << timer
			m.out = append(m.out, Command{Op: Disarm, Task: t, Timer: timer})
		}
	}
}

// open makes the frame of one execution of g and finds its first steps.
func (m *Machine) open(g *Graph, parent *Task, inputs map[string]any) *frame {
	f := new(frame)
	m.fill(f, g, parent, inputs)
	return f
}

// fill is open for a frame that has nothing but room for steps.
func (m *Machine) fill(f *frame, g *Graph, parent *Task, inputs map[string]any) {
	f.graph, f.parent, f.inputs, f.m, f.left = g, parent, inputs, m, len(g.Nodes)
	f.self = Task{frame: f, node: -1, item: -1}
	if parent != nil {
		f.depth = parent.frame.depth + 1
	}
	f.openChannels()
	if len(f.steps) != len(g.Nodes) {
		f.steps = make([]step, len(g.Nodes))
	}
	for i := range f.steps {
		s := &f.steps[i]
		s.frame, s.node, s.item, s.waits = f, int32(i), -1, g.Preds[i]
		if s.waits == 0 {
			m.ready.push(&s.Task)
		}
	}
}

// decide settles what a ready task does, in the order of recipe-format.md 4: trigger, when,
// foreach, run. Items come here when it is their turn.
func (m *Machine) decide(t *Task) {
	n := t.Node()
	if t.item < 0 && !t.frame.cancelled && !t.frame.steps[t.node].holds(n.Trigger) {
		m.skip(t, SkippedUpstream)
		return
	}
	if t.barred() {
		m.drop(t)
		return
	}
	if t.item < 0 {
		if n.When != nil {
			yes, err := n.When.Bool(t)
			if err != nil {
				m.start(t)
				m.end(t, nil, Unknown, exprFailure(err))
				return
			}
			if !yes {
				m.skip(t, SkippedWhen)
				return
			}
		}
		if n.Foreach != nil {
			m.openForeach(t)
			return
		}
	}
	if n.Kind == Call {
		m.waiting.push(t)
		return
	}
	m.begin(t)
}

// barred reports whether a task that has not begun must not begin: its body was cancelled; a step
// of the body failed, and this one does not run all the same; or an item of its foreach failed.
func (t *Task) barred() bool {
	f := t.frame
	if f.cancelled {
		return true
	}
	if t.item < 0 {
		return f.failedAt > 0 && t.Node().Trigger != AllDone
	}
	whole := t.whole()
	return whole.each.failedAt > 0 || f.failedAt > 0 && whole.began <= f.failedAt
}

// useless reports whether something that a task stands in was cancelled, or failed after the task had begun.
func (t *Task) useless() bool {
	for ; t != nil; t = t.frame.parent {
		s, f := t, t.frame
		if t.item >= 0 {
			s = t.whole()
		}
		if f.cancelled || f.failedAt > 0 && s.began <= f.failedAt || s != t && s.each.failedAt > 0 {
			return true
		}
	}
	return false
}

// drop gives a barred task its end.
func (m *Machine) drop(t *Task) {
	t.status = Cancelled
	if t.item < 0 {
		m.settle(t)
		return
	}
	m.endItem(t)
}

// holds reports whether a trigger lets a step run, all its needs being settled.
func (s *step) holds(trigger Trigger) bool {
	needs := s.frame.graph.Preds[s.node]
	switch trigger {
	case AllDone:
		return true
	case NoneFailed:
		return s.failed == 0 && s.skippedUpstream == 0
	case AnySuccess:
		return needs == 0 || s.failed+s.skippedWhen+s.skippedUpstream < needs
	}
	return s.failed+s.skippedWhen+s.skippedUpstream == 0
}

// start marks a task as running.
func (m *Machine) start(t *Task) {
	m.began++
	t.began, t.status = m.began, Running
	m.emit(Began, t)
}

// begin runs a task that may run now.
func (m *Machine) begin(t *Task) {
	n, again := t.Node(), t.again
	switch {
	case again && (t.stopped || t.frame.cancelled):
		m.end(t, nil, Unknown, &Failure{Category: "cancelled", Code: "step.cancelled", Err: errCancelled})
		return
	case again:
		t.again = false
	case t.barred():
		m.drop(t)
		return
	default:
		m.start(t)
	}
	var input any
	if n.With != nil {
		var err error
		if input, err = n.With.Eval(t); err != nil {
			m.end(t, nil, Unknown, exprFailure(err))
			return
		}
	}
	switch n.Kind {
	case Set:
		m.end(t, input, Unknown, nil)
	case Fail:
		failure := m.weigh("message", input, Unknown)
		if failure == nil {
			failure = failOnPurpose(input)
		}
		m.end(t, nil, Unknown, failure)
	case Sub, Again, Choice, Many:
		m.openControl(t, input)
	case Send:
		m.send(t, input)
	case Receive:
		m.receive(t)
	case Call, Wait:
		if n.Paths < 0 || n.Fixed+2*n.Paths*m.largest > m.opts.MaxOutput {
			if _, failure := m.measure("input", input, Unknown, m.opts.MaxOutput); failure != nil {
				m.end(t, nil, Unknown, failure)
				return
			}
		}
		if n.Kind == Wait {
			m.out = append(m.out, Command{Op: Open, Task: t, Input: input})
			m.wait(t)
			return
		}
		m.calls = append(m.calls, t)
		if n.Timeout > 0 {
			m.arm(t, Timeout, n.Timeout)
		}
		m.out = append(m.out, Command{Op: Start, Task: t, Input: input, Again: again})
	}
}

// failOnPurpose is the failure of a Fail node, whose input is {message, code}. Its category is that
// of tools, which keeps the code, the author's own, apart from those of the engine.
func failOnPurpose(input any) *Failure {
	fields, _ := input.(map[string]any)
	message, err := value.Text(fields["message"])
	code, _ := fields["code"].(string)
	if err != nil || message == "" {
		message = "the recipe failed on purpose"
	}
	if code == "" {
		code = "fail"
	}
	return &Failure{Category: "tool", Code: code, Err: errors.New(message)}
}

func (m *Machine) openForeach(t *Task) {
	f := t.Node().Foreach
	m.start(t)
	in, err := f.In.Eval(t)
	if err != nil {
		m.end(t, nil, Unknown, exprFailure(err))
		return
	}
	items, ok := in.([]any)
	limit := f.MaxItems
	if limit == 0 {
		limit = m.opts.MaxItems
	}
	switch {
	case !ok:
		err := fmt.Errorf("%s: foreach needs a list, not %s", f.Where, value.TypeName(in))
		m.end(t, nil, Unknown, &Failure{Category: "config", Code: "foreach.notList", Err: err})
		return
	case len(items) > limit:
		err := fmt.Errorf("%s: foreach over %d items, max_items is %d", f.Where, len(items), limit)
		m.end(t, nil, Unknown, &Failure{Category: "limit", Code: "foreach.maxItems", Err: err})
		return
	}
	failure := m.count(len(items))
	if failure == nil {
		failure = m.weigh("list of items", in, Unknown)
	}
	if failure != nil {
		m.end(t, nil, Unknown, failure)
		return
	}
	t.each = &each{items: make([]Task, len(items))}
	for i, item := range items {
		t.each.items[i] = Task{frame: t.frame, node: t.node, item: int32(i), value: item}
	}
	m.feed(t)
}

// feed starts the next items of a foreach, as many as may run at once, and ends it after the last.
func (m *Machine) feed(t *Task) {
	limit := t.Node().Foreach.MaxParallel
	e := t.each
	for e.next < len(e.items) && (limit == 0 || e.active < limit || e.items[e.next].barred()) {
		item := &e.items[e.next]
		e.next++
		if item.barred() {
			item.status = Cancelled
			e.done++
			continue
		}
		e.active++
		m.ready.push(item)
	}
	if e.done == len(e.items) {
		m.closeForeach(t)
	}
}

// closeForeach gathers the items' outputs in item order. The first failed item decides the error;
// items that were cancelled decide it only if none failed.
func (m *Machine) closeForeach(t *Task) {
	items := t.each.items
	outputs := make([]any, len(items))
	collect := t.Node().Foreach.Collect
	var failures failures
	for i := range items {
		item := &items[i]
		switch {
		case !collect && item.status == Succeeded:
			outputs[i] = item.output
		case !collect || t.frame.cancelled && item.status == Cancelled:
			failures.add(item)
		case item.status == Succeeded:
			outputs[i] = map[string]any{"status": "succeeded", "output": item.output}
		default:
			outputs[i] = map[string]any{"status": item.status.String(), "error": item.failure.Value()}
		}
	}
	m.end(t, outputs, Unknown, failures.first())
}

// failures gathers what went wrong in one body or foreach: the first failure in plan order, and the
// first end that is none of its own.
type failures struct {
	failed, cancelled *Failure
}

func (fs *failures) add(t *Task) {
	switch {
	case t.status == Failed && fs.failed == nil:
		fs.failed = t.failure
	case t.status == Cancelled && fs.cancelled == nil:
		if fs.cancelled = t.failure; t.failure == nil { // cancelled before it began
			fs.cancelled = &Failure{Category: "cancelled", Code: "step.cancelled", Path: t.Path(), Err: errCancelled}
		}
	}
}

// first returns the failure that decides; nil for none.
func (fs *failures) first() *Failure {
	if fs.failed != nil {
		return fs.failed
	}
	return fs.cancelled
}

var errCancelled = errors.New("cancelled before it ended")

// end gives a running task its end. An item tells its foreach; a step's failure goes through its
// on_error, then its dependants learn of it. It reports whether output has become the task's.
func (m *Machine) end(t *Task, output any, size int, failure *Failure) (taken bool) {
	n := t.Node()
	m.disarm(t)
	whole := t.item < 0 && n.Foreach != nil // timeout and output are for each item
	switch {
	case t.timeout && n.WallTime:
		failure = &Failure{Category: "limit", Code: "limits.wall_time", Err: m.timeoutError(t)}
	case t.timeout:
		failure = &Failure{Category: "infra", Code: "step.timeout", Err: m.timeoutError(t)}
	case failure != nil && t.stopped:
		failure = &Failure{Category: "cancelled", Code: "step.cancelled", Err: failure.Err}
	}
	before := m.size
	if failure == nil {
		failure = m.weigh("output", output, size) // before anybody looks through it
	}
	if failure == nil && n.Accept != nil && n.Kind != Call && !whole {
		if err := n.Accept(output); err != nil {
			failure, m.size = &Failure{Category: "config", Code: "output.invalid", Err: err}, before
		}
	}
	taken = failure == nil
	if failure != nil && t.item < 0 && n.OnError.Set != nil && failure.Category != "cancelled" {
		set, err := n.OnError.Set.Eval(t)
		if err != nil {
			failure = exprFailure(fmt.Errorf("%w; on_error was for: %w", err, failure.Err))
		} else {
			output, failure = set, m.weigh("output", set, Unknown)
		}
	}
	t.output, t.status = output, Succeeded
	if failure != nil {
		if failure.Path == "" {
			failure.Path = t.Path()
		}
		t.output, t.failure, t.status = nil, failure, Failed
		if failure.Category == "cancelled" {
			t.status = Cancelled
		}
	}
	m.emit(Ended, t)
	if t.item >= 0 {
		m.endItem(t)
		return taken
	}
	if failure != nil && !n.OnError.Continue && t.frame.failedAt == 0 {
		t.frame.failedAt = m.began
		m.abandon(&t.frame.self, errCancelled)
		m.grace(&t.frame.self)
	}
	m.settle(t)
	return taken
}

// weigh refuses a value that is too large, or makes all that the run keeps too large together.
// Values share what they are made of, so that few bytes of memory can be very many of JSON: a
// chain of steps that each give [x, x] of the step before.
func (m *Machine) weigh(what string, v any, size int) *Failure {
	size, failure := m.measure(what, v, size, min(m.opts.MaxOutput, m.opts.MaxOutputs-m.size))
	if failure == nil {
		m.size += size
		m.largest = max(m.largest, size)
	}
	return failure
}

// measure returns the size of a value, unless it is known already; it is not over limit. A limit under that of a single
// value is what is left for all.
func (m *Machine) measure(what string, v any, size, limit int) (int, *Failure) {
	var err error
	if size == Unknown {
		size, err = value.Size(v, limit)
	}
	switch {
	case err != nil:
		return 0, &Failure{Category: "config", Code: "output.invalid", Err: fmt.Errorf("the %s is not JSON: %w", what, err)}
	case size <= limit:
		return size, nil
	case limit < m.opts.MaxOutput:
		return 0, &Failure{Category: "limit", Code: "outputs.tooLarge", Err: fmt.Errorf("the outputs of this run's steps have more than %d bytes together", m.opts.MaxOutputs)}
	}
	return 0, &Failure{Category: "limit", Code: "output.tooLarge", Err: fmt.Errorf("the %s has more than %d bytes", what, m.opts.MaxOutput)}
}

// count refuses a body or a foreach that makes the run's steps too many.
func (m *Machine) count(n int) *Failure {
	if m.tasks+n > m.opts.MaxTasks {
		return &Failure{Category: "limit", Code: "steps.tooMany", Err: fmt.Errorf("the run has more than %d steps and items", m.opts.MaxTasks)}
	}
	m.tasks += n
	return nil
}

// endItem tells a foreach that an item has ended, or will not begin.
func (m *Machine) endItem(t *Task) {
	whole := t.whole()
	if t.failure != nil && !whole.Node().Foreach.Collect && whole.each.failedAt == 0 {
		whole.each.failedAt = m.began
		m.abandon(whole, errCancelled)
		m.grace(whole)
	}
	whole.each.active--
	whole.each.done++
	m.feed(whole)
}

// grace gives what goes on a bounded time, where a failure makes its result useless.
func (m *Machine) grace(t *Task) {
	if len(m.calls)+len(m.waiting)+len(m.ready) > 0 {
		m.arm(t, Grace, m.opts.Grace)
	}
}

func (m *Machine) skip(t *Task, status Status) {
	t.status = status
	m.emit(Skipped, t)
	m.settle(t)
}

// settle tells the dependants of a step how it ended, and ends the body after its last step.
func (m *Machine) settle(t *Task) {
	f := t.frame
	for _, n := range f.graph.Succ[t.node] {
		s := &f.steps[n]
		switch t.status {
		case Failed, Cancelled:
			s.failed++
		case SkippedWhen:
			s.skippedWhen++
		case SkippedUpstream:
			s.skippedUpstream++
		}
		if s.waits--; s.waits == 0 {
			m.ready.push(&s.Task)
		}
	}
	if f.left--; f.left == 0 {
		m.closeFrame(f)
	}
}

// closeFrame ends a body: its first failure in plan order, or its output, goes to the step that
// owns it, or is the run's result.
func (m *Machine) closeFrame(f *frame) {
	var failures failures
	for _, n := range f.graph.Order {
		t := &f.steps[n].Task
		if t.status == Cancelled || t.status == Failed && !t.Node().OnError.Continue {
			failures.add(t)
		}
	}
	failure := failures.first()
	var output any
	if failure == nil && f.graph.Output != nil {
		var err error
		if output, err = f.graph.Output.Eval(&f.self); err != nil {
			failure = exprFailure(err)
		} else if f.parent == nil {
			failure = m.weigh("output", output, Unknown)
		}
	}
	m.disarm(&f.self)
	if f.parent != nil {
		m.closeBranch(f.parent, f.index, output, failure)
		return
	}
	result := &Result{Status: Succeeded, Output: output}
	switch {
	case f.self.failure != nil:
		result = &Result{Status: Cancelled, Failure: f.self.failure}
	case f.self.timeout:
		result = &Result{Status: Failed, Failure: &Failure{Category: "limit", Code: "limits.wall_time", Err: m.timeoutError(&f.self)}}
	case failure != nil:
		result = &Result{Status: Failed, Failure: failure}
	}
	m.result = result
	m.out = append(m.out, Command{Op: Done})
}

// cancelFrame lets nothing more begin in a body and in the bodies inside.
func (m *Machine) cancelFrame(f *frame) {
	f.cancelled = true
	for i := range f.steps {
		m.cancelBodies(&f.steps[i].Task)
	}
}

func (m *Machine) cancelBodies(t *Task) {
	if t.status == Running {
		for _, body := range t.bodies() {
			m.cancelFrame(body)
		}
		if t.ctl != nil {
			t.ctl.over = true
		}
	}
	items := t.items()
	for i := range items {
		m.cancelBodies(&items[i])
	}
}

// stop tells the calls that belong to owner to stop.
func (m *Machine) stop(owner *Task, cause error) {
	for _, c := range m.calls {
		if !c.stopped && c.within(owner) {
			c.stopped = true
			m.out = append(m.out, Command{Op: Stop, Task: c, Err: cause})
		}
	}
	for _, c := range m.waiting { // what has been answered does not start again
		c.stopped = c.stopped || c.again && c.within(owner)
	}
	m.abandon(owner, cause)
}

// stopOlder ends the grace of what began before the failure in t's body, or in t's foreach. Steps
// that run in spite of the failure go on.
func (m *Machine) stopOlder(t *Task) {
	if t.node >= 0 {
		m.cancelBodies(t)
		m.stop(t, errGrace)
		return
	}
	f := t.frame
	for i := range f.steps {
		if s := &f.steps[i].Task; s.status == Running && s.began <= f.failedAt {
			m.cancelBodies(s)
			m.stop(s, errGrace)
		}
	}
}

var errGrace = errors.New("cancelled: another step failed and the grace period is over")

func (m *Machine) timeoutError(t *Task) error {
	if t.node < 0 {
		return fmt.Errorf("the run timed out: %s is %v", m.opts.WallTimeName, m.opts.WallTime)
	}
	what := "timeout"
	if t.Node().WallTime {
		what = "limits.wall_time"
	}
	return fmt.Errorf("step %q timed out: its %s is %v", t.Path(), what, t.Node().Timeout)
}

func exprFailure(err error) *Failure {
	return &Failure{Category: "config", Code: "expr.failed", Err: err}
}
