package mcp

import (
	"context"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/braise-run/braise/retry"
)

// maxTools limits the list of a server's tools.
const maxTools = 1000

// Update lists the tools again if the server has said that its list has changed, for those who call [Server.Tools]
// next. Tools that were returned before stay as they were: a call of one that is gone, or has changed, fails.
func (s *Server) Update(ctx context.Context) error {
	ctx, _, cancel := s.bounded(ctx, 1)
	defer cancel()
	select {
	case s.busy <- struct{}{}:
	case <-ctx.Done():
		return s.failed(&retry.Failure{Reason: retry.ReasonOf(ended(ctx)), Err: ended(ctx)})
	}
	n := s.session
	<-s.busy
	select {
	case <-n.lost: // the next call begins another session, and lists the tools
		return nil
	default:
		return s.relist(ctx, n)
	}
}

// relist lists the tools of a session again, if there may be others.
func (s *Server) relist(ctx context.Context, n *session) error {
	select {
	case s.busy <- struct{}{}:
		defer func() { <-s.busy }()
	case <-ctx.Done():
		return s.failed(&retry.Failure{Reason: retry.ReasonOf(ended(ctx)), Err: ended(ctx)})
	}
	if !n.wire.stale.CompareAndSwap(true, false) {
		return nil
	}
	c := &call{}
	listed, err := n.list(context.WithValue(ctx, callKey{}, c))
	if err != nil {
		n.wire.stale.Store(true)
		f := s.failure(ctx, n, c, "its tools could not be listed again", err)
		f.Sent = false // no call of a tool was
		return f
	}
	tools, err := s.bind(listed)
	if err != nil {
		n.wire.stale.Store(true)
		return err
	}
	n.mu.Lock()
	n.listed = listed
	n.mu.Unlock()
	s.tools.Store(&tools)
	return nil
}

// list asks for all tools.
func (n *session) list(ctx context.Context) (listed []*sdk.Tool, err error) {
	for t, err := range n.Tools(ctx, nil) {
		switch {
		case err != nil:
			return nil, err
		case len(listed) == maxTools:
			return nil, fmt.Errorf("it lists more than %d tools", maxTools)
		}
		listed = append(listed, t)
	}
	return listed, nil
}

// tool is what the server listed last under a name; nil: nothing.
func (n *session) tool(remote string) *sdk.Tool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, t := range n.listed {
		if t.Name == remote {
			return t
		}
	}
	return nil
}
