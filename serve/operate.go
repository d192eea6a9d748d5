package serve

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/files"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// fork is how a run begins that shares what another has done.
type fork struct {
	At      string            `json:"at" minLength:"1" doc:"The step that runs again, with all that depends on it."`
	Inputs  *object           `json:"inputs,omitempty" doc:"Replace the inputs of the run; every step runs again."`
	Outputs object            `json:"outputs,omitempty" doc:"Replace outputs of finished calls and answers, by path."`
	Labels  map[string]string `json:"labels,omitempty" doc:"For people and lists: at most 16."`
	Queue   string            `json:"queue,omitempty" doc:"Defaults to the first queue of the server."`
	RunID   string            `json:"runId,omitempty" doc:"Of the new run; by default, the server makes one."`
	Dry     bool              `json:"dry,omitempty" doc:"Only say what runs again. Inputs {}, outputs null: any."`
}

// forecast is what a fork would do.
type forecast struct {
	Stands []string `json:"stands" doc:"The steps that keep their results, in plan order."`
	Again  []string `json:"again" doc:"The steps that run again, in plan order."`
}

// forkRun answers POST /runs/{id}/fork.
func (c *call) forkRun() error {
	s, err := c.summary()
	if err != nil {
		return err
	}
	var in fork
	if err := c.body(&in); err != nil {
		return err
	}
	wf, err := c.compiled.Load(c.r.Context(), c.Store, s.Digest)
	if err != nil {
		return err
	}
	if in.Dry {
		return c.forecast(s, wf, &in)
	}
	id, key, err := c.newRun(in.RunID, "fork of "+s.ID)
	if err != nil {
		return err
	}
	patience, err := c.prefer()
	if err != nil {
		return err
	}
	if key {
		before, err := c.forkedBefore(&id, &in)
		if err != nil {
			return err
		}
		if before {
			return c.acceptOrWait(http.StatusOK, id, patience)
		}
	}
	if err := c.roomInQueue(); err != nil {
		return err
	}
	begun, err := c.enqueueFork(s.ID, wf, &in, id)
	if err != nil {
		c.backlog.less()
	}
	if e, ok := errors.AsType[*runtime.Error](err); ok && e.Code == "run.exists" && key {
		return c.acceptOrWait(http.StatusOK, id, patience) // the same request was quicker
	} else if err != nil {
		return err
	}
	return c.acceptOrWait(http.StatusAccepted, begun, patience)
}

// edits are what the fork changes.
func (in *fork) edits() workflow.Edits {
	e := workflow.Edits{Outputs: in.Outputs}
	if in.Inputs != nil {
		e.Inputs = *in.Inputs
	}
	return e
}

// enqueueFork records a fork, or only checks it.
func (c *call) enqueueFork(of string, wf *workflow.Workflow, in *fork, id string) (string, error) {
	queue := c.queueOf(in.Queue)
	begun, err := workflow.EnqueueFork(c.r.Context(), of, in.At, in.edits(), c.runtimeOf(wf),
		&workflow.EnqueueOptions{RunID: id, Queue: queue, Labels: in.Labels, By: c.by(), Complete: c.Works(queue),
			DryRun: in.Dry})
	if e, ok := errors.AsType[*runtime.Error](err); ok && e.Code == "answer.unfit" {
		at := value.Pointer("/outputs", e.Step)
		if m, _ := in.Outputs[e.Step].(map[string]any); m["form"] != nil {
			at += "/form"
		}
		return "", within(at, err)
	}
	return begun, labelled(within("/inputs", err))
}

// forkedBefore reports whether a key began a fork with the same edits before. The id of the run, which is made of the
// key, gets a part that is made of the edits. The error says that the key began another fork.
func (c *call) forkedBefore(id *string, in *fork) (bool, error) {
	edits := in.edits()
	if len(edits.Outputs) == 0 {
		edits.Outputs = nil
	}
	text, err := value.JSON(map[string]any{"at": in.At, "inputs": edits.Inputs, "outputs": edits.Outputs})
	if err != nil {
		return false, err
	}
	prefix, sum := *id+"-", sha256.Sum256(text)
	*id = prefix + hex.EncodeToString(sum[:8])
	before, err := c.store.List(c.r.Context(), checkpoint.Filter{Prefix: prefix, Limit: 1})
	switch {
	case len(before) == 0:
		return false, err
	case before[0].ID == *id:
		return true, nil
	}
	return false, conflict("run.exists", "the Idempotency-Key began run %q, which is another fork"+
		"\n  hint: send another key", before[0].ID)
}

