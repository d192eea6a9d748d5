package workflow

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/braise-run/braise/internal/program"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// recRedefined begins a journal anew under another definition: what is before it counts no more, and
// behind it stands what the new definition left standing. Its data: digest, definition?, generation, worked,
// kept, how pauses ended that the new generation comes to again, and doubts, calls of which nobody knows
// whether they had their effect.
const recRedefined checkpoint.Kind = "run.redefined"

// definitionNow is the definition that a run has by its journal: of its beginning, or of the last
// change. from is where in the records it begins to count.
func (l *leg) definitionNow() (digest string, text json.RawMessage, from int, err error) {
	for i := len(l.recs) - 1; i >= 0; i-- {
		if l.recs[i].Kind != recRedefined {
			continue
		}
		data, err := dataOf(l.recs[i])
		if err != nil {
			return "", nil, 0, err
		}
		digest, _ = data["digest"].(string)
		if d, ok := data["definition"]; ok {
			text, err = value.JSON(d)
		}
		return digest, text, i, err
	}
	return l.summary.Digest, nil, 0, nil
}

// workflow is what the run runs. Where the caller brings another definition than the run has, it must
// have said that this is accepted.
func (l *leg) workflow() (*Workflow, error) {
	digest, text, from, err := l.definitionNow()
	if err != nil {
		return nil, err
	}
	l.from = from
	wf := l.opts.Workflow
	if wf != nil && wf.program.Digest == digest {
		return wf, nil
	}
	if wf != nil && !l.opts.AcceptChanged {
		return nil, &runtime.Error{Category: runtime.CategoryConfig, Code: "resume.definitionChanged",
			Err: fmt.Errorf("run %q has another definition of recipe %q (%s, not %s)", l.runID, l.summary.Recipe, digest, wf.program.Digest)}
	}
	if text == nil {
		if text, err = l.store.Definition(l.ctx, digest); err != nil {
			return nil, err
		}
	}
	rec, err := recipe.FromDefinition(text)
	if err != nil {
		return nil, fmt.Errorf("%w: definition %s: %w", checkpoint.ErrCorrupt, digest, err)
	}
	if wf != nil && !l.ended {
		l.old = rec
		return wf, nil
	}
	p, list, err := program.Compile(rec, nil, true)
	if err != nil {
		return nil, err
	}
	return &Workflow{Diagnostics: list, program: p}, nil
}

// redefine goes on with a run under another definition: steps that say something else now, and all
// that follows from them, run again; the rest stands. The answer, if there is one, is for the step
// that asked, should the run come to it again. Everything is one write.
func (r *run) redefine(l *leg, g *given) error {
	was, err := l.old.StepDigests()
	if err != nil {
		return err
	}
	now, err := r.wf.program.Recipe.StepDigests()
	if err != nil {
		return err
	}
	recs, undone := lastGeneration(l.recs[l.from:])
	stands := resume.Decide(r.wf.decideSteps(now), recordedSteps(recs, was))
	for _, path := range undone {
		delete(stands, path)
	}
	generation := generationOf(l.recs) + 1

	at := r.events.now
	var header []checkpoint.Record
	var kept []any
	for _, rec := range recs {
		if rec.Kind != checkpoint.PauseOpened || !l.isOpen(rec) {
			continue
		}
		p, err := resume.Opened(rec)
		if err != nil {
			return err
		}
		if g == nil || p.ID != g.pause {
			closed, err := checkpoint.NewRecord(at, checkpoint.PauseClosed, p.Step, map[string]any{"pause": p.ID})
			if err != nil {
				return err
			}
			header = append(header, closed)
			continue
		}
		about, question := "", questionIn(&p)
		if data, err := dataOf(rec); err == nil && data["agent"] != nil {
			about, question = aboutOf(&p), ""
		}
		rec, err := answered(at, &p, 0, resume.Answered, g.answer)
		if err != nil {
			return err
		}
		header = append([]checkpoint.Record{rec}, header...)
		kept = append(kept, map[string]any{"step": p.Step, "kind": string(p.Kind), "reason": p.Reason, "about": about, "answer": g.answer, "question": question})
	}
	doubts, err := doubtsOf(recs, stands, func(rec checkpoint.Record) bool {
		return l.isOpen(rec) && (g == nil || !isPause(rec, g.pause))
	})
	if err != nil {
		return err
	}
	if g != nil && kept == nil {
		return fmt.Errorf("pause %q: %w", g.pause, checkpoint.ErrToken)
	}
	if r.clock.used, err = clockOf(l.recs); err != nil {
		return err
	}
	r.stamped = true
	data := map[string]any{"digest": r.wf.program.Digest, "generation": int64(generation), "kept": kept, "doubts": doubts, "worked": int64(r.clock.used)}
	if text, err := r.wf.program.Definition(); err != nil {
		return err
	} else if text != nil {
		if data["definition"], err = value.Decode(text); err != nil {
			return err
		}
	}
	marker, err := checkpoint.NewRecord(at, recRedefined, "", data)
	if err != nil {
		return err
	}
	r.journal.seq = l.recs[len(l.recs)-1].Seq
	r.begunAnew(data)
	if err := r.share(recs, stands, nil, generation-1); err != nil {
		return err
	}
	header = append(header, marker)
	for i := range r.journal.entries {
		rec, err := r.journal.entries[i].record()
		if err != nil {
			return err
		}
		header = append(header, rec)
	}
	if err := l.takeFromCache(); err != nil {
		return err
	}
	err = l.append(r.journal.seq, g, header)
	r.journal.seq += int64(len(header))
	r.journal.entries = r.journal.entries[:0]
	return err
}

