package runtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// Gatekeeper is a plugin that denies steps by their paths, and notes about which it was asked.
type Gatekeeper struct {
	Denies []string
	Asked  []string
}

// Plugin is what a Runtime takes.
func (g *Gatekeeper) Plugin() []runtime.Plugin {
	return []runtime.Plugin{Hook("guard", runtime.StepBefore, func(_ context.Context, m runtime.Moment) error {
		g.Asked = append(g.Asked, m.Step)
		if slices.Contains(g.Denies, m.Step) {
			return errors.New("closed today")
		}
		return nil
	})}
}

// Spans makes a span of each execution that it is told of.
type Spans struct{ Legs *int }

// Emit drops an event of no execution.
func (s Spans) Emit(trace.Event) {}

// ForRun begins the span of an execution.
func (s Spans) ForRun(string) trace.Sink {
	*s.Legs++
	return Span{fmt.Sprintf("00-0af7651916cd43dd8448eb211c80319c-%016d-01", *s.Legs)}
}

// Span is that of one execution.
type Span struct{ name string }

// Emit drops an event.
func (s Span) Emit(trace.Event) {}

// Traceparent is the name of the span.
func (s Span) Traceparent() string { return s.name }

// AllPoints are the points at which hooks are called.
var AllPoints = []runtime.Point{runtime.RunInit, runtime.StepBefore, runtime.StepAfter,
	runtime.ModelBefore, runtime.ModelAfter, runtime.ToolBefore, runtime.ToolAfter, runtime.RunFinish}

// Diary is a plugin that writes down every moment.
type Diary struct {
	mutex sync.Mutex
	Lines []string
}

// Plugin makes a plugin that writes its key before each moment.
func (d *Diary) Plugin(key string) runtime.Plugin {
	p := runtime.Plugin{Key: key, Hooks: runtime.Hooks{}}
	for _, point := range AllPoints {
		p.Hooks[point] = func(_ context.Context, m runtime.Moment) error {
			line := key + " " + string(m.Point)
			for _, s := range []string{m.Step, m.Name, m.Status} {
				if s != "" {
					line += " " + s
				}
			}
			if m.Args != nil {
				text, _ := value.JSON(m.Args)
				line += fmt.Sprintf(" args %s", text)
			}
			if m.Request != nil {
				line += " asks " + m.Request.Messages[0].Text
			}
			if m.Response != nil {
				line += " says " + m.Response.Text
			}
			if m.Output != nil {
				text, _ := value.JSON(m.Output)
				line += fmt.Sprintf(" gives %s", text)
			}
			if m.Err != nil {
				line += " fails: " + m.Err.Error()
			}
			if m.Run != "r1" {
				line += " in the run " + m.Run
			}
			d.mutex.Lock()
			defer d.mutex.Unlock()
			d.Lines = append(d.Lines, line)
			return nil
		}
	}
	return p
}

// Hook is a plugin with one hook.
func Hook(key string, point runtime.Point, f runtime.Hook) runtime.Plugin {
	return runtime.Plugin{Key: key, Hooks: runtime.Hooks{point: f}}
}
