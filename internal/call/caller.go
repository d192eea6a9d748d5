package call

import (
	"fmt"
	"slices"
	"sync"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/daily"
	"github.com/braise-run/braise/internal/engine"
	"github.com/braise-run/braise/internal/expr"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/schema"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// Caller makes the calls of one run. [Bind] makes one. The fields RunID, Delta, Live, Warn, Spans and those of Kept
// are set before calls are made; from then on it is safe for concurrent use.
type Caller struct {
	Diagnostics diagnostics.List    // of Bind
	Off         diagnostics.List    // tools that the host does not allow; a run may not need them
	Redact      *value.Redactor     // of the run's secrets, also for the context of the run; nil: there are none
	Offers      *runtime.Resolution // what the runtime and its plugins offer
	Archive     agentloop.Archive   // of agents; nil: none

	RunID string                  // for requests, keys and hooks
	Delta func(trace.Event)       // receives pieces of answers, from several goroutines; nil: they are not wanted
	Live  func(trace.Event)       // receives the events of adapters and hooks, likewise
	Warn  func(text, path string) // receives messages for the host's operator; nil: they are dropped
	Spans *trace.Fanout           // makes spans of calls; nil: nobody does

	Kept

	rt       *runtime.Runtime
	most     bounds
	uses     []program.Use // Program.Tools
	tools    []boundTool   // by index in uses
	secrets  map[string]string
	noSecret map[string]string // why secrets that the recipe names are missing, where that is known
	remote   *Remote           // whose calls it prepares, see Stand; nil: its own

	offered
	found
}

// Kept is what the calls of runs keep in the store.
type Kept struct {
	Day     *daily.Limits // what calls of models may cost on a day; nil: anything
	Content *Content      // of files that calls show; nil: each attempt reads the files, which must stay the same
}

// found is what agents have called so far, or may call since, and the batches that were looked at.
type found struct {
	mu     sync.Mutex
	host   map[string]*boundTool      // by name
	skills map[string][]runtime.Tool  // that skills brought, by the path of the agent or child
	loops  map[string]*agentloop.Loop // that have tools or layers of their own, likewise
	polls  map[string]*poll           // of batches, by the ids that their providers gave them
}

// bounds are how many bytes an output may have, and how many of memory it may take.
type bounds struct{ output, memory int }

// offered is what the runtime offers to agents, once one asks.
type offered struct {
	env   []runtime.Tool // of the host's environment, as they were at Bind
	once  sync.Once
	offer *agents.Offer
	err   error
}

var _ engine.Adapters = (*Caller)(nil)

// Hooked reports whether plugins have hooks.
func (c *Caller) Hooked() bool { return len(c.Offers.Plugins) > 0 }

// Prepare checks the arguments of a call, and fills in Ready; see [engine.Adapters]. If the tool panics when asked for
// the effect of the call, the error is an [engine.PanicError].
func (c *Caller) Prepare(call *engine.Call) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = c.panicked(call, p)
		}
	}()
	switch call.Kind {
	case program.RetrieverCall:
		err = c.preparePlace(call)
	case program.ToolCall:
		err = c.prepareTool(call)
	}
	return c.Redact.Error(err)
}

// prepareTool is Prepare for a tool that a step calls, a rollback, or an agent, which has checked the arguments.
func (c *Caller) prepareTool(call *engine.Call) error {
	t := c.tool(call)
	if t.tool == nil {
		why := program.WhyMissing(c.Offers.ToolSpecs(), call.Name)
		if why != "" {
			why = ": " + why
		}
		return program.ConfigError(diagnostics.CodeMissingTool, "%s: no tool named %q is configured%s",
			call.Pos, call.Name, why)
	}
	if call.Input == nil {
		call.Input = map[string]any{}
	}
	args, err := c.arguments(call)
	if err != nil {
		return err
	}
	if t.schema != nil && !(c.remote != nil && call.Opens) {
		if problems := t.schema.Check(args); problems != nil {
			return program.ConfigError(diagnostics.CodeArguments, "%s: arguments of %q: %s",
				call.Pos, call.Name, schema.Describe(problems))
		}
	}
	if off := t.spec.Off; off != "" {
		return program.ConfigError(diagnostics.CodeMissingTool, "%s: tool %q is not allowed here\n  hint: %s",
			call.Pos, call.Name, off)
	}
	var text []byte // only for a tool with EffectOf
	if t.spec.EffectOf != nil {
		text, _ = value.JSON(args) // of decoded JSON
	}
	call.Ready = engine.Ready{Effect: t.spec.EffectFor(text), Quick: t.values != nil}
	return nil
}

// arguments returns those of a call, with the secrets in them. They must be an object.
func (c *Caller) arguments(call *engine.Call) (map[string]any, error) {
	input, err := c.input(call)
	if err != nil {
		return nil, err
	}
	args, ok := input.(map[string]any)
	if !ok { // of an expression
		return nil, program.ConfigError(diagnostics.CodeArguments, "%s: the arguments of %q must be an object, not %s",
			call.Pos, call.Name, value.TypeName(input))
	}
	return args, nil
}

// Shown returns the input of a call with secrets redacted; see [engine.Adapters].
func (c *Caller) Shown(call *engine.Call) any {
	input, err := c.input(call)
	if err != nil {
		input = call.Input
	}
	return c.Redact.Value(input)
}

