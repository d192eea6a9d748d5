package machine

import (
	"fmt"
	"slices"

	"github.com/braise-run/braise/internal/value"
)

// VarConversations is the variable that holds the conversations of a file by name, each a list of {role, text, step}.
// A body of the file sees it so many bodies outwards.
const VarConversations = 100

// MaxConversation is how many bytes a conversation may have as JSON.
const MaxConversation = 16 << 20

// Talk says how a node takes part in a conversation of its file. What it adds when it succeeds is a function of its
// input and its output: no record is needed.
type Talk struct {
	Conversation int // which one of the file
	Adds         func(input, output any) []Message
}

// Message is what one said.
type Message struct{ Role, Text string }

// conversation is the state of a conversation in one execution of its file.
type conversation struct {
	parts []part // in plan order
	size  int
}

// part is what a task has added.
type part struct {
	task     *Task
	messages []any // {role, text, step} each
}

// openConversations makes those of a frame, as openChannels does.
func (f *frame) openConversations() {
	if f.outside() != nil {
		f.talks = f.around().talks
	}
	if n := len(f.graph.Conversations); n > 0 {
		f.talks = make([]*conversation, n)
		for i := range f.talks {
			f.talks[i] = new(conversation)
		}
	}
}

// conversations returns those of the frame's file, by name.
func (f *frame) conversations() map[string]any {
	of := f
	for len(of.graph.Conversations) == 0 && of.outside() != nil {
		of = of.around()
	}
	all := make(map[string]any, len(f.talks))
	for i, name := range of.graph.Conversations {
		all[name] = f.talks[i].said()
	}
	return all
}

// Conversation returns what was said so far in the conversation that a task goes on with; nil: it takes part in none.
func (t *Task) Conversation() []any {
	if t.Node().Talk == nil {
		return nil
	}
	return t.conversation().said()
}

func (t *Task) conversation() *conversation { return t.frame.talks[t.Node().Talk.Conversation] }

// said is all of a conversation.
func (c *conversation) said() []any {
	all := []any{}
	for _, p := range c.parts {
		all = append(all, p.messages...)
	}
	return all
}

// talk adds what a task has said to its conversation.
func (m *Machine) talk(t *Task, output any) *Failure {
	talk := t.Node().Talk
	if talk == nil {
		return nil
	}
	c, added := t.conversation(), []any{}
	for _, one := range talk.Adds(t.messages.input, output) {
		added = append(added, map[string]any{"role": one.Role, "text": one.Text, "step": t.Path()})
	}
	size, err := value.Size(added, MaxConversation)
	if err != nil || c.size+size > MaxConversation {
		return &Failure{Category: "limit", Code: "conversation.tooLarge",
			Err: fmt.Errorf("conversation %q has more than %d bytes", m.nameOf(t), MaxConversation)}
	}
	c.size += size
	m.largest = max(m.largest, c.size)
	at := len(c.parts)
	for at > 0 && earlier(t, c.parts[at-1].task) { // an item that waited
		at--
	}
	c.parts = slices.Insert(c.parts, at, part{t, added})
	return nil
}

// nameOf returns the name of the conversation of a task.
func (m *Machine) nameOf(t *Task) string {
	f := t.frame
	for len(f.graph.Conversations) == 0 {
		f = f.around()
	}
	return f.graph.Conversations[t.Node().Talk.Conversation]
}

// earlier reports whether a stands before b in the plan. Steps of a conversation wait for each other, so that only
// items of one step may end in another order.
func earlier(a, b *Task) bool {
	a, b = diverge(a, b)
	if a.frame != b.frame {
		return a.frame.index < b.frame.index
	}
	return a.node == b.node && a.item < b.item
}
