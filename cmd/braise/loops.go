package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/trace"
)

// loop is an agent, or a child of one, that is at work.
type loop struct {
	depth  int
	step   int64
	tokens int64          // children's included
	whole  map[string]any // the last snapshot
}

// segment is the answer that is shown as it comes: one at a time.
type segment struct {
	path string // whose; "": none is under way
	line string // the end of it, which is no whole line yet
}

// loopEvent words an event of an agent; "" if there is nothing to say. Those of its children stand further in.
func (p *progress) loopEvent(e trace.Event) string {
	if e.Kind == trace.AgentStart {
		depth, _ := e.Data.Get("depth").(int64)
		if p.loops == nil {
			p.loops = map[string]*loop{}
		}
		in, out := tokensOf(e)
		p.loops[e.Step] = &loop{depth: int(depth), tokens: in + out}
		if !slices.ContainsFunc(p.running, func(s runningStep) bool { return s.path == e.Step }) {
			p.running = append(p.running, runningStep{path: e.Step, began: e.At})
		}
	}
	l := p.loops[e.Step]
	if l == nil { // the call of a model step, say
		return ""
	}
	text := p.loopText(l, e)
	if e.Kind == trace.AgentEnd {
		delete(p.loops, e.Step)
		p.running = slices.DeleteFunc(p.running, func(s runningStep) bool { return s.path == e.Step })
	}
	if text == "" {
		return ""
	}
	return fmt.Sprintf("%s%s  %s", strings.Repeat("  ", l.depth+1), p.paint("2", visible(e.Step)), text)
}

func (p *progress) loopText(l *loop, e trace.Event) string {
	get := func(key string) string { return brief(e.Data.Get(key)) }
	call := "call " + get("call") + ": "
	switch e.Kind {
	case trace.AgentStart:
		text := fmt.Sprintf("agent %s, model %s", get("agent"), get("model"))
		if e.Data.Get("resume") == true {
			text += ", goes on"
		}
		return text
	case trace.MemoryLoad:
		return "memory: " + get("messages") + " messages"
	case trace.Retrieve:
		return "documents found: " + get("documents")
	case trace.Steer:
		return "messages that came in: " + get("messages")
	case trace.Compact:
		return "history compacted, archived as " + get("archive")
	case trace.ModelStart:
		l.step, _ = e.Data.Get("step").(int64)
		p.doing(e.Step, fmt.Sprintf("step %d", l.step))
	case trace.ModelEnd:
		return p.stepText(l, e)
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
	case trace.AdapterRetry:
		return retryText(e)
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
		return p.paint("33", "?") + " " + call + "a person is asked"
	case trace.HumanResponse:
		return call + "answered"
	case trace.LoopSnapshot:
		l.whole, _ = e.Data.Get("snapshot").(map[string]any)
	case trace.AgentEnd:
		return l.endText(get("stopReason"))
	}
	return ""
}

// retryText words that a call has failed and is made again.
func retryText(e trace.Event) string {
	get := func(key string) string { return brief(e.Data.Get(key)) }
	reason := get("reason")
	if reason == "network" {
		reason = "the connection failed or was lost"
	}
	return fmt.Sprintf("the %s is tried again in %s ms, attempt %s of %s failed: %s", get("adapterKind"),
		get("delayMs"), get("attempt"), get("maxAttempts"), reason)
}

// stepText words the end of a call of the model: what it said, unless that has been shown, and what it took.
func (p *progress) stepText(l *loop, e trace.Event) string {
	in, out := tokensOf(e)
	for path, above := range p.loops {
		if e.Step == path || strings.HasPrefix(e.Step, path+"/") {
			above.tokens += in + out
		}
	}
	if e.Data.Get("error") != nil {
		return ""
	}
	text := fmt.Sprintf("step %d: tokens %d in, %d out, %d in all", l.step, in, out, l.tokens)
	if finish := e.Data.Get("finish"); finish != "" && finish != "stop" && finish != "tool_calls" {
		text += ", finish " + brief(finish)
	}
	content, _ := e.Data.Get("content").(map[string]any)
	if said := brief(content["text"]); said != "" && p.segment.path != e.Step {
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

// endText words how a loop ended, with what all its legs took.
func (l *loop) endText(stop string) string {
	usage, _ := l.whole["usage"].(map[string]any)
	total := fmt.Sprintf("in step %s, tokens %s in, %s out",
		brief(l.whole["steps"]), brief(usage["input_tokens"]), brief(usage["output_tokens"]))
	switch stop {
	case "answer":
		return "answered " + total
	case "paused":
		return "waits " + total
	}
	return "stopped (" + stop + ") " + total
}

// brief is a value on one line of at most 160 characters.
func brief(v any) string {
	if v == nil {
		return ""
	}
	text, err := value.Text(v)
	if err != nil {
		text = err.Error()
	}
	const enough = 4096 // bytes, to find them in
	return cut(visible(strings.Join(strings.Fields(strings.ToValidUTF8(text[:min(len(text), enough)], "")), " ")))
}

// doing notes what a running step is at.
func (p *progress) doing(path, what string) {
	for i := range p.running {
		if p.running[i].path == path {
			p.running[i].doing = what
		}
	}
}

// delta takes a piece of an answer. Of several that come side by side one is shown: the first to begin.
func (p *progress) delta(e trace.Event) {
	if p.segment.path == "" {
		p.segment = segment{path: e.Step}
	}
	if p.segment.path != e.Step {
		return
	}
	text, _ := e.Data.Get("text").(string)
	lines := strings.SplitAfter(p.segment.line+visible(text), "\n")
	for _, line := range lines[:len(lines)-1] {
		p.ended.WriteString(p.quoted(line))
	}
	p.segment.line = lines[len(lines)-1]
}

// breakSegment ends the line of an answer under way, before anything else is printed.
func (p *progress) breakSegment() {
	if p.segment.line != "" {
		fmt.Fprintln(&p.ended, p.quoted(p.segment.line))
		p.segment.line = ""
	}
}

// quoted is a line of an answer.
func (p *progress) quoted(line string) string {
	in := 1
	if l := p.loops[p.segment.path]; l != nil {
		in += l.depth
	}
	return strings.Repeat("  ", in) + p.paint("2", "│") + " " + line
}
