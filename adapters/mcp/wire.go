package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"

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

// wire is a connection that keeps the results of tools as they came: decoded by the SDK, large
// integers would lose digits.
type wire struct {
	sdk.Connection
	requests *requests // nil for a process

	mu sync.Mutex
	// by the id of the request, until an answer has come or the server was told that it is cancelled
	calls  map[jsonrpc.ID]*call
	over   chan struct{} // closed when there are no calls; nil: no call waits
	spoken bool          // the version of the protocol is agreed on
}

// Write implements sdk.Connection.
func (w *wire) Write(ctx context.Context, msg jsonrpc.Message) error {
	req, ok := msg.(*jsonrpc.Request)
	if ok && req.IsCall() {
		if c := callOf(ctx); c != nil {
			w.mu.Lock()
			w.calls[req.ID], c.id = c, req.ID
			w.mu.Unlock()
			c.note(func(k *knowledge) { k.said, k.replied = nil, false })
		}
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

// Read implements sdk.Connection.
func (w *wire) Read(ctx context.Context) (jsonrpc.Message, error) {
	msg, err := w.Connection.Read(ctx)
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
	if delete(w.calls, id); len(w.calls) == 0 && w.over != nil {
		close(w.over)
		w.over = nil
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
	over := make(chan struct{})
	if len(w.calls) == 0 {
		close(over)
	} else {
		w.over = over
	}
	return over
}
