package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/agents"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// scope identifies the owner of an account.
type scope struct {
	path string // of the step, all its items together; of time, of one execution; "" for the run's
	host bool   // it is the host's limit of the run
	time bool   // it limits time, not what models use
}

// account has what the calls of a run, or of a step with its body, may use and have used. An account of time is for
// limits that pause; limits that fail are timers.
type account struct {
	scope
	limit    journal.Amount // 0: none
	pause    bool           // on_exceeded: pause
	used     journal.Amount // by recorded calls
	spending journal.Amount // by calls in progress, in attempts that are over
	reserved journal.Amount // for attempts in progress

	wall  time.Duration // of an account of time: the limit
	began time.Duration // the run's clock when the account was opened
}

// budget holds what the calls of a run may use, and have used. A step that runs again keeps its account of what models
// use.
type budget struct {
	limits *program.Limits // of the recipe
	host   program.Limits  // the host's limit of the run
	steps  program.StepLimits
	prices map[string]runtime.Price
	daily  bool // the host has limits of a day

	total  journal.Amount              // by calls of models, in all executions
	calls  int64                       // of models that used something
	models map[string]checkpoint.Usage // total, by the model that answered; "": not known
	kept   int                         // bytes of memory that agents take, by Event.Weight

	accounts map[scope]*account
	uses     map[string]*modelUse // of steps, by path
	held     map[*machine.Task]map[string]reservation
}

// account returns the account of a scope, and opens it if necessary.
func (b *budget) account(s scope, l *program.Limits) *account {
	a := b.accounts[s]
	if a == nil {
		a = &account{scope: s, pause: l.Pause}
		if s.time {
			a.wall = l.WallTime
		} else {
			a.limit.Tokens, a.limit.Tools = min(int64(l.Tokens), journal.MaxAmount), int64(l.ToolCalls)
			if l.CostUSD > 0 {
				a.limit.Micros = value.Micros(l.CostUSD * 1e6)
			}
		}
		if b.accounts == nil {
			b.accounts = map[scope]*account{}
		}
		b.accounts[s] = a
	}
	return a
}

// begin opens the account of time of a task that begins. now is the run's clock.
func (b *budget) begin(t *machine.Task, now time.Duration) {
	if l, ok := t.Node().Limits.(*program.Limits); ok && program.PausesInTime(l) {
		b.account(scope{path: t.Path(), time: true}, l).began = now
	}
}

// newBudget returns the budget of a run in which nothing was used yet.
func newBudget(p *program.Program, o *Options) budget {
	return budget{limits: &p.Recipe.Limits, host: hostLimits(o.Budget), steps: p.StepLimits, prices: o.Prices,
		daily: o.Budget.Daily()}
}

// hostLimits returns the host's limits of a run in the form of a recipe's.
func hostLimits(b runtime.Budget) program.Limits {
	return program.Limits{Tokens: b.Tokens, CostUSD: b.CostUSD, ToolCalls: b.ToolCalls, WallTime: b.WallTime,
		Pause: b.Pause}
}

// timed reports whether calls may have to wait because the time is over.
func (b *budget) timed() bool {
	return b.steps.Time || program.PausesInTime(b.limits) || program.PausesInTime(&b.host)
}

// wallTime is how long the run may be worked on, and the name of that limit; 0 means no limit. Limits that pause
// are accounts.
func (b *budget) wallTime() (limit time.Duration, name string) {
	if l := b.limits; !l.Pause {
		limit, name = l.WallTime, "limits.wall_time"
	}
	if l := &b.host; !l.Pause && l.WallTime > 0 && (limit == 0 || l.WallTime < limit) {
		limit, name = l.WallTime, "limits.wall_time of the host"
	}
	return limit, name
}

// accountsOf returns the accounts that a task's calls count in: the run's, then those of the steps
// around it and its own, from the inside out. A nil task has those of the run.
func (b *budget) accountsOf(t *machine.Task) (list []*account) {
	final := t != nil && t.InFinally() // which has a time of its own
	add := func(l *program.Limits, whole, one scope, timed bool) {
		if program.HasBudget(l) {
			list = append(list, b.account(whole, l))
		}
		if one.time = true; timed && program.PausesInTime(l) {
			list = append(list, b.account(one, l))
		}
	}
	add(b.limits, scope{}, scope{}, !final)
	add(&b.host, scope{host: true}, scope{host: true}, !final)
	for ; b.steps.Any && t != nil; t = t.Owner() {
		if l, ok := t.Node().Limits.(*program.Limits); ok {
			add(l, scope{path: t.Whole().Path()}, scope{path: t.Path()}, !final || t.InFinally())
		}
	}
	return list
}

