package agents

import (
	"strings"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// Result is how far a loop came.
type Result struct {
	Text        string               // of the model's last answer
	Data        any                  // the validated answer, of a Loop with a Schema; nil where a limit stopped it
	Agent       string               // the name of the agent that has the conversation
	Steps       int                  // calls of the model, without repair turns
	Calls       []agentloop.Call     // all tool calls with their results, in order
	Messages    []runtime.Message    // the conversation, without the system prompt
	Usage       runtime.Usage        // children's with it
	StopReason  agentloop.StopReason // "paused" while it waits
	Finish      string               // why the model's last answer ended, as in runtime.Response; "": not known
	Trace       []trace.Event        // of this execution, in the order of the calls
	Diagnostics diagnostics.List     // of this execution
}

// Told returns what expressions see of calls: {tool, arguments, result, error} of each that was made or refused. The
// result is what the model saw, and the error the code of a failure; one without a result ended with the loop.
func Told(calls []agentloop.Call) []any {
	list := []any{}
	for i := range calls {
		c := &calls[i]
		told := map[string]any{"tool": c.Name, "arguments": nil, "result": nil, "error": nil}
		if len(c.Arguments) > 0 {
			told["arguments"] = Decoded(c.Arguments)
		}
		switch {
		case c.Done:
			told["result"] = c.Result
		case !c.Open:
			continue
		default:
			told["error"] = toolIndeterminate
		}
		if c.Code != "" {
			told["error"] = c.Code
		}
		list = append(list, told)
	}
	return list
}

// PauseError is the error of a loop that waits for answers, at least one.
type PauseError struct {
	Pauses []Pause // in the order of the calls, children's in place
}

// Error names what the loop waits for.
func (e *PauseError) Error() string {
	ids := make([]string, len(e.Pauses))
	for i, p := range e.Pauses {
		ids[i] = p.String()
	}
	return "the agent waits: " + strings.Join(ids, ", ")
}
