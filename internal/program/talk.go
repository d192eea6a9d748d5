package program

import (
	"math/big"
	"slices"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/expr"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
)

// talks is what steps do with the conversations of their file, by index: true for those that they add to.
type talks map[int]bool

func (t *talks) note(conversation int, adds bool) {
	if *t == nil {
		*t = talks{}
	}
	(*t)[conversation] = (*t)[conversation] || adds
}

func (t *talks) add(more talks) {
	for i, adds := range more {
		t.note(i, adds)
	}
}

// read notes the conversations that expressions read.
func (t *talks) read(refs []expr.Ref, names []string) {
	for _, r := range refs {
		for i, name := range names {
			if r.Kind == expr.RefVar && r.Name == conversationsVar && (r.Field == "" || r.Field == name) {
				t.note(i, false)
			}
		}
	}
}

// beside finds the first conversation that two may not go on with side by side: one of them adds to it.
func (t talks) beside(other talks) (conversation int, found bool) {
	for i, adds := range t {
		if also, both := other[i]; both && (adds || also) && (!found || i < conversation) {
			conversation, found = i, true
		}
	}
	return conversation, found
}

// conversationsOf returns the names of the conversations of a file.
func conversationsOf(r *recipe.Recipe) []string {
	var names []string
	for _, c := range r.Conversations {
		names = append(names, c.Text)
	}
	return names
}

// conversationsVar is the name by which expressions read conversations.
const conversationsVar = "conversations"

// conversationVar is what expressions read conversations by; without any, a hint. There are hints for what only some
// conditions know, too.
func (c *compiler) conversationVar(r *recipe.Recipe) ([]expr.Var, map[string]string) {
	hints := map[string]string{errorVar: "on_error and retry know it; elsewhere it is steps.ID.error",
		"value": "where of a receive step knows it", "event": "where of a wait step knows it",
		"reply": "until of replies knows it"}
	if len(r.Conversations) == 0 {
		hints[conversationsVar] = "declare them at the top of the file: conversations: [NAME]"
		return nil, hints
	}
	said, all := listOf(closed(shape{"role": textShape(), "text": textShape(), "step": textShape()})), shape{}
	for _, one := range r.Conversations {
		all[one.Text] = said
	}
	return []expr.Var{{Name: conversationsVar, Index: machine.VarConversations, Type: c.typeOf(closed(all)),
		Noted: true}}, hints
}

// compileTalk notes the conversation of a step; an unknown one was reported when the recipe was read.
func (s *stepCompiler) compileTalk(src *recipe.Step) {
	if name := src.Conversation(); name.Text != "" {
		if i := slices.Index(s.bodySource.talks, name.Text); i >= 0 {
			s.compiledStep.talks.note(i, true)
			call, _ := s.node.Adapter.(*Call)
			s.node.Talk = &machine.Talk{Conversation: i, Adds: func(input, output any) []machine.Message {
				return saidIn(call, input, output)
			}}
		}
	}
	if f := src.Foreach; f != nil && f.MaxParallel != 1 {
		if i, adds := s.compiledStep.talks.beside(s.compiledStep.talks); adds {
			s.errorf(f.Pos, diagnostics.CodeSideBySide, "give foreach max_parallel: 1",
				"items of step %q take part in conversation %q side by side", src.ID, s.bodySource.talks[i])
		}
	}
}

// saidIn is what a step adds to its conversation: what it was asked, but for the system prompt and with the names of
// files, and its answer. call is nil for a step that says something by itself.
func saidIn(call *Call, input, output any) (list []machine.Message) {
	add := func(role string, v any, files ...any) {
		text, err := value.Text(v)
		if err != nil || v == nil {
			return
		}
		for _, f := range files {
			url, _ := f.(string)
			text = value.NameFile(text, url)
		}
		if text != "" {
			list = append(list, machine.Message{Role: role, Text: text})
		}
	}
	asked, _ := input.(map[string]any)
	answer, _ := output.(map[string]any)
	if call == nil {
		add("assistant", answer["text"])
		return list
	}
	before, _ := asked["messages"].([]any)
	for _, one := range before {
		m, _ := one.(map[string]any)
		if role, _ := m["role"].(string); role != "system" {
			files, _ := m["files"].([]any)
			add(role, m["text"], files...)
		}
	}
	images, _ := asked["images"].([]any)
	add("user", asked["prompt"], images...)
	turns, _ := answer["turns"].([]any)
	switch {
	case call.Answer != nil:
		add("assistant", output)
		return list
	case turns == nil:
		add("assistant", answer["text"])
	}
	for _, one := range turns {
		turn, _ := one.(map[string]any)
		add("user", turn["reply"])
		add("assistant", turn["text"])
	}
	return list
}

// orderTalks lets steps that read a conversation wait for those that add to it before them in the file, and refuses
// steps that could go on with one side by side.
func (c *compiler) orderTalks(steps []compiledStep, names []string) {
	var all []int // the steps that do something with conversations
	for i := range steps {
		if len(steps[i].talks) > 0 {
			all = append(all, i)
		}
	}
	if len(all) < 2 {
		return
	}
	behind := waiting(steps)
	for _, i := range all {
		for name, adds := range steps[i].talks {
			for _, j := range all {
				if adds || j >= i {
					break
				}
				if steps[j].talks[name] && behind[j].Bit(i) == 0 {
					steps[i].edges[j] = true
				}
			}
		}
	}
	behind = waiting(steps)
	for n, i := range all {
		for _, j := range all[:n] {
			if behind[i].Bit(j) == 1 || behind[j].Bit(i) == 1 {
				continue
			}
			name, beside := steps[i].talks.beside(steps[j].talks)
			if !beside {
				continue
			}
			first, second := steps[j].src, steps[i].src
			c.errorf(second.Pos, diagnostics.CodeSideBySide, "let one wait for the other: needs: ["+first.ID+"]",
				"steps %q and %q take part in conversation %q side by side", first.ID, second.ID, names[name])
			break
		}
	}
}

// waiting returns, for each step, the steps that it waits for, directly or not. Those on a cycle wait for nothing.
func waiting(steps []compiledStep) []*big.Int {
	behind, state := make([]*big.Int, len(steps)), make([]uint8, len(steps))
	var visit func(i int)
	visit = func(i int) {
		state[i], behind[i] = 1, new(big.Int)
		for _, j := range steps[i].sortedEdges() {
			if state[j] == 0 {
				visit(j)
			}
			behind[i].Or(behind[i], behind[j])
			behind[i].SetBit(behind[i], j, 1)
		}
	}
	for i := range steps {
		if state[i] == 0 {
			visit(i)
		}
	}
	return behind
}