// forecast answers what a fork would run again.
func (c *call) forecast(s checkpoint.Summary, wf *workflow.Workflow, in *fork) error {
	edits := in.edits()
	err := wf.CheckFork(in.At, edits)
	if err == nil && (edits.Inputs == nil || len(edits.Inputs) > 0) { // {} stands for any
		_, err = c.enqueueFork(s.ID, wf, in, "")
	}
	if err != nil {
		return err
	}
	told, err := c.reader.Load(c.r.Context(), s.ID)
	if err != nil {
		return err
	}
	f := forecast{Stands: []string{}, Again: wf.Affected(in.At, edits)}
	for _, id := range stepsOf(wf) {
		if slices.Contains(f.Again, id) || slices.Contains(f.Stands, id) {
			continue
		}
		if slices.ContainsFunc(told.Steps, func(st history.Step) bool {
			return workflow.PlanID(st.Step) == id && st.Status == "succeeded"
		}) {
			f.Stands = append(f.Stands, id)
		}
	}
	return c.reply(http.StatusOK, f)
}

// stepsOf returns the ids of the steps of a plan, those in bodies too, in plan order.
func stepsOf(wf *workflow.Workflow) (ids []string) {
	var add func(steps []workflow.PlanStep)
	add = func(steps []workflow.PlanStep) {
		for _, s := range steps {
			ids = append(ids, s.ID)
			add(s.Body)
		}
	}
	add(wf.Plan().Steps)
	return ids
}

