package engine

import (
	"errors"
	"fmt"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
)

// filesOf reads the files that go with what somebody says, in that role.
func filesOf(p *pending, name string, role runtime.Role, v any) ([]runtime.File, error) {
	files, err := program.Files(v)
	if err == nil && v != nil && role != runtime.User {
		err = errors.New("can only go with what a user says")
	}
	if err != nil {
		return nil, badArgument(p, name, err)
	}
	return files, nil
}

// imagesOf reads the files that go with the prompt.
func imagesOf(p *pending, fields map[string]any) ([]runtime.File, error) {
	var role runtime.Role
	if fields["prompt"] != nil {
		role = runtime.User
	}
	return filesOf(p, "images", role, fields["images"])
}

// saidBefore reads messages.
func saidBefore(p *pending, fields map[string]any) (list []agents.Message, err error) {
	given, ok := fields["messages"].([]any)
	if !ok && fields["messages"] != nil {
		return nil, badField(p, "messages", "a list", fields["messages"])
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
			return nil, badField(p, "messages", "a list of {role: system, user or assistant; text: a string}", e)
		}
		files, err := filesOf(p, "files", runtime.Role(role), m["files"])
		if err != nil {
			return nil, err
		}
		list = append(list, agents.Message{Role: runtime.Role(role), Text: valid(text), Files: files})
	}
	return list, nil
}

// toldBefore is what an agent is told before its prompt. Without one there must be something.
func toldBefore(p *pending, fields map[string]any) ([]agents.Message, error) {
	before, err := saidBefore(p, fields)
	if _, asked := fields["prompt"]; err == nil && !asked && len(before) == 0 {
		err = program.ConfigError("agent.arguments", "%s: nothing was said yet, and an agent step has no prompt",
			p.site.Pos)
	}
	return before, err
}

// answered is the output of the call of an agent that has ended well, unless it is not valid.
func answered(p *pending, loop *agentloop.Loop, res *agents.Result) (any, error) {
	output, fault := answerOf(p.site, res), ""
	if p.site.Answer != nil && output == nil && p.site.Answer.Check(nil) != nil {
		fault = "without an answer that matches output.schema"
	} else if broken, _ := p.task.Broken(output); broken != "" {
		fault = "with an answer that breaks a rule: " + broken
	}
	if fault == "" {
		return output, nil
	}
	return nil, &runtime.Error{Category: runtime.CategoryModel, Code: "answer.invalid",
		Err: fmt.Errorf("%s: agent %q stopped (%s) %s", p.site.Pos, loop.Name, res.StopReason, fault)}
}

// answerOf is the output of a step whose agent has come that far.
func answerOf(site *program.Call, res *agents.Result) any {
	if site.Answer != nil {
		return res.Data
	}
	return outputOf(site.Agents, res)
}

// outputOf is the output of an agent step without a schema.
func outputOf(set *program.AgentSet, res *agents.Result) map[string]any {
	out := map[string]any{"text": res.Text, "steps": int64(res.Steps), "stop_reason": string(res.StopReason)}
	if set.HandsOff {
		out["agent"] = res.Agent
	}
	return out
}

// textOf reads a text of an agent step; "" if it is not given.
func textOf(p *pending, fields map[string]any, key string) (string, error) {
	if fields[key] == nil {
		return "", nil
	}
	text, err := value.Text(fields[key])
	if err != nil {
		err = program.ConfigError("agent.arguments", "%s: %s of an agent step: %w", p.site.Pos, key, err)
	}
	return text, err
}

// loopOf makes the loop of an agent. Instructions among the fields are those of one that is written in the step.
func loopOf(p *pending, id string, fields map[string]any) (*agentloop.Loop, error) {
	loop, err := p.site.Agents.LoopOf(id, program.EnvOf(p.task), p.site.AnswerJSON)
	if _, known := errors.AsType[*runtime.Error](err); err != nil && !known {
		err = &runtime.Error{Category: runtime.CategoryConfig, Code: "expr.failed", Err: err}
	}
	if err == nil && fields["instructions"] != nil {
		loop.Instructions, err = textOf(p, fields, "instructions")
	}
	return loop, err
}
