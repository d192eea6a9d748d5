package temporal

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/expr"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// input is what a workflow begins with. One that continues has what [carried.pack] makes as its second argument.
type input struct {
	Definition json.RawMessage `json:"definition"`
	Inputs     json.RawMessage `json:"inputs,omitempty"` // nil: the journal has them
	By         string          `json:"by,omitempty"`
	Options    Options         `json:"options"`
}

// carried is what one execution of a workflow hands to the next, beside the records.
type carried struct {
	Offer   *offer   `json:"offer"`
	Outcome *outcome `json:"outcome,omitempty"` // of a run that is paused, without the artefact; nil: it is at work
	Made    []string `json:"made,omitempty"`    // the paths in the artefact: the journal has the outputs
	Cancel  canceled `json:"cancel,omitzero"`   // what was said, if the run is cancelled later
	Moved   int      `json:"moved,omitempty"`   // how often a pause has moved to another version of the workers
}

// decoded is decoded JSON whose integers stay integers.
type decoded struct{ v any }

func (d decoded) MarshalJSON() ([]byte, error) { return value.JSON(d.v) }

func (d *decoded) UnmarshalJSON(text []byte) (err error) {
	d.v, err = value.Decode(text)
	return err
}

// request is one attempt of a call.
type request struct {
	Run      string               `json:"run"`
	Kind     program.CallKind     `json:"kind,omitempty"`
	Name     string               `json:"name,omitempty"`
	Path     string               `json:"path"`
	Position diagnostics.Position `json:"position,omitzero"` // where the recipe has the call
	Secrets  []string             `json:"secrets,omitempty"` // the names of the run's
	Opens    bool                 `json:"opens,omitempty"`   // the input has some of them
	Once     bool                 `json:"once,omitempty"`    // it has an effect outside: nobody makes it again
	Job      *job                 `json:"job,omitempty"`
	Loop     *loop                `json:"loop,omitempty"`
	Input    *decoded             `json:"input,omitempty"`
	Request  *runtime.Request     `json:"request,omitempty"`
	Looks    bool                 `json:"looks,omitempty"`
	Files    []journal.File       `json:"files,omitempty"`
	Context  about                `json:"context"`
	Timeout  time.Duration        `json:"timeout,omitempty"`
	Grace    time.Duration        `json:"grace,omitempty"`
}

// about is an [engine.Context].
type about struct {
	Generation int     `json:"generation,omitempty"`
	Ordinal    int     `json:"ordinal,omitempty"`
	Attempt    int     `json:"attempt,omitempty"`
	Key        string  `json:"key,omitempty"`
	By         string  `json:"by,omitempty"`
	Replies    []reply `json:"replies,omitempty"`
	Answered   bool    `json:"answered,omitempty"`
}

// reply is a [resume.Reply].
type reply struct {
	To     string  `json:"to"`
	Answer decoded `json:"answer"`
}

// job is an [agents.Job].
type job struct {
	agents.Job
}

// loop is what a call needs to know of the agent that makes it.
type loop struct {
	Name string `json:"name,omitempty"`
	Cwd  string `json:"cwd,omitempty"`
}

// answer is what an attempt came to. What an adapter says went wrong is no failure of the activity.
type answer struct {
	Output   *decoded          `json:"output,omitempty"`
	Size     int               `json:"size"` // of Output in bytes; 0, or -1 from older workers: not measured
	Weight   int               `json:"weight,omitempty"`
	Response *runtime.Response `json:"response,omitempty"`
	Reply    *agents.Reply     `json:"reply,omitempty"`
	Err      *fault            `json:"err,omitempty"`
	Bad      *fault            `json:"bad,omitempty"`
	Files    []journal.File    `json:"files,omitempty"`
	Spent    []runtime.Spent   `json:"spent,omitempty"`
	Found    []finding         `json:"found,omitempty"`
	Told     []told            `json:"told,omitempty"`
}

// told is a [trace.Told].
type told struct {
	At   time.Time `json:"at"`
	Name string    `json:"name"`
	Data *decoded  `json:"data,omitempty"`
}

