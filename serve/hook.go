package serve

import (
	"errors"
	"net/http"
	"slices"

	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/worker"
)

// hook answers POST /hooks/{trigger}. The body is checked as it came: its signature is of the bytes.
func (c *call) hook() error {
	name := c.r.PathValue("trigger")
	i := slices.IndexFunc(c.Triggers, func(t *worker.Trigger) bool { return t.Name() == name })
	if i < 0 {
		return absent("hook.unknown", "there is no trigger %.40q", name)
	}
	body, err := c.bytes()
	if err != nil {
		return err
	}
	if err := c.roomInQueue(); err != nil {
		return err
	}
	runID, err := c.Triggers[i].Accept(c.r.Context(), c.r.Header, body)
	if err != nil {
		c.backlog.less()
	}
	if e, ok := errors.AsType[*runtime.Error](err); ok && e.Code == "expr.failed" { // it names files of this host
		c.logFailure(c.r.Context(), c.r, err)
		return unfit("expr.failed", "trigger %q cannot make the inputs of a run of this request"+
			"\n  hint: its body or headers lack what the trigger reads; the log of the server says more", name)
	} else if err != nil {
		return err
	}
	return c.accept(http.StatusAccepted, runID)
}
