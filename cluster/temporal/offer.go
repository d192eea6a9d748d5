package temporal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/braise-run/braise/internal/call"
	"github.com/braise-run/braise/internal/execution"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/internal/wire"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// offer is what the runtime of a worker has for a run, when the run begins.
type offer struct {
	Refused *wire.Fault       `json:"refused,omitempty"` // why the run does not begin; nil: it does
	Found   []wire.Diagnostic `json:"found,omitempty"`   // diagnostics

	Models map[string]modelOffer `json:"models,omitempty"`
	Tools  []toolOffer           `json:"tools,omitempty"`
	Env    []toolOffer           `json:"env,omitempty"`
	Ports  ports                 `json:"ports"`
	Remote call.Remote           `json:"remote"`
	Terms  terms                 `json:"terms"`
}

// modelOffer describes a model.
type modelOffer struct {
	About *runtime.Metadata `json:"about,omitempty"` // nil: it does not describe itself
}

// toolOffer describes a tool.
type toolOffer struct {
	Spec     runtime.ToolSpec `json:"spec"`
	Result   string           `json:"result,omitempty"`
	Approval string           `json:"approval,omitempty"`
	Asks     bool             `json:"asks,omitempty"` // it has an EffectOf
	Retry    *retry.Metadata  `json:"retry,omitempty"`
}

// ports says which ports there are.
type ports struct {
	Memory, Skills, Env, Inbox, Approver, Files bool
	RetryMemory                                 *retry.Metadata
	Searchers                                   map[string]searcherOffer    // by name; nil: none
	Rerankers                                   map[string]runtime.Metadata // likewise
}

// searcherOffer describes a retriever.
type searcherOffer struct {
	About runtime.Metadata
	Index bool
}

// terms are the settings of a host.
type terms struct {
	Prices        map[string]runtime.Price
	Limits        runtime.Limits
	Budget        runtime.Budget
	Retry         retry.Policies
	RetryDefaults retry.Policies
	Approval      map[string]string
	Deny          []string
	Interrupt     resume.Interrupt
	Answers       bool // there is a resume adapter
	Origin        map[string]string
	Traced        bool // the worker has trace sinks
	Search        bool // runs have search attributes
	Fallbacks     map[string][]string
	Agents        runtime.AgentLimits
}

