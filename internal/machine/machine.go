package machine

import (
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
	Done              // the run is over, or nothing can continue without an answer: Result
	Closed            // a body that was opened inside the call of Task has ended, see Inside
)

// Timer tells a task's timers apart.
type Timer uint8

// The timers.
const (
	Timeout Timer = iota // the task's whole time
	Grace                // the time left to running tasks after a body or a foreach has failed
)

// Command is one thing for the driver to do. Which fields are set, Op says.
type Command struct {
	Op    Op
	Timer Timer
	Again bool // of Start: the call was suspended, and has been answered
	Task  *Task
	Input any
	Wait  time.Duration
	Err   error
}

// Options are the limits of a run.
type Options struct {
	MaxParallel  int           // calls at once; at least 1
	MaxItems     int           // of a foreach without its own limit
	WallTime     time.Duration // of the whole run; 0: none
	WallTimeName string        // the name of that limit
	Grace        time.Duration
	MaxTasks     int                   // steps and items; those of bodies count each time
	MaxOutput    int                   // bytes of one output or input, as JSON
	MaxMemory    int                   // bytes that all of that takes, by value.Weight; 0: any
	Errors       bool                  // expressions see all of the error of a step, see [Failure.Value]
	Skips        bool                  // a skip that no failure caused stops no step with NoneFailed
	MaxOutputs   int                   // bytes of all that the run keeps: outputs, items, inputs of files
	Run          func() map[string]any // makes what expressions see as run; called at most once
	// Told is what expressions see as finish, usage and calls of a task's step; nil: all are null.
	Told func(t *Task, what string) any
	// Denies is called when a task has begun and before it runs: the failure with which it ends instead; nil: it runs.
	// If Denies is nil, all tasks run.
	Denies func(t *Task) *Failure
	// Breaks says of a task that would begin now whether it waits first, once; nil: none does.
	Breaks func(t *Task) bool
}

// Result is how a run ended.
type Result struct {
	Status  Status // Succeeded, Failed, Cancelled, or Waiting: every task that has not ended waits
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
	calls   []*Task   // in progress
	lent    []*Task   // likewise, without a slot: see Enter
	paused  []*Task   // that wait, in the order in which they began to wait
	kept    int       // number of paused that the driver ends soon by itself
	began   int64     // tasks begun so far
	decided int64     // what Next decided so far
	now     time.Time // see Tell
	armed   int       // timers that have neither come due nor been disarmed

	sizes

	out  []Command // to be handed out, from head on
	head int

	result *Result
	last   last
}

// sizes are how much the run keeps so far.
type sizes struct {
	size    int // of all outputs
	memory  int // that it takes
	largest int // of a value that expressions can name
	tasks   int // steps and items
}

// New makes the machine of one run of g. inputs are what the recipe's expressions see; they must
// not be modified.
func New(g *Graph, inputs map[string]any, opts Options) *Machine {
	m := &Machine{root: new(frame), opts: opts, sizes: sizes{tasks: g.size()}}
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

// Next returns the next command; its Op is None if there is nothing to do until an event.
//
//  1. hand out what earlier work asked for
//  2. decide the first ready step: skip it, run it, or let it wait for a slot
//  3. give a free slot to the first waiting call
func (m *Machine) Next() Command {
	for {
		if m.head < len(m.out) {
			o := &m.out[m.head]
			m.head++
			c := *o
			o.Input = nil // it may be large
			return c
		}
		m.out, m.head = m.out[:0], 0
		switch {
		case m.result != nil:
			return Command{}
		case len(m.waiting) > 0 && len(m.calls) < m.opts.MaxParallel &&
			(len(m.ready) == 0 || before(m.waiting[0], m.ready[0])):
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

// MaxParallel returns the maximum number of concurrent calls.
func (m *Machine) MaxParallel() int { return m.opts.MaxParallel }

// SetMaxParallel changes that number, from the next decision on. n is at least 1.
func (m *Machine) SetMaxParallel(n int) { m.opts.MaxParallel = n }

// SetLimits changes what of Options limits the sizes of the run, from the next decision on.
func (m *Machine) SetLimits(items, tasks, output, outputs int) {
	m.opts.MaxItems, m.opts.MaxTasks = items, tasks
	m.opts.MaxOutput, m.opts.MaxOutputs, m.opts.MaxMemory = output, outputs, outputs
}

// Decided counts what Next has decided so far. A machine that was told the same events, each at the
// same count, is in the same state.
func (m *Machine) Decided() int64 { return m.decided }

// Room is how many bytes the run may keep beside what it keeps already.
func (m *Machine) Room() int {
	left := m.opts.MaxOutputs - m.size
	if most := m.opts.MaxMemory; most > 0 {
		left = min(left, most-m.memory)
	}
	return left
}

// Queued reports whether Next has something to hand out that it decided before.
func (m *Machine) Queued() bool { return m.head < len(m.out) }

// unknown is the extent of a value that has not been measured.
var unknown value.Extent

// Finish reports how the call of t ended: with an output of this extent, measured up to Options.MaxOutput, or
// a failure.
func (m *Machine) Finish(t *Task, output any, extent value.Extent, failure *Failure) {
	if m.leaves(t) {
		m.end(t, output, extent, failure)
	}
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

// Calls returns the calls in progress.
func (m *Machine) Calls() []*Task { return slices.Concat(m.calls, m.lent) }

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
