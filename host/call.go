package host

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/braise-run/braise/adapters/script"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// callTimeout is how long CallModels waits for one model, which may have to be loaded.
const callTimeout = time.Minute

// callTokens is the most that an answer may have: a model may think before it says its word.
const callTokens = 1024

// CallModels asks each model that is configured, scripts apart, for one word, all of them at once and each for at most
// a minute. That costs what the provider charges. The checks have the part call and are in the order of names; without
// such models there is one that says so.
func (h *Host) CallModels(ctx context.Context) []Check {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(h.base.Models)) {
		switch h.base.Models[name].(type) {
		case *script.Model, absentModel: // which other checks are about
		default:
			names = append(names, name)
		}
	}
	if names == nil {
		return []Check{{Part: "call", Status: CheckWarn,
			Message: "no model is configured that an endpoint answers for"}}
	}
	checks := make([]Check, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() { checks[i] = h.callModel(ctx, name) })
	}
	all.Wait()
	return checks
}

func (h *Host) callModel(ctx context.Context, name string) Check {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	model := h.base.Models[name]
	began := time.Now()
	resp, err := model.Generate(ctx, &runtime.Request{Model: name, Call: 1, StepCall: 1, MaxTokens: callTokens,
		Messages: []runtime.Message{{Role: runtime.User, Text: "Answer with one word: ready"}}})
	took := time.Since(began).Milliseconds()
	if err != nil {
		check := failed(err)
		check.Part, check.Name = "call", name
		return check
	}
	u := resp.Usage
	check := Check{Part: "call", Name: name, Status: CheckOK, Model: resp.Model, LatencyMS: took,
		Usage: &workflow.Usage{Calls: 1, InputTokens: int64(u.InputTokens), CachedTokens: int64(u.CachedTokens),
			CacheWriteTokens: int64(u.CacheWriteTokens), OutputTokens: int64(u.OutputTokens),
			ReasoningTokens: int64(u.ReasoningTokens)}}
	if about, ok := model.(runtime.Described); ok {
		check.Model = cmp.Or(resp.Model, about.Metadata().Model)
	}
	check.Message = fmt.Sprintf("%s answered in %d ms; tokens: %d in, %d of them cached, %d out", check.Model, took,
		u.InputTokens, u.CachedTokens, u.OutputTokens)
	if resp.Text == "" {
		check.Status = CheckWarn
		check.Message += "; the answer has no text"
	}
	price, ok := h.base.Prices[name]
	switch _, polled := model.(runtime.PolledModel); {
	case polled: // the price is that of a batch
		check.Message += "; it was asked at once, and not in a batch"
	case ok:
		check.Usage.CostUSD = price.Micros(u) / 1e6
	default:
		check.Hint = fmt.Sprintf("prices.%s of braise.yaml lets runs say what it costs", name)
	}
	return check
}
