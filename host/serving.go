package host

import (
	"cmp"

	"github.com/braise-run/braise/diagnostics"
)

// Serve returns what the configuration says of a server; it is empty if it says nothing. The error is a
// *runtime.Error: a variable that it needs is not set.
func (h *Host) Serve() (*Serve, error) {
	if why := h.config.why("serve"); why != "" {
		return nil, notConfigured(diagnostics.CodeMissingCapability, "serve", why)
	}
	if h.config == nil || h.config.Serve == nil {
		return &Serve{}, nil
	}
	s := *h.config.Serve
	s.Recipes = nil
	for _, path := range h.config.Serve.Recipes {
		s.Recipes = append(s.Recipes, within(h.dir, path))
	}
	if s.TLS != nil {
		s.TLS = &TLS{within(h.dir, s.TLS.Cert), within(h.dir, s.TLS.Key)}
	}
	return &s, nil
}

// By is who runs recipes and answers, see Options.
func (h *Host) By() string { return cmp.Or(h.base.By, h.opts.By, who()) }

// AllowsPrivate reports whether requests may go to private addresses.
func (h *Host) AllowsPrivate() bool {
	return h.config != nil && h.config.Tools.HTTP != nil && h.config.Tools.HTTP.AllowPrivate
}
