package workflow

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/machine"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// bytesPerToken is how many bytes of text count as a token where nobody has counted, and
// answerTokens what is reserved for an answer whose length nothing bounds.
const (
	bytesPerToken = 4
	answerTokens  = 1024
)

// most bounds what one call counts, so that sums do not overflow.
const most = 1 << 52

// amount is what calls of models use.
type amount struct {
	tokens int64
	micros int64 // millionths of a US dollar
}

func (a amount) plus(b amount) amount {
	return amount{min(a.tokens+b.tokens, most), min(a.micros+b.micros, most)}
}

func (a amount) minus(b amount) amount {
	return amount{max(a.tokens-b.tokens, 0), max(a.micros-b.micros, 0)}
}

// account is what the calls of a run, or of a step with its body, may use and have used.
type account struct {
	path     string // of the step; "" for the run's
	limit    amount // 0: none
	pause    bool   // on_exceeded: pause
	used     amount
	reserved amount // by calls under way
}

// budget holds the accounts of a run, by path. A step that runs anew goes on with its account.
type budget struct {
	mu       sync.Mutex
	accounts map[string]*account
}

// hasBudget reports whether limits bound what models may use.
func hasBudget(l *recipe.Limits) bool { return l != nil && (l.Tokens > 0 || l.CostUSD > 0) }

// account returns the account of a path, which it opens when it must.
func (b *budget) account(path string, l *recipe.Limits) *account {
	a := b.accounts[path]
	if a == nil {
		a = &account{path: path, pause: l.Pause, limit: amount{tokens: min(int64(l.Tokens), most)}}
		if l.CostUSD > 0 {
			a.limit.micros = micros(l.CostUSD * 1e6)
		}
		if b.accounts == nil {
			b.accounts = map[string]*account{}
		}
		b.accounts[path] = a
	}
	return a
}

// micros rounds millionths of a dollar up; what is more than nothing is at least one.
func micros(f float64) int64 {
	if !(f < most) {
		return most
	}
	return int64(math.Ceil(f - f*1e-12)) // 0.000007*1e6 may be a little over 7
}

// accountsOf returns the accounts that a task's calls count in: the run's, then those of the steps
// around it and its own, from the inside out.
func (r *run) accountsOf(t *machine.Task) (list []*account) {
	r.budget.mu.Lock()
	defer r.budget.mu.Unlock()
	if hasBudget(&r.wf.recipe.Limits) {
		list = append(list, r.budget.account("", &r.wf.recipe.Limits))
	}
	for ; r.wf.stepBudgets && t != nil; t = t.Owner() {
		if l, ok := t.Node().Limits.(*recipe.Limits); ok && hasBudget(l) {
			list = append(list, r.budget.account(t.Whole().Path(), l))
		}
	}
	return list
}

// reserve sets aside what the call that is about to be made may use. When that is more than is left,
// the call is not made: the error says so, or in.pause asks for more.
func (in *invocation) reserve() error {
	if len(in.accounts) == 0 {
		return nil
	}
	sent := tokensIn(in.req.Messages)
	want := in.priced(sent, answerTokens)
	if n := in.req.MaxTokens; n > 0 {
		want = in.priced(sent, int64(n))
	}
	b := &in.run.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range in.accounts {
		if err := a.check(want, in.named()); err != nil {
			if a.pause && in.told == nil { // a rollback does not pause
				in.pause = a.askForMore(err.Code, want, err.Error())
			}
			return err
		}
	}
	in.reserved = want
	for _, a := range in.accounts {
		a.reserved = a.reserved.plus(want)
	}
	return nil
}

// check refuses a call that may use more than is left. name names the model.
func (a *account) check(want amount, name string) *runtime.Error {
	scope := "the run"
	if a.path != "" {
		scope = fmt.Sprintf("step %q", a.path)
	}
	busy := a.used.plus(a.reserved)
	if a.limit.tokens > 0 && busy.plus(want).tokens > a.limit.tokens {
		return &runtime.Error{Category: runtime.CategoryLimit, Code: "limits.tokens",
			Err: fmt.Errorf("%s is not called: it may use %d tokens, and limits.tokens of %s is %d, of which %d are used and %d reserved",
				name, want.tokens, scope, a.limit.tokens, a.used.tokens, a.reserved.tokens)}
	}
	if a.limit.micros > 0 && busy.plus(want).micros > a.limit.micros {
		return &runtime.Error{Category: runtime.CategoryLimit, Code: "limits.cost_usd",
			Err: fmt.Errorf("%s is not called: it may cost $%s, and limits.cost_usd of %s is %s, of which %s are used and %s reserved",
				name, dollars(want.micros), scope, dollars(a.limit.micros), dollars(a.used.micros), dollars(a.reserved.micros))}
	}
	return nil
}

