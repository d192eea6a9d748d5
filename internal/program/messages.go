package program

import (
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
)

// readsMessages says whether expressions of the file read the messages of a step with that id.
func (c *compiler) readsMessages(id string) *bool {
	if c.in.messages == nil {
		c.in.messages = map[string]*bool{}
	}
	if c.in.messages[id] == nil {
		c.in.messages[id] = new(bool)
	}
	return c.in.messages[id]
}

// compileMessages says what expressions read as the messages of a step that asks a model.
func (s *stepCompiler) compileMessages(id string) {
	if call, ok := s.node.Adapter.(*Call); ok && (call.Kind == ModelCall || call.Kind == AgentCall) {
		s.node.Messages = &machine.Messages{Read: s.readsMessages(id), Of: call.messages}
	}
}

// messages is what a step was told, without instructions, and what it answered. Behind a text stand the names of its
// files.
func (c *Call) messages(input, output any) (list []any) {
	add := func(role runtime.Role, v any, files any) {
		text, err := value.Text(v)
		if err != nil || v == nil {
			return
		}
		names, _ := files.([]any)
		for _, one := range names {
			name, _ := one.(string)
			text = value.NameFile(text, name)
		}
		if text != "" {
			list = append(list, map[string]any{"role": string(role), "text": text})
		}
	}
	asked, _ := input.(map[string]any)
	given, _ := asked["messages"].([]any)
	for _, one := range given {
		m, _ := one.(map[string]any)
		role, _ := m["role"].(string)
		add(runtime.Role(role), m["text"], m["files"])
	}
	add(runtime.User, asked["prompt"], asked["images"])
	answer, _ := output.(map[string]any)
	if c.Answer != nil {
		add(runtime.Assistant, output, nil)
	} else {
		add(runtime.Assistant, answer["text"], nil)
	}
	return list
}

// excludeMemory refuses messages for an agent that remembers what was said.
func (s *stepCompiler) excludeMemory(with *recipe.Value, def *agentDef) {
	if f := with.Field("messages"); f != nil && def.thread != nil {
		s.errorf(f.Value.Pos, diagnostics.CodeInvalidValue, "leave messages out, or the memory of the agent",
			"agent %q has a memory, which knows what was said before: %q excludes it", def.Loop.Name, "messages")
	}
}
