package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/braise-run/braise/runtime"
)

// mostTimeouts is how many times its timeout a call may take in all, as long as progress is made.
const mostTimeouts = 10

// limit ends a context when nothing has happened for some time, and in the end in any case.
type limit struct {
	timer *time.Timer
	idle  time.Duration
	until time.Time
}

// newLimit begins a limit: of an idle time, and of so many of them.
func newLimit(idle time.Duration, most int, end context.CancelCauseFunc) *limit {
	l := &limit{idle: idle, until: time.Now().Add(idle * time.Duration(most))}
	l.timer = time.AfterFunc(idle, func() {
		if time.Now().Before(l.until) {
			end(timedOut(idle))
		} else {
			end(timedOut(idle * time.Duration(most)))
		}
	})
	return l
}

// renew begins the idle time again.
func (l *limit) renew() { l.timer.Reset(min(l.idle, time.Until(l.until))) }

// progress is what a server says of a call under way.
type progress struct {
	Token    any     `json:"progressToken"`
	Progress float64 `json:"progress"`
	Total    float64 `json:"total"`
	Message  string  `json:"message"`
}

// progressed hands a notification of progress to its call. Of others nothing is kept.
func (w *wire) progressed(req *jsonrpc.Request) {
	var p progress
	if json.Unmarshal(req.Params, &p) != nil {
		return
	}
	token, ok := p.Token.(string)
	if !ok || token == "" {
		return
	}
	w.mu.Lock()
	var of *call
	for _, c := range w.calls {
		if c.token == token {
			of = c
		}
	}
	w.mu.Unlock()
	if of != nil {
		of.progressed(p)
	}
}

// watch has progress renew the limit of a call, and be said: by its message, or as "3 of 10".
func (c *call) watch(ctx context.Context, s *Server, tool string, l *limit) {
	c.progressed = func(p progress) {
		l.renew()
		text, value := fmt.Sprint(p.Progress), map[string]any{"tool": tool, "progress": p.Progress}
		if p.Total != 0 {
			text, value["total"] = fmt.Sprint(p.Progress, " of ", p.Total), p.Total
		}
		if p.Message != "" {
			text = s.quote(ctx, p.Message)
		}
		_ = runtime.Say(ctx, text, value) // of each call a bounded number
	}
}
