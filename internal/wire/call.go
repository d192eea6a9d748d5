package wire

import (
	"time"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// Call is an [engine.Call].
type Call struct {
	ID       int64                `json:"id,omitempty"`
	Kind     program.CallKind     `json:"kind,omitempty"`
	Name     string               `json:"name,omitempty"`
	Path     string               `json:"path"`
	Position diagnostics.Position `json:"position,omitzero"`
	Opens    bool                 `json:"opens,omitempty"`
	Job      *agents.Job          `json:"job,omitempty"`
	Agent    *agent               `json:"loop,omitempty"`
	Input    *Value               `json:"input,omitempty"` // of a step; an agent's is in the Job
	Request  *runtime.Request     `json:"request,omitempty"`
	Stream   bool                 `json:"stream,omitempty"`
	Looks    bool                 `json:"looks,omitempty"`
	Files    []journal.File       `json:"files,omitempty"`
	Context  about                `json:"context"`
	Timeout  time.Duration        `json:"timeout,omitempty"`
	Grace    time.Duration        `json:"grace,omitempty"`
	Effect   runtime.Effect       `json:"effect,omitempty"`
	Spends   []string             `json:"spends,omitempty"`
	Stops
}

// Stops is with which others a call is stopped, and when.
type Stops struct {
	Group    int64 `json:"group,omitempty"`
	Alone    bool  `json:"alone,omitempty"`
	Rollback bool  `json:"rollback,omitempty"`
	Dispose  bool  `json:"dispose,omitempty"`
}

// agent is an [engine.Agent].
type agent struct {
	Name string `json:"name,omitempty"`
	Cwd  string `json:"cwd,omitempty"`
}

// about is an [engine.Context].
type about struct {
	Generation int     `json:"generation,omitempty"`
	Ordinal    int     `json:"ordinal,omitempty"`
	Attempt    int     `json:"attempt,omitempty"`
	Key        string  `json:"key,omitempty"`
	Recipe     string  `json:"recipe,omitempty"`
	By         string  `json:"by,omitempty"`
	Replies    []reply `json:"replies,omitempty"`
	Answered   bool    `json:"answered,omitempty"`
}

// reply is a [resume.Reply].
type reply struct {
	To     string `json:"to"`
	Answer Value  `json:"answer"`
}

// CallOf takes a call apart. What it is Ready for in this process only is left out.
func CallOf(c *engine.Call) *Call {
	w := &Call{ID: c.ID, Kind: c.Kind, Name: c.Name, Path: c.Path, Position: c.Pos, Opens: c.Opens, Request: c.Request,
		Stream: c.Stream, Looks: c.Looks, Files: c.Files, Timeout: c.Timeout, Grace: c.Grace,
		Effect: c.Effect, Spends: c.Spends, Stops: Stops{c.Group, c.Alone, c.Rollback, c.Dispose},
		Context: about{c.Generation, c.Ordinal, c.Attempt, c.Key, c.Recipe, c.By, nil, c.Answered}}
	for _, r := range c.Replies {
		w.Context.Replies = append(w.Context.Replies, reply{r.To, Value{r.Answer}})
	}
	switch {
	case c.Job != nil:
		j := *c.Job
		j.Request = nil // it is the call's
		w.Job, w.Agent = &j, &agent{c.Agent.Name, c.Agent.Cwd}
	case c.Input != nil:
		w.Input = &Value{seal(c.Input)}
	}
	return w
}

// Restore puts the call together again. The error says that CallOf has not made it.
func (w *Call) Restore() (*engine.Call, error) {
	Empties(w)
	c := &engine.Call{ID: w.ID, Kind: w.Kind, Name: w.Name, Path: w.Path, Pos: w.Position, Opens: w.Opens,
		Job: w.Job, Request: w.Request, Ask: engine.Ask{Stream: w.Stream, Looks: w.Looks, Files: w.Files},
		Timeout: w.Timeout, Grace: w.Grace, Group: w.Group, Alone: w.Alone, Rollback: w.Rollback, Dispose: w.Dispose,
		Ready: engine.Ready{Effect: w.Effect, Spends: w.Spends},
		Context: engine.Context{Generation: w.Context.Generation, Ordinal: w.Context.Ordinal,
			Attempt: w.Context.Attempt, Key: w.Context.Key, Recipe: w.Context.Recipe, By: w.Context.By,
			Answered: w.Context.Answered}}
	for _, r := range w.Context.Replies {
		c.Replies = append(c.Replies, resume.Reply{To: r.To, Answer: r.Answer.V})
	}
	if w.Agent != nil {
		c.Agent = engine.Agent{Name: w.Agent.Name, Cwd: w.Agent.Cwd}
	}
	if c.Job != nil {
		c.Job.Request = w.Request
	}
	var err error
	switch {
	case w.Job != nil && w.Kind == program.ToolCall:
		c.Input, err = value.Decode(w.Job.Arguments)
	case w.Input != nil:
		c.Input, err = unseal(w.Input.V)
	}
	return c, err
}
