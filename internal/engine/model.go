package engine

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// prepareModel makes the request of a model step from its input, and finds the model. The result are the models
// that may answer.
func (o *Options) prepareModel(p *pending) (models []string, err error) {
	fields, _ := p.Input.(map[string]any)
	req := &runtime.Request{Run: o.ID, Step: p.Path, Model: p.Name, Schema: p.site.AnswerJSON}
	if name, ok := fields["model"].(string); ok {
		req.Model = name
	}
	req.Model = cmp.Or(p.Batched.Of, req.Model) // that may be a fallback
	if req.Messages, err = messages(p, fields); err != nil {
		return nil, err
	}
	switch t := fields["temperature"].(type) {
	case nil:
	case int64:
		f := float64(t)
		req.Temperature = &f
	case float64:
		req.Temperature = &t
	default:
		return nil, badField(p, "temperature", "a number", t)
	}
	switch n := fields["max_tokens"].(type) {
	case nil:
	case int64:
		req.MaxTokens = int(n)
	default:
		return nil, badField(p, "max_tokens", "an integer", n)
	}
	about, ok := o.Adapters.Model(req.Model)
	if !ok {
		return nil, program.ConfigError(diagnostics.CodeMissingModel, "%s: %w", p.site.Pos,
			agents.NoModel(req.Model, about.Missing))
	}
	if name := req.Refused(about.Options); name != "" {
		return nil, program.ConfigError(diagnostics.CodeModelOption, "%s: model %q does not take %s",
			p.site.Pos, req.Model, name)
	}
	req.Messages = withRepairs(req.Messages, p.Repairs)
	p.Stream = about.Streams && o.Wants.Deltas
	o.resolve(p, p.site.Retry, about.Retry)
	p.Request, p.fallbacks, p.polled = req, about.Fallbacks, about.Polled
	return o.withFallbacks(req.Model), nil
}

func badField(p *pending, name, want string, got any) error {
	if n, ok := got.(json.Number); ok {
		return badArgument(p, name, fmt.Errorf("must be %s: %w", want, value.NoReckoning(n)))
	}
	return badArgument(p, name, fmt.Errorf("must be %s, not %s", want, value.TypeName(got)))
}

// badArgument is the error for a key of a model or agent step; err says what is wrong with it.
func badArgument(p *pending, name string, err error) error {
	return program.ConfigError(diagnostics.Code(p.Kind+".arguments"), "%s: %s of %s %w",
		p.site.Pos, name, p.Kind.Step(), err)
}

// messages makes the conversation from system, prompt and messages.
func messages(p *pending, fields map[string]any) ([]runtime.Message, error) {
	var list []runtime.Message
	say := func(name string, role runtime.Role) error {
		v := fields[name]
		if v == nil {
			return nil
		}
		text, err := value.Text(v)
		if err != nil {
			return badField(p, name, "text", v)
		}
		list = append(list, runtime.Message{Role: role, Text: text})
		return nil
	}
	if err := say("system", runtime.System); err != nil {
		return nil, err
	}
	given, err := saidBefore(p, fields)
	if err != nil {
		return nil, err
	}
	before := asMessages(given)
	list = append(list, before...)
	if err := say("prompt", runtime.User); err != nil {
		return nil, err
	}
	images, err := imagesOf(p, fields)
	if err != nil {
		return nil, err
	}
	if images != nil {
		list[len(list)-1].Files = images // the prompt is the last
	}
	if fields["prompt"] == nil && len(before) == 0 {
		return nil, program.ConfigError("model.arguments", "%s: nothing was said yet, and a model step has nothing "+
			"to ask", p.site.Pos)
	}
	return list, nil
}

// asMessages makes messages of a request of what was said before.
func asMessages(said []agents.Message) (list []runtime.Message) {
	for _, m := range said {
		list = append(list, runtime.Message{Role: m.Role, Text: m.Text, Files: m.Files})
	}
	return list
}

// withRepairs adds texts to a conversation: an answer, what is wrong with it, and so on.
func withRepairs(messages []runtime.Message, texts []string) []runtime.Message {
	messages = slices.Clip(messages)
	for i, text := range texts {
		messages = append(messages,
			runtime.Message{Role: [...]runtime.Role{runtime.Assistant, runtime.User}[i%2], Text: text})
	}
	return messages
}

// modelData is the payload of a model's adapter.call, with the description of the model.
func (o *Options) modelData(p *pending) trace.Data {
	about, _ := o.Adapters.Model(p.Request.Model)
	if !about.Described && p.Name == p.Request.Model {
		return p.site.Event
	}
	data := program.CallData(program.ModelCall, p.Request.Model)
	if about.Described {
		if about.ModelOffer.Model != "" {
			data = slices.Insert(data, 1, trace.Attr{Key: "model", Value: about.ModelOffer.Model})
		}
		if about.Provider != "" {
			data = append(data, trace.Attr{Key: "provider", Value: about.Provider})
		}
	}
	return data
}

