package terminal

import (
	"fmt"
	"strings"
	"time"

	"github.com/braise-run/braise/trace"
)

// loop is an agent, or a child of one, that is at work.
type loop struct {
	depth  int
	step   int64
	tokens int64          // children's included
	whole  map[string]any // the last snapshot
}

// loopEvent words an event of an agent; "" if there is nothing to say. Those of its children are indented. An answer
// that was streamed is not repeated.
func (p *Progress) loopEvent(e trace.Event, streamed bool) string {
	if e.Kind == trace.AgentStart {
		depth, _ := e.Data.Get("depth").(int64)
		if p.loops == nil {
			p.loops = map[string]*loop{}
		}
		in, out := tokensOf(e)
		p.loops[e.Step] = &loop{depth: int(depth), tokens: in + out}
		if p.step(e.Step) == nil {
			p.running = append(p.running, runningStep{path: e.Step, began: e.At})
		}
	}
	l := p.loops[e.Step]
	if l == nil { // the call of a model step, say
		return ""
	}
	text := p.loopText(l, e, streamed)
	if e.Kind == trace.AgentEnd {
		delete(p.loops, e.Step)
		p.finish(e.Step)
	}
	if text == "" {
		return ""
	}
	return fmt.Sprintf("%s%s  %s", strings.Repeat("  ", l.depth+1), p.paint("2", Visible(e.Step)), text)
}

func (p *Progress) loopText(l *loop, e trace.Event, streamed bool) string {
	get := func(key string) string { return brief(e.Data.Get(key)) }
	call := "call " + get("call") + ": "
	switch e.Kind {
	case trace.AgentStart:
		text := "agent " + get("agent")
		if model := get("model"); model != "" { // journals do not have it
			text += ", model " + model
		}
		if e.Data.Get("resume") == true {
			text += ", resumed"
		}
		return text
	case trace.MemoryLoad:
		return "memory: " + get("messages") + " messages"
	case trace.Retrieve:
		return "documents found: " + get("documents")
	case trace.Steer:
		return "messages that came in: " + get("messages")
	case trace.Compact:
		if name := get("archive"); name != "" {
			return "history compacted, archived as " + name
		}
		return "history compacted: a summary stands for " + get("messages") + " messages"
	case trace.ModelStart:
		l.step, _ = e.Data.Get("step").(int64)
		p.doing(e.Step, fmt.Sprintf("step %d", l.step))
	case trace.ModelEnd:
		return p.stepText(l, e, streamed)
	case trace.ToolStart:
		p.doing(e.Step, fmt.Sprintf("step %d, %s", l.step, get("tool")))
		return call + strings.TrimRight(get("tool")+" "+get("content"), " ")
	case trace.ToolEnd:
		text, code := get("content"), get("error")
		if code == "" {
			return strings.TrimRight(call+"→ "+text, " ")
		}
		return p.paint("31", "✗") + " " + call + code + strings.TrimPrefix(strings.TrimPrefix(text, "error"), ": "+code)
	case trace.AgentError: // of tools and children the result says it, of the loop the end of its step
		if e.Data.Get("what") == "model" {
			return p.paint("31", "✗") + fmt.Sprintf(" step %d: %s", l.step, get("message"))
		}
	case trace.SubagentStarted:
		return "sub-agent " + get("id") + " started"
	case trace.SubagentFailed:
		return p.paint("31", "✗") + " sub-agent " + get("id") + " failed"
	case trace.PermissionRequest:
		return p.paint("33", "?") + " " + call + get("tool") + " needs an approval"
	case trace.PermissionResponse:
		if e.Data.Get("allow") != true {
			return call + "refused"
		}
		return call + "approved (" + get("scope") + ")"
	case trace.HumanRequest:
		if get("reply") != "" { // what it said is the question
			return ""
		}
		return p.paint("33", "?") + " " + call + "a person is asked"
	case trace.HumanResponse:
		if n := get("reply"); n != "" {
			return "reply " + n
		}
		return call + "answered"
	case trace.LoopSnapshot:
		l.whole, _ = e.Data.Get("snapshot").(map[string]any)
	case trace.AgentEnd:
		return l.endText(get("stopReason"))
	}
	return ""
}

// stepText words the end of a call of the model: what it said, unless that has been shown, and what it took.
func (p *Progress) stepText(l *loop, e trace.Event, streamed bool) string {
	in, out := tokensOf(e)
	for path, above := range p.loops {
		if e.Step == path || strings.HasPrefix(e.Step, path+"/") {
			above.tokens += in + out
		}
	}
	if e.Data.Get("error") != nil {
		return ""
	}
	text := fmt.Sprintf("step %d: tokens %d in, %d out (%d so far)", l.step, in, out, l.tokens)
	if finish := e.Data.Get("finish"); finish != "" && finish != "stop" && finish != "tool_calls" {
		text += ", finish " + brief(finish)
	}
	content, _ := e.Data.Get("content").(map[string]any)
	if said := brief(content["text"]); said != "" && !streamed {
		text += ": " + said
	}
	return text
}

// tokensOf is the usage that an event has.
func tokensOf(e trace.Event) (in, out int64) {
	usage, _ := e.Data.Get("usage").(map[string]any)
	in, _ = usage["input_tokens"].(int64)
	out, _ = usage["output_tokens"].(int64)
	return in, out
}

// endText words how a loop ended, with what all its executions took. Journals do not say that.
func (l *loop) endText(stop string) string {
	total := fmt.Sprintf("in step %d", l.step)
	if l.whole != nil {
		usage, _ := l.whole["usage"].(map[string]any)
		total = fmt.Sprintf("in step %s, tokens %s in, %s out",
			brief(l.whole["steps"]), brief(usage["input_tokens"]), brief(usage["output_tokens"]))
	}
	switch stop {
	case "answer":
		return "answered " + total
	case "paused":
		return "waits " + total
	}
	return "stopped (" + stop + ") " + total
}

// doing notes what a running step is at.
func (p *Progress) doing(path, what string) {
	if s := p.step(path); s != nil {
		s.doing, s.until = what, time.Time{}
	}
}