func dollars(micros int64) string { return strconv.FormatFloat(float64(micros)/1e6, 'f', -1, 64) }

// askForMore is the pause of a call for which too little is left. What is raised must at least let
// this call through, as far as others do not use it.
func (a *account) askForMore(code string, want amount, prompt string) *resume.Pause {
	least := a.used.plus(want)
	form := map[string]any{}
	limits := map[string]any{}
	if a.limit.tokens > 0 {
		form["tokens"] = map[string]any{"type": "integer", "minimum": max(least.tokens, 1)}
		limits["tokens"] = a.limit.tokens
	}
	if a.limit.micros > 0 {
		form["cost_usd"] = map[string]any{"type": "number", "minimum": float64(least.micros) / 1e6}
		limits["cost_usd"] = float64(a.limit.micros) / 1e6
	}
	required := "tokens"
	if code == "limits.cost_usd" {
		required = "cost_usd"
	}
	return &resume.Pause{Kind: resume.System, Reason: code, Decisions: []string{"raise", "fail"}, Prompt: prompt,
		Show:   map[string]any{"scope": a.path, "limits": limits, "used": map[string]any{"tokens": a.used.tokens, "cost_usd": float64(a.used.micros) / 1e6}},
		Schema: map[string]any{"type": "object", "properties": form, "required": []any{required}, "additionalProperties": false}}
}

// asksForMore reports whether a pause is because too little is left.
func asksForMore(p *openPause) bool {
	if c, ok := p.task.Node().Adapter.(*call); !ok || c.kind != modelCall || p.Kind != resume.System {
		return false
	}
	return p.Reason == "limits.tokens" || p.Reason == "limits.cost_usd"
}

// decideMore goes on with a call for which too little was left. A limit is only ever raised: another
// answer may have raised it higher.
func (r *run) decideMore(p *openPause, answer any) {
	m, _ := answer.(map[string]any)
	if m["decision"] != "raise" {
		r.answerTask(p.task, nil, &machine.Failure{Category: string(runtime.CategoryLimit), Code: p.Reason,
			Err: fmt.Errorf("%s, and it was decided not to raise it", p.Prompt)})
		return
	}
	form, _ := m["form"].(map[string]any)
	show, _ := p.Show.(map[string]any)
	accounts := r.accountsOf(p.task)
	r.budget.mu.Lock()
	for _, a := range accounts {
		if a.path != show["scope"] {
			continue
		}
		if n, ok := form["tokens"].(int64); ok && a.limit.tokens > 0 {
			a.limit.tokens = max(a.limit.tokens, min(n, most))
		}
		if f, ok := number(form["cost_usd"]); ok && a.limit.micros > 0 {
			a.limit.micros = max(a.limit.micros, micros(f*1e6))
		}
	}
	r.budget.mu.Unlock()
	r.m.Again(p.task)
}

