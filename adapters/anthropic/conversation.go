package anthropic

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/braise-run/braise/internal/endpoint"
	"github.com/braise-run/braise/runtime"
)

// What the adapter says itself in a conversation.
const (
	later    = "[From the system, not from the user]\n" // before a system message that stands behind others
	begin    = "Begin."                                 // of the user, where the assistant would speak first
	orphaned = "[The result of an earlier tool call]"   // before a result whose call is not there
	noResult = "(no result)"                            // of a call whose result is not there
)

// conversation is what messages say, by the rules of the API. What becomes of a message does not depend on those
// behind it, so that the requests of a thread begin alike.
//   - Instructions stand apart from the turns; later ones are of the user, with a note.
//   - The user begins. Turns alternate: messages in a row are one turn.
//   - Results come first in the user's turn, one for each call of the turn before.
//   - A text has more than white space, the last one of the assistant ends in none, and ids of calls have few
//     characters.
type conversation struct {
	system []*block
	turns  []turn
	open   []string // calls without a result yet
}

func (m *Model) conversation(messages []runtime.Message) (*conversation, error) {
	c := &conversation{}
	for _, msg := range messages {
		blocks, err := fileBlocks(msg.Files)
		if err != nil {
			return nil, err
		}
		switch {
		case msg.Role == runtime.System && len(c.turns) == 0:
			c.instruct(msg.Text)
		case msg.Role == runtime.ToolRole:
			c.result(msg.ToolCallID, textBlocks(msg.Text, blocks))
		case msg.Role == runtime.Assistant:
			c.assistant(m.kept(msg.Parts), msg.Text, msg.ToolCalls)
		case msg.Role == runtime.System && strings.TrimSpace(msg.Text) != "":
			c.say(runtime.User, textBlocks(later+msg.Text, blocks)...)
		default:
			c.say(runtime.User, textBlocks(msg.Text, blocks)...)
		}
	}
	if len(c.turns) == 0 && c.system == nil {
		return nil, errors.New("nothing is asked: all messages are empty\n  hint: give a prompt that is not empty")
	}
	if len(c.turns) == 0 {
		c.say(runtime.User, textBlock(begin))
	}
	c.close()
	c.trimEnd()
	return c, nil
}

// instruct adds to the instructions.
func (c *conversation) instruct(text string) {
	c.system = append(c.system, textBlocks(text, nil)...)
}

// say adds blocks to the turn of a side.
func (c *conversation) say(role runtime.Role, blocks ...*block) {
	content := make([]any, len(blocks))
	for i, b := range blocks {
		content[i] = b
	}
	c.add(role, content)
}

func (c *conversation) add(role runtime.Role, content []any) {
	n := len(c.turns)
	switch {
	case len(content) == 0:
	case n == 0 && role == runtime.Assistant:
		c.turns = []turn{{runtime.User, []any{textBlock(begin)}}, {role, content}}
	case n > 0 && c.turns[n-1].Role == role:
		c.turns[n-1].Content = append(c.turns[n-1].Content, content...)
	default:
		c.turns = append(c.turns, turn{role, content})
	}
}

// result adds the result of a call, before all that the user says.
func (c *conversation) result(id string, content []*block) {
	id = callID(id)
	i := slices.Index(c.open, id)
	if i < 0 {
		c.say(runtime.User, append([]*block{textBlock(orphaned)}, content...)...)
		return
	}
	c.open = slices.Delete(c.open, i, i+1)
	c.addResult(&block{Type: "tool_result", CallID: id, Content: content})
}

func (c *conversation) addResult(b *block) {
	n := len(c.turns) - 1
	if c.turns[n].Role == runtime.Assistant {
		c.say(runtime.User, b)
		return
	}
	i := slices.IndexFunc(c.turns[n].Content, func(b any) bool { return !isOf("tool_result", b) })
	if i < 0 {
		i = len(c.turns[n].Content)
	}
	c.turns[n].Content = slices.Insert(c.turns[n].Content, i, any(b))
}

