package workflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// maxRepairs is how many turns a model gets to mend an answer that does not match its schema
// (agent-loop.md 2.5).
const maxRepairs = 2

// askModel asks the model, and again while its structured answer does not match.
func (in *invocation) askModel() (any, error) {
	for again := false; ; again = true {
		text, err := in.generate(again)
		if err != nil {
			return nil, err
		}
		if in.call.Answer == nil {
			output := map[string]any{"text": text}
			return output, in.checkOutput(output, nil)
		}
		answer, fault := in.call.Answer.Answer(text)
		if fault == "" {
			return answer, in.checkOutput(answer, nil)
		}
		turn := 1 + len(in.Repairs)/2
		if turn > maxRepairs {
			return nil, &runtime.Error{Category: runtime.CategoryModel, Code: "answer.invalid",
				Err: fmt.Errorf("%s: model %q gave no valid answer in %d turns: %s", in.call.Pos,
					in.req.Model, turn, fault)}
		}
		repair := []string{text, "That answer cannot be used: " + fault +
			"\nAnswer again, with nothing but JSON that matches this schema:\n" + string(in.call.AnswerJSON)}
		in.Repairs = append(in.Repairs, repair...)
		more := *in.req // the model may have kept the request
		more.Messages = withRepairs(in.req.Messages, repair)
		in.req = &more
	}
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

// generate asks the model once, or once more, and returns its text, secrets out.
func (in *invocation) generate(again bool) (string, error) {
	if again {
		if err := in.next(); err != nil {
			return "", err
		}
	}
	resp, err := in.respond()
	if err != nil {
		return "", err
	}
	var data trace.Data
	for _, a := range []trace.Attr{{Key: "finish", Value: resp.Finish}, {Key: "model", Value: resp.Model}} {
		if a.Value != "" {
			data = append(data, a)
		}
	}
	data = append(data, trace.Attr{Key: "usage", Value: map[string]any{
		"input_tokens": int64(resp.Usage.InputTokens), "output_tokens": int64(resp.Usage.OutputTokens)}})
	in.emit(trace.Event{Kind: trace.ModelEnd, Step: in.path, Data: data}, map[string]any{"text": resp.Text})
	return resp.Text, nil
}

// respond asks the model, as often as the policy says, hooks told and secrets out.
func (in *invocation) respond() (*runtime.Response, error) {
	m := runtime.Moment{Point: runtime.ModelBefore, Name: in.req.Model, Request: in.req}
	if err := in.ask(m); err != nil {
		return nil, err
	}
	got, err := in.try()
	resp := got.model
	if err == nil {
		switch {
		case resp == nil:
			err = fmt.Errorf("model %q returned neither an answer nor an error", in.req.Model)
		case len(resp.Text) > in.run.limits.MaxOutputBytes:
			err = in.tooLarge(len(resp.Text))
		default:
			shown := *resp
			shown.Text = in.run.prepared.redact.Text(resp.Text)
			if in.run.prepared.redact != nil {
				shown.ToolCalls = slices.Clone(resp.ToolCalls)
				for i, c := range shown.ToolCalls {
					shown.ToolCalls[i].Name = in.run.prepared.redact.Text(c.Name)
					shown.ToolCalls[i].Arguments = json.RawMessage(in.run.prepared.redact.Text(string(c.Arguments)))
				}
			}
			resp = &shown
		}
	}
	err = in.run.prepared.redact.Error(err)
	if in.run.hooked() {
		m.Request = in.req // of the last attempt
		if m.Point, m.Err = runtime.ModelAfter, err; err == nil {
			m.Response = resp
		}
		_ = in.fire(m)
	}
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// answer calls the model, piece by piece if a sink wants the pieces.
func (in *invocation) answer() (*runtime.Response, error) {
	if !in.streams() {
		return in.model.Generate(in.ctx, in.req)
	}
	text := in.run.prepared.redact.Stream()
	resp, err := in.model.(runtime.StreamingModel).Stream(in.ctx, in.req,
		func(d runtime.Delta) { in.delta(text.Next(d.Text)) })
	in.delta(text.Rest())
	return resp, err
}

// streams reports whether the call is of a model that answers piece by piece.
func (in *invocation) streams() bool {
	_, ok := in.model.(runtime.StreamingModel)
	return ok && in.run.events.sinks.Wants().Deltas
}

// delta shows a piece of an answer to the sinks; it is no part of the outcome's trace.
func (in *invocation) delta(text string) {
	if text != "" && in.ctx.Err() == nil {
		in.run.events.sinks.Emit(trace.Event{At: time.Now().UTC(), Kind: trace.ModelDelta, Step: in.path,
			Data: trace.Data{{Key: "text", Value: text}}}, nil)
	}
}

// prepareModel makes the request of a model step of its input, and finds the model.
func (in *invocation) prepareModel() error {
	fields, _ := in.input.(map[string]any)
	req := &runtime.Request{Run: in.run.id, Step: in.path, Model: in.call.Name, Schema: in.call.AnswerJSON}
	if name, ok := fields["model"].(string); ok {
		req.Model = name
	}
	var err error
	if req.Messages, err = in.messages(fields); err != nil {
		return err
	}
	switch t := fields["temperature"].(type) {
	case nil:
	case int64:
		f := float64(t)
		req.Temperature = &f
	case float64:
		req.Temperature = &t
	default:
		return in.badField("temperature", "a number", t)
	}
	switch n := fields["max_tokens"].(type) {
	case nil:
	case int64:
		req.MaxTokens = int(n)
	default:
		return in.badField("max_tokens", "an integer", n)
	}
	if in.model = in.run.prepared.offers.Models[req.Model]; in.model == nil {
		return program.ConfigError(diagnostics.CodeMissingModel, "%s: model %q is not there", in.call.Pos, req.Model)
	}
	req.Messages = withRepairs(req.Messages, in.Repairs)
	about, _ := in.model.(runtime.Described)
	in.resolve(about)
	in.req = req
	if in.accounts, err = in.run.pricedAccounts(in.task, in.call.Pos, req.Model); err != nil {
		return err
	}
	if err := in.reserve(); err != nil {
		return err
	}
	in.draw()
	return nil
}

func (in *invocation) badField(name, want string, got any) error {
	return program.ConfigError("model.arguments", "%s: %s of a model step must be %s, not %s",
		in.call.Pos, name, want, value.TypeName(got))
}

// messages makes the conversation of system, prompt and messages.
func (in *invocation) messages(fields map[string]any) ([]runtime.Message, error) {
	var list []runtime.Message
	for _, f := range []struct {
		name string
		role runtime.Role
	}{{"system", runtime.System}, {"prompt", runtime.User}} {
		if v := fields[f.name]; v != nil {
			text, err := value.Text(v)
			if err != nil {
				return nil, in.badField(f.name, "text", v)
			}
			list = append(list, runtime.Message{Role: f.role, Text: text})
		}
	}
	given, ok := fields["messages"].([]any)
	if !ok && fields["messages"] != nil {
		return nil, in.badField("messages", "a list", fields["messages"])
	}
	for _, e := range given {
		m, _ := e.(map[string]any)
		role, _ := m["role"].(string)
		text, isText := m["text"].(string)
		switch runtime.Role(role) {
		case runtime.System, runtime.User, runtime.Assistant:
		default:
			isText = false
		}
		if !isText {
			return nil, in.badField("messages", "a list of {role: system, user or assistant; text: a string}", e)
		}
		list = append(list, runtime.Message{Role: runtime.Role(role), Text: text})
	}
	return list, nil
}

// modelData is the payload of a model's adapter.call, with what the model says about itself.
func (in *invocation) modelData() trace.Data {
	described, ok := in.model.(runtime.Described)
	if !ok && in.call.Name != "" {
		return in.call.Event
	}
	data := program.CallData(program.ModelCall, in.req.Model)
	if ok {
		about := described.Metadata()
		if about.Model != "" {
			data = slices.Insert(data, 1, trace.Attr{Key: "model", Value: about.Model})
		}
		if about.Provider != "" {
			data = append(data, trace.Attr{Key: "provider", Value: about.Provider})
		}
	}
	return data
}