// finding is a [diagnostics.Diagnostic].
type finding struct {
	Level    diagnostics.Level
	Kind     diagnostics.Kind
	Code     diagnostics.Code
	Message  string
	Hint     string               `json:",omitempty"`
	Position diagnostics.Position `json:",omitzero"`
	Step     string               `json:",omitempty"`
	Data     *decoded             `json:",omitempty"`
}

func findingsOf(list diagnostics.List) (out []finding) {
	for _, d := range list {
		f := finding{Level: d.Level, Kind: d.Kind, Code: d.Code, Message: d.Message, Hint: d.Hint,
			Position: d.Position, Step: d.Step}
		if d.Data != nil {
			f.Data = &decoded{d.Data}
		}
		out = append(out, f)
	}
	return out
}

func listOf(found []finding) (list diagnostics.List) {
	for _, f := range found {
		d := diagnostics.Diagnostic{Level: f.Level, Kind: f.Kind, Code: f.Code, Message: f.Message, Hint: f.Hint,
			Position: f.Position, Step: f.Step}
		if f.Data != nil {
			d.Data, _ = f.Data.v.(map[string]any)
		}
		list = append(list, d)
	}
	return list
}

// requestOf makes the request for a call of a run. secrets are the names of the run's.
func requestOf(run string, c *engine.Call, secrets []string) *request {
	r := &request{Run: run, Kind: c.Kind, Name: c.Name, Path: c.Path, Position: c.Site.Pos, Secrets: secrets,
		Opens: c.Job == nil && c.Site.Secrets, Once: c.Effect == runtime.External, Request: c.Request, Looks: c.Looks, Files: c.Files, Timeout: c.Timeout, Grace: c.Grace,
		Context: about{c.Generation, c.Ordinal, c.Attempt, c.Key, c.By, nil, c.Answered}}
	for _, e := range c.Replies {
		r.Context.Replies = append(r.Context.Replies, reply{e.To, decoded{e.Answer}})
	}
	if c.Input != nil {
		r.Input = &decoded{seal(c.Input)}
	}
	if c.Job != nil {
		r.Job = &job{Job: *c.Job}
		if r.Job.Job.Request = nil; c.Loop != nil { // it is the call's
			r.Loop = &loop{c.Loop.Name, c.Loop.Cwd}
		}
	}
	return r
}

// call makes the call of a request again. Its Site has what a [call.Caller] reads.
func (r *request) call() *engine.Call {
	empties(reflect.ValueOf(r))
	site := &program.Call{Kind: r.Kind, Name: r.Name, Pos: r.Position, Secrets: r.Opens}
	c := &engine.Call{Kind: r.Kind, Name: r.Name, Path: r.Path, Site: site, Request: r.Request, Ask: engine.Ask{Looks: r.Looks, Files: r.Files},
		Timeout: r.Timeout, Grace: r.Grace,
		Context: engine.Context{Generation: r.Context.Generation, Ordinal: r.Context.Ordinal,
			Attempt: r.Context.Attempt, Key: r.Context.Key, By: r.Context.By, Answered: r.Context.Answered}}
	for _, e := range r.Context.Replies {
		c.Replies = append(c.Replies, resume.Reply{To: e.To, Answer: e.Answer.v})
	}
	if r.Input != nil {
		c.Input = unseal(r.Input.v)
	}
	if r.Job != nil {
		j := r.Job.Job
		j.Request, c.Job, site.Kind = r.Request, &j, program.AgentCall
	}
	if r.Loop != nil {
		c.Loop = &agentloop.Loop{Name: r.Loop.Name, Cwd: r.Loop.Cwd}
	}
	return c
}

