package machine

import "slices"

// Result returns how the run ended; nil while it continues.
func (m *Machine) Result() *Result { return m.result }

// Others returns the failures that neither decided the run's error nor were handled, in plan order.
func (m *Machine) Others() []*Failure {
	var list []*Failure
	seen := map[*Failure]bool{}
	result := m.result
	if m.last.result != nil { // its finally waits
		result = m.last.result
	}
	m.root.unhandled(func(failure *Failure) {
		if decided := result.Failure; !seen[failure] && failure != decided &&
			(decided == nil || failure.Path != decided.Path) && failure.Category != "cancelled" {
			list = append(list, failure)
		}
		seen[failure] = true
	})
	return list
}

// unhandled visits the failures in a body that no on_error handled. A failure inside a composite or
// a foreach is visited first for the composite or foreach too.
func (f *frame) unhandled(visit func(*Failure)) {
	for _, n := range f.graph.Order {
		if t := &f.steps[n].Task; t.status != Failed || !t.handled {
			t.unhandled(visit)
		}
	}
}

func (t *Task) unhandled(visit func(*Failure)) {
	if t.failure == nil {
		return
	}
	visit(t.failure)
	if t.Node().Kind != Call { // it has dealt with those inside
		for _, body := range t.bodies() {
			body.unhandled(visit)
		}
	}
	if items := t.Items(); items != nil && !t.Node().Foreach.Collect {
		for i := range items {
			items[i].unhandled(visit)
		}
	}
}

// Artefact returns the outputs of the run's succeeded steps by id.
func (m *Machine) Artefact() map[string]any {
	artefact := make(map[string]any, len(m.root.steps))
	for _, f := range m.rootFrames() {
		for i := range f.steps {
			if s := &f.steps[i]; s.status == Succeeded {
				artefact[f.graph.Nodes[i].ID] = s.output
			}
		}
	}
	return artefact
}

// Undo returns the tasks that have succeeded and can be undone, in the order in which to do so: reverse
// plan order, a step before what is in its body. Of a foreach they are its items.
func (m *Machine) Undo() []*Task {
	var list []*Task
	m.Walk(func(*Task) {}, func(t *Task) {
		if n := t.Node(); n.Rollback != nil && t.status == Succeeded && (t.item >= 0 || n.Foreach == nil) &&
			!t.InFinally() {
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
		items := t.Items()
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
	if f.final != nil {
		f.final.walk(enter, leave)
	}
}
