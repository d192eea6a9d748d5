package serve

import (
	"errors"
	"math"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/workflow"
)

// me is who is logged in.
type me struct {
	Name    string   `json:"name"`
	Groups  []string `json:"groups"`
	Roles   []Role   `json:"roles"`
	Recipes []string `json:"recipes,omitempty" doc:"The only recipes that there are for this token. Without it: all."`
	Version string   `json:"version,omitempty" doc:"Of the server."`
}

// login is how a browser logs in.
type login struct {
	Token string `json:"token" doc:"A token of the server."`
}

// state is what a monitor is told.
type state struct {
	Status string `json:"status" enum:"ok draining failed"`
	Newer  int    `json:"newerRuns,omitempty" doc:"Runs that it leaves to others, as a newer version wrote them."`
}

func (c *call) me() error {
	who, err := c.gate.known(c.r)
	if err != nil {
		return err
	}
	return c.identity(who)
}

func (c *call) identity(who *person) error {
	return c.reply(http.StatusOK, me{who.name, append([]string{}, who.groups...), append([]Role{}, who.roles...),
		who.recipes, c.Version})
}

func (c *call) login() error {
	var in login
	if err := c.body(&in); err != nil {
		return err
	}
	who, err := c.gate.bearer(c.r, in.Token)
	if err != nil {
		return err
	}
	c.setCookie(cookieOf(in.Token), 0)
	return c.identity(who)
}

func (c *call) logout() error {
	c.setCookie("", -1)
	c.w.WriteHeader(http.StatusNoContent)
	return nil
}

// setCookie sets what a browser lets in; age is that of http.Cookie.
func (c *call) setCookie(v string, age int) {
	http.SetCookie(c.w, &http.Cookie{Name: cookieName, Value: v, MaxAge: age, Path: c.mount() + "/", HttpOnly: true,
		SameSite: http.SameSiteStrictMode, Secure: c.r.TLS != nil || strings.HasPrefix(c.URL, "https:")})
}

// mount is the path under which the handler is mounted, without a slash at its end.
func (c *call) mount() string {
	asked, _, _ := strings.Cut(c.r.RequestURI, "?")
	mount, ok := strings.CutSuffix(asked, c.r.URL.EscapedPath())
	if !ok {
		return ""
	}
	return mount
}

// run is the path of a run.
func (c *call) pathOf(runID string) string { return c.mount() + prefix + "/runs/" + runID }

func (c *call) openapi() error { return c.json(c.description()) }

func (c *call) json(text []byte) error {
	c.w.Header().Set("Content-Type", "application/json")
	_, _ = c.w.Write(text) // who has left needs no answer
	return nil
}

func (c *call) schema() error {
	schemas := map[string]func() []byte{"event": trace.EventSchema, "outcome": workflow.OutcomeSchema,
		"recipe": recipe.Schema}
	if c.ConfigSchema != nil {
		schemas["config"] = func() []byte { return c.ConfigSchema }
	}
	name := c.r.PathValue("name")
	if of := schemas[name]; of != nil {
		return c.json(of())
	}
	known := value.SortedKeys(schemas)
	return absent("schema.unknown", "there is no schema %.40q\n  hint: %s", name,
		suggest(name, known, "it is one of "+strings.Join(known, ", ")))
}

func (c *call) livez() error { return c.reply(http.StatusOK, state{Status: "ok"}) }

func (c *call) readyz() error {
	if c.draining() {
		return c.reply(http.StatusServiceUnavailable, state{Status: "draining"})
	}
	_, _, err := c.store.Load(c.r.Context(), "readyz", math.MaxInt64)
	if errors.Is(err, checkpoint.ErrNotFound) {
		err = nil
	}
	if err == nil && c.Ready != nil {
		err = c.Ready(c.r.Context())
	}
	if err != nil {
		c.logFailure(c.r.Context(), c.r, err)
		return c.reply(http.StatusServiceUnavailable, state{Status: "failed"})
	}
	ready := state{Status: "ok"}
	if c.Worker != nil {
		ready.Newer = c.Worker.State().Newer
	}
	return c.reply(http.StatusOK, ready)
}

// draining reports whether the server is about to end.
func (a *api) draining() bool {
	select {
	case <-a.Drain:
		return true
	default:
		return false
	}
}

// metrics are shown to who may read, and to this machine.
func (c *call) metrics() error {
	if host, _, err := net.SplitHostPort(c.r.RemoteAddr); err == nil {
		if ip, err := netip.ParseAddr(host); err == nil && ip.IsLoopback() && !c.forwardedHere() {
			c.meter.ServeHTTP(c.w, c.r)
			return nil
		}
	}
	guarded := *c.route
	guarded.roles = []Role{Read}
	c.route = &guarded
	if err := c.admit(); err != nil {
		return err
	}
	c.meter.ServeHTTP(c.w, c.r)
	return nil
}

// forwardedHere reports whether a proxy on this machine has sent the request of somebody else.
func (c *call) forwardedHere() bool {
	return c.r.Header.Get("X-Forwarded-For") != "" || c.r.Header.Get("Forwarded") != ""
}