// priced returns the accounts in which a task's calls of models count. If cost is limited, the models
// must have prices.
func (b *budget) priced(t *machine.Task, pos diagnostics.Position, models ...string) ([]*account, error) {
	list := b.accountsOf(t)
	if !b.daily && !slices.ContainsFunc(list, func(a *account) bool { return a.limit.Micros > 0 }) {
		return list, nil
	}
	for _, name := range models {
		if _, ok := b.prices[name]; !ok {
			return nil, program.ConfigError(diagnostics.CodeMissingPrice,
				"%s: model %q has no price; a limit of cost_usd needs one", pos, name)
		}
	}
	return list, nil
}

// reserve reserves what the next attempt may use: for a model, tokens and their cost. If that is more than is left, or
// no time is left, the attempt is not made: the error says so, and the pause, if there is one, asks for more. now is
// the run's clock.
func (b *budget) reserve(p *pending, now time.Duration) (*resume.Pause, error) {
	if len(p.accounts) == 0 {
		return nil, nil
	}
	p.release(journal.Amount{}) // of the attempt before, of a tool
	if p.Batched.InBatch() {
		b.unhold(p.task, p.Batched.ID)
		p.take(p.Batched.Reserved)
		return nil, nil
	}
	want := Wanted(p.Call, b.prices)
	if want == (journal.Amount{}) {
		want.Tools = p.tools
	}
	for _, a := range p.accounts {
		if err := a.check(want, now, p.named()); err != nil {
			if a.pause && p.mayPause(p) {
				return a.askForMore(err.Code, want, now, err.Error()), err
			}
			return nil, err
		}
	}
	p.take(want)
	return nil, nil
}

// gone is what an account has used up.
func (a *account) gone() journal.Amount { return a.used.Plus(a.spending) }

// check refuses a call that may use more than is left. now is the run's clock, name is the name of the called adapter.
func (a *account) check(want journal.Amount, now time.Duration, name string) *runtime.Error {
	scope := a.owner()
	if a.time {
		if now-a.began < a.wall {
			return nil
		}
		return &runtime.Error{Category: runtime.CategoryLimit, Code: "limits.wall_time",
			Err: fmt.Errorf("%s is not called: limits.wall_time of %s is %v, and it is over", name, scope, a.wall)}
	}
	switch {
	case want == (journal.Amount{}):
		return nil
	case want.Tools > 0:
		return a.checkTools(want.Tools, name)
	}
	busy := a.gone().Plus(a.reserved)
	if a.limit.Tokens > 0 && busy.Plus(want).Tokens > a.limit.Tokens {
		return &runtime.Error{Category: runtime.CategoryLimit, Code: "limits.tokens",
			Err: fmt.Errorf("%s is not called: it may use %d tokens, "+
				"and limits.tokens of %s is %d, of which %d are used and %d reserved",
				name, want.Tokens, scope, a.limit.Tokens, a.gone().Tokens, a.reserved.Tokens)}
	}
	if a.limit.Micros > 0 && busy.Plus(want).Micros > a.limit.Micros {
		return &runtime.Error{Category: runtime.CategoryLimit, Code: "limits.cost_usd",
			Err: fmt.Errorf("%s is not called: it may cost $%s, "+
				"and limits.cost_usd of %s is %s, of which %s are used and %s reserved",
				name, value.Dollars(want.Micros), scope, value.Dollars(a.limit.Micros), value.Dollars(a.gone().Micros),
				value.Dollars(a.reserved.Micros))}
	}
	return nil
}

// askForMore is the pause of a call for which too little is left. The raised limits must at least admit
// this call, as long as other calls do not use them up.
func (a *account) askForMore(code string, want journal.Amount, now time.Duration, prompt string) *resume.Pause {
	if a.time {
		return a.askFor(code, prompt, map[string]any{"wall_time": a.wall.String()},
			map[string]any{"wall_time": seconds(now - a.began).String()},
			map[string]any{"wall_time": map[string]any{"type": "string", "description": "a duration like 90m"}})
	}
	least := a.gone().Plus(want)
	form := map[string]any{}
	limits := map[string]any{}
	used := map[string]any{"tokens": a.gone().Tokens, "cost_usd": float64(a.gone().Micros) / 1e6}
	if a.limit.Tools > 0 {
		form["tool_calls"] = map[string]any{"type": "integer", "minimum": max(least.Tools, 1)}
		limits["tool_calls"], used["tool_calls"] = a.limit.Tools, a.gone().Tools
	}
	if a.limit.Tokens > 0 {
		form["tokens"] = map[string]any{"type": "integer", "minimum": max(least.Tokens, 1)}
		limits["tokens"] = a.limit.Tokens
	}
	if a.limit.Micros > 0 {
		form["cost_usd"] = map[string]any{"type": "number", "minimum": float64(least.Micros) / 1e6}
		limits["cost_usd"] = float64(a.limit.Micros) / 1e6
	}
	return a.askFor(code, prompt, limits, used, form)
}

