package host

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/braise-run/braise/adapters/mcp"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/yamlnode"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
)

// Connect opens the MCP servers of the configuration that a recipe needs, all at once, and adds their
// tools to rt: those of which a step, a rollback or requires names a tool, and every one when a step is
// an agent, or r is nil. dir is the folder of the configuration, as for Runtime. The error says which
// servers could not be opened; the tools of the others are there. disconnect ends the servers, and is
// never nil.
func (c *Config) Connect(
	ctx context.Context, dir string, r *recipe.Recipe, rt *runtime.Runtime,
) (disconnect func(), err error) {
	if c == nil || len(c.MCP) == 0 {
		return func() {}, nil
	}
	var configs []mcp.Config
	for _, name := range c.serversFor(r) {
		configs = append(configs, c.server(name, dir))
	}
	servers, errs := make([]*mcp.Server, len(configs)), make([]error, len(configs))
	var opening sync.WaitGroup
	for i := range configs {
		opening.Go(func() { servers[i], errs[i] = mcp.Open(ctx, configs[i]) })
	}
	opening.Wait()
	servers = slices.DeleteFunc(servers, func(s *mcp.Server) bool { return s == nil })
	for _, s := range servers {
		rt.Tools = slices.Concat(rt.Tools, s.Tools())
	}
	return func() {
		var closing sync.WaitGroup
		for _, s := range servers {
			closing.Go(s.Close)
		}
		closing.Wait()
	}, errors.Join(errs...)
}

// serversFor lists the servers that a recipe needs, see Connect, in the order of their names.
func (c *Config) serversFor(r *recipe.Recipe) []string {
	all := r == nil
	var tools []string
	if !all {
		tools, all = toolsOf(r)
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(c.MCP)), func(name string) bool {
		return !all && !slices.ContainsFunc(tools, func(tool string) bool { return serverOf(tool) == name })
	})
}

// examineServers opens all servers and closes them again.
func (c *Config) examineServers(ctx context.Context, dir string) []Check {
	names := slices.Sorted(maps.Keys(c.MCP))
	checks := make([]Check, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			checks[i] = Check{Part: "mcp", Name: name, Status: CheckOK}
			server, err := mcp.Open(ctx, c.server(name, dir))
			if err != nil {
				message, hint, _ := strings.Cut(err.Error(), "\n  hint: ")
				checks[i].Status = CheckFail
				checks[i].Message = strings.TrimPrefix(message, fmt.Sprintf("mcp server %q: ", name))
				checks[i].Hint = cmp.Or(hint, "recipes that use its tools, and agents, cannot run")
				return
			}
			defer server.Close()
			checks[i].Message = fmt.Sprintf("it offers %d tools", len(server.Tools()))
			checks[i].Hint = fmt.Sprintf("braise kinds lists them as mcp.%s.…", name)
		})
	}
	all.Wait()
	return checks
}

// server is the configuration of a server with its folder resolved.
func (c *Config) server(name, dir string) mcp.Config {
	cfg := c.MCP[name]
	cfg.Name, cfg.Dir = name, within(dir, cfg.Dir)
	return cfg
}

// Assume adds to rt a tool for each name by which a recipe calls one of a configured MCP server, for
// checks that open no server. Nothing is known of its arguments, and it cannot be called.
func (c *Config) Assume(r *recipe.Recipe, rt *runtime.Runtime) {
	if c == nil || len(c.MCP) == 0 || r == nil {
		return
	}
	names, _ := toolsOf(r)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if _, ok := c.MCP[serverOf(name)]; ok {
			rt.Tools = slices.Concat(rt.Tools, []runtime.Tool{assumed(name)})
		}
	}
}

// assumed is a tool of a server that has not been opened, by its name.
type assumed string

func (t assumed) Spec() runtime.ToolSpec { return runtime.ToolSpec{Name: string(t)} }

func (t assumed) Call(context.Context, json.RawMessage) (json.RawMessage, error) {
	return nil, fmt.Errorf("the server of %q has not been opened", string(t))
}

// serverOf is the server in the name of a tool, mcp.SERVER.TOOL; "" when it is not one of a server.
func serverOf(tool string) string {
	rest, ok := strings.CutPrefix(tool, mcp.Prefix)
	if !ok {
		return ""
	}
	server, _, _ := strings.Cut(rest, ".")
	return server
}

// toolsOf lists the tools that a recipe and those in it name, and whether it has agents, which may
// call others.
func toolsOf(r *recipe.Recipe) (names []string, agents bool) {
	var walk func(steps []recipe.Step)
	recipes := func(r *recipe.Recipe) {
		for _, t := range r.Requires.Tools {
			names = append(names, t.Text)
		}
		walk(r.Steps)
	}
	walk = func(steps []recipe.Step) {
		for i := range steps {
			s := &steps[i]
			names = append(names, s.Uses.Text)
			agents = agents || s.Uses.Text == "agent"
			if s.Rollback != nil {
				names = append(names, s.Rollback.Uses.Text)
			}
			for _, b := range s.Bodies() {
				if b.Recipe != nil {
					recipes(b.Recipe)
				}
				walk(b.Steps)
			}
		}
	}
	recipes(r)
	return names, agents
}

func (r *reader) mcp(n *yamlnode.Node) map[string]mcp.Config {
	var servers map[string]mcp.Config
	for _, f := range r.Map(n) {
		if servers == nil {
			servers = map[string]mcp.Config{}
		}
		servers[f.Key] = r.mcpServer(f)
	}
	return servers
}

func (r *reader) mcpServer(f yamlnode.Field) mcp.Config {
	before := len(r.Diagnostics)
	fields := r.Object(f.Value, []string{"command", "env", "dir", "url", "headers", "approval", "timeout"}, nil)
	cfg := mcp.Config{
		Name:    f.Key,
		Command: r.texts(fields["command"]),
		Env:     r.guarded(fields["env"]),
		Dir:     r.text(fields["dir"]),
		URL:     r.text(fields["url"]),
		Headers: r.guarded(fields["headers"]),
		Approval: read(r, fields["approval"], func(r *yamlnode.Reader, n *yamlnode.Node) string {
			return r.OneOf(n, "never", "pause", "always")
		}),
		Timeout: read(r, fields["timeout"], readDuration),
	}
	if err := cfg.Check(); err != nil && len(r.Diagnostics) == before {
		message, hint, _ := strings.Cut(err.Error(), "\n  hint: ")
		r.Errorf(f.Pos, diagnostics.CodeInvalidValue, hint, "%s", strings.TrimPrefix(message, "mcp: "))
	}
	return cfg
}

// guarded reads texts by name. Those that hold secrets, by their names, may not stand in the file.
func (r *reader) guarded(n *yamlnode.Node) map[string]string {
	var texts map[string]string
	for _, f := range r.Map(n) {
		if texts == nil {
			texts = map[string]string{}
		}
		if credential.MatchString(f.Key) {
			r.secret(f.Value)
		}
		texts[f.Key] = r.text(f.Value)
	}
	return texts
}