func isOf(kind string, b any) bool {
	is, ok := b.(*block)
	return ok && is.Type == kind
}

// close gives the calls that have none a result.
func (c *conversation) close() {
	for _, id := range c.open {
		c.addResult(&block{Type: "tool_result", CallID: id, Content: []*block{textBlock(noResult)}})
	}
	c.open = nil
}

// assistant adds what the model said: its blocks in the order in which they came, as far as that is kept.
func (c *conversation) assistant(order []json.RawMessage, text string, calls []runtime.ToolCall) {
	var content []any
	add := func(text string) {
		if strings.TrimSpace(text) != "" {
			content = append(content, textBlock(text))
		}
	}
	call := func(call runtime.ToolCall) {
		args := call.Arguments
		if !endpoint.IsObject(string(args)) { // as the model wrote them; the result says so
			args = json.RawMessage("{}")
		}
		id := callID(call.ID)
		content = append(content, &block{Type: "tool_use", ID: id, Name: endpoint.ToolName(call.Name), Input: args})
		c.open = append(c.open, id)
	}
	if n := len(c.turns); n > 0 && c.turns[n-1].Role == runtime.User {
		c.close()
	}
	same := lengthIn(order) == len(text) // it is what the model said
	for _, piece := range order {
		switch length, isText := lengthOf(piece); {
		case isText && same:
			add(text[:length])
			text = text[length:]
		case isText:
			add(text)
			text = ""
		case string(piece) != callMark:
			content = append(content, piece)
		case len(calls) > 0:
			call(calls[0])
			calls = calls[1:]
		}
	}
	add(text)
	for _, one := range calls {
		call(one)
	}
	c.add(runtime.Assistant, content)
}

// trimEnd takes the white space off the end of a conversation that ends with the assistant.
func (c *conversation) trimEnd() {
	last := c.turns[len(c.turns)-1]
	if b, ok := last.Content[len(last.Content)-1].(*block); ok && last.Role == runtime.Assistant {
		b.Text = strings.TrimRight(b.Text, " \t\r\n")
	}
}

// calledWithoutThinking reports whether the model's last turn has calls, and does not begin with a thought.
func (c *conversation) calledWithoutThinking() bool {
	for _, t := range slices.Backward(c.turns) {
		if t.Role == runtime.Assistant {
			_, thought := t.Content[0].(json.RawMessage)
			return !thought && slices.ContainsFunc(t.Content, func(b any) bool { return isOf("tool_use", b) })
		}
	}
	return false
}

func textBlock(text string) *block { return &block{Type: "text", Text: text} }

// textBlocks are a text, unless it is empty, and what goes with it.
func textBlocks(text string, others []*block) []*block {
	if strings.TrimSpace(text) == "" {
		return others
	}
	return append(others, textBlock(text))
}

var idOfCall = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

// callID is the id of a call for the API: another model's may have other characters.
func callID(id string) string {
	if idOfCall.MatchString(id) {
		return id
	}
	return fmt.Sprintf("call_%x", sha256.Sum256([]byte(id)))[:24]
}

// orderPart names the part that has the order of an answer's blocks: a number is a text of that many bytes, callMark
// the next call, and an object is a block as it came, such as a thought.
const (
	orderPart = "order"
	callMark  = `"call"`
)

// kept is the order of the blocks in an answer of this model; nil: it is not known.
func (m *Model) kept(parts []runtime.Part) (order []json.RawMessage) {
	for _, p := range parts {
		if p.Of == m.self() && p.Name == orderPart {
			_ = json.Unmarshal(p.Data, &order) // what is no list is not known
		}
	}
	return order
}

// lengthOf is the length of a text in an order.
func lengthOf(piece json.RawMessage) (int, bool) {
	n, err := strconv.Atoi(string(piece))
	return max(0, n), err == nil
}

// lengthIn is the length of all texts in an order.
func lengthIn(order []json.RawMessage) (n int) {
	for _, piece := range order {
		length, _ := lengthOf(piece)
		n += length
	}
	return n
}
