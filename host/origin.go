package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"sync"

	"github.com/braise-run/braise/adapters/builtin"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/internal/guard"
	"github.com/braise-run/braise/runtime"
)

// What a host keeps of where a run began, see runtime.Runtime.Origin.
const (
	originConfig = "config" // the path of the configuration, absolute; missing: there was none
	originSum    = "sha256" // of its bytes
	originFolder = "folder" // the working folder
	originHost   = "host"
	originUser   = "user"
)

// here is this process as an origin, without a configuration.
var here = sync.OnceValue(func() map[string]string {
	at := map[string]string{originUser: fmt.Sprint(os.Getuid())}
	if u, err := user.Current(); err == nil {
		at[originUser] = u.Username
	}
	at[originHost], _ = os.Hostname()
	return at
})

// who names the user of this process and its machine: ada@laptop.
func who() string { return here()[originUser] + "@" + here()[originHost] }

// ConfigOf returns the path of the host's configuration or, if it has none, of that in the origin of a run; "": there
// was none.
func (h *Host) ConfigOf(origin map[string]string) string { return cmp.Or(h.path, origin[originConfig]) }

// newOrigin is where runs of a configuration begin.
func newOrigin(path, sum, folder string) map[string]string {
	origin := maps.Clone(here())
	if folder == "" {
		folder, _ = os.Getwd()
	}
	origin[originFolder] = folder
	if path == "" {
		return origin
	}
	if abs, err := filepath.Abs(path); err == nil {
		origin[originConfig], origin[originSum] = abs, sum
	}
	return origin
}

// of returns the host with which a run is resumed: h, or one with the configuration and the working folder that the
// run began with, if h has no other configuration. The error is a *runtime.Error with the code config.elsewhere if
// h has none, and that of the run cannot be used: on another machine, by another user, or after a change.
func (h *Host) of(ctx context.Context, store checkpoint.Store, runID string) (*Host, error) {
	sum, _, err := guard.Load(ctx, store, runID, 0)
	if err != nil || sum.Status.Ended() {
		return h, nil // resuming it says what is wrong
	}
	origin, err := history.Origin(ctx, store, runID)
	own, path := h.base.Origin, origin[originConfig]
	switch {
	case err != nil || path == "" || maps.Equal(own, origin):
		return h, nil
	case h.path != "" && (own[originConfig] != path || own[originSum] != origin[originSum]):
		return h, nil // the options name another one
	}
	why := error(nil)
	if own[originHost] != origin[originHost] || own[originUser] != origin[originUser] {
		why = fmt.Errorf("of %s@%s", origin[originUser], origin[originHost])
	} else {
		var there *Host
		if there, why = h.child(ctx, store, origin); why == nil {
			return there, nil
		}
	}
	if h.path != "" {
		return h, nil
	}
	return nil, &runtime.Error{Category: runtime.CategoryConfig, Code: "config.elsewhere",
		Err: fmt.Errorf("the run is left as it is: it began with the configuration %s, which is not used: %w"+
			"\n  hint: --config PATH names the one to use", path, why)}
}

// child returns the host for runs of an origin. It has the store of h, keeps what h keeps, and is closed with h.
func (h *Host) child(ctx context.Context, store checkpoint.Store, origin map[string]string) (*Host, error) {
	path, folder := origin[originConfig], origin[originFolder]
	key := strings.Join([]string{path, origin[originSum], folder}, "\x00")
	h.mu.Lock()
	defer h.mu.Unlock()
	if there := h.children[key]; there != nil {
		return there, nil
	}
	if h.closed {
		return nil, checkpoint.ErrClosed
	}
	opts := h.opts
	opts.Config, opts.Recipe = path, ""
	there, err := open(ctx, &opts, folder, h.kept)
	switch {
	case err != nil:
		return nil, err
	case there.base.Origin[originSum] != origin[originSum]:
		return nil, errors.New("it has changed since")
	}
	there.store = store
	if h.children == nil {
		h.children = map[string]*Host{}
	}
	h.children[key] = there
	return there, nil
}

// guard has a guard started with each program of a configuration.
func (c *Config) guard(guard []string) {
	if c == nil {
		return
	}
	if c.Tools.Exec != nil {
		c.Tools.Exec.Guard = guard
	}
	for name, server := range c.MCP {
		if server.Command != nil {
			server.Guard = guard
			c.MCP[name] = server
		}
	}
}

// startIn makes a folder the working folder of what a configuration starts. "": that of the process.
func (c *Config) startIn(folder string) {
	if c == nil || folder == "" {
		return
	}
	if c.Tools.Exec != nil {
		exec := builtin.ExecOptions(*c.Tools.Exec)
		exec.Working, c.Tools.Exec = folder, &exec
	}
	for name, server := range c.MCP {
		if server.Dir == "" {
			server.Dir = folder
			c.MCP[name] = server
		}
	}
}
