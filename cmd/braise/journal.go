package main

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/trace"
)

// stepInfo is a step as show prints it.
type stepInfo struct {
	Step   string `json:"step"`
	Status string `json:"status"` // running, waiting, succeeded, failed
	Error  string `json:"error,omitempty"`
}

// journalReader makes events of a journal: of all its legs, without what no journal has, such as steps that
// only compute.
type journalReader struct {
	events []trace.Event
	steps  []stepInfo              // that the journal names, in the order in which they began
	pauses map[string]resume.Pause // that were opened

	about   []trace.Attr   // of run.start
	recipe  *recipe.Recipe // nil: not there
	load    func(digest string) *recipe.Recipe
	index   map[string]int       // of steps
	began   map[string]time.Time // calls, by path
	open    []resume.Pause
	paused  bool
	failure []trace.Attr // of the step that failed last
}

// loadJournal reads the whole journal of a run.
func loadJournal(ctx context.Context, store checkpoint.Store, runID string) (checkpoint.Summary, *journalReader, error) {
	sum, recs, err := store.Load(ctx, runID, 0)
	if err != nil {
		return sum, nil, err
	}
	j := newJournalReader(ctx, store)
	for _, rec := range recs {
		j.add(rec)
	}
	return sum, j, nil
}

func newJournalReader(ctx context.Context, store checkpoint.Store) *journalReader {
	return &journalReader{events: []trace.Event{}, steps: []stepInfo{}, pauses: map[string]resume.Pause{}, index: map[string]int{}, began: map[string]time.Time{},
		load: func(digest string) *recipe.Recipe {
			text, err := store.Definition(ctx, digest)
			if err != nil {
				return nil // the trace has less in it then
			}
			r, _ := recipe.FromDefinition(text)
			return r
		}}
}

// add takes the next record.
func (j *journalReader) add(rec checkpoint.Record) {
	v, _ := value.Decode(rec.Data)
	data, _ := v.(map[string]any)
	text := func(name string) string { s, _ := data[name].(string); return s }
	if j.paused {
		kind := "recover"
		if rec.Kind == checkpoint.PauseAnswered && text("next") == string(resume.Answered) {
			kind = "resume"
		}
		j.paused = false
		j.emitOf(rec, "", trace.RunStart, append(slices.Clone(j.about), trace.Attr{Key: kind, Value: true})...)
	}
	switch rec.Kind {
	case checkpoint.RunCreated:
		j.recipe = j.load(text("digest"))
		j.about = []trace.Attr{{Key: "digest", Value: text("digest")}, {Key: "recipe", Value: text("recipe")}}
		j.emit(rec, trace.RunStart, slices.Clone(j.about)...)
	case "call.begun":
		j.call(rec, "")
	case "call.ended":
		if j.began[rec.Path].IsZero() {
			j.call(rec, text("model"))
		}
		j.end(rec, data["error"])
	case "wait.over":
		j.begin(rec)
		j.end(rec, nil)
	case checkpoint.PauseOpened:
		p, err := resume.Opened(rec)
		if err != nil {
			return
		}
		j.begin(rec)
		j.steps[j.index[rec.Path]].Status = "waiting"
		j.emit(rec, trace.StepWaiting, trace.Attr{Key: "pauseKind", Value: string(p.Kind)})
		j.pauses[p.ID] = p
		j.open = append(j.open, p)
	case checkpoint.PauseAnswered:
		j.answered(rec, text("pause"), resume.Next(text("next")))
	case checkpoint.RunPaused:
		for _, p := range j.open {
			j.emitOf(rec, "", trace.RunPaused, trace.Attr{Key: "pauseKind", Value: string(p.Kind)}, trace.Attr{Key: "step", Value: p.Step})
		}
		j.emit(rec, trace.RunOutput, trace.Attr{Key: "type", Value: "artefact"})
		j.emit(rec, trace.RunEnd, trace.Attr{Key: "status", Value: "paused"})
		j.paused = true
	case checkpoint.RunEnded:
		switch checkpoint.Status(text("status")) {
		case checkpoint.OK:
			j.emit(rec, trace.RunSuccess)
		case checkpoint.Cancelled:
			j.emit(rec, trace.RunCancelled)
		default:
			j.emit(rec, trace.RunError, j.failure...)
		}
		j.emit(rec, trace.RunEnd, trace.Attr{Key: "status", Value: text("status")})
	}
}

