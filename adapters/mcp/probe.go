package mcp

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// discover is the request by which the SDK finds out whether a server speaks the protocol without a handshake. One that
// does not know it should say so; some do not answer.
const discover = "server/discover"

// probeTime is how long a server has to answer discover. Then the handshake begins, as if it had refused.
const probeTime = time.Second

// probing is what a wire knows of discover, and of the messages that are read meanwhile. probes is behind the wire's
// mutex; reading is for who reads.
type probing struct {
	limit   time.Duration       // for an answer
	greeted atomic.Bool         // the handshake has begun
	belated atomic.Bool         // discover was answered, but when its time was over
	probes  map[jsonrpc.ID]bool // requests without an answer; false: the time of one is over
	late    chan jsonrpc.ID     // those whose time is over
	reading chan received       // of a read that has not ended; nil: there is none
}

// received is what a connection has read.
type received struct {
	msg jsonrpc.Message
	err error
}

// probe sends discover. Without an answer in time, or with one that is none, it counts as refused. What it was sent
// with, and an endpoint's answer is read with, is done then.
func (w *wire) probe(ctx context.Context, req *jsonrpc.Request) error {
	ctx, cancel := context.WithCancel(ctx)
	w.mu.Lock()
	w.probes[req.ID] = true
	w.mu.Unlock()
	time.AfterFunc(w.limit, func() {
		if w.giveUp(req.ID) {
			cancel()
		}
	})
	err := w.Connection.Write(ctx, req)
	if _, refused := errors.AsType[*jsonrpc.Error](err); err != nil && !refused { // it would end the connection
		w.giveUp(req.ID)
		return nil
	}
	return err
}

// giveUp ends the time of a request, unless it has its answer.
func (w *wire) giveUp(id jsonrpc.ID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.probes[id] {
		return false
	}
	w.probes[id] = false
	w.late <- id
	return true
}

// tooLate takes note of an answer, and reports whether it is one to discover whose time is over.
func (w *wire) tooLate(id jsonrpc.ID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	inTime, asked := w.probes[id]
	if inTime {
		delete(w.probes, id)
	}
	return asked && !inTime
}

// next returns the next message. For a server that has not answered discover in time it is a refusal of that, and an
// answer that comes later is left out.
func (w *wire) next(ctx context.Context) (jsonrpc.Message, error) {
	for {
		w.mu.Lock()
		spoken := w.spoken
		w.mu.Unlock()
		if w.reading == nil && spoken {
			return w.read(ctx)
		}
		if w.reading == nil {
			read := make(chan received, 1)
			w.reading = read
			go func() {
				msg, err := w.read(ctx)
				read <- received{msg, err}
			}()
		}
		select {
		case id := <-w.late:
			return &jsonrpc.Response{ID: id, Error: &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound,
				Message: "no answer to " + discover + " in " + w.limit.String()}}, nil
		case got := <-w.reading:
			w.reading = nil
			if resp, ok := got.msg.(*jsonrpc.Response); ok && got.err == nil && w.tooLate(resp.ID) {
				w.belated.Store(resp.Error == nil)
				continue
			}
			return got.msg, got.err
		}
	}
}