// askFor is the pause of a call that a limit refuses. form has the limits that may be raised; the limit that the
// code names must be raised.
func (a *account) askFor(code, prompt string, limits, used, form map[string]any) *resume.Pause {
	show := map[string]any{"scope": a.path, "limits": limits, "used": used}
	if a.host {
		show["host"] = true
	}
	return &resume.Pause{Kind: resume.System, Reason: code, Decisions: []string{"raise", "fail"},
		Prompt: prompt, Show: show,
		Schema: map[string]any{"type": "object",
			"properties": form, "required": []any{strings.TrimPrefix(code, "limits.")}, "additionalProperties": false}}
}

// seconds rounds a duration up, for people.
func seconds(d time.Duration) time.Duration { return (d + time.Second - 1).Truncate(time.Second) }

// asksForMore reports whether a pause asks to raise a limit.
func asksForMore(p *Pause) bool {
	c, ok := p.task.Node().Adapter.(*program.Call)
	if !ok || p.Kind != resume.System {
		return false
	}
	switch p.Reason {
	case "limits.wall_time":
		return true
	case toolCalls:
		return c.Kind == program.ToolCall || c.Kind == program.AgentCall
	}
	return c.Kind != program.ToolCall && (p.Reason == "limits.tokens" || p.Reason == "limits.cost_usd")
}

// RaisedEnough refuses an answer that raises a limit of time to less than is used already; a schema cannot say that.
func RaisedEnough(p *resume.Pause, answer any) error {
	m, _ := answer.(map[string]any)
	if p.Kind != resume.System || p.Reason != "limits.wall_time" || m["decision"] != "raise" {
		return nil
	}
	show, _ := p.Show.(map[string]any)
	used, _ := show["used"].(map[string]any)
	form, _ := m["form"].(map[string]any)
	least, got := lengthOf(used["wall_time"]), lengthOf(form["wall_time"])
	if got < max(least, 1) {
		return fmt.Errorf("the form for %s: wall_time is %v, not a duration of at least %v",
			p, form["wall_time"], least)
	}
	return nil
}

// lengthOf reads a duration; 0 for anything else.
func lengthOf(v any) time.Duration {
	text, _ := v.(string)
	d, _ := value.Duration(text) // 0 with an error
	return d
}

// raise raises the limits that a pause asks for; the failure says that the answer was not to raise them. A limit is
// never lowered: another answer may have raised it further.
func (b *budget) raise(p *Pause, answer any) *machine.Failure {
	m, _ := answer.(map[string]any)
	if m["decision"] != "raise" {
		return &machine.Failure{Category: string(runtime.CategoryLimit), Code: p.Reason,
			Err: fmt.Errorf("%s, and it was decided not to raise it", p.Prompt)}
	}
	form, _ := m["form"].(map[string]any)
	show, _ := p.Show.(map[string]any)
	for _, a := range b.accountsOf(p.task) {
		if a.path != show["scope"] || a.host != (show["host"] == true) || a.time != (p.Reason == "limits.wall_time") {
			continue
		}
		if a.time {
			a.wall = max(a.wall, lengthOf(form["wall_time"]))
		}
		if a.limit.Tokens > 0 {
			a.limit.Tokens = max(a.limit.Tokens, journal.Count(form["tokens"]))
		}
		if a.limit.Tools > 0 {
			a.limit.Tools = max(a.limit.Tools, journal.Count(form["tool_calls"]))
		}
		if f, ok := program.Number(form["cost_usd"]); ok && a.limit.Micros > 0 {
			a.limit.Micros = max(a.limit.Micros, value.Micros(f*1e6))
		}
	}
	return nil
}

// settle replaces what was reserved for an attempt by what it used.
func (b *budget) settle(p *pending, res *Result) {
	if p.Request == nil && len(res.Spent) == 0 {
		return
	}
	used := Used(p.Call, res, b.prices)
	p.use.Used = p.use.Used.Plus(used)
	p.release(used)
}