// isOpen reports whether the pause that a record opened is open.
func (l *leg) isOpen(rec checkpoint.Record) bool {
	for _, p := range l.summary.Pauses {
		if p.Seq == rec.Seq {
			return true
		}
	}
	return false
}

// isPause reports whether a record opened the pause of that id.
func isPause(rec checkpoint.Record, id string) bool {
	p, err := resume.Opened(rec)
	return err == nil && p.ID == id
}

// doubtsOf are the calls of steps that begin again of which nobody knows whether they had their effect: those
// that somebody is being asked about, by a pause that open is true for, those that had begun when the process
// died, and those that a person said the end of.
func doubtsOf(recs []checkpoint.Record, stands map[string]bool, open func(checkpoint.Record) bool) ([]any, error) {
	var doubts []any
	add := func(step, about string) { doubts = append(doubts, map[string]any{"step": step, "about": about}) }
	begun := map[string]bool{}
	agents := map[string][]agentloop.Event{}
	said := journal.Settlements{}
	for _, rec := range recs {
		data, err := dataOf(rec)
		if err != nil {
			return nil, err
		}
		if said.Next(rec, data) != nil && !stands[rec.Path] { // by a person, who is asked once more
			add(rec.Path, "")
		}
		switch rec.Kind {
		case recBegun:
			begun[rec.Path] = true
		case recEnded:
			delete(begun, rec.Path)
			delete(agents, rec.Path)
		case recAgent:
			kept, err := readAgent(rec)
			if err != nil {
				return nil, err
			}
			agents[rec.Path] = append(agents[rec.Path], kept.Events...)
		case checkpoint.PauseOpened:
			delete(begun, rec.Path)
			p, err := resume.Opened(rec)
			if err != nil {
				return nil, err
			}
			agent, _ := data["agent"].(map[string]any)
			switch path, _ := agent["step"].(string); {
			case p.Reason != indeterminate || !open(rec):
			case agent == nil:
				add(p.Step, "")
			case !stands[path]:
				add(p.Step, aboutOf(&p))
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(begun)) {
		add(path, "")
	}
	for _, path := range slices.Sorted(maps.Keys(agents)) {
		if stands[path] {
			continue
		}
		state, err := agentloop.Fold(agents[path])
		if err != nil {
			return nil, err
		}
		unsureCalls(&state, path, add)
	}
	return doubts, nil
}

// unsureCalls tells of the calls of an agent that were under way when the process died.
func unsureCalls(s *agentloop.State, path string, tell func(step, about string)) {
	openCalls(s, path, func(path string, c agentloop.Call) {
		args, _ := value.Decode(c.Arguments) // it was checked
		tell(path, aboutOf(&resume.Pause{Reason: indeterminate, Show: map[string]any{"tool": c.Name, "arguments": args}}))
	})
}

// openCalls tells of the calls of an agent, and of its children, that may have an effect and are under way.
func openCalls(s *agentloop.State, path string, tell func(path string, c agentloop.Call)) {
	for _, c := range s.Calls {
		if c.Open && c.Effect == runtime.External {
			tell(path, c)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Children)) {
		openCalls(s.Children[name], framePath(path, name), tell)
	}
}

// generationOf counts the beginnings of a run.
func generationOf(recs []checkpoint.Record) int {
	n := 1
	for _, rec := range recs {
		if rec.Kind == recRedefined || rec.Kind == checkpoint.PauseAnswered {
			if data, err := dataOf(rec); err == nil {
				if g, ok := data["generation"].(int64); ok {
					n = max(n, int(g))
				}
			}
		}
	}
	return n
}

// begunAnew takes over what the record of a change says.
func (r *run) begunAnew(data map[string]any) {
	if g, ok := data["generation"].(int64); ok {
		r.generation = int(g)
	}
	doubts, _ := data["doubts"].([]any)
	for _, e := range doubts {
		m, _ := e.(map[string]any)
		key := pauseKey{kind: resume.System, reason: indeterminate}
		key.step, _ = m["step"].(string)
		key.about, _ = m["about"].(string)
		r.doubt(key)
	}
	list, _ := data["kept"].([]any)
	for _, e := range list {
		m, _ := e.(map[string]any)
		key := pauseKey{n: 1}
		key.step, _ = m["step"].(string)
		kind, _ := m["kind"].(string)
		key.kind = resume.Kind(kind)
		key.reason, _ = m["reason"].(string)
		key.about, _ = m["about"].(string)
		if r.kept == nil {
			r.kept = map[pauseKey]keptAnswer{}
		}
		question, _ := m["question"].(string)
		r.kept[key] = keptAnswer{resume.Answered, m["answer"], question}
	}
}