// offerOf asks what a runtime has for a run of a program. An error is the worker's.
func offerOf(ctx context.Context, p *program.Program, in any, rt *runtime.Runtime, nonce string) *offer {
	o := &offer{Terms: terms{Limits: limitsOf(rt.Limits), Budget: rt.Budget, Retry: rt.Retry,
		RetryDefaults: rt.RetryDefaults, Approval: rt.Approval, Deny: rt.Deny, Interrupt: rt.Interrupt,
		Answers: rt.Resume != nil, Origin: rt.Origin, Traced: len(rt.Trace) > 0,
		Fallbacks: rt.Fallbacks, Agents: rt.Agents}}
	refuse := func(err error) *offer {
		o.Refused = wire.FaultOf(err)
		return o
	}
	for _, u := range p.Tools {
		if runtime.IsState(u.Name) {
			return refuse(clusterError("cluster.unsupported",
				"%s: step %q uses %s, and runs on a cluster keep no state"+
					"\n  hint: keep it in a database, by a tool of your own", u.Pos, u.Step, u.Name))
		}
	}
	if err := unsupported(rt); err != nil {
		return refuse(err)
	}
	if err := rt.Validate(); err != nil {
		return refuse(&runtime.Error{Category: runtime.CategoryConfig, Code: "runtime.invalid", Err: err})
	}
	c, err := call.Bind(ctx, p, rt)
	if err == nil {
		_, err = execution.Admit(c, p, rt, in)
	}
	if err == nil {
		err = c.Strict(rt.Diagnostics)
	}
	o.Found = wire.DiagnosticsOf(c.Diagnostics)
	if err != nil {
		return refuse(err)
	}
	own := c.Offers.Runtime
	if err := noBatches(own.Models); err != nil { // of plugins
		return refuse(err)
	}
	o.Terms.Prices = own.Prices
	o.Remote = call.Remote{Secrets: c.Known(p), Nonce: nonce, Hooked: c.Hooked()}
	o.Models = map[string]modelOffer{}
	models := maps.Clone(own.Models) // those too that cannot be used: they say why
	if models == nil {
		models = map[string]runtime.Model{}
	}
	maps.Copy(models, c.Offers.Models)
	for _, name := range value.SortedKeys(models) {
		var m modelOffer
		if d, ok := models[name].(runtime.Described); ok {
			about := d.Metadata()
			m.About = &about
		}
		o.Models[name] = m
	}
	o.Tools = describe(slices.DeleteFunc(slices.Clone(c.Offers.Tools), func(t runtime.Tool) bool {
		_, ofPort := t.(runtime.PortTool) // the ports bring it there, too
		return ofPort
	}))
	if own.Env != nil {
		o.Env = describe(own.Env.Tools())
	}
	o.Ports = ports{Memory: own.Memory != nil, Skills: own.Skills != nil,
		Env: own.Env != nil, Inbox: own.Inbox != nil, Approver: own.Approver != nil,
		Files: own.Files != nil, RetryMemory: retryOf(own.Memory), Searchers: searchersOf(own),
		Rerankers: map[string]runtime.Metadata{}}
	for name, r := range own.Rerankers {
		d, _ := r.(runtime.Described)
		o.Ports.Rerankers[name] = runtime.Metadata{}
		if d != nil {
			o.Ports.Rerankers[name] = d.Metadata()
		}
	}
	return o
}

func searchersOf(rt *runtime.Runtime) map[string]searcherOffer {
	list := map[string]searcherOffer{}
	names := append(value.SortedKeys(rt.Searchers), runtime.DefaultSearcher)
	for _, name := range names {
		s := rt.Searcher(name)
		if s == nil {
			continue
		}
		var o searcherOffer
		if d, ok := s.(runtime.Described); ok {
			o.About = d.Metadata()
		}
		_, o.Index = s.(runtime.Index)
		list[name] = o
	}
	return list
}

// limitsOf are the limits of a host, within those of a cluster.
func limitsOf(l runtime.Limits) runtime.Limits {
	l = l.WithDefaults()
	l.MaxOutputBytes = min(l.MaxOutputBytes, maxPayload)
	l.MaxRunBytes = min(l.MaxRunBytes, maxRun)
	l.MaxParallel = min(l.MaxParallel, maxParallel)
	return l
}

// unsupported refuses what a runtime has that runs on a cluster cannot use.
func unsupported(rt *runtime.Runtime) error {
	if rt.Resume != nil {
		if _, ok := rt.Resume.(resume.PassThrough); !ok {
			return clusterError("cluster.unsupported", "a resume adapter cannot make answers on a cluster"+
				"\n  hint: set Runtime.Resume to resume.PassThrough{}")
		}
	}
	if len(rt.Breakpoints) > 0 {
		return clusterError("cluster.unsupported", "a run on a cluster has no breakpoints"+
			"\n  hint: leave Runtime.Breakpoints empty")
	}
	if rt.Budget.Daily() {
		return clusterError("cluster.unsupported",
			"limits of a day are kept in a store, which runs on a cluster do not have"+
				"\n  hint: leave out cost_usd_per_day and per_label; cost_usd limits each run")
	}
	if err := noBatches(rt.Models); err != nil {
		return err
	}
	for _, p := range rt.Plugins {
		for _, point := range slices.Sorted(maps.Keys(p.Hooks)) {
			switch point {
			case runtime.RunInit, runtime.RunFinish, runtime.StepBefore, runtime.StepAfter:
				return clusterError("cluster.hooks", "plugin %q has a hook %q, which is not called on a cluster"+
					"\n  hint: hooks of models and tools are, on the worker that calls", p.Key, point)
			}
		}
	}
	return nil
}