func number(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

// settle replaces what was reserved for a call by what it used: what the model says, else what the
// texts come to. A call that the endpoint refused used nothing.
func (in *invocation) settle(resp *runtime.Response, err error) {
	if in.call.kind != modelCall {
		return
	}
	var sent, received int64
	if resp != nil {
		sent, received = int64(resp.Usage.InputTokens), int64(resp.Usage.OutputTokens)
		if received <= 0 {
			received = tokensIn([]runtime.Message{{Text: resp.Text, ToolCalls: resp.ToolCalls}})
		}
	}
	if sent <= 0 && (err == nil || !free(err)) {
		sent = tokensIn(in.req.Messages)
	}
	used := in.priced(sent, received)
	in.used = in.used.plus(used)
	in.release(used)
}

// free reports whether a call that failed costs nothing.
func free(err error) bool {
	_, suspended := errors.AsType[*resume.Suspension](err)
	return suspended || retry.FailureOf(err).Status != 0
}

// release gives back what was reserved and is not used.
func (in *invocation) release(used amount) {
	if len(in.accounts) == 0 {
		return
	}
	b := &in.run.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, a := range in.accounts {
		a.used, a.reserved = a.used.plus(used), a.reserved.minus(in.reserved)
	}
	in.reserved = amount{}
}

// priced is what tokens come to, at the host's prices: dollars per million are millionths per token.
func (in *invocation) priced(sent, received int64) amount {
	sent, received = min(sent, most/2), min(received, most/2)
	p := in.run.rt.Prices[in.req.Model]
	return amount{sent + received, micros(float64(sent)*p.Input + float64(received)*p.Output)}
}

// tokensIn guesses how many tokens messages have.
func tokensIn(messages []runtime.Message) int64 {
	n := 0
	for i := range messages {
		n += len(messages[i].Text)
		for _, c := range messages[i].ToolCalls {
			n += len(c.Name) + len(c.Arguments)
		}
	}
	return int64((n + bytesPerToken - 1) / bytesPerToken)
}

// usage is an amount as a journal keeps it; nil for nothing.
func (a amount) usage() map[string]any {
	if a == (amount{}) {
		return nil
	}
	return map[string]any{"tokens": a.tokens, "micros": a.micros}
}

// usageOf reads what usage made.
func usageOf(data map[string]any) amount {
	m, _ := data["usage"].(map[string]any)
	tokens, _ := m["tokens"].(int64)
	micros, _ := m["micros"].(int64)
	return amount{max(0, min(tokens, most)), max(0, min(micros, most))}
}

// spent counts what a call of an earlier leg used.
func (r *run) spent(t *machine.Task, used amount) {
	if t == nil || used == (amount{}) {
		return
	}
	for _, a := range r.accountsOf(t) {
		a.used = a.used.plus(used)
	}
}

// recallSpent counts in the run's account what was used under earlier definitions. Its steps, and
// the limits, are those of the present one.
func (r *run) recallSpent(l *leg) error {
	recs := l.recs[:l.from]
	if l.old != nil {
		recs = l.recs
	}
	if !hasBudget(&r.wf.recipe.Limits) {
		return nil
	}
	for _, rec := range recs {
		if rec.Kind != recEnded && rec.Kind != checkpoint.PauseOpened {
			continue
		}
		data, err := dataOf(rec)
		if err != nil {
			return err
		}
		if rec.Kind == checkpoint.PauseOpened {
			data, _ = data["call"].(map[string]any)
		}
		a := r.budget.account("", &r.wf.recipe.Limits)
		a.used = a.used.plus(usageOf(data))
	}
	return nil
}

// needsPrices reports whether a limit of cost holds anywhere in the recipe.
func (wf *Workflow) needsPrices() bool { return wf.recipe.Limits.CostUSD > 0 || wf.stepCosts }

// checkPrices reports models without a price, when a limit of cost needs them.
func (p *prepared) checkPrices(wf *Workflow, rt *runtime.Runtime) {
	if !wf.needsPrices() {
		return
	}
	for _, u := range wf.models {
		if _, ok := rt.Prices[u.name]; !ok && p.offers.Models[u.name] != nil {
			p.list = append(p.list, diagnostics.Diagnostic{
				Level: diagnostics.ErrorLevel, Kind: diagnostics.KindContract, Code: diagnostics.CodeMissingPrice,
				Message: fmt.Sprintf("model %q has no price; a cost_usd of the recipe needs one", u.name),
				Hint:    "give it under prices in braise.yaml", Position: u.pos, Step: u.step,
			})
		}
	}
}

// unpriced is the error of a run that lacks prices.
func (r *run) unpriced() error {
	i := slices.IndexFunc(r.prepared.list, func(d diagnostics.Diagnostic) bool { return d.Code == diagnostics.CodeMissingPrice })
	if i < 0 {
		return nil
	}
	d := r.prepared.list[i]
	return configError(diagnostics.CodeMissingPrice, "%s: %s\n  hint: %s", d.Position, d.Message, d.Hint)
}

// limits takes over a step's limits.
func (s *stepCompiler) limits(l *recipe.Limits) {
	if l == nil {
		return
	}
	if l.Pause && l.WallTime > 0 {
		s.notBuilt(l.Pos, "pauses when wall_time is over")
	}
	if l.WallTime > 0 && (s.node.Timeout == 0 || l.WallTime < s.node.Timeout) {
		s.node.Timeout, s.node.WallTime = l.WallTime, true
	}
	if hasBudget(l) {
		s.node.Limits, s.stepBudgets = l, true
		s.stepCosts = s.stepCosts || l.CostUSD > 0
	}
}
