package script

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/runtime"
)

// Recorder keeps what models answer and writes it as a cassette. It is for one run. All of its
// methods are safe for concurrent use.
type Recorder struct {
	filename string
	header   Header
	redact   *value.Redactor

	mu      sync.Mutex
	entries []entry
	err     error // the first call that could not be recorded
	closed  bool
}

// NewRecorder makes a Recorder that writes filename when it is closed. secrets are values that
// stand as *** in the cassette, as they do in the outcome; a request that holds one is not found
// again. It is an error if filename cannot be written where it is.
func NewRecorder(filename string, header Header, secrets []string) (*Recorder, error) {
	if info, err := os.Stat(filename); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("cassette %q: not a regular file", filename)
	}
	r := &Recorder{filename: filename, header: header, redact: value.NewRedactor(secrets)}
	probe, err := r.temporary()
	if err != nil {
		return nil, err
	}
	return r, errors.Join(probe.Close(), os.Remove(probe.Name()))
}

func (r *Recorder) temporary() (*os.File, error) {
	f, err := os.CreateTemp(filepath.Dir(r.filename), ".braise-cassette-*")
	if err != nil {
		return nil, fmt.Errorf("cassette %q: %w", r.filename, err)
	}
	return f, nil
}

// Model returns a model that asks m and records how the call ended; name is what the recipe calls
// it. It streams as m does: in one piece when m cannot. A call that ends after the Recorder was
// closed, or panics, is not recorded.
func (r *Recorder) Model(name string, m runtime.Model) runtime.Model {
	var about runtime.Metadata
	if described, ok := m.(runtime.Described); ok {
		about = described.Metadata()
	}
	ask := func(ctx context.Context, req *runtime.Request, emit func(runtime.Delta)) (*runtime.Response, error) {
		var resp *runtime.Response
		var err error
		if streaming, ok := m.(runtime.StreamingModel); ok && emit != nil {
			resp, err = streaming.Stream(ctx, req, emit)
		} else {
			resp, err = m.Generate(ctx, req)
			if emit != nil && err == nil && resp != nil && resp.Text != "" {
				emit(runtime.Delta{Text: resp.Text})
			}
		}
		r.record(name, req, resp, err, err != nil && ctx.Err() != nil)
		return resp, err
	}
	recorded := &answering{about, ask}
	if limited, ok := m.(runtime.LimitedModel); ok {
		return waiting{recorded, func(ctx context.Context, req *runtime.Request) (runtime.Model, error) {
			next, err := limited.Turn(ctx, req)
			if err != nil {
				return nil, err
			}
			return r.Model(name, next), nil
		}}
	}
	return recorded
}

// waiting is an answering model with limits.
type waiting struct {
	*answering
	turn func(ctx context.Context, req *runtime.Request) (runtime.Model, error)
}

// Turn implements runtime.LimitedModel.
func (w waiting) Turn(ctx context.Context, req *runtime.Request) (runtime.Model, error) {
	return w.turn(ctx, req)
}

// answering is a function as a model. emit is nil when the answer shall come whole.
type answering struct {
	about runtime.Metadata
	ask   func(ctx context.Context, req *runtime.Request, emit func(runtime.Delta)) (*runtime.Response, error)
}

func (a *answering) Metadata() runtime.Metadata { return a.about }

func (a *answering) Generate(ctx context.Context, req *runtime.Request) (*runtime.Response, error) {
	return a.ask(ctx, req, nil)
}

func (a *answering) Stream(
	ctx context.Context, req *runtime.Request, emit func(runtime.Delta),
) (*runtime.Response, error) {
	return a.ask(ctx, req, emit)
}

func (r *Recorder) record(model string, req *runtime.Request, resp *runtime.Response, err error, stopped bool) {
	e := entry{Model: model, Step: req.Step, StepCall: req.StepCall, Request: requestOf(req, r.redact)}
	switch {
	case stopped:
		e.Stopped = true
	case err == nil && resp == nil:
		e.Error = &failure{Message: "the model returned neither an answer nor an error"}
	case err != nil:
		e.Error = failureOf(err, r.redact)
	default:
		e.Response = responseOf(resp, r.redact)
	}
	key, keyErr := e.key()
	e.Key = key
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
	case keyErr != nil:
		r.err = cmp.Or(r.err, fmt.Errorf("call %d of step %q: %w", e.StepCall, e.Step, keyErr))
	default:
		r.entries = append(r.entries, e)
	}
}

func failureOf(err error, redact *value.Redactor) *failure {
	f := &failure{Reason: retry.ReasonOf(err), Message: redact.Text(err.Error())}
	if of, ok := errors.AsType[*retry.Failure](err); ok {
		f.Status, f.Unsent = of.Status, of.Unsent()
		if of.After > 0 {
			f.After = of.After.String()
		}
	}
	if of, ok := errors.AsType[*runtime.Error](err); ok {
		f.Category, f.Code = of.Category, of.Code
	}
	return f
}

// Close writes the cassette, in place of an existing one, with its entries by step and call: two
// recordings of equal runs are equal, in whatever order parallel calls ended. A crash leaves the
// old file or the new one. ctx is the run's: calls that ended because it did are left out. A second
// Close does nothing, and neither does that of a nil Recorder.
func (r *Recorder) Close(ctx context.Context) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	if r.err != nil {
		return fmt.Errorf("cassette %q: %w", r.filename, r.err)
	}
	text, err := r.text(ctx.Err() == nil)
	if err != nil {
		return fmt.Errorf("cassette %q: %w", r.filename, err)
	}
	temp, err := r.temporary()
	if err != nil {
		return err
	}
	_, err = temp.Write(text)
	if err = errors.Join(err, temp.Chmod(0o644), temp.Sync(), temp.Close()); err == nil {
		err = os.Rename(temp.Name(), r.filename)
	}
	if err != nil {
		os.Remove(temp.Name())
		return fmt.Errorf("cassette %q: %w", r.filename, err)
	}
	return nil
}

// text is the whole cassette; withStopped says whether it holds the calls that were stopped.
func (r *Recorder) text(withStopped bool) ([]byte, error) {
	type line struct {
		entry
		text []byte
	}
	var lines []line
	for _, e := range r.entries {
		if e.Stopped && !withStopped {
			continue
		}
		text, err := canonical(e)
		if err != nil {
			return nil, err
		}
		lines = append(lines, line{e, text})
	}
	slices.SortStableFunc(lines, func(a, b line) int {
		return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.StepCall, b.StepCall), bytes.Compare(a.text, b.text))
	})
	text, err := canonical(head{cassetteFormat, r.header.Digest, r.header.Recipe})
	if err != nil {
		return nil, err
	}
	text = append(text, '\n')
	for _, l := range lines {
		text = append(append(text, l.text...), '\n')
	}
	return text, nil
}
