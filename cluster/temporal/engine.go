package temporal

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	enums "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/execution"
	"github.com/braise-run/braise/internal/local"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/internal/wire"
	"github.com/braise-run/braise/runtime"
	flow "github.com/braise-run/braise/workflow"
)

// Engine starts runs on a Temporal cluster, and talks to them. It is safe for concurrent use. The errors of its methods
// are [*runtime.Error]s; docs/errors.md has their codes.
type Engine struct {
	Client    client.Client
	TaskQueue string // of the workers that drive runs; "" is DefaultTaskQueue
	// TokenKey is the secret from which the tokens of pauses are made, of 32 bytes or more. nil: outcomes have no tokens,
	// and pauses are answered by name.
	TokenKey []byte
	// DataConverter is that of the client, as client.Options have it. nil is the SDK's default. List, Notes and Source need it.
	DataConverter converter.DataConverter
	Groups        []string // of whoever answers through this engine, compared with the people who may; nil: none
}

// Start starts a run, and returns its id. Whether the runtime of the workers can run the recipe turns out later: see Wait.
// The error says that the cluster did not take the run; no step has run then.
func (e *Engine) Start(ctx context.Context, wf *flow.Workflow, in any, o *Options) (id string, err error) {
	if err := e.check(); err != nil {
		return "", err
	}
	begin, err := inputOf(wf, in, o)
	if err != nil {
		return "", err
	}
	if o == nil {
		o = &Options{}
	}
	id = cmp.Or(o.ID, local.NewID())
	if err := o.check(id, wf); err != nil {
		return "", err
	}
	_, err = e.Client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: id,
		TaskQueue:                                cmp.Or(e.TaskQueue, DefaultTaskQueue),
		WorkflowIDReusePolicy:                    enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		WorkflowExecutionErrorWhenAlreadyStarted: true,
		Memo:                                     map[string]any{memoKey: memo{Recipe: wf.Name(), Digest: wf.Recipe().Digest, By: o.By, StartedAt: time.Now().UTC()}},
	}, runWorkflow, begin)
	return id, failed(id, err)
}

func (e *Engine) check() error {
	if e.TokenKey == nil {
		return nil
	}
	return checkTokenKey(e.TokenKey)
}

func (e *Engine) data() converter.DataConverter {
	if e.DataConverter == nil {
		return converter.GetDefaultDataConverter()
	}
	return e.DataConverter
}

// memoKey names what is kept with a run for lists.
const memoKey = "braise"

// memo is what lists show of a run.
type memo struct {
	Recipe    string    `json:"recipe"`
	Digest    string    `json:"digest"`
	By        string    `json:"by,omitempty"`
	StartedAt time.Time `json:"startedAt"`
}

// inputOf is what the workflow of a run begins with.
func inputOf(wf *flow.Workflow, in any, o *Options) (*input, error) {
	definition, err := wf.Definition()
	if err != nil {
		return nil, clusterError("cluster.unsupported", "the recipe cannot be sent to a cluster: %w", err)
	}
	given, err := execution.InputMap(in, runtime.DefaultMaxRunBytes)
	if err != nil {
		return nil, clusterError(string(diagnostics.CodeInput), "%w", err)
	}
	if given == nil {
		given = map[string]any{}
	}
	text, err := value.JSON(given)
	if err != nil {
		return nil, clusterError(string(diagnostics.CodeInput), "%w", err)
	}
	for _, part := range []struct {
		what string
		text []byte
	}{{"the recipe has", definition}, {"the inputs have", text}} {
		if n := len(part.text); n > maxStart {
			return nil, tooLarge("%s %d bytes, the most on a cluster is %d", part.what, n, maxStart)
		}
	}
	if n := len(definition) + len(text); n > maxCarried {
		return nil, tooLarge("recipe and inputs have %d bytes together, the most on a cluster is %d", n, maxCarried)
	}
	begin := &input{Definition: definition, Inputs: text}
	if o != nil {
		begin.Options, begin.By = *o, o.By
	}
	return begin, nil
}

// tooLarge is the error for what does not fit into a cluster.
func tooLarge(format string, args ...any) error {
	return &runtime.Error{Category: runtime.CategoryLimit, Code: "cluster.tooLarge", Err: fmt.Errorf(format, args...)}
}

// failed is the error of a request about a run; nil for none.
func failed(id string, err error) error {
	var known *runtime.Error
	var app *temporal.ApplicationError
	var started *serviceerror.WorkflowExecutionAlreadyStarted
	var missing *serviceerror.NotFound
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		return known
	case errors.As(err, &app) && app.HasDetails():
		var f wire.Fault
		if app.Details(&f) == nil && f.Known != nil {
			return f.Restore()
		}
	case away(err):
		return &runtime.Error{Category: runtime.CategoryInfra, Code: "cluster.unavailable",
			Err: fmt.Errorf("the cluster does not answer: %w", err)}
	case errors.As(err, &started):
		err = fmt.Errorf("run %q: %w", id, checkpoint.ErrExists)
		return &runtime.Error{Category: runtime.CategoryInfra, Code: checkpoint.Code(err), Err: err}
	case errors.As(err, &missing), errors.Is(err, checkpoint.ErrNotFound):
		err = fmt.Errorf("run %q: %w", id, checkpoint.ErrNotFound)
		return &runtime.Error{Category: runtime.CategoryInfra, Code: checkpoint.Code(err), Err: err}
	}
	return &runtime.Error{Category: runtime.CategoryInfra, Code: "cluster.failed", Err: err}
}

