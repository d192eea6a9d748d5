package machine

import (
	"fmt"

	"github.com/braise-run/braise/internal/value"
)

func (m *Machine) openForeach(t *Task) {
	f := t.Node().Foreach
	if !m.admit(t) {
		return
	}
	in, err := f.In.Eval(t)
	if err != nil {
		m.end(t, nil, unknown, exprFailure(err))
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
		m.end(t, nil, unknown, &Failure{Category: "config", Code: "foreach.notList", Err: err})
		return
	case len(items) > limit:
		err := fmt.Errorf("%s: foreach over %d items, max_items is %d", f.Where, len(items), limit)
		m.end(t, nil, unknown, &Failure{Category: "limit", Code: "foreach.maxItems", Err: err})
		return
	}
	failure := m.count(len(items))
	if failure == nil {
		failure = m.weigh("list of items", in, unknown)
	}
	if failure != nil {
		m.end(t, nil, unknown, failure)
		return
	}
	t.each = &each{items: make([]Task, len(items))}
	for i, item := range items {
		t.each.items[i] = Task{frame: t.frame, node: t.node, item: int32(i), value: item}
	}
	m.feed(t)
}

// feed starts the next items of a foreach, up to its limit, and ends the foreach after the last.
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

// closeForeach gathers the items' outputs in item order. The first failed item decides the error; items that were
// cancelled decide it only if none failed.
func (m *Machine) closeForeach(t *Task) {
	items, collect := t.each.items, t.Node().Foreach.Collect
	outputs := make([]any, len(items))
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
	m.end(t, outputs, unknown, failures.first())
}

// failures collects the failures in one body or foreach: the first failure in plan order, and the
// first cancelled task.
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

// endItem reports to a foreach that an item has ended, or will not begin.
func (m *Machine) endItem(t *Task) {
	whole := t.whole()
	if t.failure != nil && !whole.Node().Foreach.Collect && whole.each.overAt == 0 {
		whole.each.overAt = m.began
		m.abandon(whole, errCancelled)
		m.grace(whole)
	}
	whole.each.active--
	whole.each.done++
	m.feed(whole)
}
