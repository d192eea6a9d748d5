package workflow

import (
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/program"
)

// room is memory that one run of a workflow after the other may use. None of it is in an outcome.
type room struct {
	run         *run // zero
	own         *invocation
	machine     *machine.Machine // zero or cleared
	next, order []int32          // see events
	entries     []journal.Event  // of the journal
	reports     chan report
}

// moveIn returns the room of a run that is over, or a new one.
func (wf *Workflow) moveIn() *room {
	if old, ok := wf.rooms.Get().(*room); ok {
		return old
	}
	return &room{run: new(run), own: new(invocation), machine: new(machine.Machine), reports: make(chan report, 16)}
}

// moveOut leaves the room to a later run, if nobody else can have anything of it: the run went well, and
// nothing but its driver made calls, which were all of tools. What a worker, a timer or a stream of a
// model has may outlive the run. The run itself is left behind where something may still look at it.
func (r *run) moveOut() {
	for _, c := range r.wf.program.Calls {
		if c.Kind != program.ToolCall {
			return
		}
	}
	if r.leg != nil || r.m != r.room.machine || r.rt.Store != nil || r.calls != nil || r.timers != nil || r.sleepers != nil ||
		r.slow || r.cancelled || len(r.reports) > 0 || r.m.Result().Status != machine.Succeeded {
		return
	}
	room, wf := r.room, r.wf
	room.machine.Clear()
	*room.own = invocation{}
	clear(r.journal.entries)
	room.next, room.order, room.entries = r.events.next, r.events.order, r.journal.entries[:0]
	if r.watch != nil || r.policies || r.hooked() {
		room.run = new(run)
	} else {
		*r = run{}
	}
	wf.rooms.Put(room)
}
