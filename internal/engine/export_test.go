package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/value"
)

// Begun is the number of the last call that has begun.
func (r *Run) Begun() int64 { return r.calls.last }

// Inherit gives a run what another one has not saved.
func (r *Run) Inherit(from *Run) { r.unsaved.events = slices.Clone(from.unsaved.events) }

// Blank returns a run of the same program with the same options, which can be told a journal.
func (r *Run) Blank() *Run {
	b := New(r.program, r.o)
	b.prepare(r.inputs)
	b.past.there, b.past.replaying = true, true
	return b
}

// MustDecide reports whether something has to be decided before an event.
func (r *Run) MustDecide(e *journal.Event) bool {
	return e.Ordered() && (r.m.Decided() < e.After || r.m.Queued())
}

// Settle lets the machine of a run that was told a journal decide what a live one would have decided by now.
func (r *Run) Settle() {
	for {
		c := r.m.Next()
		if c.Op == machine.None || c.Op == machine.Done {
			return
		}
		r.replayed(c)
	}
}

// State is what a run has come to, by name: what its events say, times apart. What is under way is not in it. Names
// that begin with a question mark are of what is there only once somebody asks for it.
func (r *Run) State() map[string]string {
	s := state{}
	s.tasks(r)
	s.pauses(r)
	s.agents(r)
	s.budget(r)
	s.put("generation", r.calls.generation)
	s.put("sent", len(r.sent))
	s.put("wasUndone", r.undo.wasUndone)
	s.put("restarts", r.undo.restart != nil)
	s.put("forGood", r.ending.forGood != nil)
	for path, how := range r.undo.rolled {
		s.put("rolled "+path, how)
	}
	for t, n := range r.past.unsure {
		s.put("unsure "+t.Path(), n)
	}
	return s
}

// state is a run's, see [Run.State].
type state map[string]string

func (s state) put(name string, v any) { s[name] = fmt.Sprint(v) }

// json is a value as text.
func (state) json(v any) string {
	text, err := value.JSON(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (s state) tasks(r *Run) {
	r.m.Walk(func(t *machine.Task) {
		text := fmt.Sprint(t.Status(), " ", s.json(t.Output()))
		if f := t.Failure(); f != nil {
			text += fmt.Sprint(" ", f.Category, " ", f.Code, " ", f.Path, " ", f.Err)
		}
		s.put("task "+t.Path(), text)
	}, func(*machine.Task) {})
}

func (s state) pauses(r *Run) {
	for i, p := range r.waits.pauses {
		s.put(fmt.Sprint("pause ", i), fmt.Sprint(p.ID, " ", p.Step, " ", p.Kind, " ", p.Reason, " ", p.Prompt, " ",
			s.json(p.Show), " ", p.task.Path(), " ", p.inAgent, " ", p.again, " ", p.key))
	}
	for path, n := range r.waits.opened {
		s.put("opened "+path, n)
	}
	for t, a := range r.waits.answers {
		if t.Status() != machine.Waiting { // its call may be under way
			continue
		}
		s.put("answer "+t.Path(), fmt.Sprint(s.json(a.Answer), " ", a.To))
	}
	for t, files := range r.waits.files {
		s.put("files "+t.Path(), fmt.Sprintf("%+v", files))
	}
	for t, p := range r.waits.progress {
		if t.Status() != machine.Waiting {
			continue
		}
		s.put("progress "+t.Path(), fmt.Sprintf("%+v", p))
	}
	for key, k := range r.before.Kept {
		s.put(fmt.Sprint("kept ", key), fmt.Sprint(k.Next, " ", s.json(k.Answer), " ", k.Question))
	}
	for key, n := range r.before.Nth {
		s.put(fmt.Sprint("nth ", key), n)
	}
	for key := range r.before.unknown {
		s.put(fmt.Sprint("unknown ", key), true)
	}
}

func (s state) agents(r *Run) {
	for t, a := range r.agents {
		if len(a.events) == 0 {
			continue
		}
		folded, err := agents.Fold(slices.Concat(a.events...))
		s.put("agent "+t.Path(), fmt.Sprintf("%s %v %v %d %v %v",
			s.json(folded), err, a.answers, a.began, a.calls, a.failed))
	}
}

func (s state) budget(r *Run) {
	for scope, a := range r.budget.accounts {
		name := fmt.Sprintf("account %+v", scope)
		if a.used == (journal.Amount{}) {
			name = "?" + name
		}
		s.put(name, fmt.Sprint(a.limit, a.pause, a.used, a.wall))
	}
	flying := r.draws()
	for model, d := range r.drawn {
		made := slices.Clone(d.made)
		for _, n := range flying[model] {
			made[n-1] = false
		}
		if last := slices.Index(reversed(made), true); last >= 0 {
			s.put("drawn "+model, made[:len(made)-last])
		}
	}
}

func reversed(list []bool) []bool {
	list = slices.Clone(list)
	slices.Reverse(list)
	return list
}

// draws are the calls of models that no event has yet.
func (r *Run) draws() map[string][]int {
	list := map[string][]int{}
	add := func(p *pending) {
		list[p.use.Model] = append(list[p.use.Model], p.use.Draws...)
		for _, t := range p.use.Tried {
			list[t.Model] = append(list[t.Model], t.Draws...)
		}
	}
	for _, t := range r.m.Calls() {
		if p, ok := t.Driver.(*pending); ok {
			add(p)
		}
	}
	for _, a := range r.agents {
		if a.call == nil {
			continue
		}
		for _, p := range a.jobs {
			add(p)
		}
		for _, d := range a.unsaid {
			for _, c := range d.calls {
				list[c.Model] = append(list[c.Model], c.N)
			}
		}
	}
	return list
}

// Differ says in what two states differ; "" if they do not.
func Differ(a, b map[string]string) string {
	var list []string
	names := slices.Sorted(maps.Keys(a))
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if _, ok := a[name]; !ok {
			names = append(names, name)
		}
	}
	for _, name := range names {
		va, inA := a[name]
		vb, inB := b[name]
		if va != vb && !(strings.HasPrefix(name, "?") && inA != inB) {
			list = append(list, fmt.Sprintf("%s:\n\t%s\n\t%s", name, va, vb))
		}
	}
	return strings.Join(list, "\n")
}