// deleteRun answers DELETE /runs/{id}.
func (c *call) deleteRun() error {
	s, err := c.summary()
	if err != nil {
		return err
	}
	if err := c.store.Delete(c.r.Context(), s.ID); err != nil {
		return err
	}
	c.hub.changed(s.ID)
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// prune is which runs go.
type prune struct {
	Before time.Time `json:"before" doc:"Runs whose last record is older."`
	Phases []string  `json:"phases,omitempty" doc:"Any of ok, error and cancelled. Defaults to all of them."`
}

// pruned is how many went.
type pruned struct {
	Deleted int `json:"deleted"`
}

// pruneRuns answers POST /prune.
func (c *call) pruneRuns() error {
	var in prune
	if err := c.body(&in); err != nil {
		return err
	}
	if c.who.recipes != nil {
		return forbidden("access.recipe", "%q may see some recipes only, and this is about all", c.who.name)
	}
	var statuses []checkpoint.Status
	for _, phase := range in.Phases {
		if !checkpoint.Status(phase).Ended() {
			return malformed("request.body", "/phases: runs that are %.40q are not deleted this way"+
				"\n  hint: it is ok, error or cancelled", phase)
		}
		statuses = append(statuses, checkpoint.Status(phase))
	}
	c.clock.Stop() // there may be much to delete
	n, err := c.store.Prune(c.r.Context(), in.Before, statuses...)
	if kept, ok := c.Store.(files.Store); ok && err == nil {
		_, err = files.DeleteUnused(c.r.Context(), kept)
	}
	if err != nil {
		return err
	}
	c.hub.changed("")
	return c.reply(http.StatusOK, pruned{n})
}

// bulk does one thing to many runs.
type bulk struct {
	Do     string      `json:"do" enum:"cancel recover answer"`
	Runs   []string    `json:"runs,omitempty" maxItems:"1000" doc:"Their ids."`
	Filter *bulkFilter `json:"filter,omitempty" doc:"The newest 1000 runs that it lets through."`
	Pauses []bulkPause `json:"pauses,omitempty" maxItems:"1000" doc:"To answer; all get the same answer."`
	Reason string      `json:"reason,omitempty" doc:"Why runs are cancelled, for people."`
	answer
}

// bulkFilter chooses runs like the parameters of GET /runs.
type bulkFilter struct {
	Phases []string          `json:"phases,omitempty" doc:"Defaults to those of runs that have not ended."`
	Recipe string            `json:"recipe,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	Queues []string          `json:"queues,omitempty"`
	Parent string            `json:"parent,omitempty"`
	From   time.Time         `json:"from,omitzero"`
	To     time.Time         `json:"to,omitzero"`
}

// bulkPause is a pause of a run.
type bulkPause struct {
	RunID    string `json:"runId"`
	Pause    string `json:"pause"`
	Question string `json:"question,omitempty" doc:"Of the pause that was shown: no other is answered."`
}

// bulkResults is what came of each, in the order of the request.
type bulkResults struct {
	Results []bulkResult `json:"results"`
	More    bool         `json:"more" doc:"The filter lets more runs through. Narrow it, by time say, for the others."`
}

// bulkResult is what came of one.
type bulkResult struct {
	RunID  string     `json:"runId"`
	Pause  string     `json:"pause,omitempty"`
	Status int        `json:"status" doc:"As of the route for one run."`
	Error  *errorBody `json:"error,omitempty"`

	Diagnostics diagnostics.List `json:"diagnostics,omitempty" doc:"Of an answer: what does not fit, and where."`
}

// maxBulk is how many runs one request may change.
const maxBulk = 1000

// bulkChange answers POST /bulk.
func (c *call) bulkChange() error {
	var in bulk
	if err := c.body(&in); err != nil {
		return err
	}
	need := Operate
	if in.Do == "answer" {
		need = Answer
	}
	if !c.who.may(need) {
		return forbidden("access.role", "%q may not do this\n  hint: it takes the role %s", c.who.name,
			wordsOf([]Role{need}))
	}
	if err := in.check(); err != nil {
		return err
	}
	results := bulkResults{Results: []bulkResult{}}
	pauses := in.Pauses
	if in.Do != "answer" {
		ids, more, err := c.chosen(&in)
		if err != nil {
			return err
		}
		for _, id := range ids {
			pauses = append(pauses, bulkPause{RunID: id})
		}
		results.More = more
	}
	for _, p := range pauses {
		c.clock.Reset(storeTime)
		status, err := c.bulkOne(&in, p)
		r := bulkResult{RunID: p.RunID, Pause: p.Pause, Status: status}
		if err = c.late(err); gone(c.r.Context(), err) {
			return err
		}
		if err != nil {
			wrong := problemOf(err)
			r.Status, r.Error, r.Diagnostics = wrong.status, &wrong.errorBody, wrong.found
		} else {
			c.hub.changed(p.RunID)
		}
		results.Results = append(results.Results, r)
	}
	return c.reply(http.StatusOK, results)
}

// check refuses members that are for something else than what is to be done.
func (in *bulk) check() error {
	given := map[string]bool{"runs": in.Runs != nil, "filter": in.Filter != nil, "pauses": in.Pauses != nil,
		"reason": in.Reason != "", "force": in.Force, "decision": in.Decision != "", "form": in.Form.given,
		"value": in.Value.given, "question": in.Question != ""}
	takes := map[string][]string{"cancel": {"runs", "filter", "reason", "force"}, "recover": {"runs", "filter"},
		"answer": {"pauses", "decision", "form", "value", "question", "force"}}[in.Do]
	for _, name := range value.SortedKeys(given) {
		if given[name] && !slices.Contains(takes, name) {
			return malformed("request.body", "/%s: it is not for %s\n  hint: %[2]s takes %[3]s", name, in.Do,
				strings.Join(takes, ", "))
		}
	}
	switch {
	case in.Do == "answer" && in.Pauses == nil:
		return malformed("request.body", "there are no pauses\n  hint: name in pauses what is answered")
	case in.Do != "answer" && given["runs"] == given["filter"]:
		return malformed("request.body", "there must be runs or a filter\n  hint: give one of them")
	}
	return nil
}

// chosen returns the ids of the runs that are to change, and whether the filter lets more through.
func (c *call) chosen(in *bulk) (ids []string, more bool, err error) {
	if in.Runs != nil {
		return in.Runs, false, nil
	}
	f := checkpoint.Filter{Recipe: in.Filter.Recipe, Labels: in.Filter.Labels, Queues: in.Filter.Queues,
		Parent: in.Filter.Parent, From: in.Filter.From, To: in.Filter.To, Limit: maxBulk + 1}
	for _, phase := range in.Filter.Phases {
		if !slices.Contains(phases, phase) {
			return nil, false, malformed("request.body", "/filter/phases: unknown phase %.40q\n  hint: %s", phase,
				suggest(phase, phases, "it is one of "+strings.Join(phases, ", ")))
		}
		f.Phases = append(f.Phases, checkpoint.Phase(phase))
	}
	if f.Phases == nil { // nothing can be done to runs that have ended
		f.Phases = []checkpoint.Phase{checkpoint.PhaseQueued, checkpoint.PhaseRunning, checkpoint.PhaseWaiting,
			checkpoint.PhaseInterrupted}
	}
	for {
		sums, err := c.store.List(c.r.Context(), f)
		if err != nil && len(sums) == 0 {
			return nil, false, err
		}
		for _, s := range sums {
			switch {
			case !c.who.sees(s.Recipe):
			case len(ids) == maxBulk:
				return ids, true, nil
			default:
				ids = append(ids, s.ID)
			}
		}
		if len(sums) < f.Limit {
			return ids, false, nil
		}
		f.After = sums[len(sums)-1].Cursor()
	}
}

// bulkOne does what is asked for to one run, or pause.
func (c *call) bulkOne(in *bulk, p bulkPause) (status int, err error) {
	if !isID(p.RunID) {
		return 0, notID(p.RunID)
	}
	if _, _, err := c.load(p.RunID, 1<<62); err != nil {
		return 0, err
	}
	switch in.Do {
	case "answer":
		one := in.answer
		one.Question = cmp.Or(p.Question, one.Question)
		return c.putAnswer(p.RunID, p.Pause, one, false)
	case "cancel":
		why := cancelled{in.Reason, in.Force}
		return http.StatusAccepted, c.signal(p.RunID, checkpoint.SignalCancel, c.by(), why.data(), nil)
	}
	return http.StatusAccepted, c.signal(p.RunID, checkpoint.SignalTake, c.by(), map[string]any{}, nil)
}