// Wait waits until a run has ended, or is paused and waits for somebody. Pauses that end in time are waited through, and so
// is a server that is away for five minutes at most; then the error has the code cluster.unavailable. The outcome is nil if
// the error says that it could not be found out; otherwise the error is the outcome's Err.
func (e *Engine) Wait(ctx context.Context, id string) (*flow.Outcome, error) {
	type result struct {
		ended
		err error
	}
	came := make(chan result, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	get := func() {
		var r result
		r.err = e.Client.GetWorkflow(ctx, id, "").Get(ctx, &r.ended)
		came <- r
	}
	go get()
	var since time.Time    // when the server did not answer first; zero: it does
	asks := true           // for the end
	var took time.Duration // by the last look: workers answer it, and have other things to do
	for wait := 20 * time.Millisecond; ; wait = max(min(2*wait, 2*time.Second), min(5*took, 20*time.Second)) {
		look := time.NewTimer(wait)
		select {
		case r := <-came:
			look.Stop()
			if since.IsZero() {
				since = time.Now()
			}
			if away(r.err) && ctx.Err() == nil && time.Since(since) < outage {
				asks = false
				continue
			}
			return e.ended(ctx, id, &r.ended, r.err)
		case <-look.C:
		}
		began := time.Now()
		o, err := e.paused(ctx, id)
		if o != nil {
			return e.outcome(o)
		}
		took = time.Since(began)
		if !away(err) {
			since = time.Time{}
		}
		if !asks {
			asks = true
			go get()
		}
	}
}

// away reports whether an error says that the server does not answer.
func away(err error) bool {
	for _, is := range []any{new(*serviceerror.Unavailable), new(*serviceerror.DeadlineExceeded)} {
		if errors.As(err, is) {
			return true
		}
	}
	return errors.Is(err, context.DeadlineExceeded)
}

// paused is the outcome of a run that waits for somebody; nil: it does not, or the error says that this is not known.
func (e *Engine) paused(ctx context.Context, id string) (*outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	o, err := e.read(ctx, id)
	if err != nil || o.Status != string(flow.StatusPaused) || !o.Asks {
		return nil, err
	}
	return o, nil
}

// read reads the outcome of a run, piece by piece. Its status is running if the run is at work.
func (e *Engine) read(ctx context.Context, id string) (*outcome, error) {
	var text []byte
	for {
		var p piece
		v, err := e.Client.QueryWorkflow(ctx, id, "", outcomeQuery, len(text))
		if err == nil {
			err = v.Get(&p)
		}
		if err != nil {
			return nil, err
		}
		if text = append(text, p.Text...); len(text) >= p.Size || p.Text == "" {
			var o outcome
			return &o, json.Unmarshal(text, &o)
		}
	}
}

// ended is the outcome of a run whose workflow has ended.
func (e *Engine) ended(ctx context.Context, id string, r *ended, err error) (*flow.Outcome, error) {
	o, err := outcomeIn(r, err)
	if err == nil && o == nil {
		o, err = e.read(ctx, id)
	}
	if err != nil {
		return nil, failed(id, err)
	}
	return e.outcome(o)
}

// outcomeIn is the outcome in the result of a workflow; nil: it is too large for one payload.
func outcomeIn(r *ended, err error) (*outcome, error) {
	if app, ok := errors.AsType[*temporal.ApplicationError](err); ok && app.HasDetails() {
		err = app.Details(r)
	} else if c, ok := errors.AsType[*temporal.CanceledError](err); ok && c.HasDetails() {
		err = c.Details(r)
	}
	if err != nil || r.Outcome == nil {
		return nil, err
	}
	var o outcome
	return &o, json.Unmarshal(r.Outcome, &o)
}

// outcome is an outcome for the caller, with tokens if there is a key.
func (e *Engine) outcome(o *outcome) (*flow.Outcome, error) {
	out := o.outcome()
	for i := range out.Pauses {
		if e.TokenKey != nil {
			out.Pauses[i].Token = mintToken(e.TokenKey, out.RunID, out.Pauses[i].ID, o.Digest)
		}
	}
	if len(out.Pauses) > 0 {
		out.Token = out.Pauses[0].Token
	}
	return out, out.Err
}

// Answer answers a pause by its name, and waits as Wait does. by says who answers; "": it is not known. Whoever may
// write to the namespace may answer; that by may is checked if the pause names people. An answer that does not fit
// changes nothing.
func (e *Engine) Answer(ctx context.Context, id, pause string, v any, by string) (*flow.Outcome, error) {
	return e.tell(ctx, id, answerUpdate, &said{Pause: pause, By: by}, v)
}

// Resume answers a pause by its token, and waits as Wait does.
func (e *Engine) Resume(ctx context.Context, token string, v any, by string) (*flow.Outcome, error) {
	id, pause, err := e.Pause(ctx, token)
	if err != nil {
		return nil, err
	}
	return e.tell(ctx, id, answerUpdate, &said{Pause: pause, By: by, Vouched: true}, v)
}

// Send sends a value to a channel of a run, and waits as Wait does.
func (e *Engine) Send(ctx context.Context, id, channel string, v any, by string) (*flow.Outcome, error) {
	return e.tell(ctx, id, sendUpdate, &said{Channel: channel, By: by}, v)
}

// tell tells a run something, and waits.
func (e *Engine) tell(ctx context.Context, id, update string, s *said, v any) (*flow.Outcome, error) {
	v, err := value.Normalise(v)
	if err != nil {
		return nil, clusterError(string(diagnostics.CodeInput), "the value is not JSON: %w", err)
	}
	s.Value.V, s.Groups = v, e.Groups
	text, err := value.JSON(v)
	if err != nil {
		return nil, clusterError(string(diagnostics.CodeInput), "%w", err)
	}
	if n := len(text); n > maxValue {
		return nil, tooLarge("the value has %d bytes, the most on a cluster is %d", n, maxValue)
	}
	if s.ID = local.NewID(); sizeOf(s) > maxSaid {
		s.Size, s.Value.V = len(text), nil
	}
	for try := 0; ; try++ {
		err := e.try(ctx, id, update, s, text, try)
		if goesAgain(err, try) {
			if err = rest(ctx, try); err == nil {
				continue // the next execution of the workflow takes it, or other values have come by then
			}
		}
		if over := (*serviceerror.NotFound)(nil); errors.As(err, &over) {
			err = e.late(ctx, id, s, err)
		}
		if err != nil {
			return nil, failed(id, err)
		}
		return e.Wait(ctx, id)
	}
}

// goesAgain reports whether what a run did not take at a try is to be told again: the run says so, or the task failed that was
// to take it, and the server has dropped it.
func goesAgain(err error, try int) bool {
	if app, ok := errors.AsType[*temporal.ApplicationError](err); ok && app.Type() == moved {
		return true
	}
	var dropped *serviceerror.WorkflowNotReady
	return try < mostDropped && errors.As(err, &dropped)
}

// try tells a run something, when it is its turn. try counts how often.
func (e *Engine) try(ctx context.Context, run, update string, s *said, text []byte, try int) error {
	give, err := updates.take(ctx, run)
	if err != nil {
		return err
	}
	defer give()
	if s.Size > 0 {
		if err := e.upload(ctx, run, s.ID, text, try); err != nil {
			return err
		}
	}
	return e.update(ctx, run, update, fmt.Sprintf("%s-%d", s.ID, try), s)
}

// update makes an update of a run, and waits until it is done.
func (e *Engine) update(ctx context.Context, run, name, id string, args ...any) error {
	h, err := e.Client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{WorkflowID: run, UpdateID: id, UpdateName: name,
		Args: args, WaitForStage: client.WorkflowUpdateStageCompleted})
	if err != nil {
		return err
	}
	return h.Get(ctx, nil)
}