// noBatches refuses models that answer in batches.
func noBatches(models map[string]runtime.Model) error {
	for _, name := range slices.Sorted(maps.Keys(models)) {
		if _, polled := models[name].(runtime.PolledModel); polled {
			return clusterError("cluster.unsupported", "model %q answers in batches, for which runs on a cluster do "+
				"not wait\n  hint: leave out batch: true of the workers' models", name)
		}
	}
	return nil
}

// clusterError is the error of what a cluster cannot do.
func clusterError(code, format string, args ...any) error {
	return &runtime.Error{Category: runtime.CategoryConfig, Code: code, Err: fmt.Errorf(format, args...)}
}

func describe(tools []runtime.Tool) (list []toolOffer) {
	for _, t := range tools {
		if t == nil {
			continue
		}
		spec := t.Spec()
		list = append(list, toolOffer{Spec: spec, Result: spec.Result, Approval: spec.Approval,
			Asks: spec.EffectOf != nil, Retry: retryOf(t)})
	}
	return list
}

// effectOf asks this worker what effect a call of a tool has. The history keeps the answer, as workers may differ.
func (r *run) effectOf(tool string, args json.RawMessage) (effect runtime.Effect) {
	r.asking = true
	ask := func(workflow.Context) any { return effectHere(r.here, tool, args) }
	if err := workflow.SideEffect(r.free, ask).Get(&effect); err != nil {
		panic(err)
	}
	r.asking = false
	return effect
}

// effectHere is the effect of a call of a tool, as a runtime has it: external if the tool is not there.
func effectHere(rt *runtime.Runtime, tool string, args json.RawMessage) runtime.Effect {
	own := rt.Resolve()
	var tools []runtime.Tool
	if env := own.Runtime.Env; env != nil {
		tools = env.Tools()
	}
	for _, t := range slices.Backward(slices.Concat(tools, own.Tools)) { // as calls choose one of several
		if t == nil {
			continue
		}
		if s := call.Describe(t); s.Name == tool && s.EffectOf != nil {
			return s.EffectOf(args)
		}
	}
	return runtime.External
}

// retryOf is what an adapter says about retries; nil: nothing.
func retryOf(adapter any) *retry.Metadata {
	if d, ok := adapter.(runtime.Described); ok {
		return d.Metadata().Retry
	}
	return nil
}

// runtime is a runtime that looks like the one which was asked. effectOf says what effect a call of a tool has.
func (o *offer) runtime(effectOf func(tool string, args json.RawMessage) runtime.Effect) *runtime.Runtime {
	rt := &runtime.Runtime{Models: map[string]runtime.Model{}, Prices: o.Terms.Prices, Limits: o.Terms.Limits,
		Budget: o.Terms.Budget, Retry: o.Terms.Retry, RetryDefaults: o.Terms.RetryDefaults,
		Approval: o.Terms.Approval, Deny: o.Terms.Deny, Interrupt: o.Terms.Interrupt, Origin: o.Terms.Origin,
		Fallbacks: o.Terms.Fallbacks, Agents: o.Terms.Agents}
	for name, m := range o.Models {
		rt.Models[name] = absentModel{}
		if m.About != nil {
			rt.Models[name] = describedModel{about: *m.About}
		}
	}
	rt.Tools = absentTools(o.Tools, effectOf)
	p := o.Ports
	rt.Searchers = map[string]runtime.Searcher{}
	for name, s := range p.Searchers {
		rt.Searchers[name] = absentSearcher{absent{s.About}}
		if s.Index {
			rt.Searchers[name] = absentIndex{absentSearcher{absent{s.About}}}
		}
	}
	rt.Rerankers = map[string]runtime.Reranker{}
	for name, about := range p.Rerankers {
		rt.Rerankers[name] = absentReranker{absent{about}}
	}
	if p.Files {
		rt.Files = absentFiles{}
	}
	if p.Memory {
		rt.Memory = absentMemory{absent{runtime.Metadata{Retry: p.RetryMemory}}}
	}
	if p.Skills {
		rt.Skills = absentSkills{}
	}
	if p.Env {
		rt.Env = absentEnv{absentTools(o.Env, effectOf)}
	}
	if p.Inbox {
		rt.Inbox = absentInbox{}
	}
	if p.Approver {
		rt.Approver = absentApprover{}
	}
	return rt
}

