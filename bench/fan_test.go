package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cloudwego/eino/components/model"
	einocompose "github.com/cloudwego/eino/compose"
	einoschema "github.com/cloudwego/eino/schema"
	lg "github.com/smallnest/langgraphgo/graph"

	"github.com/braise-run/braise/runtime"
)

// In Fan a model is called fanCalls times, at most fanWidth times at once. Each call takes fanTime.
const (
	fanCalls = 1000
	fanWidth = 200
	fanTime  = 50 * time.Millisecond
)

// provider is what everybody's model asks. It returns what it is asked.
type provider struct {
	busy atomic.Int64
	most atomic.Int64 // of busy so far
	gate chan struct{}
}

// gated is a provider for those who cannot say how many calls may be under way: it lets fanWidth of them begin.
func gated() *provider { return &provider{gate: make(chan struct{}, fanWidth)} }

func (p *provider) ask(ctx context.Context, text string) (string, error) {
	if p.gate != nil {
		select {
		case p.gate <- struct{}{}:
			defer func() { <-p.gate }()
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	n := p.busy.Add(1)
	defer p.busy.Add(-1)
	for most := p.most.Load(); n > most && !p.most.CompareAndSwap(most, n); most = p.most.Load() {
	}
	timer := time.NewTimer(fanTime)
	defer timer.Stop()
	select {
	case <-timer.C:
		return text, nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// fan makes all calls once, and returns their answers in order.
type fan func(context.Context) ([]string, error)

var fans = []struct {
	name  string
	build func(testing.TB) (fan, *provider)
}{{"braise", braiseFan}, {"eino", einoFan}, {"langgraphgo", langgraphgoFan}, {"floor-goroutines", floorFan}}

// check makes the calls and checks that each came once, and that never more than fanWidth were under way.
func (f fan) check(ctx context.Context, p *provider) error {
	answers, err := f(ctx)
	if err != nil {
		return err
	}
	if !slices.Equal(answers, fanTexts) {
		return fmt.Errorf("the answers are %q", answers)
	}
	if most := p.most.Load(); most > fanWidth {
		return fmt.Errorf("%d calls were under way at once", most)
	}
	return nil
}

var fanTexts = func() []string {
	texts := make([]string, fanCalls)
	for i := range texts {
		texts[i] = strconv.Itoa(i)
	}
	return texts
}()

// BenchmarkFan also counts the time of the processor, as most of the other time is the model's.
func BenchmarkFan(b *testing.B) {
	for _, f := range fans {
		b.Run(f.name, func(b *testing.B) {
			calls, p := f.build(b)
			b.ReportAllocs()
			from, n := processor(b), 0
			for b.Loop() {
				if err := calls.check(b.Context(), p); err != nil {
					b.Fatal(err)
				}
				n++
			}
			b.ReportMetric(float64(processor(b)-from)/float64(n), "cpu-ns/op")
		})
	}
}

// processor is how much of the processor's time this process has taken.
func processor(tb testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func TestFans(t *testing.T) {
	for _, f := range fans {
		t.Run(f.name, func(t *testing.T) {
			calls, p := f.build(t)
			if err := calls.check(t.Context(), p); err != nil {
				t.Error(err)
			}
		})
	}
}

// braiseFan is a foreach of a model step.
func braiseFan(tb testing.TB) (fan, *provider) {
	p := &provider{}
	wf := parse(tb, fmt.Sprintf(`apiVersion: braise/v1
name: fan
limits: {max_parallel: %d}
steps:
  ask: {uses: model, foreach: {in: "${{ 0..%d }}", max_parallel: %[1]d}, with: {model: stub, prompt: "${{ item }}"}}
output: ${{ steps.ask.output }}
`, fanWidth, fanCalls-1))
	rt := &runtime.Runtime{Models: map[string]runtime.Model{"stub": braiseAsker{p}}}
	return func(ctx context.Context) ([]string, error) {
		out, err := wf.Run(ctx, nil, rt)
		if err != nil {
			return nil, err
		}
		var answers []string
		for _, answer := range out.Output.([]any) {
			answers = append(answers, answer.(map[string]any)["text"].(string))
		}
		return answers, nil
	}, p
}

type braiseAsker struct{ *provider }

func (m braiseAsker) Generate(ctx context.Context, req *runtime.Request) (*runtime.Response, error) {
	text, err := m.ask(ctx, req.Messages[0].Text)
	return &runtime.Response{Text: text}, err
}

// einoFan is a Parallel of chat models in a chain, each of which knows what to ask: what comes in is the same for all.
func einoFan(tb testing.TB) (fan, *provider) {
	p, side := gated(), einocompose.NewParallel()
	for _, text := range fanTexts {
		side.AddChatModel(text, einoAsker{p, text})
	}
	run, err := einocompose.NewChain[[]*einoschema.Message, value]().AppendParallel(side).Compile(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
	return func(ctx context.Context) ([]string, error) {
		out, err := run.Invoke(ctx, []*einoschema.Message{einoschema.UserMessage(prompt)})
		if err != nil {
			return nil, err
		}
		var answers []string
		for _, text := range fanTexts {
			answers = append(answers, out[text].(*einoschema.Message).Content)
		}
		return answers, nil
	}, p
}

type einoAsker struct {
	*provider
	text string
}

func (m einoAsker) Generate(ctx context.Context, _ []*einoschema.Message, _ ...model.Option) (*einoschema.Message, error) {
	text, err := m.ask(ctx, m.text)
	return einoschema.AssistantMessage(text, nil), err
}

func (einoAsker) Stream(context.Context, []*einoschema.Message, ...model.Option) (*einoschema.StreamReader[*einoschema.Message], error) {
	return nil, errors.New("nobody asks for a stream")
}

// langgraphgoFan is its node that maps and reduces.
func langgraphgoFan(tb testing.TB) (fan, *provider) {
	p, c := gated(), lg.NewStateGraph[value]()
	asks := map[string]func(context.Context, value) (value, error){}
	for _, text := range fanTexts {
		asks[text] = func(ctx context.Context, _ value) (value, error) {
			answer, err := p.ask(ctx, text)
			return value{text: answer}, err
		}
	}
	c.AddMapReduceNode("ask", asks, func(answers []value) (value, error) {
		all := make(value, len(answers))
		for _, v := range answers {
			maps.Copy(all, v)
		}
		return all, nil
	})
	c.SetEntryPoint("ask")
	c.AddEdge("ask", lg.END)
	run, err := c.Compile()
	if err != nil {
		tb.Fatal(err)
	}
	return func(ctx context.Context) ([]string, error) {
		out, err := run.Invoke(ctx, value{})
		if err != nil {
			return nil, err
		}
		var answers []string
		for _, text := range fanTexts {
			answer, _ := out[text].(string)
			answers = append(answers, answer)
		}
		return answers, nil
	}, p
}

// floorFan has a goroutine for each call.
func floorFan(testing.TB) (fan, *provider) {
	p := gated()
	return func(ctx context.Context) ([]string, error) {
		answers, failed := make([]string, fanCalls), make([]error, fanCalls)
		var group sync.WaitGroup
		for i, text := range fanTexts {
			group.Go(func() { answers[i], failed[i] = p.ask(ctx, text) })
		}
		group.Wait()
		return answers, errors.Join(failed...)
	}, p
}
