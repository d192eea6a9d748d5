package agents

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

const summaryPrompt = "Summarise the conversation above for whoever continues it: " +
	"the task, what was found and done, what is left to do."

func summaryOf(text string) string { return "Summary of the conversation so far:\n" + text }

// summarise has the conversation summarised before a call of the model that the state has begun, if the request is too
// large; refused says that the model found it so. It reports whether there is something to do before the call. The
// summary belongs to that call: it waits, fails and is made again as the call is.
func (f *frame) summarise(req *runtime.Request, refused bool) bool {
	p, s := f.loop.Compaction, f.state()
	if p == nil || p.Above == 0 || s.Compacted || !refused && TokensOf(req) <= int64(p.Above) {
		return false
	}
	from := s.cutFor(cmp.Or(p.Keep, agentloop.DefaultKeep))
	if from == 0 {
		return false
	}
	name := cmp.Or(p.Model, f.loop.Model)
	if _, there := f.execution.offer.Models[name]; !there {
		f.finish(f.noModel(name))
		return true
	}
	if refused {
		f.emit(trace.ModelEnd, "error", codeTooLong)
	}
	replaced := f.viewOf(from)
	f.askSummary(name, req, replaced, func(err error) { f.unheard(err, false) }, func(resp *runtime.Response) {
		f.due = true
		f.compacted(Event{Usage: used(resp), More: &More{Summary: valid(resp.Text), From: from}},
			"messages", from, "model", name, "usage", UsageData(resp.Usage.Clamped()))
	})
	return true
}

// compact archives a summary of the conversation, then notes the archive's name: from there on the
// model sees the summary in place of what it stands for. What goes wrong leaves things as they were.
func (f *frame) compact() {
	p, s := f.loop.Compaction, f.state()
	if p == nil || p.Due == nil || s.From == len(s.Messages) {
		return
	}
	due, err := f.ask("the policy of compaction", func(p2 agentloop.Progress) (bool, error) { return p.Due(p2), nil })
	if err != nil {
		f.finish(fail(runtime.CategoryConfig, "agent.compaction", err))
		return
	}
	if !due {
		return
	}
	name := cmp.Or(p.Model, f.loop.Model)
	_, there := f.execution.offer.Models[name]
	switch {
	case !f.execution.offer.Archive:
		f.keepWhole(errors.New("there is no archive"))
		return
	case !there:
		f.keepWhole(NoModel(name, ""))
		return
	}
	req := f.request()
	f.askSummary(name, req, slices.Clone(req.Messages), f.keepWhole, f.archive)
}

// keepWhole leaves the conversation as it was.
func (f *frame) keepWhole(err error) {
	if f.execution.cut != nil {
		f.finish(err)
		return
	}
	f.warn(diagnostics.CodeCompactFailed, "the conversation of agent %q was not compacted: %v", f.loop.Name, err)
}

// archive keeps a summary, then notes where.
func (f *frame) archive(summary *runtime.Response) {
	name := fmt.Sprintf("%s/%s-%d", f.execution.terms.RunID, f.path, f.state().Archives+1)
	f.want(&Job{Op: PutArchive, Name: name, Text: summary.Text}, func(r Reply) {
		if r.Err != nil {
			f.keepWhole(r.Err)
			return
		}
		f.archived = summaryOf(summary.Text)
		f.compacted(Event{Text: name, Usage: used(summary)}, "archive", name)
	})
}

// fetch gets the text behind the marker in the history.
func (f *frame) fetch() {
	name := f.state().Archive
	if name == "" {
		return
	}
	take := func(r Reply) {
		switch f.archived = summaryOf(r.Text); {
		case r.Err != nil:
			f.finish(r.Err)
		case !r.Found:
			f.archived = fmt.Sprintf("[The archive %q, with the summary of the conversation so far, is missing.]", name)
			f.warn(diagnostics.CodeNoArchive,
				"archive %q of agent %q is missing; the model sees that it is", name, f.loop.Name)
		}
	}
	if !f.execution.offer.Archive {
		take(Reply{})
		return
	}
	f.want(&Job{Op: GetArchive, Name: name}, take)
}

// compacted records that a summary stands for messages from here on; data is for the trace.
func (f *frame) compacted(e Event, data ...any) {
	e.Kind = Compacted
	f.record(e)
	f.seen = nil
	f.emit(trace.Compact, data...)
}

// askSummary asks a model for a summary of messages. req is the request that the agent would make. What comes of it is
// passed to one of two functions: failed or then.
func (f *frame) askSummary(model string, req *runtime.Request, messages []runtime.Message,
	failed func(error), then func(*runtime.Response)) {
	p, ask := f.loop.Compaction, *req
	most := cmp.Or(p.MaxResult, 1024)
	for i, m := range messages {
		if m.Role == runtime.ToolRole && len(m.Text) > most {
			messages[i].Text = runes(m.Text, most) + " [cut]"
		}
		seen := runtime.Request{Messages: messages[i : i+1]}
		if seen.Refused(f.execution.offer.Models[model].Options) != "" {
			messages[i] = filesNamed(messages[i])
		}
	}
	ask.Model, ask.Tools, ask.Schema = model, nil, nil
	ask.Messages = append(messages, runtime.Message{Role: runtime.User, Text: cmp.Or(p.Prompt, summaryPrompt)})
	f.want(&Job{Op: AskSummary, Name: model, Request: &ask, Replies: f.state().replies()}, func(r Reply) {
		if resp, err := f.summary(model, r); err != nil {
			failed(err)
		} else {
			then(&resp)
		}
	})
}

