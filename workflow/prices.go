package workflow

import (
	"fmt"
	"slices"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/program"
	"github.com/braise-run/braise/runtime"
)

// needsPrices reports whether a limit of cost holds anywhere in a run.
func (wf *Workflow) needsPrices(rt *runtime.Runtime) bool {
	return wf.program.Recipe.Limits.CostUSD > 0 || wf.program.StepCosts || rt.Budget.CostUSD > 0
}

// checkPrices reports models without a price, when a limit of cost needs them.
func (p *prepared) checkPrices(wf *Workflow, rt *runtime.Runtime) {
	if !wf.needsPrices(rt) {
		return
	}
	for _, u := range wf.program.Models {
		if _, ok := rt.Prices[u.Name]; !ok && p.offers.Models[u.Name] != nil {
			p.list = append(p.list, diagnostics.Diagnostic{
				Level: diagnostics.ErrorLevel, Kind: diagnostics.KindContract, Code: diagnostics.CodeMissingPrice,
				Message: fmt.Sprintf("model %q has no price; a limit of cost_usd needs one", u.Name),
				Hint:    "give it under prices in braise.yaml", Position: u.Pos, Step: u.Step,
			})
		}
	}
}

// unpriced is the error of a run that lacks prices.
func (r *run) unpriced() error {
	i := slices.IndexFunc(r.prepared.list,
		func(d diagnostics.Diagnostic) bool { return d.Code == diagnostics.CodeMissingPrice })
	if i < 0 {
		return nil
	}
	d := r.prepared.list[i]
	return program.ConfigError(diagnostics.CodeMissingPrice, "%s: %s\n  hint: %s", d.Position, d.Message, d.Hint)
}

// priced is what tokens come to, at the host's prices: dollars per million are millionths per token.
func (in *invocation) priced(sent, received int64) journal.Amount {
	sent, received = min(sent, journal.MaxAmount/2), min(received, journal.MaxAmount/2)
	p := in.run.rt.Prices[in.req.Model]
	return journal.Amount{Tokens: sent + received, Micros: micros(float64(sent)*p.Input + float64(received)*p.Output)}
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
