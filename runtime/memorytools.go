package runtime

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/braise-run/braise/internal/value"
)

// Forgetter is an optional second interface of a [Memory]: it removes conversations, for the tool memory.clear.
type Forgetter interface {
	// Forget removes a conversation. It is no error if there is none.
	Forget(ctx context.Context, c Conversation) error
}

const (
	defaultLast    = 20
	mostLast       = 200
	mostReadBytes  = 48 << 10 // of texts, but for the newest: less than what an agent sees of a result by default
	mostAppendText = 10_000   // characters
)

// memoryTool is a tool of a memory. A step names the conversation. That of an agent is its own: its model is not
// offered the arguments thread, resource and role.
type memoryTool struct {
	spec ToolSpec
	call func(ctx context.Context, c Conversation, in memoryArguments) (any, error)
}

type memoryArguments struct {
	Thread   string `json:"thread"`
	Resource string `json:"resource"`
	Last     int    `json:"last"`
	Role     Role   `json:"role"`
	Text     string `json:"text"`
}

// memoryTools are the tools of a memory; memory.clear only of one that can remove a conversation.
func memoryTools(m Memory) []Tool {
	if m == nil {
		return nil
	}
	list := []Tool{memoryTool{ToolSpec{Name: "memory.read", Effect: ReadOnly,
		Description: "Read what was said last in the conversation that is remembered, oldest first.",
		Parameters: memoryParameters(map[string]any{"last": map[string]any{"type": "integer",
			"minimum": int64(1), "maximum": int64(mostLast), "description": "The most messages. Defaults to 20."}}),
		Result: "{messages: [{role, text}], earlier}; earlier is how many messages there are before these"},
		func(ctx context.Context, c Conversation, in memoryArguments) (any, error) {
			all, err := m.Load(ctx, c)
			return lastOf(all, cmp.Or(in.Last, defaultLast)), err
		}},
		memoryTool{ToolSpec{Name: "memory.append", Effect: Idempotent,
			Description: "Add a message to the conversation that is remembered.",
			Parameters: memoryParameters(map[string]any{
				"text": map[string]any{"type": "string", "minLength": int64(1), "maxLength": int64(mostAppendText),
					"description": "What to remember."},
				"role": map[string]any{"enum": []any{"assistant", "user"},
					"description": "Who said it. Defaults to assistant."}}, "text"),
			Result: "{appended: true}"},
			func(ctx context.Context, c Conversation, in memoryArguments) (any, error) {
				key := IdempotencyKey(ctx) // a second attempt replaces the message
				if key == "" {
					return nil, errors.New("memory.append works in runs only")
				}
				message := Message{Role: cmp.Or(in.Role, Assistant), Text: in.Text}
				return map[string]any{"appended": true}, m.Save(ctx, c, "append/"+key, []Message{message})
			}}}
	if f, ok := m.(Forgetter); ok {
		list = append(list, memoryTool{ToolSpec{Name: "memory.clear",
			Effect:      External, // a second call would remove what others have added in between
			Description: "Forget the conversation that is remembered, for good.",
			Parameters:  memoryParameters(map[string]any{}),
			Result:      "{cleared: true}"},
			func(ctx context.Context, c Conversation, _ memoryArguments) (any, error) {
				return map[string]any{"cleared": true}, f.Forget(ctx, c)
			}})
	}
	return list
}

// memoryParameters is the schema of arguments, together with those that say which conversation it is.
func memoryParameters(properties map[string]any, required ...any) json.RawMessage {
	properties["thread"] = map[string]any{"type": "string", "minLength": int64(1),
		"description": "The conversation. An agent's is that of its memory."}
	properties["resource"] = map[string]any{"type": "string",
		"description": "Whom or what it is about: a part of the name."}
	parameters, _ := value.JSON(map[string]any{"type": "object", "additionalProperties": false,
		"required": append([]any{"thread"}, required...), "properties": properties})
	return parameters
}

// Builtin implements BuiltinTool.
func (memoryTool) Builtin() {}

// PortTool implements PortTool.
func (memoryTool) PortTool() {}

// Spec implements Tool.
func (t memoryTool) Spec() ToolSpec { return t.spec }

// Call implements Tool.
func (t memoryTool) Call(ctx context.Context, args json.RawMessage) (json.RawMessage, error) {
	var in memoryArguments
	if err := json.Unmarshal(args, &in); err != nil {
		return nil, err
	}
	c := Conversation{Thread: in.Thread, Resource: in.Resource}
	if info, _ := CallOf(ctx); info.Thread != "" { // an agent's, whatever the arguments are
		c = Conversation{Thread: info.Thread, Resource: info.Resource}
	}
	if c.Thread == "" {
		return nil, errors.New("there is no conversation: the thread is empty")
	}
	out, err := t.call(ctx, c, in)
	if err != nil {
		return nil, err
	}
	return json.Marshal(out)
}

// lastOf returns the last messages with a text of a conversation, without calls and results of tools.
func lastOf(all []Message, most int) any {
	type said struct {
		Role Role   `json:"role"`
		Text string `json:"text"`
	}
	list, size, earlier := []said{}, 0, 0
	for _, m := range slices.Backward(all) {
		if m.Text == "" || m.Role != User && m.Role != Assistant {
			continue
		}
		if size += len(m.Text); earlier > 0 || len(list) == most || len(list) > 0 && size > mostReadBytes {
			earlier++
			continue
		}
		list = append(list, said{m.Role, m.Text})
	}
	slices.Reverse(list)
	return map[string]any{"messages": list, "earlier": earlier}
}