// summary is what a model answered that was asked for one.
func (f *frame) summary(model string, r Reply) (runtime.Response, error) {
	resp, err := f.response(model, r)
	switch {
	case err != nil:
	case resp.Finish == runtime.FinishFilter:
		err = &runtime.Error{Category: runtime.CategoryModel, Code: "model.filtered",
			Err: fmt.Errorf("model %q: a filter of the provider held the summary back, or a part of it", model)}
	case strings.TrimSpace(resp.Text) == "":
		err = &runtime.Error{Category: runtime.CategoryModel, Code: "model.empty",
			Err: fmt.Errorf("model %q gave no summary", model)}
	case resp.Finish == runtime.FinishLength:
		f.warn(diagnostics.CodeAnswerCut, "the summary of the conversation of agent %q was cut", f.loop.Name)
	}
	return resp, err
}

// codeTooLong is what an adapter's error has where the model refused a request because of its length.
const codeTooLong = "model.tooLong"

const contentTooLarge = 413 // the status of HTTP that says so

// tooLong reports whether a model refused a request because of its length.
func tooLong(err error) bool {
	e, ok := errors.AsType[*runtime.Error](err)
	return err != nil && (ok && e.Code == codeTooLong ||
		retry.FailureOf(err).Status == contentTooLarge)
}

// bytesPerToken is how many bytes of text count as a token if there is no count.
const bytesPerToken = 4

// TokensIn estimates the tokens in messages.
func TokensIn(messages []runtime.Message) int64 {
	n := 0
	for i := range messages {
		n += len(messages[i].Text) + bytesOf(messages[i].Parts)
		for _, c := range messages[i].ToolCalls {
			n += len(c.Name) + len(c.Arguments) + bytesOf(c.Parts)
		}
	}
	return int64((n + bytesPerToken - 1) / bytesPerToken)
}

func bytesOf(parts []runtime.Part) (n int) {
	for i := range parts {
		n += len(parts[i].Data)
	}
	return n
}

// answerTokens is what an answer counts as whose length has no limit.
const answerTokens = 1024

// AnswerTokens is how many tokens the answer to a request may have.
func AnswerTokens(req *runtime.Request) int64 {
	if req.MaxTokens > 0 {
		return int64(req.MaxTokens)
	}
	return answerTokens
}

// TokensOf estimates the tokens of a request.
func TokensOf(req *runtime.Request) int64 {
	n := len(req.Schema)
	for i := range req.Tools {
		t := &req.Tools[i]
		n += len(t.Name) + len(t.Description) + len(t.Parameters)
	}
	return TokensIn(req.Messages) + int64(n/bytesPerToken)
}

// cutFor says where the last keep messages begin, so that no result is without its call; 0: then there is nothing to
// replace, the task apart.
func (s *State) cutFor(keep int) int {
	from := len(s.Messages) - keep
	for from > s.From && s.Messages[from].Role == runtime.ToolRole {
		from--
	}
	least := s.From
	if least == s.Own {
		least++
	}
	if from <= least {
		return 0
	}
	return from
}

// compact takes a summary, or the name of the archive that has it.
func (s *State) compact(e *Event) error {
	switch more := e.Rest(); {
	case e.Text == "" && more.Summary == "":
		return fmt.Errorf("it has no summary, and names no archive")
	case e.Text == "" && (s.Phase != Asking || !s.Open || s.Compacted), e.Text != "" && s.Phase != Ready:
		return s.refuse()
	case e.Text == "" && (more.From <= s.From || more.From > len(s.Messages)):
		return fmt.Errorf("it cannot replace the messages before message %d", more.From)
	case e.Text == "":
		s.Summary, s.Archive, s.From = more.Summary, "", more.From
		s.Compacted, s.Recoveries, s.Reply = true, 0, nil
	default:
		s.Summary, s.Archive, s.From = "", e.Text, len(s.Messages)
		s.Archives++
	}
	s.count(e.Usage)
	return nil
}

// marker names the [runtime.Part] of a message in a memory that stands for the first messages there.
const marker = "braise"

// marked is the data of a marker.
type marked struct {
	Messages int `json:"messages"` // how many it stands for
}

// Remembered is the part of the conversation that a memory keeps. After a compaction it begins with a message that
// stands for all that the memory had when it was loaded.
func (s *State) Remembered() []runtime.Message {
	if s.Summary == "" {
		return lasting(s.Messages[s.Own:])
	}
	text, _ := value.JSON(map[string]any{"messages": int64(s.Read)}) // a number is JSON
	list := []runtime.Message{{Role: runtime.User, Text: summaryOf(s.Summary),
		Parts: []runtime.Part{{Of: marker, Name: "summary", Data: text}}}}
	if s.Own < s.From {
		list = append(list, filesNamed(s.Messages[s.Own]))
	}
	return append(list, lasting(s.Messages[s.From:])...)
}

// remembered is the event of what a memory has: of messages that a summary stands for, the summary.
func remembered(all []runtime.Message) Event {
	list := all
	for i, m := range slices.Backward(all) {
		var of marked
		if len(m.Parts) == 1 && m.Parts[0].Of == marker && json.Unmarshal(m.Parts[0].Data, &of) == nil {
			m.Parts = nil
			list = slices.Concat([]runtime.Message{m}, all[max(0, min(of.Messages, i)):i], all[i+1:])
			break
		}
	}
	e := Event{Messages: slices.DeleteFunc(slices.Clone(list),
		func(m runtime.Message) bool { return m.Role == runtime.System })}
	for i, m := range e.Messages {
		e.Messages[i] = filesNamed(m)
	}
	if len(e.Messages) < len(all) {
		e.More = &More{Read: len(all)}
	}
	return e
}