// modelAnswered handles the answer of a model. It calls the model again while the answer does not match the schema, or
// breaks a rule.
func (s step) modelAnswered(r *Run, p *pending, resp *runtime.Response) {
	var data trace.Data
	for _, a := range []trace.Attr{{Key: "finish", Value: resp.Finish}, {Key: "model", Value: resp.Model}} {
		if a.Value != "" {
			data = append(data, a)
		}
	}
	data = append(data, trace.Attr{Key: "usage", Value: agents.UsageData(resp.Usage.Clamped())})
	r.trace.tell(p, r.now, trace.Event{Kind: trace.ModelEnd, Step: p.Path, Data: data},
		map[string]any{"text": resp.Text})
	p.finish = resp.Finish
	if err := unfit(p, resp); err != nil {
		p.fail(r, nil, err)
		return
	}
	answer, fault := any(map[string]any{"text": resp.Text}), ""
	if p.site.Answer != nil {
		answer, fault = p.site.Answer.Answer(resp.Text)
	}
	var err error
	if fault == "" {
		fault, err = p.task.Broken(answer)
	}
	if fault == "" || err != nil {
		s.succeeded(r, p, answer, value.Extent{}) // which says what the error is
		return
	}
	turn := 1 + len(p.Repairs)/2
	if turn > p.site.Repairs {
		p.fail(r, nil, &runtime.Error{Category: runtime.CategoryModel, Code: "answer.invalid",
			Err: fmt.Errorf("%s: model %q gave no valid answer in %d turns: %s",
				p.site.Pos, p.Request.Model, turn, fault)})
		return
	}
	repair := []string{resp.Text, agents.Again(fault, p.site.AnswerJSON)}
	p.Repairs = append(p.Repairs, repair...)
	more := *p.Request // the model may have kept the request
	more.Messages = withRepairs(p.Request.Messages, repair)
	p.Request = &more
	p.retry(r)
}

// answerCut is the diagnostic about a model step whose answer was cut. Else there is none.
func answerCut(path string, site *program.Call, what *journal.CallEnded) diagnostics.List {
	if site.Kind != program.ModelCall || what.Finish != runtime.FinishLength ||
		what.Failure != nil && what.Failure.Code == "model.empty" { // which says so
		return nil
	}
	return diagnostics.List{{Level: diagnostics.Warn, Kind: diagnostics.KindContract,
		Code: diagnostics.CodeAnswerCut, Position: site.Pos, Step: path,
		Message: fmt.Sprintf("the answer of model %q was cut: it hit its token limit",
			what.Models.All().Model)}}
}

// unfit returns the error for a response that is not an answer; nil: it is one.
func unfit(p *pending, resp *runtime.Response) error {
	switch {
	case resp.Finish == runtime.FinishFilter:
		return noAnswer(p, "model.filtered", "a filter of the provider held the answer back, or a part of it")
	case strings.TrimSpace(resp.Text) != "":
		return nil
	case resp.Finish == runtime.FinishLength:
		return noAnswer(p, "model.empty", "the answer has no text: it hit its token limit first")
	case len(resp.ToolCalls) > 0:
		return noAnswer(p, "model.empty",
			"the answer has no text, but calls of tools, which a model step does not offer")
	}
	return noAnswer(p, "model.empty", "the answer has no text")
}

func noAnswer(p *pending, code, why string) error {
	return &runtime.Error{Category: runtime.CategoryModel, Code: code,
		Err: fmt.Errorf("%s: model %q: %s", p.site.Pos, p.Request.Model, why)}
}

// draws are the calls of models so far, by model.
type draws map[string]*drawn

// drawn are the calls of a model.
type drawn struct {
	made []bool // by number, from 1: that call was
	free int    // where in made the first may be that was not
}

// draw counts a call of a model.
func (s *draws) draw(p *pending) {
	p.Calls++
	n := s.of(p.Request.Model).next()
	p.Request.Call, p.Request.StepCall = n, p.Calls
	p.use.Model, p.use.Draws = p.Request.Model, append(p.use.Draws, n)
}

// undraw takes back the number of a call that is made later.
func (s *draws) undraw(p *pending) {
	u := &p.use
	last := len(u.Draws) - 1
	if last < 0 {
		return
	}
	d, n := s.of(u.Model), u.Draws[last]
	d.made[n-1], d.free = false, min(d.free, n-1)
	p.Calls--
	if u.Draws = u.Draws[:last]; last == 0 {
		u.Draws = nil
	}
	if u.Draws == nil && u.Tried == nil && u.Used == (journal.Amount{}) {
		u.Model = ""
	}
}

// mark notes recorded calls.
func (s *draws) mark(model string, numbers ...int) {
	for _, n := range numbers {
		s.of(model).mark(n)
	}
}

func (s *draws) of(model string) *drawn {
	d := (*s)[model]
	if d == nil {
		if d = new(drawn); *s == nil {
			*s = draws{}
		}
		(*s)[model] = d
	}
	return d
}

// next numbers a call of a model: each gets the lowest number, from 1, that no other call has. So a call that a crash
// interrupted gets its number again.
func (d *drawn) next() int {
	for d.free < len(d.made) && d.made[d.free] {
		d.free++
	}
	if d.free == len(d.made) {
		d.made = append(d.made, false)
	}
	d.made[d.free] = true
	return d.free + 1
}

// mark notes a recorded call. It ignores a number that no run reaches, because it would need much memory.
func (d *drawn) mark(n int) {
	const most = 1 << 24
	if n < 1 || n > most {
		return
	}
	for len(d.made) < n {
		d.made = append(d.made, false)
	}
	d.made[n-1] = true
}
