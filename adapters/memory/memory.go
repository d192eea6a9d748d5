// Package memory keeps the conversations of agents from run to run, and the archives of compacted ones,
// in the documents of a store. See docs/memory.md.
package memory

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
)

// Memory is a runtime.Memory, and an agentloop.Archive. Its zero value keeps everything in the memory of the
// process; it must not be copied once it is in use.
//
// A conversation is a collection of documents, one for each turn, in the order in which the turns
// were first saved. It is read as a whole, so it should fit into a model's context.
type Memory struct {
	docs checkpoint.Documents // nil: own
	own  checkpoint.Memory
}

// New returns a Memory on a store: any of this module, or one of yours that has checkpoint.Documents. It
// does no I/O, and leaves it to the caller to close the store.
func New(store checkpoint.Documents) *Memory { return &Memory{docs: store} }

func (m *Memory) documents() checkpoint.Documents {
	if m.docs == nil {
		return &m.own
	}
	return m.docs
}

// format is the version of what Save writes, and the only one that Load reads.
const format = 1

// turn is the text of a document.
type turn struct {
	Format   int               `json:"format"`
	Messages []runtime.Message `json:"messages"`
}

// conversation returns the name of the collection of a conversation.
func conversation(c runtime.Conversation) (string, error) {
	if c.Thread == "" {
		return "", errors.New("memory: the conversation has no thread")
	}
	return collection("conversation", c.Thread, c.Resource)
}

// collection returns a name that no other list of names has.
func collection(names ...string) (string, error) {
	list := make([]any, len(names))
	for i, name := range names {
		if !utf8.ValidString(name) {
			return "", fmt.Errorf("memory: %s: the name %q is not UTF-8", names[0], name)
		}
		list[i] = name
	}
	text, err := value.JSON(list)
	return string(text), err
}

// Load implements runtime.Memory. A turn that cannot be read is a checkpoint.ErrCorrupt, or a
// checkpoint.ErrVersion when a later version wrote it.
func (m *Memory) Load(ctx context.Context, c runtime.Conversation) ([]runtime.Message, error) {
	name, err := conversation(c)
	if err != nil {
		return nil, err
	}
	docs, err := m.documents().Documents(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("memory: %w", err)
	}
	var all []runtime.Message
	for _, d := range docs {
		messages, err := parse(d.Text)
		if err != nil {
			return nil, fmt.Errorf("memory: thread %q: turn %q: %w", c.Thread, d.Name, err)
		}
		all = append(all, messages...)
	}
	return all, nil
}

// roles are those of the messages in a conversation.
var roles = []runtime.Role{runtime.User, runtime.Assistant, runtime.ToolRole}

func parse(text string) ([]runtime.Message, error) {
	var t turn
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	err := dec.Decode(&t)
	if err == nil && dec.More() {
		err = errors.New("there is more after it")
	}
	if err != nil || t.Format != format { // a later version may write anything else
		var head struct{ Format int }
		if json.Unmarshal([]byte(text), &head) == nil && head.Format > format {
			return nil, fmt.Errorf("%w: %d, not %d", checkpoint.ErrVersion, head.Format, format)
		}
		err = cmp.Or(err, fmt.Errorf("its format is %d", t.Format))
	}
	for _, message := range t.Messages {
		if err == nil && !slices.Contains(roles, message.Role) {
			err = fmt.Errorf("unknown role %q", message.Role)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", checkpoint.ErrCorrupt, err)
	}
	return t.Messages, nil
}

// Save implements runtime.Memory. Messages of the role system are not kept.
func (m *Memory) Save(ctx context.Context, c runtime.Conversation, name string, messages []runtime.Message) error {
	in, err := conversation(c)
	if err != nil {
		return err
	}
	kept := []runtime.Message{}
	for _, message := range messages {
		switch {
		case message.Role == runtime.System:
		case slices.Contains(roles, message.Role):
			kept = append(kept, message)
		default:
			return fmt.Errorf("memory: turn %q: unknown role %q", name, message.Role)
		}
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(turn{format, kept}); err != nil {
		return fmt.Errorf("memory: turn %q: %w", name, err)
	}
	return m.put(ctx, in, name, text.String())
}

// List returns the conversations that there are, sorted by thread and resource. It is an error if the store cannot list
// them, as it is no checkpoint.Collections.
func (m *Memory) List(ctx context.Context) ([]runtime.Conversation, error) {
	store, ok := m.documents().(checkpoint.Collections)
	if !ok {
		return nil, fmt.Errorf("memory: a %T does not list conversations", m.documents())
	}
	names, err := store.Collections(ctx, `["conversation",`)
	if err != nil {
		return nil, fmt.Errorf("memory: %w", err)
	}
	list := make([]runtime.Conversation, 0, len(names))
	for _, name := range names {
		var parts []string
		if err := json.Unmarshal([]byte(name), &parts); err != nil || len(parts) != 3 {
			return nil, fmt.Errorf("memory: %q: %w: it names no conversation", name, checkpoint.ErrCorrupt)
		}
		list = append(list, runtime.Conversation{Thread: parts[1], Resource: parts[2]})
	}
	return list, nil
}

// Forget removes a conversation. It is no error if it does not exist.
func (m *Memory) Forget(ctx context.Context, c runtime.Conversation) error {
	name, err := conversation(c)
	if err != nil {
		return err
	}
	if err := m.documents().DeleteDocuments(ctx, name); err != nil {
		return fmt.Errorf("memory: %w", err)
	}
	return nil
}

// Put keeps a text under a name, in place of what was there: with Get, it makes a Memory the archive of
// agents whose conversations are compacted.
func (m *Memory) Put(ctx context.Context, name, text string) error {
	in, err := collection("archive", name)
	if err != nil {
		return err
	}
	return m.put(ctx, in, name, text)
}

// Get returns the text that was Put under a name, and whether there is one.
func (m *Memory) Get(ctx context.Context, name string) (string, bool, error) {
	in, err := collection("archive", name)
	if err != nil {
		return "", false, err
	}
	docs, err := m.documents().Documents(ctx, in)
	if err != nil {
		return "", false, fmt.Errorf("memory: %w", err)
	}
	if len(docs) == 0 {
		return "", false, nil
	}
	return docs[0].Text, true, nil
}

func (m *Memory) put(ctx context.Context, in, name, text string) error {
	if err := m.documents().PutDocument(ctx, in, checkpoint.Document{Name: name, Text: text}); err != nil {
		return fmt.Errorf("memory: %w", err)
	}
	return nil
}
