package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// watched is a transport whose connection tells a wire what passes.
type watched struct {
	sdk.Transport
	wire *wire
}

// Connect implements sdk.Transport.
func (t watched) Connect(ctx context.Context) (sdk.Connection, error) {
	conn, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	t.wire.Connection = conn
	return t.wire, nil
}

// The limits of a server's own requests that have no answer yet. Beyond them nothing is read from the server.
const (
	maxRequests     = 64
	maxRequestBytes = 1 << 20 // together; a single one may be as long as a message
)

// wire is a connection that keeps the results of tools as they came: decoded by the SDK, large
// integers would lose digits. And it limits what a server makes the SDK keep: the SDK takes in any number of
// requests, and holds each until its answer is written, which a server that does not read prevents.
type wire struct {
	sdk.Connection
	requests *requests     // nil for a process
	patience time.Duration // with a server that does not take an answer

	mu sync.Mutex
	// by the id of a request of the server, until its answer is written
	theirs map[jsonrpc.ID]int // bytes
	held   int                // bytes of theirs together
	shut   bool               // Close was called
	change *sync.Cond         // of the three
	// by the id of the request, until an answer has come or the server was told that it is cancelled
	calls  map[jsonrpc.ID]*call
	idle   chan struct{} // closed when there are no calls; nil: no call waits
	spoken bool          // the version of the protocol is agreed on

	stale atomic.Bool // the server has other tools than those it listed

	probing
}

func newWire(patience, probe time.Duration) *wire {
	w := &wire{patience: patience, calls: map[jsonrpc.ID]*call{}, theirs: map[jsonrpc.ID]int{}}
	w.change = sync.NewCond(&w.mu)
	w.limit, w.probes, w.late = probe, map[jsonrpc.ID]bool{}, make(chan jsonrpc.ID, 2) // the SDK asks twice at most
	return w
}

// Close implements sdk.Connection.
func (w *wire) Close() error {
	w.mu.Lock()
	w.shut = true
	w.change.Broadcast()
	w.mu.Unlock()
	return w.Connection.Close()
}

// admit waits until there is room for a request of the server. The one with its id must be over, too: the id says which
// one an answer belongs to. It reports false when the connection was closed.
func (w *wire) admit(req *jsonrpc.Request) bool {
	size := len(req.Method) + len(req.Params)
	if id, ok := req.ID.Raw().(string); ok {
		size += len(id)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.shut {
		_, under := w.theirs[req.ID]
		if n := len(w.theirs); n == 0 || !under && n < maxRequests && w.held+size <= maxRequestBytes {
			w.theirs[req.ID] = size
			w.held += size
			return true
		}
		w.change.Wait()
	}
	return false
}

// over ends a request of the server.
func (w *wire) over(id jsonrpc.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held -= w.theirs[id]
	delete(w.theirs, id)
	w.change.Broadcast()
}

// Write implements sdk.Connection.
func (w *wire) Write(ctx context.Context, msg jsonrpc.Message) error {
	if answer, ok := msg.(*jsonrpc.Response); ok { // the SDK would let it take any time
		defer w.over(answer.ID)
		ctx, cancel := context.WithTimeout(ctx, w.patience)
		defer cancel()
		return w.Connection.Write(ctx, answer)
	}
	req, ok := msg.(*jsonrpc.Request)
	if ok && req.IsCall() {
		if c := callOf(ctx); c != nil {
			w.mu.Lock()
			w.calls[req.ID], c.id = c, req.ID
			w.mu.Unlock()
			c.note(func(k *knowledge) { *k = knowledge{} })
		}
	}
	switch {
	case ok && req.Method == discover:
		return w.probe(ctx, req)
	case ok && req.Method == "initialize":
		w.greeted.Store(true)
	}
	err := w.Connection.Write(ctx, msg)
	if ok && req.Method == "notifications/cancelled" {
		var about struct {
			RequestID any `json:"requestId"`
		}
		_ = json.Unmarshal(req.Params, &about) // the SDK has written it
		if id, err := jsonrpc.MakeID(about.RequestID); err == nil {
			w.forget(id)
		}
	}
	return err
}

// Read implements sdk.Connection. Notifications are left out: the SDK would keep any number.
func (w *wire) Read(ctx context.Context) (jsonrpc.Message, error) {
	msg, err := w.next(ctx)
	for req, ok := msg.(*jsonrpc.Request); ok && err == nil; req, ok = msg.(*jsonrpc.Request) {
		if req.IsCall() {
			if w.admit(req) {
				return req, nil
			}
			err = errEnded
			break
		}
		switch req.Method {
		case "notifications/progress":
			w.progressed(req)
		case "notifications/tools/list_changed":
			w.stale.Store(true)
		}
		msg, err = w.next(ctx)
	}
	if err != nil {
		w.end()
	}
	resp, ok := msg.(*jsonrpc.Response)
	if err != nil || !ok {
		return msg, err
	}
	w.mu.Lock()
	c, spoken := w.calls[resp.ID], w.spoken
	w.mu.Unlock()
	w.forget(resp.ID)
	c.note(func(k *knowledge) {
		k.said, _ = errors.AsType[*jsonrpc.Error](resp.Error) // another one is the SDK's: the answer broke off
		k.answer, k.replied = resp.Result, k.said != nil || resp.Error == nil
	})
	var hello struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	if !spoken && json.Unmarshal(resp.Result, &hello) == nil {
		w.agreed(hello.ProtocolVersion)
	}
	return msg, nil
}

// read returns the next message. The ids of our requests are numbers. Some servers answer with the number as a text,
// which the protocol does not allow; it is clear all the same what they mean, and other clients take it.
func (w *wire) read(ctx context.Context) (jsonrpc.Message, error) {
	msg, err := w.Connection.Read(ctx)
	resp, ok := msg.(*jsonrpc.Response)
	if err != nil || !ok {
		return msg, err
	}
	text, _ := resp.ID.Raw().(string)
	if n, err := strconv.ParseInt(text, 10, 53); err == nil && strconv.FormatInt(n, 10) == text {
		resp.ID, _ = jsonrpc.MakeID(float64(n)) // of a number there is one
	}
	return resp, nil
}

// agreed notes the version of the protocol. The SDK would tell its own connection, but knows only ours.
func (w *wire) agreed(version string) {
	if version == "" {
		return
	}
	w.mu.Lock()
	w.spoken = true
	w.mu.Unlock()
	if w.requests != nil {
		w.requests.version.Store(&version)
	}
}

// forget ends the interest in a call.
func (w *wire) forget(id jsonrpc.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if delete(w.calls, id); len(w.calls) == 0 && w.idle != nil {
		close(w.idle)
		w.idle = nil
	}
}

// end forgets all calls: there will be no answer.
func (w *wire) end() {
	w.mu.Lock()
	ids := slices.Collect(maps.Keys(w.calls))
	w.mu.Unlock()
	for _, id := range ids {
		w.forget(id)
	}
}

// settled returns a channel that is closed when no call is under way: each has its answer, or the
// server was notified that no call waits for it.
func (w *wire) settled() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	idle := make(chan struct{})
	if len(w.calls) == 0 {
		close(idle)
	} else {
		w.idle = idle
	}
	return idle
}
