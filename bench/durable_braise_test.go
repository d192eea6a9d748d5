package bench

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

func parse(tb testing.TB, text string) *workflow.Workflow {
	wf, err := parsed(text)
	if err != nil {
		tb.Fatal(err)
	}
	return wf
}

func parsed(text string) (*workflow.Workflow, error) {
	r, err := recipe.Parse("bench.yaml", []byte(text))
	if err != nil {
		return nil, err
	}
	return workflow.Compile(r, nil)
}

// durableBraise is a chain of tools with an effect outside, which is what a tool has that says
// nothing: a call does not begin before it is in the journal, with the results of all before it.
func durableBraise(tb testing.TB, m medium, steps int) job {
	return storedBraise(tb, m, parse(tb, string(yamlRecipe(chain(steps)))))
}

// pureBraise is a chain of steps that only compute: they can be done again, so that nothing has to
// be safe before the run ends.
func pureBraise(tb testing.TB, m medium, steps int) job {
	return storedBraise(tb, m, parse(tb, pureChain(steps)))
}

func pureChain(steps int) string {
	var text strings.Builder
	text.WriteString("apiVersion: braise/v1\nname: pure\nsteps:\n  s0: {uses: set, with: {n: 1}}\n")
	for i := 1; i < steps; i++ {
		fmt.Fprintf(&text, "  s%d: {uses: set, with: {n: \"${{ steps.s%d.output.n + 1 }}\"}}\n", i, i-1)
	}
	fmt.Fprintf(&text, "output: ${{ steps.s%d.output }}\n", steps-1)
	return text.String()
}

func storedBraise(tb testing.TB, m medium, wf *workflow.Workflow) job {
	return onStore(wf, m.store(tb))
}

func onStore(wf *workflow.Workflow, store checkpoint.Store) job {
	rt := &runtime.Runtime{Tools: []runtime.Tool{increment{}}, Store: store}
	return func(ctx context.Context) (value, error) {
		out, err := wf.Run(ctx, nil, rt)
		if err != nil {
			return nil, err
		}
		return out.Output.(value), nil
	}
}

// BenchmarkW6Journal is not about time: it counts what one run of each chain writes. B/step is what
// the journal has for each step beyond the step's output.
func BenchmarkW6Journal(b *testing.B) {
	const steps = 100
	for _, c := range []struct {
		name, text string
		outputs    int // how many are in the journal
	}{{"braise", string(yamlRecipe(chain(steps))), steps}, {"braise-pure", pureChain(steps), 0}} {
		b.Run(c.name, func(b *testing.B) {
			store := &counting{Store: &checkpoint.Memory{}}
			run := onStore(parse(b, c.text), store)
			for b.Loop() {
				*store = counting{Store: &checkpoint.Memory{}}
				if err := run.check(b.Context(), steps); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(store.journal.Load()), "commits")
			b.ReportMetric(float64(store.leases.Load()), "lease-writes")
			size, err := journalSize(b.Context(), store)
			if err != nil {
				b.Fatal(err)
			}
			for i := range c.outputs {
				size -= len(fmt.Sprintf(`{"n":%d}`, i+1))
			}
			b.ReportMetric(float64(size)/steps, "B/step")
		})
	}
}

// journalSize is how long the journals in a store are, in bytes.
func journalSize(ctx context.Context, store checkpoint.Store) (size int, err error) {
	runs, err := store.List(ctx, checkpoint.Filter{})
	if err != nil {
		return 0, err
	}
	for _, run := range runs {
		_, recs, err := store.Load(ctx, run.ID, 0)
		if err != nil {
			return 0, err
		}
		for _, rec := range recs {
			size += len(rec.AppendLine(nil)) + 1
		}
	}
	return size, nil
}

// counting is a store that counts writes.
type counting struct {
	checkpoint.Store
	journal, leases atomic.Int64
}

func (c *counting) Create(ctx context.Context, run checkpoint.Run, owner string, ttl time.Duration, recs ...checkpoint.Record) (checkpoint.Lease, error) {
	c.journal.Add(1)
	return c.Store.Create(ctx, run, owner, ttl, recs...)
}

func (c *counting) Append(ctx context.Context, l checkpoint.Lease, after int64, recs ...checkpoint.Record) error {
	c.journal.Add(1)
	return c.Store.Append(ctx, l, after, recs...)
}

func (c *counting) Renew(ctx context.Context, l checkpoint.Lease, ttl time.Duration) (checkpoint.Lease, error) {
	c.leases.Add(1)
	return c.Store.Renew(ctx, l, ttl)
}

func (c *counting) Release(ctx context.Context, l checkpoint.Lease) error {
	c.leases.Add(1)
	return c.Store.Release(ctx, l)
}