func (j *journalReader) emit(rec checkpoint.Record, kind trace.Kind, data ...trace.Attr) {
	j.emitOf(rec, rec.Path, kind, data...)
}

func (j *journalReader) emitOf(rec checkpoint.Record, step string, kind trace.Kind, data ...trace.Attr) {
	slices.SortFunc(data, func(a, b trace.Attr) int { return strings.Compare(a.Key, b.Key) })
	j.events = append(j.events, trace.Event{Seq: int64(len(j.events) + 1), At: rec.At, Kind: kind, Step: step, Data: data})
}

// begin notes that a step runs, unless it is known.
func (j *journalReader) begin(rec checkpoint.Record) {
	if _, known := j.index[rec.Path]; !known {
		j.index[rec.Path] = len(j.steps)
		j.steps = append(j.steps, stepInfo{Step: rec.Path})
		j.emit(rec, trace.StepStart)
	}
	s := &j.steps[j.index[rec.Path]]
	s.Status, s.Error = "running", ""
}

// call notes that a step calls its adapter.
func (j *journalReader) call(rec checkpoint.Record, model string) {
	j.begin(rec)
	j.began[rec.Path] = rec.At
	uses := j.uses(rec.Path)
	if strings.Contains(uses, ".") {
		j.emit(rec, trace.AdapterCall, trace.Attr{Key: "kind", Value: "tool"}, trace.Attr{Key: "name", Value: uses})
	} else if uses != "" {
		data := []trace.Attr{{Key: "kind", Value: uses}}
		if model != "" {
			data = append(data, trace.Attr{Key: "name", Value: model})
		}
		j.emit(rec, trace.AdapterCall, data...)
	}
}

// end notes that a step is over; failure is nil when it succeeded.
func (j *journalReader) end(rec checkpoint.Record, failure any) {
	s := &j.steps[j.index[rec.Path]]
	s.Status = "succeeded"
	data := []trace.Attr{{Key: "status", Value: "succeeded"}}
	if m, ok := failure.(map[string]any); ok {
		s.Status = "failed"
		s.Error, _ = m["message"].(string)
		j.failure = []trace.Attr{{Key: "code", Value: m["code"]}, {Key: "message", Value: m["message"]}, {Key: "step", Value: rec.Path}}
		data = []trace.Attr{{Key: "code", Value: m["code"]}, {Key: "message", Value: m["message"]}, {Key: "status", Value: "failed"}}
	}
	if at := j.began[rec.Path]; !at.IsZero() && at != rec.At {
		data = append(data, trace.Attr{Key: "durationMs", Value: rec.At.Sub(at).Milliseconds()})
	}
	delete(j.began, rec.Path)
	j.emit(rec, trace.StepEnd, data...)
}

// answered notes that a pause is over. A step that did nothing but wait is over too.
func (j *journalReader) answered(rec checkpoint.Record, id string, next resume.Next) {
	j.open = slices.DeleteFunc(j.open, func(p resume.Pause) bool { return p.ID == id })
	if _, known := j.index[rec.Path]; !known {
		return
	}
	j.steps[j.index[rec.Path]].Status = "running"
	uses := j.uses(rec.Path)
	switch {
	case next == resume.Failed:
		j.end(rec, map[string]any{"code": "pause.expired", "message": "nobody answered in time"})
	case uses == "human" || uses == "wait" || uses == "receive":
		j.end(rec, nil)
	}
}

// uses is what a step of the recipe uses, by its path; "" when it is not known.
func (j *journalReader) uses(path string) string {
	if j.recipe == nil {
		return ""
	}
	steps, uses := j.recipe.Steps, ""
	bodies := map[string]*recipe.Body{} // that the next name may be one of
	for id := range strings.SplitSeq(path, "/") {
		id, _, _ = strings.Cut(id, "[")
		id, _, _ = strings.Cut(id, "#")
		if b, ok := bodies[id]; ok && b != nil { // a branch or a case
			steps, bodies = stepsOf(b), nil
			continue
		}
		i := slices.IndexFunc(steps, func(s recipe.Step) bool { return s.ID == id })
		if i < 0 {
			return ""
		}
		uses = steps[i].Uses.Text
		bodies = maps.Collect(steps[i].Bodies())
		steps = stepsOf(bodies[""])
	}
	return uses
}

func stepsOf(b *recipe.Body) []recipe.Step {
	switch {
	case b == nil:
		return nil
	case b.Recipe != nil:
		return b.Recipe.Steps
	}
	return b.Steps
}
