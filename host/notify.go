package host

import (
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/yamlnode"
)

// Notify is an entry of notify: a server, or a program, that is told of pauses and ends of runs.
type Notify struct {
	URL     string
	Secret  string
	Exec    []string      // the program with its arguments; nil: it is a server
	On      []string      // nil: paused and error
	Recipes []string      // nil: all
	Remind  time.Duration // before a pause expires; 0: it is not
	Link    bool          // messages about pauses have a link to answer by
}

// Notify returns whom the configuration wants to be told of runs, with the folder in which programs begin. The error is
// a *runtime.Error: a variable that it needs is not set.
func (h *Host) Notify() (list []Notify, dir string, err error) {
	if why := h.config.why("notify"); why != "" {
		return nil, "", notConfigured(diagnostics.CodeMissingCapability, "notify", why)
	}
	if h.config == nil {
		return nil, "", nil
	}
	list = slices.Clone(h.config.Notify)
	for i, t := range list {
		if len(t.Exec) > 0 {
			list[i].Exec = slices.Clone(t.Exec)
			list[i].Exec[0] = program(h.dir, t.Exec[0])
		}
	}
	return list, h.dir, nil
}

func (r *reader) notify(n *yamlnode.Node) (list []Notify) {
	for _, item := range r.List(n) {
		list = append(list, r.notified(item))
	}
	return list
}

// notified reads one entry.
func (r *reader) notified(n *yamlnode.Node) Notify {
	fields := r.Object(n, []string{"url", "secret", "exec", "on", "recipes", "remind", "link"}, nil)
	if fields == nil {
		return Notify{}
	}
	t := Notify{URL: read(r, fields["url"], readURL), Exec: r.texts(fields["exec"]),
		Recipes: r.texts(fields["recipes"]), Remind: read(r, fields["remind"], readDuration),
		Link: r.Bool(fields["link"])}
	exec := fields["exec"]
	switch {
	case exec == nil:
		r.Require(n, fields, "url", "secret")
		r.secret(fields["secret"])
		t.Secret = read(r, fields["secret"], readSecret)
	case fields["url"] != nil || fields["secret"] != nil:
		r.Errorf(exec.Pos, diagnostics.CodeInvalidValue, "make two entries", "an entry has url and secret, or exec")
	case exec.Kind == yamlnode.List && (len(t.Exec) == 0 || slices.Contains(t.Exec[:1], "")):
		r.Errorf(exec.Pos, diagnostics.CodeInvalidValue, "exec: [./notify.sh]", "%q names no program", exec.Key)
	}
	for _, item := range r.List(fields["on"]) {
		t.On = append(t.On, read(r, item, func(r *yamlnode.Reader, n *yamlnode.Node) string {
			return r.OneOf(n, "paused", "ok", "error", "cancelled")
		}))
	}
	return t
}

// program is a program that a configuration in dir names: a path with a slash is relative to dir, which need not be
// absolute, and others are looked up in PATH.
func program(dir, name string) string {
	if !strings.ContainsRune(filepath.ToSlash(name), '/') {
		return name
	}
	path := within(dir, name)
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}
