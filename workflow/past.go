package workflow

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// Past is what the journal of a run tells: of all its legs, without what no journal has, such as steps
// that only compute. Make it with [NewPast].
type Past struct {
	Events []trace.Event
	Steps  []PastStep              // that the journal names, in the order in which they began
	Pauses map[string]resume.Pause // that were opened, without tokens

	about   []trace.Attr   // of run.start
	recipe  *recipe.Recipe // nil: not there
	load    func(digest string) *recipe.Recipe
	index   map[string]int       // of steps
	began   map[string]time.Time // calls, by path
	open    []resume.Pause
	paused  bool
	failure []trace.Attr               // of the step that failed last
	agents  map[string]*agentloop.Past // by path
	said    words
}

// PastStep is a step as far as the journal tells.
type PastStep struct {
	Step   string     `json:"step"`
	Status string     `json:"status"` // running, waiting, succeeded, failed
	Error  string     `json:"error,omitempty"`
	Agent  *PastAgent `json:"agent,omitempty"` // nil: it is no agent, or it has not begun
}

// PastAgent is where an agent stands.
type PastAgent struct {
	Step  int                  `json:"step"`            // of its loop
	Calls []agentloop.PastCall `json:"calls,omitempty"` // that have no result yet, children's behind their parent's
	Usage runtime.Usage        `json:"usage"`           // children's included
}

// NewPast returns the past of a run before its first record. load returns the recipe with a digest, from
// which the names of tools and models come; nil when it is not there.
func NewPast(load func(digest string) *recipe.Recipe) *Past {
	return &Past{Events: []trace.Event{}, Steps: []PastStep{}, Pauses: map[string]resume.Pause{}, load: load,
		index: map[string]int{}, began: map[string]time.Time{}, agents: map[string]*agentloop.Past{}, said: words{}}
}

// Add takes the next record.
func (p *Past) Add(rec checkpoint.Record) {
	v, _ := value.Decode(rec.Data)
	data, _ := v.(map[string]any)
	text := func(name string) string { s, _ := data[name].(string); return s }
	settled := p.said.next(rec, data)
	if p.paused {
		kind := "recover"
		if rec.Kind == checkpoint.PauseAnswered && text("next") == string(resume.Answered) {
			kind = "resume"
		}
		p.paused = false
		p.emitOf(rec, "", trace.RunStart, append(slices.Clone(p.about), trace.Attr{Key: kind, Value: true})...)
	}
	switch rec.Kind {
	case checkpoint.RunCreated:
		p.recipe = p.load(text("digest"))
		p.about = []trace.Attr{{Key: "digest", Value: text("digest")}, {Key: "recipe", Value: text("recipe")}}
		p.emit(rec, trace.RunStart, slices.Clone(p.about)...)
	case recBegun:
		p.call(rec, "")
	case recAgent:
		p.agent(rec)
	case recEnded:
		if p.began[rec.Path].IsZero() {
			p.call(rec, text("model"))
		}
		p.end(rec, data["error"])
	case recWaitOver:
		p.begin(rec)
		p.end(rec, nil)
	case checkpoint.PauseOpened:
		opened, err := resume.Opened(rec)
		if err != nil {
			return
		}
		of := rec
		if in, ok := data["agent"].(map[string]any); ok { // a child of the step's may be what waits
			of.Path, _ = in["step"].(string)
		}
		p.begin(of)
		p.Steps[p.index[of.Path]].Status = "waiting"
		p.emit(rec, trace.StepWaiting, trace.Attr{Key: "pauseKind", Value: string(opened.Kind)})
		p.Pauses[opened.ID] = opened
		p.open = append(p.open, opened)
	case checkpoint.PauseAnswered:
		p.answered(rec, text("pause"), resume.Next(text("next")))
		p.settle(rec, settled)
	case checkpoint.RunPaused:
		for _, o := range p.open {
			p.emitOf(rec, "", trace.RunPaused, trace.Attr{Key: "pauseKind", Value: string(o.Kind)}, trace.Attr{Key: "step", Value: o.Step})
		}
		p.emit(rec, trace.RunOutput, trace.Attr{Key: "type", Value: "artefact"})
		p.emit(rec, trace.RunEnd, trace.Attr{Key: "status", Value: "paused"})
		p.paused = true
	case checkpoint.RunEnded:
		switch checkpoint.Status(text("status")) {
		case checkpoint.OK:
			p.emit(rec, trace.RunSuccess)
		case checkpoint.Cancelled:
			p.emit(rec, trace.RunCancelled)
		default:
			p.emit(rec, trace.RunError, p.failure...)
		}
		p.emit(rec, trace.RunEnd, trace.Attr{Key: "status", Value: text("status")})
	}
}

func (p *Past) emit(rec checkpoint.Record, kind trace.Kind, data ...trace.Attr) {
	p.emitOf(rec, rec.Path, kind, data...)
}

func (p *Past) emitOf(rec checkpoint.Record, step string, kind trace.Kind, data ...trace.Attr) {
	slices.SortFunc(data, func(a, b trace.Attr) int { return strings.Compare(a.Key, b.Key) })
	p.Events = append(p.Events, trace.Event{Seq: int64(len(p.Events) + 1), At: rec.At, Kind: kind, Step: step, Data: data})
}

