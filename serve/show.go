package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/trace"
)

// runView is a run in full, but for large values.
type runView struct {
	run
	Inputs      any                 `json:"inputs,omitempty" doc:"With defaults."`
	Output      any                 `json:"output,omitempty" doc:"Of a run that is ok."`
	Large       map[string]int64    `json:"large,omitempty" doc:"What is left out for its size, in bytes of JSON."`
	Steps       []history.Step      `json:"steps" doc:"Of the plan, in its order; items of a foreach are counted."`
	Pending     []pause             `json:"pending" doc:"The pauses that nobody has answered."`
	Acts        []history.Act       `json:"acts" doc:"What people and the host did, in order."`
	Executions  []history.Execution `json:"executions" doc:"Which processes executed the run, and when."`
	Refused     *errorBody          `json:"refused,omitempty" doc:"Why the worker of this process leaves it as it is."`
	Events      int64               `json:"events" doc:"The number of the last event: a stream continues behind it."`
	Diagnostics diagnostics.List    `json:"diagnostics" doc:"Of what the run did, or why steps are missing."`
}

// outcome is how a run ended, or how far it is.
type outcome struct {
	Status      history.Status   `json:"status" enum:"queued running interrupted paused ok error cancelled"`
	RunID       string           `json:"runId"`
	Recipe      string           `json:"recipe"`
	Output      json.RawMessage  `json:"output,omitempty" doc:"Of a run that is ok."`
	Error       *runError        `json:"error,omitempty"`
	Pauses      []pause          `json:"pauses,omitempty" doc:"What the run waits for, without tokens."`
	Usage       *usage           `json:"usage,omitempty"`
	StartedAt   time.Time        `json:"startedAt"`
	EndedAt     time.Time        `json:"endedAt,omitzero"`
	Diagnostics diagnostics.List `json:"diagnostics"`
}

// stepView is a step in full, or without large values.
type stepView struct {
	history.Detail
	Large map[string]int64 `json:"large,omitempty" doc:"What is left out for its size, in bytes of JSON."`
}

// steps is a page of the items of a foreach.
type steps struct {
	Items []history.Step `json:"items"`
}

// showRun answers GET /runs/{id}.
func (c *call) showRun() error {
	s, err := c.summary()
	if err != nil {
		return err
	}
	signals, err := c.store.Signals(c.r.Context(), s.ID, true)
	if err != nil {
		return err
	}
	refused, tag := c.refused(s, len(signals) > 0), tagOf(s, len(signals))
	if refused != nil {
		tag += "." + refused.Code
	}
	var told *history.Run
	var pending []pause
	if len(s.Pauses) > 0 { // they say which processes of calls live
		if told, err = c.reader.Load(c.r.Context(), s.ID); err != nil {
			return err
		}
		pending = pendingOf(s, told, signals)
		tag += tagOfLiving(pending)
	}
	if c.fresh(strconv.Quote(tag)) {
		return nil
	}
	if told == nil {
		if told, err = c.reader.Load(c.r.Context(), s.ID); err != nil {
			return err
		}
		pending = pendingOf(s, told, signals)
	}
	v := runView{run: runOf(s), Steps: told.Steps, Pending: pending, Acts: told.Acts,
		Executions: told.Executions, Events: int64(len(told.Events)), Refused: refused,
		Diagnostics: append(diagnostics.List{}, told.Diagnostics...)}
	v.Pauses = len(v.Pending)
	v.Output = fitting("output", told.Output, &v.Large)
	if told.Inputs != nil {
		v.Inputs = fitting("inputs", told.Inputs, &v.Large)
	}
	v.Error = errorOf(told.Error)
	v.Usage = usageOf(told.Usage)
	return c.reply(http.StatusOK, v)
}

// refused says why the worker of this process leaves a run as it is; nil: it does not, or there is none. asked: a
// signal asks for something to be done.
func (a *api) refused(s checkpoint.Summary, asked bool) *errorBody {
	if a.Worker == nil || s.Held || s.Status.Ended() {
		return nil
	}
	if asked && s.Queue != "" && !a.Works(s.Queue) {
		p := conflict("queue.other", "the worker of this process does not execute the runs of queue %q"+
			"\n  hint: it waits for a worker of that queue; start one, if there is none", s.Queue)
		return &p.errorBody
	}
	err := a.Worker.Refused(s.ID)
	if err == nil {
		return nil
	}
	return &problemOf(err).errorBody
}

// tagOf is the ETag of what a store has of a run.
func tagOf(s checkpoint.Summary, signals int) string {
	held := 0
	if s.Held {
		held = 1
	}
	if signals == 0 {
		return fmt.Sprintf("%d.%d", s.Seq, held)
	}
	return fmt.Sprintf("%d.%d.%d", s.Seq, held, signals)
}

// tagOfLiving is the part of an ETag for the processes that pauses show; "": none.
func tagOfLiving(list []pause) (tag string) {
	for _, p := range list {
		if p.Call != nil {
			for _, pid := range p.Call.PIDs {
				tag += "." + strconv.Itoa(pid)
			}
		}
	}
	return tag
}

