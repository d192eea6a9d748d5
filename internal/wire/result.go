package wire

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// Result is an [engine.Result].
type Result struct {
	Output   *Value            `json:"output,omitempty"` // or the decoded Text
	Size     int               `json:"size"`             // of Output in bytes; 0, or -1 from older writers: unknown
	Weight   int               `json:"weight,omitempty"`
	Response *runtime.Response `json:"response,omitempty"`
	Reply    *jobReply         `json:"reply,omitempty"`
	Err      *Fault            `json:"err,omitempty"`
	Bad      *Fault            `json:"bad,omitempty"`
	Left     bool              `json:"left,omitempty"`
	Lost     bool              `json:"lost,omitempty"`
	Yield    bool              `json:"yield,omitempty"`
	Files    []journal.File    `json:"files,omitempty"`
	Pictures []runtime.File    `json:"pictures,omitempty"`
	Spent    []runtime.Spent   `json:"spent,omitempty"`
	Found    []Diagnostic      `json:"found,omitempty"`
	Told     []told            `json:"told,omitempty"`
}

// jobReply is an [agents.Reply].
type jobReply struct {
	agents.Reply
	Tools []tool `json:",omitempty"`
}

// tool is a [runtime.ToolSpec], with what its JSON leaves out. A tool whose arguments say what its effect is can only
// be asked where it is: elsewhere its effect is external.
type tool struct {
	runtime.ToolSpec
	Result   string `json:"result,omitempty"`
	Approval string `json:"approval,omitempty"`
}

// told is a [trace.Told].
type told struct {
	At   time.Time `json:"at"`
	Name string    `json:"name"`
	Data *Value    `json:"data,omitempty"`
}

// ResultOf takes a result apart.
func ResultOf(res *engine.Result) *Result {
	w := &Result{Size: res.Extent.Bytes, Weight: res.Extent.Weight, Response: shown(res.Response),
		Reply: replyOf(res.Reply), Err: FaultOf(res.Err), Bad: FaultOf(res.Bad), Left: res.Left, Lost: res.Lost,
		Yield: res.Yield, Files: res.Files, Pictures: res.Pictures, Spent: res.Spent, Found: DiagnosticsOf(res.Found),
		Output: ValueOf(res.Output)}
	if v, err := value.Decode(res.Text); err == nil {
		w.Output = &Value{v}
	}
	for _, t := range res.Told {
		e := told{At: t.At, Name: t.Name}
		if t.Data != nil {
			e.Data = &Value{t.Data}
		}
		w.Told = append(w.Told, e)
	}
	return w
}

// shown is a response whose calls of tools have JSON for arguments: an agent makes the same of those that have not.
func shown(r *runtime.Response) *runtime.Response {
	if r == nil {
		return nil
	}
	shown := *r
	shown.ToolCalls = slices.Clone(r.ToolCalls)
	for i, c := range shown.ToolCalls {
		switch {
		case len(bytes.TrimSpace(c.Arguments)) == 0:
			shown.ToolCalls[i].Arguments = nil
		case !json.Valid(c.Arguments):
			text := strings.ToValidUTF8(string(c.Arguments), "\uFFFD")
			shown.ToolCalls[i].Arguments = value.AppendString(nil, text)
		}
	}
	return &shown
}

func replyOf(r *agents.Reply) *jobReply {
	if r == nil {
		return nil
	}
	w := &jobReply{Reply: *r}
	w.Reply.Err, w.Reply.Tools = nil, nil
	for _, spec := range r.Tools {
		if spec.EffectOf != nil {
			spec.Effect = runtime.External
		}
		w.Tools = append(w.Tools, tool{spec, spec.Result, spec.Approval})
	}
	return w
}

// Restore puts the result together again.
func (w *Result) Restore() *engine.Result {
	Empties(w)
	res := &engine.Result{Extent: value.Extent{Bytes: max(0, w.Size), Weight: w.Weight}, Response: w.Response,
		Err: w.Err.Restore(), Bad: w.Bad.Restore(), Left: w.Left, Lost: w.Lost, Yield: w.Yield, Files: w.Files,
		Pictures: w.Pictures, Spent: w.Spent, Found: ListOf(w.Found)}
	if w.Output != nil {
		res.Output = w.Output.V
	}
	if w.Reply != nil {
		reply := w.Reply.Reply
		for _, t := range w.Reply.Tools {
			t.ToolSpec.Result, t.ToolSpec.Approval = t.Result, t.Approval
			reply.Tools = append(reply.Tools, t.ToolSpec)
		}
		res.Reply = &reply
	}
	for _, e := range w.Told {
		t := trace.Told{At: e.At, Name: e.Name}
		if e.Data != nil {
			t.Data, _ = e.Data.V.(map[string]any)
		}
		res.Told = append(res.Told, t)
	}
	return res
}