var errAbsent = errors.New("the adapter is in another process")

// absent describes an adapter of another process.
type absent struct{ about runtime.Metadata }

func (a absent) Metadata() runtime.Metadata { return a.about }

type absentModel struct{}

func (absentModel) Generate(context.Context, *runtime.Request) (*runtime.Response, error) {
	return nil, errAbsent
}

type describedModel struct {
	absentModel
	about runtime.Metadata
}

func (m describedModel) Metadata() runtime.Metadata { return m.about }

// absentTool describes a tool of another process.
type absentTool struct {
	absent
	spec runtime.ToolSpec
}

func (t *absentTool) Spec() runtime.ToolSpec { return t.spec }

func (*absentTool) Call(context.Context, json.RawMessage) (json.RawMessage, error) {
	return nil, errAbsent
}

func absentTools(offers []toolOffer, effectOf func(string, json.RawMessage) runtime.Effect) []runtime.Tool {
	list := make([]runtime.Tool, len(offers))
	for i, o := range offers {
		t := &absentTool{absent{runtime.Metadata{Retry: o.Retry}}, o.Spec}
		t.spec.Result, t.spec.Approval = o.Result, o.Approval
		if o.Asks {
			t.spec.EffectOf = func(args json.RawMessage) runtime.Effect { return effectOf(o.Spec.Name, args) }
		}
		list[i] = t
	}
	return list
}

type absentSearcher struct{ absent }

func (absentSearcher) Search(context.Context, runtime.Query) (runtime.Found, error) {
	return runtime.Found{}, errAbsent
}

type absentIndex struct{ absentSearcher }

func (absentIndex) Update(context.Context, runtime.Change) (runtime.Updated, error) {
	return runtime.Updated{}, errAbsent
}

type absentReranker struct{ absent }

func (absentReranker) Rerank(context.Context, string, []runtime.Document) (runtime.Found, error) {
	return runtime.Found{}, errAbsent
}

type absentFiles struct{}

func (absentFiles) Walk(context.Context, string, string, func(string, []byte) error) error {
	return errAbsent
}

func (absentFiles) Read(context.Context, string, int64) ([]byte, error) { return nil, errAbsent }

type absentMemory struct{ absent }

func (absentMemory) Load(context.Context, runtime.Conversation) ([]runtime.Message, error) {
	return nil, errAbsent
}

func (absentMemory) Save(context.Context, runtime.Conversation, string, []runtime.Message) error {
	return errAbsent
}

type absentSkills struct{}

func (absentSkills) Load(context.Context, []string) ([]runtime.Skill, error) { return nil, errAbsent }

type absentEnv struct{ tools []runtime.Tool }

func (absentEnv) Instructions(context.Context) (string, error) { return "", errAbsent }
func (e absentEnv) Tools() []runtime.Tool                      { return e.tools }

type absentInbox struct{}

func (absentInbox) Waiting(context.Context, string, string) ([]runtime.Note, error) {
	return nil, errAbsent
}

func (absentInbox) Taken(context.Context, string, string, ...string) error { return errAbsent }

type absentApprover struct{}

func (absentApprover) Approve(context.Context, runtime.ApprovalRequest) (runtime.ApprovalDecision, error) {
	return runtime.ApprovalDecision{}, errAbsent
}
