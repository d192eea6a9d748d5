package openai

import (
	"crypto/sha256"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/braise-run/braise/internal/endpoint"
	"github.com/braise-run/braise/runtime"
)

// later precedes the text of a system message that stands behind others, and so becomes one of the user.
const later = "[From the system, not from the user]\n"

// fromTools is the text of a message of the user with the files of results.
const fromTools = "[From the tools, not from the user] The files of the results above, in their order:"

// noted is what the assistant says between a result and a message of the user, where that may not follow at once.
const noted = "OK."

// conversation are messages in the form that the templates of all models take: one system message at the beginning, and
// no two messages of the user, or of the assistant, in a row. They are joined with an empty line between. A message
// without anything is left out. What becomes of a message does not depend on those behind it: the requests of a thread
// begin alike.
func (m *Model) conversation(messages []runtime.Message) []runtime.Message {
	var list []runtime.Message
	if m.opts.API != ResponsesAPI {
		messages = shownAfter(messages)
	}
	for _, msg := range messages {
		n := len(list) - 1
		if msg.Role == runtime.System && n >= 0 && list[n].Role != runtime.System {
			msg.Role, msg.Text = runtime.User, later+msg.Text
		}
		switch {
		case isEmpty(&msg):
			continue
		case n >= 0 && joins(&list[n], &msg):
			list[n].Text = strings.Trim(list[n].Text+"\n\n"+msg.Text, "\n")
			list[n].Files = slices.Concat(list[n].Files, msg.Files)
			list[n].ToolCalls = msg.ToolCalls
			continue
		case n >= 0 && list[n].Role == runtime.ToolRole && msg.Role == runtime.User && m.isMistral():
			list = append(list, runtime.Message{Role: runtime.Assistant, Text: noted})
		}
		list = append(list, msg)
	}
	return list
}

// shownAfter returns messages with the files of results in a message of the user behind them: in chat
// completions, results are texts.
func shownAfter(messages []runtime.Message) (list []runtime.Message) {
	var files []runtime.File
	flush := func() {
		if files != nil {
			list = append(list, runtime.Message{Role: runtime.User, Text: fromTools, Files: files})
			files = nil
		}
	}
	for _, msg := range messages {
		if msg.Role != runtime.ToolRole {
			flush()
		} else if msg.Files != nil {
			files, msg.Files = slices.Concat(files, msg.Files), nil
		}
		list = append(list, msg)
	}
	flush()
	return list
}

// isEmpty reports whether there is nothing in a message, which many endpoints refuse. A result may be empty.
func isEmpty(msg *runtime.Message) bool {
	return msg.Role != runtime.ToolRole && msg.Files == nil && msg.ToolCalls == nil && msg.Parts == nil &&
		strings.TrimSpace(strings.TrimPrefix(msg.Text, later)) == ""
}

// joins reports whether a message becomes part of the one before it. Parts stay with the text that they came with.
func joins(before, msg *runtime.Message) bool {
	return before.Role == msg.Role && msg.Role != runtime.ToolRole &&
		before.ToolCalls == nil && before.Parts == nil && msg.Parts == nil
}

// mistrals matches the models of Mistral, wherever they are offered: their templates and their API want the assistant
// to speak between a result and the user, and ids of calls that are nine letters and digits.
var (
	mistrals = regexp.MustCompile(
		`(?i)(^|[^a-z])(mistral|mixtral|ministral|magistral|codestral|devstral|pixtral|voxtral)`)
	idOfCall = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)
)

func (m *Model) isMistral() bool {
	return endpoint.ProviderOf(m.client.Host()) == "mistral_ai" || mistrals.MatchString(m.opts.Model)
}

// callID is the id of a call for the endpoint.
func (m *Model) callID(id string) string {
	if id == "" || !m.isMistral() || idOfCall.MatchString(id) {
		return id
	}
	return fmt.Sprintf("%x", sha256.Sum256([]byte(id)))[:9]
}