// input returns the input of a call, with the secrets in it.
func (c *Caller) input(call *engine.Call) (any, error) {
	if !call.Opens {
		return call.Input, nil
	}
	return expr.Open(call.Input, func(part expr.SealedPart) (string, error) {
		if s, ok := c.secrets[part.Secret]; ok {
			return part.Escape.Apply(s), nil
		}
		why := c.noSecret[part.Secret]
		if why != "" {
			why = ": " + why
		}
		return "", program.ConfigError(diagnostics.CodeMissingSecret, "%s: no secret named %q is configured%s",
			call.Pos, part.Secret, why)
	})
}

// tool finds the tool of a call; the zero tool if it is not configured.
func (c *Caller) tool(call *engine.Call) *boundTool {
	j := call.Job
	if j == nil {
		if i := program.IndexOf(c.uses, call.Name); i >= 0 {
			return &c.tools[i]
		}
		return &boundTool{}
	}
	var tools []runtime.Tool
	switch j.Scope {
	case agents.OfAgent:
		if l := c.loop(j.Path); l != nil {
			tools = l.Own
		}
	case agents.OfHost:
		return c.hostTool(j.Name)
	case agents.OfEnv:
		tools = c.env
	case agents.OfSkill:
		c.mu.Lock()
		tools = c.skills[j.Path]
		c.mu.Unlock()
	}
	return c.boundIn(tools, j.Name)
}

// Runs notes the loop that runs at a path, if it has tools or layers of its own; see [engine.Adapters].
func (c *Caller) Runs(path string, l *agentloop.Loop) {
	if len(l.Own)+len(l.Layers) == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loops == nil {
		c.loops = map[string]*agentloop.Loop{}
	}
	c.loops[path] = l
}

// loop returns the loop that runs at a path; nil: it has no tools and layers of its own, or runs in another process.
func (c *Caller) loop(path string) *agentloop.Loop {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.loops[path]
}

// hostTool finds a tool of the host, and binds it once: each call of an agent asks for it several times.
func (c *Caller) hostTool(name string) *boundTool {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.host[name]
	if b == nil {
		b = c.boundIn(c.Offers.Tools, name)
		if c.host == nil {
			c.host = map[string]*boundTool{}
		}
		c.host[name] = b
	}
	return b
}

// boundIn finds the last tool of a name; the zero tool if there is none.
func (c *Caller) boundIn(tools []runtime.Tool, name string) *boundTool {
	for _, t := range slices.Backward(tools) {
		if t == nil {
			continue
		}
		if spec := t.Spec(); spec.Name == name {
			b := c.bound(t, spec)
			return &b
		}
	}
	return &boundTool{}
}

// Retry returns the retry metadata of the adapter of a call; see [engine.Adapters].
func (c *Caller) Retry(call *engine.Call) *retry.Metadata {
	var adapter any
	switch call.Kind {
	case program.ToolCall:
		adapter = c.tool(call).tool
	case program.RetrieverCall:
		name, _ := placeOf(argsOf(call))
		adapter = c.rt.Searcher(name)
	case program.MemoryCall:
		adapter = c.rt.Memory
	}
	if d, ok := adapter.(runtime.Described); ok {
		return d.Metadata().Retry
	}
	return nil
}

// Model describes a model; see [engine.Adapters].
func (c *Caller) Model(name string) (engine.Model, bool) {
	m := c.Offers.Models[name]
	if m == nil {
		return engine.Model{Missing: c.Offers.WhyNoModel(name)}, false
	}
	_, streams := m.(runtime.StreamingModel)
	_, polled := m.(runtime.PolledModel)
	d, described := m.(runtime.Described)
	if !described {
		return engine.Model{Streams: streams, Polled: polled, Fallbacks: c.rt.FallbacksOf(name)}, true
	}
	about := d.Metadata()
	return engine.Model{Described: true, ModelOffer: agents.ModelOffer{Provider: about.Provider, Model: about.Model,
		Options: about.Options}, Retry: about.Retry, Streams: streams, Polled: polled,
		Fallbacks: c.rt.FallbacksOf(name)}, true
}

// named returns the name of the called adapter for messages.
func named(call *engine.Call) string {
	switch call.Kind {
	case program.RetrieverCall, program.MemoryCall:
		return "the " + string(call.Kind)
	case program.ModelCall:
		return fmt.Sprintf("model %q", call.Request.Model)
	case program.ToolCall:
		return fmt.Sprintf("tool %q", call.Name)
	case program.AgentCall:
		return "the files of an agent"
	}
	if what := ports[call.Job.Op]; what != "" {
		return what
	}
	return fmt.Sprintf("%s %q", call.Job.Op, call.Job.Name) // a function of a layer
}

// ports has the names, in messages, of the ports that only agents call.
var ports = map[agents.Op]string{
	agents.LoadSkills: "the skill loader", agents.LoadInstructions: "the environment",
	agents.ReadInbox: "the inbox", agents.ClearInbox: "the inbox",
	agents.PutArchive: "the archive", agents.GetArchive: "the archive",
	agents.AskApprover: "the approver", agents.AskPolicy: "the policy",
	agents.TellPolicy: "the policy",
}
