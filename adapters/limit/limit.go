// Package limit limits the calls of a model to what its provider, or the machine that runs it, allows: concurrent
// calls, requests per minute and tokens per minute.
package limit

import (
	"context"
	"fmt"
	"time"

	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace"
)

// Limits say how often a model may be asked. What is 0 or less is no limit.
type Limits struct {
	MaxParallel int // requests under way
	RPM         int // requests that are sent in any minute
	// TPM is the number of tokens in any minute, of requests and answers, counted when the request is sent. Until the
	// answer says what it used, a request counts as one token for 4 bytes, and its answer as MaxTokens, or 1,024. A
	// request that is larger than the limit is sent when nothing else counts.
	TPM int
}

// New returns m with limits, which all callers of the returned model share. A call that is over a limit waits for its
// turn, in the order of arrival, until its context is done. Then it fails with a [retry.Failure] that says that nothing
// was sent. Models that are made of one m share nothing. Without limits New returns m.
//
// A call that has to wait emits the events model.wait, with the limit that it waits for and how many calls are ahead of
// it, and model.waited, with the milliseconds, see [trace.Emit].
func New(m runtime.Model, l Limits) runtime.Model {
	if l.MaxParallel <= 0 && l.RPM <= 0 && l.TPM <= 0 {
		return m
	}
	limited := model{m, &limiter{Limits: l}}
	about, described := m.(runtime.Described)
	_, streams := m.(runtime.StreamingModel)
	switch {
	case streams && described:
		return struct {
			streamingModel
			runtime.Described
		}{streamingModel{limited}, about}
	case streams:
		return streamingModel{limited}
	case described:
		return struct {
			model
			runtime.Described
		}{limited, about}
	}
	return limited
}

// model is a model with limits.
type model struct {
	asked   runtime.Model
	limiter *limiter
}

var _ runtime.LimitedModel = model{}

// Turn implements runtime.LimitedModel.
func (m model) Turn(ctx context.Context, req *runtime.Request) (runtime.Model, error) {
	t, waits := m.limiter.enter(req)
	if waits.limit != "" {
		w := wait{model: req.Model}
		w.begins(ctx, waits)
		select {
		case <-t.ready:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			t.leave()
			return nil, w.failed(ctx)
		}
		w.ends(ctx)
	}
	if t.shared != nil {
		var err error
		if t.place, err = t.shared.enter(ctx, req.Model, t.tokens); err != nil {
			t.leave()
			return nil, err
		}
	}
	if s, ok := m.asked.(runtime.StreamingModel); ok {
		return streamingTurn{turnModel{s, t}, s}, nil
	}
	return turnModel{m.asked, t}, nil
}

// wait is a call's wait for its turn.
type wait struct {
	model string
	limit string // that it waits for; "": it does not
	began time.Time
}

func (w *wait) begins(ctx context.Context, what waiting) {
	w.limit, w.began = what.limit, time.Now()
	_ = trace.Emit(ctx, "model.wait", map[string]any{"model": w.model, "limit": what.limit, "ahead": what.ahead})
}

func (w *wait) ends(ctx context.Context) {
	if w.limit != "" {
		ms := time.Since(w.began).Milliseconds()
		_ = trace.Emit(ctx, "model.waited", map[string]any{"model": w.model, "ms": ms})
	}
}

// failed is the error of a call whose context is done before its turn.
func (w *wait) failed(ctx context.Context) error {
	if w.limit == "" {
		return &retry.Failure{Err: fmt.Errorf("model %q was not asked: %w", w.model, ctx.Err())}
	}
	return &retry.Failure{Err: fmt.Errorf("model %q was not asked, after %v of waiting for its limit %s: %w",
		w.model, time.Since(w.began).Round(time.Millisecond), w.limit, ctx.Err())}
}

// Generate implements runtime.Model.
func (m model) Generate(ctx context.Context, req *runtime.Request) (*runtime.Response, error) {
	next, err := m.Turn(ctx, req)
	if err != nil {
		return nil, err
	}
	return next.Generate(ctx, req)
}

// streamingModel is a model with limits that streams.
type streamingModel struct{ model }

// Stream implements runtime.StreamingModel.
func (m streamingModel) Stream(
	ctx context.Context, req *runtime.Request, emit func(runtime.Delta),
) (*runtime.Response, error) {
	next, err := m.Turn(ctx, req)
	if err != nil {
		return nil, err
	}
	return next.(runtime.StreamingModel).Stream(ctx, req, emit)
}

// turnModel is a model for the one call whose turn it is.
type turnModel struct {
	asked runtime.Model
	turn  *turn
}

// Generate implements runtime.Model.
func (m turnModel) Generate(ctx context.Context, req *runtime.Request) (resp *runtime.Response, err error) {
	defer func() { m.turn.end(resp, err) }()
	return m.asked.Generate(ctx, req)
}

// streamingTurn is a turnModel that streams.
type streamingTurn struct {
	turnModel
	streams runtime.StreamingModel
}

// Stream implements runtime.StreamingModel.
func (m streamingTurn) Stream(
	ctx context.Context, req *runtime.Request, emit func(runtime.Delta),
) (resp *runtime.Response, err error) {
	defer func() { m.turn.end(resp, err) }()
	return m.streams.Stream(ctx, req, emit)
}
