package page_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/braise-run/braise/runtime"
)

// slow is a model that says what a test tells it to, piece by piece.
type slow struct{ pieces chan string } // "" ends an answer

func (m slow) Generate(ctx context.Context, req *runtime.Request) (*runtime.Response, error) {
	return m.Stream(ctx, req, func(runtime.Delta) {})
}

func (m slow) Stream(
	ctx context.Context, req *runtime.Request, emit func(runtime.Delta),
) (*runtime.Response, error) {
	last := req.Messages[len(req.Messages)-1]
	if last.Role == runtime.User {
		return &runtime.Response{ToolCalls: []runtime.ToolCall{{ID: "c1", Name: "test.hold", Arguments: []byte(`{"q":"refund"}`)}}}, nil
	}
	text := ""
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case piece := <-m.pieces:
			if piece == "" {
				return &runtime.Response{Text: text}, nil
			}
			text += piece
			emit(runtime.Delta{Text: piece})
		}
	}
}

const talker = `apiVersion: braise/v1
name: talker
steps:
  ask: {uses: agent, with: {agent: {model: slow, tools: [test.hold]}, prompt: Say it.}}
output: ${{ steps.ask.output.text }}
`

// A conversation shows a call while it is made, and an answer while it is written. It stays at the bottom only for who
// is there.
func TestConversation(t *testing.T) {
	hold := make(chan string)
	model := slow{make(chan string)}
	s := newSite(t, options{recipes: map[string]string{"talker": talker}, idle: true, tools: []runtime.Tool{
		tool{"test.hold", func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
			select {
			case text := <-hold:
				return json.Marshal(map[string]any{"found": text})
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}}}})
	s.rt.Models = map[string]runtime.Model{"slow": model}
	s.work()
	b := s.open(olga, "#/recipes")
	id := value[string](b, `fetch('api/v1/recipes/talker/runs', {method: 'POST', body: '{}',
		headers: {'Content-Type': 'application/json'}}).then((r) => r.json()).then((r) => r.runId)`)
	b.goTo("#/runs/" + id + "/steps?step=ask")
	b.sees(".said.user", "Say it.")
	b.sees(".call summary", "running")
	b.sees(".detail", "calls test.hold")
	hold <- "it <b>is</b> here"
	b.sees(".call summary", "✓")
	b.click(".call summary")
	b.sees(".call .json", "it <b>is</b> here")

	model.pieces <- "Dear **A"
	b.sees(".said.assistant:last-of-type", "Dear **A")
	b.see(".cursor")
	model.pieces <- "da**,"
	b.is("document.querySelector('.said.assistant:last-of-type strong').innerText", "Ada")
	b.axe("a conversation that goes on")
	model.pieces <- strings.Repeat("\n\nOne more line.", 60)
	low := "(() => {const b = document.querySelector('.talk'); return b.scrollHeight - b.scrollTop - b.clientHeight < 40 && b.scrollTop > 300})()"
	b.is(low, true)
	b.is("document.querySelector('.talk').scrollTop = 100, true", true)
	b.is("document.querySelector('.talk').scrollTop", 100)
	model.pieces <- "\n\nThe last line."
	b.sees(".talk", "The last line.")
	b.is("document.querySelector('.talk').scrollTop", 100)
	b.see(".call[open]") // what was unfolded stays so
	b.click(".detail [type=checkbox]")
	b.sees(".said.assistant:last-of-type", "Dear **Ada**,")
	b.is("location.hash.includes('raw=1')", true)
	model.pieces <- ""
	b.gone(".cursor")
	b.sees("h1 .state", "ok")
	b.count(".said.assistant", 2) // the answer is there once
	b.sees(".said.assistant:last-of-type", "The last line.")
}

// Children of an agent are folded under the call that made them.
func TestConversationOfChildren(t *testing.T) {
	s, id := newDesk(t)
	b := s.open(rita, "#/runs/"+id+"/steps?step=ask")
	b.count(".talk > .said", 3)
	b.is("document.querySelector('.talk [role=heading]').innerText", "Found")
	b.is("[...document.querySelectorAll('.call summary code')].map((e) => e.innerText)", []string{"test.echo", "delegate_dig"})
	b.sees(".child summary", "dig")
	b.click(".child summary")
	b.sees(".child .said.assistant", "dug")
}