// begin notes that a step runs, unless it is known.
func (p *Past) begin(rec checkpoint.Record) {
	if _, known := p.index[rec.Path]; !known {
		p.index[rec.Path] = len(p.Steps)
		p.Steps = append(p.Steps, PastStep{Step: rec.Path})
		p.emit(rec, trace.StepStart)
	}
	s := &p.Steps[p.index[rec.Path]]
	s.Status, s.Error = "running", ""
}

// call notes that a step calls its adapter.
func (p *Past) call(rec checkpoint.Record, model string) {
	p.begin(rec)
	p.began[rec.Path] = rec.At
	uses := p.uses(rec.Path)
	if strings.Contains(uses, ".") {
		p.emit(rec, trace.AdapterCall, trace.Attr{Key: "kind", Value: "tool"}, trace.Attr{Key: "name", Value: uses})
	} else if uses != "" {
		data := []trace.Attr{{Key: "kind", Value: uses}}
		if model != "" {
			data = append(data, trace.Attr{Key: "name", Value: model})
		}
		p.emit(rec, trace.AdapterCall, data...)
	}
}

// end notes that a step is over; failure is nil when it succeeded.
func (p *Past) end(rec checkpoint.Record, failure any) {
	s := &p.Steps[p.index[rec.Path]]
	s.Status = "succeeded"
	data := []trace.Attr{{Key: "status", Value: "succeeded"}}
	if m, ok := failure.(map[string]any); ok {
		s.Status = "failed"
		s.Error, _ = m["message"].(string)
		p.failure = []trace.Attr{{Key: "code", Value: m["code"]}, {Key: "message", Value: m["message"]}, {Key: "step", Value: rec.Path}}
		data = []trace.Attr{{Key: "code", Value: m["code"]}, {Key: "message", Value: m["message"]}, {Key: "status", Value: "failed"}}
	}
	if at := p.began[rec.Path]; !at.IsZero() && at != rec.At {
		data = append(data, trace.Attr{Key: "durationMs", Value: rec.At.Sub(at).Milliseconds()})
	}
	delete(p.began, rec.Path)
	p.emit(rec, trace.StepEnd, data...)
}

// agent notes what happened in an agent.
func (p *Past) agent(rec checkpoint.Record) {
	kept, err := readAgent(rec)
	if err != nil {
		return
	}
	p.begin(rec)
	if p.began[rec.Path].IsZero() {
		p.began[rec.Path] = rec.At
	}
	of := p.agents[rec.Path]
	add := func(events []trace.Event) {
		for _, e := range events {
			p.emitOf(rec, e.Step, e.Kind, e.Data...)
		}
	}
	for i := range kept.Events {
		if e := &kept.Events[i]; of == nil || e.Kind == agentloop.Started && e.Frame == "" { // again, with an interrupt that restarts
			of = &agentloop.Past{Path: rec.Path}
			p.agents[rec.Path] = of
		}
		events, err := of.Add(kept.Events[i])
		if add(events); err != nil {
			return // of another version
		}
	}
	if of == nil {
		return
	}
	s := &p.Steps[p.index[rec.Path]]
	if kept.Waits {
		add(of.Wait())
		s.Status = "waiting"
	}
	s.Agent = &PastAgent{Step: of.State().Steps, Calls: of.Open(), Usage: of.State().Total()}
}

// answered notes that a pause is over. A step that did nothing but wait is over too.
func (p *Past) answered(rec checkpoint.Record, id string, next resume.Next) {
	p.open = slices.DeleteFunc(p.open, func(o resume.Pause) bool { return o.ID == id })
	if _, known := p.index[rec.Path]; !known {
		return
	}
	p.Steps[p.index[rec.Path]].Status = "running"
	uses := p.uses(rec.Path)
	switch {
	case next == resume.Failed:
		p.end(rec, map[string]any{"code": "pause.expired", "message": "nobody answered in time"})
	case uses == "human" || uses == "wait" || uses == "receive":
		p.end(rec, nil)
	}
}

// settle ends a step whose call is over because a person said so; w is nil for other answers.
func (p *Past) settle(rec checkpoint.Record, w *word) {
	if _, known := p.index[rec.Path]; !known || w == nil {
		return
	}
	if answer, _ := w.answer.(map[string]any); answer["decision"] == "result" {
		p.end(rec, nil)
		return
	}
	p.end(rec, errorData(countsAsFailed()))
}

// uses is what a step of the recipe uses, by its path; "" when it is not known.
func (p *Past) uses(path string) string {
	if p.recipe == nil {
		return ""
	}
	steps, uses := p.recipe.Steps, ""
	bodies := map[string]*recipe.Body{} // that the next name may be one of
	for id := range strings.SplitSeq(path, "/") {
		id, _, _ = strings.Cut(id, "[")
		id, _, _ = strings.Cut(id, "#")
		if b, ok := bodies[id]; ok && b != nil { // a branch or a case
			steps, bodies = b.All(), nil
			continue
		}
		i := slices.IndexFunc(steps, func(s recipe.Step) bool { return s.ID == id })
		if i < 0 {
			return ""
		}
		uses = steps[i].Uses.Text
		bodies = maps.Collect(steps[i].Bodies())
		steps = bodies[""].All()
	}
	return uses
}
