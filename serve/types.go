package serve

import (
	"encoding/json"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/procgroup"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// phases are all phases of runs, those that have not ended first.
var phases = []string{string(checkpoint.PhaseQueued), string(checkpoint.PhaseRunning), string(checkpoint.PhaseWaiting),
	string(checkpoint.PhaseInterrupted), string(checkpoint.PhaseOK), string(checkpoint.PhaseFailed),
	string(checkpoint.PhaseCancelled)}

// run is a run in a list.
type run struct {
	RunID     string            `json:"runId"`
	Recipe    string            `json:"recipe" doc:"The recipe's name."`
	Phase     checkpoint.Phase  `json:"phase" enum:"queued running waiting interrupted ok error cancelled"`
	StartedAt time.Time         `json:"startedAt"`
	UpdatedAt time.Time         `json:"updatedAt" doc:"When the last record was written."`
	EndedAt   time.Time         `json:"endedAt,omitzero"`
	Digest    string            `json:"digest" doc:"Of the recipe; GET /api/v1/plans/{digest} has its plan."`
	Queue     string            `json:"queue,omitempty" doc:"Without it, no worker takes it by itself."`
	Labels    map[string]string `json:"labels,omitempty"`
	By        string            `json:"by,omitempty" doc:"Who began it."`
	Parent    string            `json:"parent,omitempty" doc:"The run that it was forked from."`
	Pauses    int               `json:"pauses" doc:"How many pauses are pending."`
	Error     *runError         `json:"error,omitempty" doc:"Why it failed; alone, also why it was cancelled."`
	Usage     *usage            `json:"usage,omitempty" doc:"Of models, when it last paused, or ended."`
	Now       *doing            `json:"now,omitempty" doc:"What it does: with parameter now, and in streams."`
}

// runError is why a run failed.
type runError struct {
	Category runtime.Category `json:"category,omitempty" doc:"What is to blame. Lists of old runs do not tell."`
	Code     string           `json:"code"`
	Message  string           `json:"message"`
	Step     string           `json:"step,omitempty"`
}

// usage is what a run used of models.
type usage struct {
	Calls            int64   `json:"calls"`
	InputTokens      int64   `json:"inputTokens" doc:"All of the input, cached or not."`
	CachedTokens     int64   `json:"cachedTokens,omitempty" doc:"Of the input, those read from the provider's cache."`
	CacheWriteTokens int64   `json:"cacheWriteTokens,omitempty" doc:"Of the input, those written to the cache."`
	OutputTokens     int64   `json:"outputTokens"`
	ReasoningTokens  int64   `json:"reasoningTokens,omitempty" doc:"Of the output, those of its thinking."`
	CostUSD          float64 `json:"costUsd"`
}

// runs is a page of a list of runs.
type runs struct {
	Runs   []run          `json:"runs"`
	Next   string         `json:"next,omitempty" doc:"The parameter after of the next page; the last has none."`
	Counts map[string]int `json:"counts,omitempty" doc:"Of the first page: runs by phase, at most 1000."`
}

// runOf returns the entry of a run.
func runOf(s checkpoint.Summary) run {
	r := run{RunID: s.ID, Recipe: s.Recipe, Phase: s.Phase(), StartedAt: s.StartedAt, UpdatedAt: s.UpdatedAt,
		EndedAt: s.EndedAt, Digest: s.Digest, Queue: s.Queue, Labels: s.Labels, By: s.By, Parent: s.Parent,
		Pauses: len(s.Pauses)}
	r.Error, r.Usage = errorOf(s.Error), usageOf(s.Usage)
	return r
}

// errorOf returns what is shown of why a run failed, or was cancelled; nil: it was not, or it is not known.
func errorOf(f checkpoint.Failure) *runError {
	if f == (checkpoint.Failure{}) {
		return nil
	}
	return &runError{runtime.Category(f.Category), f.Code, f.Message, f.Step}
}

// usageOf returns what is shown of usage; nil: there is none.
func usageOf(u checkpoint.Usage) *usage {
	if u == (checkpoint.Usage{}) {
		return nil
	}
	return &usage{u.Calls, u.InputTokens, u.CachedTokens, u.CacheWriteTokens, u.OutputTokens, u.ReasoningTokens,
		float64(u.Micros) / 1e6}
}

// pause is a point where a run waits. It has no token.
type pause struct {
	RunID     string           `json:"runId"`
	Recipe    string           `json:"recipe"`
	ID        string           `json:"id" doc:"Unique in the run."`
	Kind      resume.Kind      `json:"kind" enum:"human external system"`
	Step      string           `json:"step" doc:"The path of the step."`
	Prompt    string           `json:"prompt,omitempty"`
	Show      any              `json:"show,omitempty" doc:"What to look at."`
	Schema    any              `json:"schema,omitempty" doc:"Of the form; without decisions, of the answer."`
	Decisions []string         `json:"decisions,omitempty" doc:"Without them, the answer is a value."`
	Default   string           `json:"default,omitempty" doc:"The decision of an answer that names none."`
	Reason    string           `json:"reason,omitempty" doc:"Why the system pauses, or the event that is waited for."`
	To        []string         `json:"to,omitempty" doc:"The people and groups who may answer. Without it: all."`
	FourEyes  bool             `json:"fourEyes,omitempty" doc:"Whoever began the run may not answer."`
	Question  string           `json:"question" doc:"Identifies what is asked; an answer may name it."`
	Call      *pauseCall       `json:"call,omitempty" doc:"The call whose outcome is unknown."`
	StartedBy string           `json:"startedBy,omitempty" doc:"Who began the run."`
	CreatedAt time.Time        `json:"createdAt"`
	ExpiresAt time.Time        `json:"expiresAt,omitzero"`
	RetryAt   time.Time        `json:"retryAt,omitzero" doc:"When the step continues without an answer."`
	Large     map[string]int64 `json:"large,omitempty" doc:"What is left out for its size, in bytes of JSON."`
}

// pauseCall is a call whose outcome a person must find out.
type pauseCall struct {
	Tool      string    `json:"tool"`
	Arguments any       `json:"arguments,omitempty"`
	Key       string    `json:"key" doc:"The idempotency key."`
	Attempt   int       `json:"attempt,omitempty"`
	At        time.Time `json:"at,omitzero"`
	Owner     string    `json:"owner,omitempty" doc:"The process that made it."`
	Given     any       `json:"given,omitempty" doc:"What a person has said became of it: decision, form."`
	PIDs      []int     `json:"pids,omitempty" doc:"Its processes that still live on the server's host."`
}

// showLiving adds to pauses about calls the processes of these calls that still live on this host.
func showLiving(list []pause) {
	var keys []string
	for i := range list {
		if c := list[i].Call; c != nil {
			keys = append(keys, c.Key)
		}
	}
	living, _ := procgroup.Living(keys...)
	for i := range list {
		if c := list[i].Call; c != nil {
			c.PIDs = living[c.Key]
		}
	}
}

// pauses is a page of a list of pauses.
type pauses struct {
	Pauses []pause `json:"pauses"`
	Next   string  `json:"next,omitempty" doc:"The parameter after of the next page; the last has none."`
}

// recipeEntry is a recipe in a list.
type recipeEntry struct {
	Name        string           `json:"name"`
	Digest      string           `json:"digest,omitempty" doc:"Of the version that can be started, if there is one."`
	Version     string           `json:"version,omitempty"`
	Description string           `json:"description,omitempty"`
	Valid       bool             `json:"valid" doc:"The newest version compiles."`
	Diagnostics diagnostics.List `json:"diagnostics"`
	Schedules   []schedule       `json:"schedules" doc:"What begins runs of it at given times."`
	Triggers    []string         `json:"triggers" doc:"The triggers that begin runs of it."`
	Last        *run             `json:"last,omitempty" doc:"The run that started last, in a list of recipes."`
}

// recipeList is all recipes that can be started.
type recipeList struct {
	Recipes []recipeEntry `json:"recipes"`
}

// recipeView is a recipe in full.
type recipeView struct {
	recipeEntry
	Inputs json.RawMessage `json:"inputs,omitempty" doc:"JSON Schema of the object of inputs, with defaults."`
	Source string          `json:"source,omitempty" doc:"The text of the newest version."`
	Plan   json.RawMessage `json:"plan,omitempty" doc:"As of GET /api/v1/plans/{digest}."`
}

// schedule begins runs at given times.
type schedule struct {
	Name string    `json:"name"`
	Cron string    `json:"cron"`
	Zone string    `json:"zone" doc:"Of the times."`
	Next time.Time `json:"next,omitzero" doc:"When it begins the next run."`
}

// plan is what a run of a recipe does.
type plan struct {
	Recipe   string          `json:"recipe"`
	Version  string          `json:"version,omitempty"`
	Digest   string          `json:"digest"`
	Steps    json.RawMessage `json:"steps" doc:"In plan order, with their edges; bodies inside."`
	Requires json.RawMessage `json:"requires" doc:"The names of models, tools and secrets."`
}

// events is a page of the events of a run.
type events struct {
	Events []trace.Event `json:"events"`
	Next   int64         `json:"next" doc:"The parameter after of the next page: the number of the last event."`
	Last   int64         `json:"last" doc:"The number of the last event of the run."`
}
