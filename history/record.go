package history

import (
	"encoding/json"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/value"
)

// The kinds of records of the engine that tell something, beside those of checkpoint.
const (
	callBegun  checkpoint.Kind = "call.begun"
	callEnded  checkpoint.Kind = "call.ended"
	waitOver   checkpoint.Kind = "wait.over"
	agentEvent checkpoint.Kind = "agent.event"
)

// members are the data of a record.
type members map[string]any

func membersOf(rec checkpoint.Record) members {
	v, _ := value.Decode(rec.Data) // a store gives out JSON only
	m, _ := v.(map[string]any)
	return m
}

// text is a member that is a string, such as digest, recipe, model, pause, next or status; "" when there is none.
func (m members) text(name string) string {
	s, _ := m[name].(string)
	return s
}

// failure is why a call failed; nil when it succeeded.
func (m members) failure() *failure {
	e, ok := m["error"].(map[string]any)
	if !ok {
		return nil
	}
	return &failure{members(e).text("code"), members(e).text("message")}
}

// failure is why a step failed.
type failure struct{ code, message string }

// agentStep is the step of the agent that opened a pause, whose path may be of one of its children; "" when it was no
// agent.
func (m members) agentStep() string {
	in, _ := m["agent"].(map[string]any)
	return members(in).text("step")
}

// agentEvents are the events of an agent, and whether it waits from here on.
func agentEvents(rec checkpoint.Record) (events []agentloop.Event, waits bool, err error) {
	var kept struct {
		Events []agentloop.Event `json:"events"`
		Waits  bool              `json:"waits"`
	}
	err = json.Unmarshal(rec.Data, &kept)
	return kept.Events, kept.Waits, err
}
