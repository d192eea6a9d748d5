package bench

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cloudwego/eino/callbacks"
	"github.com/cloudwego/eino/components/model"
	einocompose "github.com/cloudwego/eino/compose"
	einoschema "github.com/cloudwego/eino/schema"
	einocallbacks "github.com/cloudwego/eino/utils/callbacks"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// In LastChunk a model streams its answer in chunks, which somebody watches, and a step reads the answer. The time is from
// the moment when the model hands on its last chunk to the first line of that step's function.

const (
	chunks = 64
	chunk  = "sixteen letters "
)

// handed is one answer on its way.
type handed struct {
	last time.Time // when the last chunk was handed on
	read time.Time // when the step began
	text string    // what the step read
	seen atomic.Int64
}

// took checks that all came, and returns how long it took.
func (h *handed) took() (time.Duration, error) {
	if h.text != strings.Repeat(chunk, chunks) {
		return 0, errors.New("the step read another answer")
	}
	if h.seen.Load() != chunks {
		return 0, errors.New("nobody saw all chunks")
	}
	return h.read.Sub(h.last), nil
}

// streamer lets a model answer once.
type streamer func(context.Context) (time.Duration, error)

// chunkMedia are those of the durable workloads, and none.
var chunkMedia = append([]medium{{name: "memory", store: func(testing.TB) checkpoint.Store { return nil }}}, media[:3]...)

// BenchmarkLastChunk is the median of the times; the others in between are not measured.
func BenchmarkLastChunk(b *testing.B) {
	measure := func(b *testing.B, once streamer) {
		var times []float64
		for b.Loop() {
			t, err := once(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			times = append(times, float64(t))
		}
		b.ReportMetric(median(times), "ns/op")
		b.ReportMetric(times[len(times)*99/100], "p99-ns")
	}
	for _, m := range chunkMedia {
		b.Run(m.name, func(b *testing.B) {
			b.Run("braise", func(b *testing.B) { measure(b, braiseStreamer(b, m)) })
			if m.name == "memory" {
				b.Run("eino", func(b *testing.B) { measure(b, einoStreamer(b)) })
			}
		})
	}
}

func TestLastChunk(t *testing.T) {
	for name, build := range map[string]func() streamer{
		"braise": func() streamer { return braiseStreamer(t, chunkMedia[0]) },
		"stored": func() streamer { return braiseStreamer(t, chunkMedia[1]) },
		"eino":   func() streamer { return einoStreamer(t) },
	} {
		if took, err := build()(t.Context()); err != nil || took <= 0 {
			t.Errorf("%s: %v, %v", name, took, err)
		}
	}
}

// braiseStreamer is a model step and a tool with an effect outside: with a store, the answer and the beginning of the call
// are safe before the tool begins.
func braiseStreamer(tb testing.TB, m medium) streamer {
	wf := parse(tb, `apiVersion: braise/v1
name: chunks
steps:
  ask: {uses: model, with: {model: stub, prompt: Go}}
  next: {uses: bench.read, with: {text: "${{ steps.ask.output.text }}"}}
`)
	store := m.store(tb)
	return func(ctx context.Context) (time.Duration, error) {
		h := &handed{}
		_, err := wf.Run(ctx, nil, &runtime.Runtime{Store: store, Models: map[string]runtime.Model{"stub": braiseChunks{h}},
			Tools: []runtime.Tool{reader{h}}, Trace: []trace.Sink{watcher{h}}})
		if err != nil {
			return 0, err
		}
		return h.took()
	}
}

type braiseChunks struct{ *handed }

func (braiseChunks) Generate(context.Context, *runtime.Request) (*runtime.Response, error) {
	return nil, errors.New("somebody wants the chunks")
}

func (m braiseChunks) Stream(_ context.Context, _ *runtime.Request, emit func(runtime.Delta)) (*runtime.Response, error) {
	for range chunks - 1 {
		emit(runtime.Delta{Text: chunk})
	}
	m.last = time.Now()
	emit(runtime.Delta{Text: chunk})
	return &runtime.Response{Text: strings.Repeat(chunk, chunks)}, nil
}

// reader is the next step's tool.
type reader struct{ *handed }

func (reader) Spec() runtime.ToolSpec { return runtime.ToolSpec{Name: "bench.read"} }

func (t reader) Call(_ context.Context, args json.RawMessage) (json.RawMessage, error) {
	t.read = time.Now()
	var in struct{ Text string }
	err := json.Unmarshal(args, &in)
	t.text = in.Text
	return json.RawMessage("null"), err
}

// watcher counts the chunks.
type watcher struct{ *handed }

func (watcher) Detail() trace.Detail { return trace.Detail{Deltas: true} }

func (w watcher) Emit(e trace.Event) {
	if e.Kind == trace.ModelDelta {
		w.seen.Add(1)
	}
}

// einoStreamer is a chat model and a lambda that takes its whole answer. The chunks are watched by a callback, in a goroutine of its
// own, as its documentation advises.
func einoStreamer(tb testing.TB) streamer {
	return func(ctx context.Context) (time.Duration, error) {
		h, watched := &handed{}, make(chan error, 1)
		watch := einocallbacks.NewHandlerHelper().ChatModel(&einocallbacks.ModelCallbackHandler{
			OnEndWithStreamOutput: func(ctx context.Context, _ *callbacks.RunInfo, s *einoschema.StreamReader[*model.CallbackOutput]) context.Context {
				go func() {
					defer s.Close()
					for {
						if _, err := s.Recv(); err != nil {
							watched <- err
							return
						}
						h.seen.Add(1)
					}
				}()
				return ctx
			}}).Handler()
		run, err := einocompose.NewChain[[]*einoschema.Message, string]().AppendChatModel(einoChunks{h}).
			AppendLambda(einocompose.InvokableLambda(func(_ context.Context, m *einoschema.Message) (string, error) {
				h.read, h.text = time.Now(), m.Content
				return m.Content, nil
			})).Compile(ctx)
		if err != nil {
			return 0, err
		}
		out, err := run.Stream(ctx, []*einoschema.Message{einoschema.UserMessage("Go")}, einocompose.WithCallbacks(watch))
		if err != nil {
			return 0, err
		}
		defer out.Close()
		if _, err := out.Recv(); err != nil {
			return 0, err
		}
		if err := <-watched; err != io.EOF {
			return 0, err
		}
		return h.took()
	}
}

type einoChunks struct{ *handed }

func (einoChunks) Generate(context.Context, []*einoschema.Message, ...model.Option) (*einoschema.Message, error) {
	return nil, errors.New("somebody wants the chunks")
}

func (m einoChunks) Stream(context.Context, []*einoschema.Message, ...model.Option) (*einoschema.StreamReader[*einoschema.Message], error) {
	out, in := einoschema.Pipe[*einoschema.Message](chunks)
	go func() {
		defer in.Close()
		for range chunks - 1 {
			in.Send(einoschema.AssistantMessage(chunk, nil), nil)
		}
		m.last = time.Now()
		in.Send(einoschema.AssistantMessage(chunk, nil), nil)
	}()
	return out, nil
}