// Wanted is what an attempt of a call may use of models: of the one that it asks, tokens and their cost, of those that
// a retriever asks, what is known, which is the query.
func Wanted(c *Call, prices map[string]runtime.Price) journal.Amount {
	switch {
	case c.Looks:
	case len(c.Spends) > 0:
		args, _ := c.Input.(map[string]any)
		query, _ := args["query"].(string)
		return priceOf(prices, c.Spends[0],
			runtime.Usage{InputTokens: int(max(1, agents.TokensIn([]runtime.Message{{Text: query}})))})
	case c.Request != nil:
		return priceOf(prices, c.Request.Model, runtime.Usage{InputTokens: int(agents.TokensIn(c.Request.Messages)),
			OutputTokens: int(agents.AnswerTokens(c.Request))})
	}
	return journal.Amount{}
}

// Used is what an attempt of a call has used of models: as they report, else estimated from the texts. An attempt that
// the endpoint refused, or that was not made, used nothing.
func Used(c *Call, res *Result, prices map[string]runtime.Price) (used journal.Amount) {
	for _, s := range res.Spent {
		one := priceOf(prices, s.Name, s.Usage.Clamped())
		one.Calls = 1
		used = used.Plus(one)
	}
	if c.Request == nil || c.Looks || unmade(res.Bad) || res.Yield || res.Lost {
		return used
	}
	var u runtime.Usage
	if resp := res.Response; resp != nil {
		if u = resp.Usage.Clamped(); u.OutputTokens == 0 {
			u.OutputTokens = int(agents.TokensIn([]runtime.Message{{Text: resp.Text, ToolCalls: resp.ToolCalls}}))
		}
	}
	paid := res.Err == nil || !free(res.Err)
	if u.InputTokens == 0 && paid {
		u.InputTokens = int(agents.TokensIn(c.Request.Messages))
	}
	one := priceOf(prices, c.Request.Model, u)
	if paid {
		one.Calls = 1
	}
	return used.Plus(one)
}

// free reports whether a call that failed costs nothing: it was refused, or nothing was sent.
func free(err error) bool {
	_, suspended := errors.AsType[*resume.Suspension](err)
	f := retry.FailureOf(err)
	return suspended || f.Status != 0 || f.Unsent()
}

// release gives back what was reserved and is not used.
func (p *pending) release(used journal.Amount) {
	for _, a := range p.accounts {
		a.spending, a.reserved = a.spending.Plus(used), a.reserved.Minus(p.reserved)
	}
	p.reserved = journal.Amount{}
}

// unuse resets what a call has used; the next event has it.
func (p *pending) unuse() { unspend(p.accounts, p.use.Used) }

func unspend(accounts []*account, used journal.Amount) {
	for _, a := range accounts {
		a.spending = a.spending.Minus(used)
	}
}

// priceOf is the cost of tokens at the host's prices.
func priceOf(prices map[string]runtime.Price, model string, u runtime.Usage) journal.Amount {
	u.InputTokens, u.OutputTokens = min(u.InputTokens, journal.MaxAmount/2), min(u.OutputTokens, journal.MaxAmount/2)
	u = u.Clamped()
	return journal.Amount{Tokens: int64(u.InputTokens) + int64(u.OutputTokens), Sent: int64(u.InputTokens),
		Cached: int64(u.CachedTokens), Written: int64(u.CacheWriteTokens), Reasoned: int64(u.ReasoningTokens),
		Micros: value.Micros(prices[model].Micros(u))}
}

// keep counts what events of agents take.
func (b *budget) keep(events []agents.Event) {
	for i := range events {
		b.kept += events[i].Weight()
	}
}

// refuses returns the error if an event of an agent cannot be recorded because the run would keep more than room bytes.
// Only calls of models and answers are refused: what came of a call is recorded.
func (b *budget) refuses(e *agents.Event, room int) error {
	if e.Kind != agents.ModelBegan && e.Kind != agents.ModelEnded || b.kept+e.Weight() <= room {
		return nil
	}
	return &runtime.Error{Category: runtime.CategoryLimit, Code: "outputs.tooLarge",
		Err: errors.New("what agents of this run said and were told, and the outputs of its steps, take more memory " +
			"than limits.max_run_bytes allows")}
}

// useReserved counts as used what a call of a model may cost that nobody waits for any more.
func (p *pending) useReserved() {
	if p.Request != nil {
		p.use.Used = p.use.Used.Plus(p.reserved)
		p.release(p.reserved)
	}
}
