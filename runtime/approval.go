package runtime

import (
	"encoding/json"
	"fmt"

	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
)

// Question puts a request to a person: the decisions are approve and reject, the form has scope and arguments for the
// one, reason for the other. What may be approved instead is checked by the tool's schema as the answer comes in.
func (r *ApprovalRequest) Question() resume.Pause {
	scopes := []any{string(ApproveOnce)}
	if !r.Once {
		scopes = append(scopes, string(ApproveRun), string(ApproveSession))
	}
	keys := make([]any, len(r.Keys))
	for i, key := range r.Keys {
		keys[i] = key
	}
	args, err := value.Decode(r.Arguments)
	if err != nil {
		args = string(r.Arguments)
	}
	return resume.Pause{Kind: resume.Human, Step: r.Step,
		Prompt:    fmt.Sprintf("agent %q wants to call tool %q", r.Agent, r.Tool),
		Decisions: []string{"approve", "reject"}, To: r.To,
		Show: map[string]any{"tool": r.Tool, "arguments": args, "keys": keys},
		Schema: map[string]any{"type": "object", "additionalProperties": false, "properties": map[string]any{
			"scope":     map[string]any{"enum": scopes},
			"reason":    map[string]any{"type": "string", "description": "of a rejection, for the model"},
			"arguments": argumentsSchema(r.Parameters)}}}
}

// argumentsSchema is the schema of a tool's arguments as a part of another one. With an id its references are within
// itself.
func argumentsSchema(parameters json.RawMessage) map[string]any {
	v, _ := value.Decode(parameters) // of a tool that is offered: it was compiled
	s, _ := v.(map[string]any)
	if s == nil {
		s = map[string]any{"type": "object"}
	}
	if _, has := s["$id"]; !has {
		s["$id"] = "urn:braise:arguments"
	}
	s["description"] = "approved instead of those that are shown"
	return s
}

// DecisionOf reads the answer to an [ApprovalRequest.Question]: {decision, form}.
func DecisionOf(answer any) ApprovalDecision {
	m, _ := answer.(map[string]any)
	form, _ := m["form"].(map[string]any)
	scope, _ := form["scope"].(string)
	reason, _ := form["reason"].(string)
	d := ApprovalDecision{Allow: m["decision"] == "approve", Scope: ApprovalScope(scope), Reason: reason}
	if edited, ok := form["arguments"]; ok {
		d.Arguments, _ = value.JSON(edited) // it was in a record
	}
	return d
}
