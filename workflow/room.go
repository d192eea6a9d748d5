package workflow

import (
	"github.com/braise-run/braise/internal/machine"
)

// room is memory that one run of a workflow after the other may use. None of it is in an outcome.
type room struct {
	machine     *machine.Machine
	next, order []int32 // see events
	entries     []entry // of the journal
	reports     chan report
}

// moveIn takes the room of a run that is over, or a new one.
func (r *run) moveIn() {
	old, _ := r.wf.rooms.Get().(*room)
	if old == nil {
		old = &room{machine: new(machine.Machine), reports: make(chan report, 16)}
		if r.rt.Store == nil {
			old.entries = make([]entry, 0, len(r.wf.graph.Nodes)+1)
		}
	}
	r.room, r.reports = old, old.reports
	r.events.next, r.events.order, r.journal.entries = old.next, old.order, old.entries
}

// moveOut leaves the room to a later run, if nobody else can have anything of it: the run went well, and
// nothing but its driver made calls, which were all of tools. What a worker, a timer or a stream of a
// model has may outlive the run.
func (r *run) moveOut() {
	for _, c := range r.wf.calls {
		if c.kind != toolCall {
			return
		}
	}
	if r.leg != nil || r.m != r.room.machine || r.rt.Store != nil || r.calls != nil || r.timers != nil || r.sleepers != nil || r.slow || r.cancelled ||
		len(r.reports) > 0 || r.m.Result().Status != machine.Succeeded {
		return
	}
	r.m.Clear()
	clear(r.journal.entries)
	r.room.next, r.room.order, r.room.entries = r.events.next, r.events.order, r.journal.entries[:0]
	r.wf.rooms.Put(r.room)
}