// pendingOf returns the pauses of a run that no signal answers.
func pendingOf(s checkpoint.Summary, told *history.Run, signals []checkpoint.Signal) []pause {
	list := []pause{}
	for i, p := range told.Pauses {
		answered := slices.ContainsFunc(signals, func(one checkpoint.Signal) bool {
			var data struct{ Pause string }
			return one.Kind == checkpoint.SignalAnswer && json.Unmarshal(one.Data, &data) == nil && data.Pause == p.ID
		})
		if !answered {
			list = append(list, pauseOf(s, told.Pauses[i]))
		}
	}
	showLiving(list)
	return list
}

// showOutput answers GET /runs/{id}/output.
func (c *call) showOutput() error {
	s, err := c.summary()
	if err != nil {
		return err
	}
	return c.outcome(s.ID)
}

// outcome answers how a run ended, or how far it is.
func (c *call) outcome(runID string) error {
	s, _, err := c.load(runID, math.MaxInt64)
	if err != nil {
		return err
	}
	told, err := c.reader.Load(c.r.Context(), runID)
	if err != nil {
		return err
	}
	signals, err := c.store.Signals(c.r.Context(), runID, true)
	if err != nil {
		return err
	}
	o := outcome{Status: told.Status, RunID: runID, Recipe: told.Recipe, StartedAt: told.StartedAt,
		EndedAt: told.EndedAt,
		Pauses:  pendingOf(s, told, signals), Usage: usageOf(told.Usage),
		Diagnostics: append(diagnostics.List{}, told.Diagnostics...)}
	o.Error = errorOf(told.Error)
	if told.Status == history.OK {
		if o.Output, err = value.JSON(told.Output); err != nil {
			return err
		}
	}
	return c.reply(http.StatusOK, o)
}

// showStep answers GET /runs/{id}/steps/{path}.
func (c *call) showStep() error {
	s, err := c.summary()
	if err != nil {
		return err
	}
	d, err := c.reader.Step(c.r.Context(), s.ID, c.r.PathValue("path"))
	if err != nil {
		return c.noStep(s, err)
	}
	v := stepView{Detail: *d}
	if c.flag("brief") {
		v.Input = fitting("input", d.Input, &v.Large)
		v.Output = fitting("output", d.Output, &v.Large)
	}
	return c.reply(http.StatusOK, v)
}

// showItems answers GET /runs/{id}/steps/{path}/items.
func (c *call) showItems() error {
	s, err := c.summary()
	if err != nil {
		return err
	}
	items, err := c.reader.Items(c.r.Context(), s.ID, c.r.PathValue("path"), &history.ItemsOptions{
		Status: c.query.Get("status"), From: c.number("from", 0), Limit: c.number("limit", 100)})
	if err != nil {
		return c.noStep(s, err)
	}
	return c.reply(http.StatusOK, steps{append([]history.Step{}, items...)})
}

// noStep says which steps there are instead of one.
func (c *call) noStep(s checkpoint.Summary, err error) error {
	if !errors.Is(err, checkpoint.ErrNotFound) {
		return err
	}
	var known []string
	if told, err := c.reader.Load(c.r.Context(), s.ID); err == nil {
		for _, step := range told.Steps {
			known = append(known, step.Step)
		}
	}
	path := c.r.PathValue("path")
	return absent("step.unknown", "run %q has no step %.80q that has begun\n  hint: %s", s.ID, path,
		suggest(path, known, "GET "+prefix+"/runs/"+s.ID+" has all"))
}

// showEvents answers GET /runs/{id}/events: a page of the trace, or a stream of it.
func (c *call) showEvents() error {
	s, err := c.summary()
	if err != nil {
		return err
	}
	if c.r.Method == http.MethodGet && strings.Contains(c.r.Header.Get("Accept"), "text/event-stream") {
		return c.watch(s.ID)
	}
	after, err := c.lastSeen()
	if err != nil {
		return err
	}
	told, err := c.reader.Load(c.r.Context(), s.ID)
	if err != nil {
		return err
	}
	last := int64(len(told.Events))
	if after > last {
		return malformed("request.parameter", "the run has no event %d\n  hint: its last is %d", after, last)
	}
	page := events{Events: []trace.Event{}, Next: after, Last: last}
	step, limit := c.query.Get("step"), c.number("limit", usualEvents)
	for _, e := range told.Events[after:] {
		if len(page.Events) == limit {
			break
		}
		if page.Next++; step == "" || isWithin(e.Step, step) {
			page.Events = append(page.Events, e)
		}
	}
	return c.reply(http.StatusOK, page)
}

// How many events a page has by default, and at most.
const (
	usualEvents = 1000
	maxEvents   = 10_000
)

// isWithin reports whether a path is that of a step or of something in it.
func isWithin(path, step string) bool {
	rest, ok := strings.CutPrefix(path, step)
	return ok && (rest == "" || strings.ContainsRune("/#[", rune(rest[0])))
}

// showJournal answers GET /runs/{id}/journal.
func (c *call) showJournal() error {
	_, recs, err := c.load(c.r.PathValue("id"), 0)
	if err != nil {
		return err
	}
	var text []byte
	for _, rec := range recs {
		text = withoutToken(rec).AppendLine(text)
		text = append(text, '\n')
	}
	c.w.Header().Set("Content-Type", "application/x-ndjson")
	_, _ = c.w.Write(text) // who has left needs no answer
	return nil
}

// withoutToken leaves out what identifies a token: the hashes of tokens are of no use to a reader.
func withoutToken(rec checkpoint.Record) checkpoint.Record {
	if rec.Kind == checkpoint.TokenMinted {
		rec.Data = nil
	}
	return rec
}
