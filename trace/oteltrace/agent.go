package oteltrace

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	api "go.opentelemetry.io/otel/trace"

	"github.com/braise-run/braise/trace"
)

// agent is the span of an agent at work, or of a child of one, with its calls.
type agent struct {
	span
	path    string
	labels  []attribute.KeyValue
	model   *step           // has the call of the model; its span is the agent's
	tools   map[int64]*step // have a call of a tool each, by number
	said    string          // the last message of an agent.error
	failure *failure        // of the loop
}

// agentEvent takes an event of an agent; it is false for others.
func (r *run) agentEvent(e trace.Event) bool {
	if e.Kind == trace.AgentStart {
		r.beginAgent(e)
		return true
	}
	a := r.agents[e.Step]
	if a == nil {
		return false
	}
	number, _ := e.Data.Get("call").(int64)
	switch e.Kind {
	case trace.ModelStart:
		r.beginCall(a.model, as(e, kindModel, text(e, "model"),
			trace.Attr{Key: "model", Value: text(e, "providerModel")},
			trace.Attr{Key: "provider", Value: text(e, "provider")}))
	case trace.ModelEnd:
		if code := text(e, "error"); code != "" {
			r.closeCall(a.model, e.At, &failure{code: code, message: a.said})
		} else {
			r.callEvent(a.model, e)
		}
	case trace.ToolStart:
		r.beginTool(a, number, e)
	case trace.PermissionResponse, trace.HumanResponse: // of a call that an earlier execution began
		if a.tools[number] == nil {
			r.beginTool(a, number, e)
		}
	case trace.ToolEnd:
		r.endTool(a, number, e)
	case trace.AgentError:
		if a.said = text(e, "message"); e.Data.Get("what") == nil {
			a.failure = &failure{code: cmp.Or(text(e, "code"), unknownError), message: a.said}
		}
	case trace.AdapterFallback:
		at := a.span
		if a.model.call != nil {
			at = a.model.call.span
		}
		fellBack(at, e)
	case trace.AgentHandoff:
		fromTo(a.span, e, braiseHandoffBy, braiseHandoffTo)
	case trace.AdapterRetry, trace.RetriesOver:
		r.retryInAgent(a, e)
	case trace.AgentEnd:
		f := a.failure
		switch stop := text(e, "stopReason"); stop {
		case "cancelled":
			f = &failure{code: cancelledError}
		case "error":
			f = cmp.Or(f, &failure{code: unknownError})
		default:
			f = nil
		}
		r.closeAgent(a, e.At, text(e, "stopReason"), f)
	default:
		return false
	}
	return true
}

// as makes the adapter.call of an event of an agent: content stays as it is.
func as(e trace.Event, kind, name string, more ...trace.Attr) trace.Event {
	content := e.Data.Get("content")
	e.Data = append(trace.Data{{Key: "kind", Value: kind}, {Key: "name", Value: name}}, more...)
	if content != nil {
		e.Data = append(e.Data, trace.Attr{Key: "content", Value: content})
	}
	return e
}

// beginAgent opens the span of an agent: in its step, or in the call of its parent's that it is of.
func (r *run) beginAgent(e trace.Event) {
	parent := r.enclosing(e.Step)
	if s := r.steps[e.Step]; s != nil {
		parent = s.span
	}
	i := strings.LastIndexByte(e.Step, '/')
	if outer := r.agents[e.Step[:max(i, 0)]]; outer != nil {
		parent = outer.span
		_, digits, _ := strings.Cut(e.Step[i:], "#")
		if n, err := strconv.ParseInt(digits, 10, 64); err == nil && outer.tools[n] != nil {
			parent = outer.tools[n].call.span
		}
	}
	name := text(e, "agent")
	labels := []attribute.KeyValue{attribute.String(genAIOperation, opAgent), attribute.String(genAIAgent, name)}
	attrs := append(slices.Clip(labels), attribute.String(braiseRunID, r.id),
		attribute.String(braiseStep, e.Step), attribute.String(braiseModel, text(e, "model")))
	s := r.open(parent.ctx, opAgent+" "+name, e.At, api.SpanKindInternal, attrs)
	r.agents[e.Step] = &agent{span: s, path: e.Step, labels: labels,
		model: &step{span: s, path: e.Step}, tools: map[int64]*step{}}
}

func (r *run) beginTool(a *agent, number int64, e trace.Event) {
	if e.Kind == trace.HumanResponse {
		e.Data = append(slices.Clone(e.Data), trace.Attr{Key: "tool", Value: "human.ask"})
	}
	s := &step{span: a.span, path: a.path}
	a.tools[number] = s
	r.beginCall(s, as(e, kindTool, text(e, "tool")))
}

func (r *run) endTool(a *agent, number int64, e trace.Event) {
	s := a.tools[number]
	if s == nil {
		return
	}
	delete(a.tools, number)
	var f *failure
	if code := text(e, "error"); code != "" {
		f = &failure{code: code, message: a.said}
		if code == unknownTool || code == tooManyCalls { // a model made up the name, or may have
			s.call.labels = []attribute.KeyValue{attribute.String(genAIOperation, opTool),
				attribute.String(genAITool, otherTool)}
		}
	} else {
		r.show(s.call.span, e.At, genAIResult, e.Data.Get("content"))
	}
	r.closeCall(s, e.At, f)
}

// retryInAgent says on a call that it is tried again: that of the model, or the only one of a tool that is
// under way; else on the agent.
func (r *run) retryInAgent(a *agent, e trace.Event) {
	s := a.model
	if e.Data.Get("adapterKind") != kindModel {
		s = &step{}
		if len(a.tools) == 1 {
			for _, only := range a.tools {
				s = only
			}
		}
	}
	if s.call == nil {
		s = &step{call: &call{span: a.span}}
	}
	r.callEvent(s, e)
	if s.call.retrying {
		s.call.retrying = false
		s.call.attempts++
	}
}

// closeAgents ends what is open of the agent of a step, children first.
func (r *run) closeAgents(step string, at time.Time, stop string, f *failure) {
	for _, path := range slices.Backward(slices.Sorted(maps.Keys(r.agents))) {
		if step == "" || path == step || strings.HasPrefix(path, step+"/") {
			r.closeAgent(r.agents[path], at, stop, f)
		}
	}
}

// closeAgent ends the span of an agent, and of what is under way in it.
func (r *run) closeAgent(a *agent, at time.Time, stop string, f *failure) {
	delete(r.agents, a.path)
	inner := f
	if stop == "paused" {
		inner = nil
	}
	r.closeCall(a.model, at, inner)
	for _, s := range a.tools {
		r.closeCall(s, at, inner)
	}
	a.SetAttributes(attribute.String(braiseStop, stop))
	r.close(a.span, at, f, r.to.meters.agents, a.labels)
}
