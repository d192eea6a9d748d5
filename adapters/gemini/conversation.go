package gemini

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/braise-run/braise/internal/endpoint"
	"github.com/braise-run/braise/runtime"
)

// What the adapter says itself in a conversation.
const (
	later    = "[From the system, not from the user]\n" // before a system message that stands behind others
	begin    = "Begin."                                 // of the user, where the model would speak first
	proceed  = "Continue."                              // of the user, where the model would speak last
	orphaned = "[The result of an earlier tool call]"   // before a result whose call is missing
	filesOf  = "[The files in the result of %s, above]" // before the files of a result
	noResult = "(no result)"                            // of a call whose result is missing
)

// unsigned is a signature for calls that another model made, or that were made up: the API does not check it.
// https://ai.google.dev/gemini-api/docs/thought-signatures (2026-11)
const unsigned = "skip_thought_signature_validator"

// The roles of turns.
const (
	userRole  = "user"
	modelRole = "model"
)

// conversation is what messages say, by the rules of the API. What becomes of a message does not depend on those
// behind it, so that the requests of a thread begin alike.
//   - Instructions stand apart from the turns; later ones are of the user, with a note.
//   - The user begins and has the last word. Messages of one side in a row are one turn.
//   - The results of calls are a turn of their own, right behind the turn that calls: one for each call, in the order
//     of the calls, with its name and id. The user speaks in the turn behind it.
//   - A text has more than white space, unless it has a signature.
//   - The first call of a message has a signature, with models that want one.
type conversation struct {
	system []any
	turns  []*content
	open   []*functionResponse // of the last calls, those without a result yet
	old    bool                // the model is one
}

func (m *Model) conversation(messages []runtime.Message) (*conversation, error) {
	c := &conversation{old: m.isOld()}
	for _, msg := range messages {
		files, err := fileParts(msg.Files)
		if err != nil {
			return nil, err
		}
		switch {
		case msg.Role == runtime.System && len(c.turns) == 0:
			c.system = append(c.system, textParts(msg.Text, nil)...)
		case msg.Role == runtime.ToolRole:
			c.result(msg.ToolCallID, msg.Text, files)
		case msg.Role == runtime.Assistant:
			c.model(m.kept(msg.Parts), msg.Text, msg.ToolCalls)
		case msg.Role == runtime.System && strings.TrimSpace(msg.Text) != "":
			c.say(textParts(later+msg.Text, files)...)
		default:
			c.say(textParts(msg.Text, files)...)
		}
	}
	switch n := len(c.turns); {
	case n == 0 && c.system == nil:
		return nil, errors.New("nothing is asked: all messages are empty\n  hint: give a prompt that is not empty")
	case n == 0:
		c.say(textPart(begin))
	case c.turns[n-1].Role == modelRole:
		c.say(textPart(proceed))
	}
	return c, nil
}

// say adds parts to the turn of the user.
func (c *conversation) say(parts ...any) { c.add(userRole, parts) }

func (c *conversation) add(role string, parts []any) {
	n := len(c.turns)
	switch {
	case len(parts) == 0:
	case n > 0 && c.turns[n-1].Role == role && !c.turns[n-1].results:
		c.turns[n-1].Parts = append(c.turns[n-1].Parts, parts...)
	default:
		c.turns = append(c.turns, &content{Role: role, Parts: parts})
	}
}

// result puts the result of a call into its place.
func (c *conversation) result(id, text string, files []*part) {
	i := slices.IndexFunc(c.open, func(r *functionResponse) bool { return r.ID == id })
	if i < 0 {
		c.say(append([]any{textPart(orphaned)}, textParts(text, files)...)...)
		return
	}
	r := c.open[i]
	c.open = slices.Delete(c.open, i, i+1)
	r.Response.Output = text
	switch {
	case files == nil:
	case c.old: // they take no files in results
		c.say(append([]any{textPart(fmt.Sprintf(filesOf, r.Name))}, textParts("", files)...)...)
	default:
		r.Parts = files
	}
}

// model adds what the model said: its parts in the order in which they came, as far as that is kept.
func (c *conversation) model(order []kept, text string, calls []runtime.ToolCall) {
	var parts, results []any
	same := lengthIn(order) == len(text) // it is what the model said
	say := func(n int, signature string) {
		if signature != "" || strings.TrimSpace(text[:n]) != "" {
			p := textPart(text[:n])
			p.Signature = signature
			parts = append(parts, p)
		}
		text = text[n:]
	}
	call := func(signature string) {
		if signature == "" && results == nil && !c.old {
			signature = unsigned
		}
		one := calls[0]
		calls = calls[1:]
		args := one.Arguments
		if !endpoint.IsObject(string(args)) { // as the model wrote them; the result says so
			args = json.RawMessage("{}")
		}
		name := endpoint.ToolName(one.Name)
		result := &functionResponse{ID: one.ID, Name: name, Response: output{noResult}}
		parts = append(parts, &part{FunctionCall: &functionCall{one.ID, name, args}, Signature: signature})
		results = append(results, &part{FunctionResponse: result})
		c.open = append(c.open, result)
	}
	c.open = nil
	for _, k := range order {
		switch {
		case k.Part != nil:
			parts = append(parts, k.Part)
		case k.Call && len(calls) > 0:
			call(k.Signature)
		case k.Call:
		case same:
			say(max(0, k.Text), k.Signature)
		default:
			say(len(text), "")
		}
	}
	say(len(text), "")
	for len(calls) > 0 {
		call("")
	}
	if len(c.turns) == 0 && parts != nil {
		c.say(textPart(begin))
	}
	c.add(modelRole, parts)
	if results != nil {
		c.turns = append(c.turns, &content{Role: userRole, Parts: results, results: true})
	}
}

func textPart(text string) *part { return &part{Text: &text} }

// textParts are a text, unless it is empty, and before it the files that go with it.
func textParts(text string, files []*part) []any {
	var parts []any
	for _, f := range files {
		parts = append(parts, f)
	}
	if strings.TrimSpace(text) != "" {
		parts = append(parts, textPart(text))
	}
	return parts
}

// orderPart names the part that has the order of what an answer is made of.
const orderPart = "order"

// kept is a piece of an answer: a text of so many bytes, the next call, or a part as it came, such as a thought.
type kept struct {
	Text      int             `json:"text,omitempty"`
	Call      bool            `json:"call,omitempty"`
	Signature string          `json:"signature,omitempty"` // of the text or the call
	Part      json.RawMessage `json:"part,omitempty"`
}

// kept is the order of the pieces in an answer of this model; nil: it is not known.
func (m *Model) kept(parts []runtime.Part) (order []kept) {
	for _, p := range parts {
		if p.Of == m.self() && p.Name == orderPart && json.Unmarshal(p.Data, &order) != nil {
			return nil
		}
	}
	return order
}

// lengthIn is the length of all texts in an order.
func lengthIn(order []kept) (n int) {
	for _, k := range order {
		n += max(0, k.Text)
	}
	return n
}
