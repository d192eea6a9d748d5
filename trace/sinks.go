package trace

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
)

// Recorder is a Sink that keeps events in memory. Its zero value is ready; it is safe for
// concurrent use.
type Recorder struct {
	mu     sync.Mutex
	events []Event
}

// Emit keeps the event.
func (r *Recorder) Emit(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
}

// Events returns a copy of the list of events so far, nil when there are none.
func (r *Recorder) Events() []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

// JSONL is a Sink that writes every event as one line of JSON.
type JSONL struct {
	mu   sync.Mutex
	w    io.Writer
	line []byte // reused
	err  error
}

// NewJSONL returns a JSONL that writes to w, one Write a line.
func NewJSONL(w io.Writer) *JSONL { return &JSONL{w: w} }

// Emit writes the event. After a failed write it does nothing.
func (s *JSONL) Emit(e Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return
	}
	if s.line, s.err = e.appendJSON(s.line[:0]); s.err != nil {
		return
	}
	s.line = append(s.line, '\n')
	_, s.err = s.w.Write(s.line)
}

// Err returns the error of the first write that failed, nil if none did.
func (s *JSONL) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Slog is a Sink that logs events: the kind is the message, run, step and data are the attributes. What
// failed is logged as an error, everything else as info.
type Slog struct {
	logger *slog.Logger
	mu     sync.Mutex
	err    error
}

// NewSlog returns a Slog that logs to l; nil means slog.Default, as it is at this moment.
func NewSlog(l *slog.Logger) *Slog {
	if l == nil {
		l = slog.Default()
	}
	return &Slog{logger: l}
}

// Emit logs the event, with its own time.
func (s *Slog) Emit(e Event) {
	level := slog.LevelInfo
	if e.Kind == RunError || e.Kind == StepEnd && e.Data.Get("status") == "failed" {
		level = slog.LevelError
	}
	ctx := context.Background()
	if !s.logger.Enabled(ctx, level) {
		return
	}
	r := slog.NewRecord(e.At, level, string(e.Kind), 0)
	if e.Run != "" {
		r.AddAttrs(slog.String("run", e.Run))
	}
	if e.Step != "" {
		r.AddAttrs(slog.String("step", e.Step))
	}
	for _, a := range e.Data {
		r.AddAttrs(slog.Any(a.Key, a.Value))
	}
	if err := s.logger.Handler().Handle(ctx, r); err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.err == nil {
			s.err = fmt.Errorf("log %s: %w", e.Kind, err)
		}
	}
}

// Err returns the first error of the logger's handler, nil if there was none.
func (s *Slog) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}
