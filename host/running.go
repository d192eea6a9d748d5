package host

import (
	"math"
	"time"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/yamlnode"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// Running is how an installation runs recipes, and what it tells them. The zero value says nothing.
type Running struct {
	Agents    runtime.AgentLimits // beside Approval and Deny of the Config
	Retry     retry.Policies      // for what steps do not set; nil: none
	Interrupt resume.Interrupt    // "": continue
	Strict    bool                // diagnostics stop runs before the first step
	// InstructionsFrom are files whose text every agent is told after its own instructions, in order, as written.
	// Runtime reads them. nil: none.
	InstructionsFrom []string
	Notify           []Notify // who is told of pauses and ends, programs as written; nil: nobody
}

// running reads how recipes are run.
func (r *reader) running(fields map[string]*yamlnode.Node) Running {
	return Running{
		Retry:  r.retries(fields["retry"]),
		Strict: r.Bool(fields["strict"]),
		Notify: part(r, "notify", func() []Notify { return r.notify(fields["notify"]) }),
		Interrupt: resume.Interrupt(read(r, fields["interrupt"], func(r *yamlnode.Reader, n *yamlnode.Node) string {
			return r.OneOf(n, string(resume.Continue), string(resume.Restart))
		})),
	}
}

// agents reads the bounds of agents, with what they may not call and what their calls need.
func (r *reader) agents(n *yamlnode.Node, c *Config) (approval, deny *yamlnode.Node) {
	fields := r.Object(n, []string{"tools", "deny", "approval", "approval_expires", "max_calls"}, nil)
	c.Agents = runtime.AgentLimits{
		Tools:           r.texts(fields["tools"]),
		MaxCalls:        r.Int(fields["max_calls"], 1, math.MaxInt32),
		ApprovalExpires: read(r, fields["approval_expires"], readDuration),
	}
	if tools := fields["tools"]; tools != nil && tools.Kind == yamlnode.List && len(tools.Items) == 0 {
		r.Errorf(tools.Pos, diagnostics.CodeInvalidValue, `to let agents call nothing, write deny: ["*"]`,
			"%q may not be empty", tools.Key)
	}
	return fields["approval"], fields["deny"]
}

// either returns the one of two keys that is given: one that stands at the top of the file, or the same in agents.
func (r *reader) either(top, inAgents *yamlnode.Node) *yamlnode.Node {
	switch {
	case inAgents == nil:
		return top
	case top != nil:
		r.Errorf(top.Pos, diagnostics.CodeInvalidValue, "leave one of them out",
			"%q and %q say the same", top.Key, "agents."+top.Key)
	}
	return inAgents
}

// policyKeys are the keys of a policy, as recipes have them.
var policyKeys = []string{"max_attempts", "backoff", "max_backoff", "jitter", "mode", "retry_on", "timeout"}

// retries reads policies by kind of adapter.
func (r *reader) retries(n *yamlnode.Node) retry.Policies {
	kinds := []retry.Kind{retry.Model, retry.Tool, retry.Retriever, retry.Memory}
	names := make([]string, len(kinds))
	for i, kind := range kinds {
		names[i] = string(kind)
	}
	fields := r.Object(n, names, nil)
	var policies retry.Policies
	for _, kind := range kinds {
		if n := fields[string(kind)]; n != nil {
			if policies == nil {
				policies = retry.Policies{}
			}
			policies[kind] = r.policy(n)
		}
	}
	return policies
}

func (r *reader) policy(n *yamlnode.Node) retry.Policy {
	fields := r.Object(n, policyKeys, nil)
	word := func(key string, allowed ...string) string {
		return read(r, fields[key], func(r *yamlnode.Reader, n *yamlnode.Node) string { return r.OneOf(n, allowed...) })
	}
	length := func(key string) time.Duration {
		before := len(r.Diagnostics)
		d := read(r, fields[key], (*yamlnode.Reader).Duration)
		if fields[key] != nil && d == 0 && len(r.Diagnostics) == before {
			return retry.None
		}
		return d
	}
	p := retry.Policy{MaxAttempts: r.Int(fields["max_attempts"], 1, math.MaxInt32), Backoff: length("backoff"),
		MaxBackoff: length("max_backoff"), Timeout: length("timeout"),
		Jitter: retry.Jitter(word("jitter", string(retry.NoJitter), string(retry.FullJitter))),
		Mode:   retry.Mode(word("mode", string(retry.Wait), string(retry.Pause)))}
	if on := fields["retry_on"]; on != nil {
		p.RetryOn = []retry.Reason{}
		for _, item := range r.List(on) {
			p.RetryOn = append(p.RetryOn, retry.Reason(read(r, item, func(r *yamlnode.Reader, n *yamlnode.Node) string {
				return r.OneOf(n, string(retry.RateLimit), string(retry.ServerError), string(retry.Timeout),
					string(retry.Network), string(retry.Unknown))
			})))
		}
	}
	return p
}