// late is the error for what a run was told that the server does not find, as it says: its workflow was over, or never there;
// nil: the run has taken it before.
func (e *Engine) late(ctx context.Context, id string, s *said, unknown error) error {
	info, err := e.Client.DescribeWorkflowExecution(ctx, id, "")
	if err != nil {
		return err
	}
	sum, ok := e.known(info.GetWorkflowExecutionInfo())
	if !ok || !sum.Status.Ended() {
		return unknown
	}
	asked, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	recs, _ := e.Journal(asked, id) // without a worker nobody can say more
	return s.late(sum, recs)
}

// Cancel ends a run for good, and waits as Wait does: what it did is rolled back first. A run that has ended stays as
// it is.
func (e *Engine) Cancel(ctx context.Context, id, reason, by string) (*flow.Outcome, error) {
	err := e.Client.SignalWorkflow(ctx, id, "", cancelSignal, canceled{Reason: reason, By: by})
	if err == nil {
		err = e.Client.CancelWorkflow(ctx, id, "")
	}
	if over := (*serviceerror.NotFound)(nil); err != nil && !errors.As(err, &over) {
		return nil, failed(id, err)
	}
	return e.Wait(ctx, id)
}

// Journal returns the records of a run so far, for package history.
func (e *Engine) Journal(ctx context.Context, id string) ([]checkpoint.Record, error) {
	return e.journal(ctx, id, 0)
}

// journal returns the records behind the first after ones.
func (e *Engine) journal(ctx context.Context, id string, after int) (recs []checkpoint.Record, err error) {
	for {
		var lines []string
		v, err := e.Client.QueryWorkflow(ctx, id, "", journalQuery, after+len(recs))
		if err == nil {
			err = v.Get(&lines)
		}
		if err != nil {
			return nil, failed(id, err)
		}
		if len(lines) == 0 {
			return recs, nil
		}
		more, err := parse(lines)
		if err != nil {
			return nil, failed(id, err)
		}
		recs = append(recs, more...)
	}
}
