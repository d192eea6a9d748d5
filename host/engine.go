package host

import (
	"context"
	"net/url"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/yamlnode"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// EngineURL returns the URL of the engine that the configuration names, and the folder at which relative paths in it
// start. "": it names none.
func (h *Host) EngineURL() (url, dir string, err error) {
	if why := h.config.why("engine"); why != "" {
		return "", "", notConfigured(diagnostics.CodeMissingCapability, "the engine", why)
	}
	if h.config == nil || h.config.Engine == "" {
		return "", "", nil
	}
	return h.config.Engine, h.dir, nil
}

// RuntimeOfWorker returns a new Runtime for a worker of an engine, which keeps the runs itself: it has no store, and
// takes what comes in for a pause as its answer. The store of the configuration is opened only where agents keep their
// conversations in it. All MCP servers are opened. The errors are those of Runtime.
func (h *Host) RuntimeOfWorker(ctx context.Context) (*runtime.Runtime, error) {
	rt := h.Bare()
	if err := h.Connect(ctx, nil, rt); err != nil {
		return nil, err
	}
	if h.config != nil && h.config.Memory {
		if err := h.keep(ctx, rt); err != nil {
			return nil, err
		}
		rt.Store = nil
	}
	rt.Resume = resume.PassThrough{}
	return rt, h.report(rt)
}

// readEngine reads the URL of an engine. Which engines exist, and what their URLs say, the program knows.
func readEngine(r *yamlnode.Reader, n *yamlnode.Node) string {
	text := r.Text(n)
	if u, err := url.Parse(text); text != "" && (err != nil || u.Scheme == "" || u.Host == "" && u.Path == "") {
		r.Errorf(n.Pos, diagnostics.CodeInvalidValue, "say \"temporal://127.0.0.1:7233/default?queue=braise\"",
			"an engine is a URL")
	}
	return text
}
