package runtime

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/trace"
)

// Plugin is a bundle of models, tools, ports, declared capabilities and hooks that a host adds to a
// Runtime as one value. docs/plugins.md has the rules; [Runtime.Resolve] applies them.
type Plugin struct {
	// Key names the plugin in messages and in Runtime.Providers; not empty, and not "host" or
	// "builtin".
	Key string
	// Mode says what happens when the slot is taken already. Defaults to Extend.
	Mode PluginMode
	// OverrideKey is the slot, when it is not Key.
	OverrideKey string

	// Capabilities are what the plugin says that it offers, by key; values are JSON. What is said
	// here takes precedence over what the models and tools of a runtime imply. nil: nothing.
	Capabilities map[string]any
	Requires     []Requirement    // nil: nothing
	Models       map[string]Model // by the name that recipes use; nil: none
	Tools        []Tool           // of two with one name the last counts; nil: none
	Hooks        Hooks            // nil: none

	// Ports that a host may have itself; of several that offer one, see [Runtime.Resolve]. nil: none.
	Retriever Retriever
	Memory    Memory
	Skills    SkillLoader
	Env       Env
	Approver  Approver
	Trace     []trace.Sink     // beside those of the host and of other plugins
	Prices    map[string]Price // of models, by the name that recipes use
}

// Slot is the place that the plugin takes among the others: OverrideKey, or else Key.
func (p *Plugin) Slot() string {
	if p.OverrideKey != "" {
		return p.OverrideKey
	}
	return p.Key
}

// PluginMode says what a plugin does when an earlier one has its slot.
type PluginMode string

// The modes.
const (
	Extend   PluginMode = ""         // it is dropped, and that is reported
	Override PluginMode = "override" // it replaces the earlier one, in its place
)

// Requirement is one thing that a plugin or an adapter needs to work.
type Requirement struct {
	Kind RequirementKind
	Name string // not empty
}

// RequirementKind says what a requirement names.
type RequirementKind string

// The kinds of requirements.
const (
	RequireCapability RequirementKind = "capability"
	RequireModel      RequirementKind = "model"
	RequireTool       RequirementKind = "tool"
	RequireSecret     RequirementKind = "secret"
	RequirePlugin     RequirementKind = "plugin" // by key, or by slot
)

// Hooks are the functions that a plugin wants called, by the point at which they are.
type Hooks map[Point]Hook

// Hook receives a moment of a run. It must be safe for concurrent use, should return soon, and
// must not change anything that the moment holds.
//
// An error or a panic at [ModelBefore] or [ToolBefore] denies the call: the adapter is not called,
// and the call fails with that error. At [StepBefore] it denies the step: nothing of it runs, and
// the step fails with that error, as its on_error sees it. The code is "hook.denied". At any other
// point an error is only reported.
//
// Hooks at [StepBefore] are called once for each step, item of a foreach and step of a body that
// begins, and before another process or a fork continues a step in which nothing has happened
// yet. A step whose result a fork shares is not one.
type Hook func(ctx context.Context, m Moment) error

// Point is a place in a run where hooks are called.
type Point string

// The points, in the order in which a run reaches them.
const (
	RunInit     Point = "run.init" // before the first step
	StepBefore  Point = "step.before"
	ModelBefore Point = "model.before"
	ModelAfter  Point = "model.after"
	ToolBefore  Point = "tool.before"
	ToolAfter   Point = "tool.after"
	StepAfter   Point = "step.after"
	RunFinish   Point = "run.finish" // when the run ends or pauses, whatever the outcome
)

// Moment is what a hook receives.
type Moment struct {
	Point Point
	Run   string // the run's id
	Step  string // the step's path; "" at run.init and run.finish
	Name  string // of the model or tool, as the recipe names it; "" at the other points

	// At the points of models and tools: the agent that calls, "" for a step's own call, then Step is the path of the
	// agent or child; the number of the call there, from 1; the attempt, from 1.
	Agent   string
	Call    int
	Attempt int

	Request  *Request       // model.before and model.after, else nil
	Response *Response      // model.after when the call succeeded, else nil
	Args     map[string]any // tool.before and tool.after, else nil; *** stands for secrets
	Output   any            // tool.after, step.after and run.finish, when they succeeded
	Err      error          // model.after, tool.after, step.after and run.finish, when they failed
	// step.after and run.finish: how it ended, in the words of the trace; "" at the other points
	Status string
}

// points are all points, in order.
var points = []Point{RunInit, StepBefore, ModelBefore, ModelAfter, ToolBefore, ToolAfter, StepAfter, RunFinish}

// NotScheduled reports the hooks that are never called in a workflow that only reaches the
// points in scheduled: plugins in order, and the points of each in order.
func (r *Resolution) NotScheduled(scheduled ...Point) diagnostics.List {
	var list diagnostics.List
	for _, p := range r.Plugins {
		for _, point := range points {
			if p.Hooks[point] == nil || slices.Contains(scheduled, point) {
				continue
			}
			why := ""
			if port, _, _ := strings.Cut(string(point), "."); port == "model" || port == "tool" {
				why = ", no step calls a " + port
			}
			list = append(list, diagnostics.Diagnostic{
				Level: diagnostics.Warn, Kind: diagnostics.KindPlugin, Code: diagnostics.CodeNotScheduled,
				Message: fmt.Sprintf("hook %q of plugin %q is never called%s", point, p.Key, why),
			})
		}
	}
	return list
}

// Fire calls the hooks of m.Point, one after the other in the order of the plugins. At
// [StepBefore], [ModelBefore] and [ToolBefore] the first error or panic is returned, and no further
// hook is called: the step or the call is denied. At any other point each is given to report, and
// Fire returns nil.
func (r *Resolution) Fire(ctx context.Context, m Moment, report func(diagnostics.Diagnostic)) error {
	for _, h := range r.hooks[m.Point] {
		err := h.fire(ctx, m)
		switch {
		case err == nil:
		case m.Point == StepBefore:
			return fmt.Errorf("plugin %q denies the step: %w", h.plugin, err)
		case m.Point == ModelBefore || m.Point == ToolBefore:
			port, _, _ := strings.Cut(string(m.Point), ".")
			return fmt.Errorf("plugin %q denies the call of %s %q: %w", h.plugin, port, m.Name, err)
		default:
			report(diagnostics.Diagnostic{
				Level: diagnostics.Warn, Kind: diagnostics.KindPlugin, Code: diagnostics.CodeHookFailed, Step: m.Step,
				Message: fmt.Sprintf("hook %q of plugin %q failed: %v", m.Point, h.plugin, err),
			})
		}
	}
	return nil
}

func (h pluginHook) fire(ctx context.Context, m Moment) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return h.call(ctx, m)
}