// answerOf makes the answer of a result.
func answerOf(res *engine.Result) *answer {
	a := &answer{Size: res.Extent.Bytes, Weight: res.Extent.Weight, Response: res.Response, Reply: res.Reply, Err: faultOf(res.Err), Bad: faultOf(res.Bad),
		Files: res.Files, Spent: res.Spent, Found: findingsOf(res.Found)}
	if r := res.Response; r != nil {
		shown := *r
		shown.ToolCalls = slices.Clone(r.ToolCalls)
		for i, c := range shown.ToolCalls {
			switch {
			case len(bytes.TrimSpace(c.Arguments)) == 0:
				shown.ToolCalls[i].Arguments = nil
			case !json.Valid(c.Arguments): // an agent makes the same of it
				shown.ToolCalls[i].Arguments = value.AppendString(nil, strings.ToValidUTF8(string(c.Arguments), "\uFFFD"))
			}
		}
		a.Response = &shown
	}
	if v, err := value.Decode(res.Text); err == nil {
		a.Output = &decoded{v}
	} else if res.Output != nil {
		a.Output = &decoded{res.Output}
	}
	if res.Reply != nil {
		reply := *res.Reply
		reply.Err, a.Reply = nil, &reply
	}
	for _, t := range res.Told {
		w := told{At: t.At, Name: t.Name}
		if t.Data != nil {
			w.Data = &decoded{t.Data}
		}
		a.Told = append(a.Told, w)
	}
	return a
}

// result makes the result of an answer again.
func (a *answer) result() *engine.Result {
	empties(reflect.ValueOf(a))
	res := &engine.Result{Extent: value.Extent{Bytes: max(0, a.Size), Weight: a.Weight}, Response: a.Response, Reply: a.Reply, Err: a.Err.err(), Bad: a.Bad.err(),
		Files: a.Files, Spent: a.Spent, Found: listOf(a.Found)}
	if a.Output != nil {
		res.Output = a.Output.v
	}
	for _, w := range a.Told {
		t := trace.Told{At: w.At, Name: w.Name}
		if w.Data != nil {
			t.Data, _ = w.Data.v.(map[string]any)
		}
		res.Told = append(res.Told, t)
	}
	return res
}

var rawType = reflect.TypeFor[json.RawMessage]()

// empties makes each json.RawMessage nil that encoding/json has written as null.
func empties(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			empties(v.Elem())
		}
	case reflect.Struct:
		if v.Type().PkgPath() == "time" {
			return
		}
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() || f.Kind() == reflect.Struct {
				empties(f)
			}
		}
	case reflect.Slice:
		switch {
		case v.Type() == rawType:
			if v.CanSet() && string(v.Bytes()) == "null" {
				v.SetZero()
			}
		case v.Type().Elem().Kind() == reflect.Struct:
			for i := range v.Len() {
				empties(v.Index(i))
			}
		}
	}
}

// The members by which a payload names what is not plain JSON. A map that has one of them is sent inside of another.
const (
	sealedMember = "$sealed"
	plainMember  = "$plain"
)

// seal writes the places where secrets belong as JSON.
func seal(v any) any {
	switch v := v.(type) {
	case expr.Sealed:
		list := make([]any, len(v.Parts))
		for i, p := range v.Parts {
			pair := []any{p.Text, p.Secret}
			if p.Escape != "" {
				pair = append(pair, string(p.Escape))
			}
			list[i] = pair
		}
		return map[string]any{sealedMember: list}
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = seal(v[i])
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			out[k] = seal(v[k])
		}
		_, sealed := v[sealedMember]
		if _, plain := v[plainMember]; sealed || plain {
			return map[string]any{plainMember: out}
		}
		return out
	}
	return v
}

// unseal is the reverse of seal.
func unseal(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = unseal(v[i])
		}
		return out
	case map[string]any:
		if list, ok := v[sealedMember].([]any); ok {
			var s expr.Sealed
			for _, p := range list {
				pair := p.([]any)
				text, _ := pair[0].(string)
				name, _ := pair[1].(string)
				part := expr.SealedPart{Text: text, Secret: name}
				if len(pair) > 2 {
					escape, _ := pair[2].(string)
					part.Escape = expr.Escape(escape)
				}
				s.Parts = append(s.Parts, part)
			}
			return s
		}
		inner, wrapped := v[plainMember].(map[string]any)
		if !wrapped {
			inner = v
		}
		out := make(map[string]any, len(inner))
		for k := range inner {
			out[k] = unseal(inner[k])
		}
		return out
	}
	return v
}
