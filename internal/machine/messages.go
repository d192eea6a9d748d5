package machine

import (
	"fmt"

	"github.com/braise-run/braise/internal/value"
)

// MaxMessages is how many bytes the messages of a step may have as JSON.
const MaxMessages = 16 << 20

// Messages says what a node that asks a model was told and answered. That is a function of its input and its output: no
// record is needed.
type Messages struct {
	Read *bool // whether an expression of the file reads the messages of a step with the node's id
	Of   func(input, output any) []any
}

// messages is what a task keeps for those who read its messages.
type messages struct {
	input any   // while it runs
	list  []any // once it has succeeded: {role, text} each; of a foreach those of its items, null for one that failed
}

// talks reports whether somebody reads the messages of the node.
func (n *Node) talks() bool { return n.Messages != nil && *n.Messages.Read }

// answered works out the messages of a task that is about to succeed, or refuses them.
func (m *Machine) answered(t *Task, output any) *Failure {
	n := t.Node()
	if !n.talks() {
		return nil
	}
	var list []any
	if t.item < 0 && n.Foreach != nil {
		list = make([]any, len(t.Items()))
		for i := range list {
			list[i] = t.Items()[i].said()
		}
	} else {
		list = n.Messages.Of(t.messages.input, output)
	}
	size, err := value.Size(list, MaxMessages)
	if err != nil || size > MaxMessages {
		return &Failure{Category: "limit", Code: "output.tooLarge",
			Err: fmt.Errorf("the messages of the step have more than %d bytes", MaxMessages)}
	}
	m.largest = max(m.largest, size)
	t.messages = &messages{list: list}
	return nil
}

// said returns what expressions see as the messages of a task: nil unless it succeeded by itself.
func (t *Task) said() any {
	if t.messages == nil || t.messages.list == nil {
		return nil
	}
	return t.messages.list
}
