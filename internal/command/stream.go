package command

import (
	"io"
	"sync"
)

// stream writes to w from a goroutine of its own: a slow reader of events neither holds up a run
// nor misses one.
type stream struct {
	w    io.Writer
	wake chan struct{} // holds a token when there may be something to do
	done chan struct{} // closed when everything is written

	mutex  sync.Mutex
	queue  []byte
	closed bool
}

func newStream(w io.Writer) *stream {
	s := &stream{w: w, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go s.run()
	return s
}

// Write queues p.
func (s *stream) Write(p []byte) (int, error) {
	s.mutex.Lock()
	s.queue = append(s.queue, p...)
	s.mutex.Unlock()
	s.poke()
	return len(p), nil
}

// close returns when everything is written, or a write has failed, which is w's to remember.
func (s *stream) close() {
	s.mutex.Lock()
	s.closed = true
	s.mutex.Unlock()
	s.poke()
	<-s.done
}

func (s *stream) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

func (s *stream) run() {
	defer close(s.done)
	for closed := false; !closed; {
		<-s.wake
		s.mutex.Lock()
		text := s.queue
		s.queue, closed = nil, s.closed
		s.mutex.Unlock()
		if len(text) > 0 {
			s.w.Write(text)
		}
	}
}
