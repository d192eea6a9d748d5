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
// tools to rt: servers with a tool that a step, a rollback, an agent or requires names, and all servers when an agent
// does not list its tools or an expression does, or r is nil. dir is the folder of the configuration, as for Runtime.
// The error says which servers could not be opened; the tools of the others are added. disconnect ends the servers,
// and is never nil.
func (c *Config) Connect(
	ctx context.Context, dir string, r *recipe.Recipe, rt *runtime.Runtime,
) (disconnect func(), err error) {
	if c == nil || len(c.MCP) == 0 {
		return func() {}, nil
	}
	names := c.serversFor(r)
	servers, errs := make([]*mcp.Server, len(names)), make([]error, len(names))
	var opening sync.WaitGroup
	for i := range names {
		opening.Go(func() { servers[i], errs[i] = c.openServer(ctx, names[i], dir) })
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
			server, err := c.openServer(ctx, name, dir)
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

// openServer opens a server. Its folder starts at dir.
func (c *Config) openServer(ctx context.Context, name, dir string) (*mcp.Server, error) {
	if why := c.why(mcp.Prefix + name); why != "" {
		return nil, fmt.Errorf("mcp server %q: it is not configured: %s", name, why)
	}
	cfg := c.MCP[name]
	cfg.Name, cfg.Dir = name, within(dir, cfg.Dir)
	return mcp.Open(ctx, cfg)
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
		server := serverOf(name)
		if why := c.why(mcp.Prefix + server); why != "" {
			rt.Tools = slices.Concat(rt.Tools, []runtime.Tool{missing{Name: name, Missing: why}})
		} else if _, ok := c.MCP[server]; ok {
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

// toolsOf lists the tools that a recipe and those in it name, and whether it has agents that may call any others.
func toolsOf(r *recipe.Recipe) (names []string, any bool) {
	var walk func(r *recipe.Recipe, steps []recipe.Step)
	var recipes func(r *recipe.Recipe)
	recipes = func(r *recipe.Recipe) {
		for _, t := range r.Requires.Tools {
			names = append(names, t.Text)
		}
		walk(r, r.All())
		for _, t := range r.Tools() {
			if t.Body != nil && t.Body.Recipe != nil && r.ToolOf() == nil {
				recipes(t.Body.Recipe)
			}
		}
	}
	walk = func(r *recipe.Recipe, steps []recipe.Step) {
		for i := range steps {
			s := &steps[i]
			names = append(names, s.Uses.Text)
			if s.Uses.Text == "agent" {
				for _, a := range r.AgentsOf(s) {
					listed, all := toolsOfAgent(&a)
					names, any = append(names, listed...), any || all
				}
			}
			if s.Rollback != nil {
				names = append(names, s.Rollback.Uses.Text)
			}
			for _, b := range s.Bodies() {
				if b.Recipe != nil {
					recipes(b.Recipe)
				}
				walk(r, b.Steps)
			}
		}
	}
	recipes(r)
	return names, any
}

// toolsOfAgent lists the tools that an agent names, those under approval with them, which are checked when it begins;
// all says that it may call any others: tools is all, or an expression.
func toolsOfAgent(a *recipe.Agent) (names []string, all bool) {
	f := a.Spec.Field("tools")
	if f != nil {
		all = f.Value.Scalar == recipe.AllTools || f.Value.HasExpression()
		for _, e := range f.Value.List {
			if name, _ := e.Scalar.(string); !e.HasExpression() {
				names = append(names, strings.TrimSpace(name))
			}
		}
	}
	if f := a.Spec.Field("approval"); f != nil {
		for _, entry := range f.Value.Map {
			names = append(names, entry.Key)
		}
	}
	return names, all
}

// absent are tools in the place of those of a server that cannot be opened, by the names in a recipe, and one that
// stands for all others, SERVER.*: what needs them fails, and says why.
func absent(server string, why error, r *recipe.Recipe) (tools []runtime.Tool) {
	names := []string{mcp.Prefix + server + ".*"}
	if r != nil {
		named, _ := toolsOf(r)
		names = append(names, slices.DeleteFunc(named, func(tool string) bool { return serverOf(tool) != server })...)
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		tools = append(tools, missing{Name: name, Missing: why.Error()})
	}
	return tools
}

// missing is a tool that cannot be called.
type missing runtime.ToolSpec

func (t missing) Spec() runtime.ToolSpec { return runtime.ToolSpec(t) }

func (t missing) Call(context.Context, json.RawMessage) (json.RawMessage, error) {
	return nil, &runtime.Error{Category: runtime.CategoryConfig, Code: string(diagnostics.CodeMissingTool),
		Err: errors.New(t.Missing)}
}

func (r *reader) mcp(n *yamlnode.Node) map[string]mcp.Config {
	var servers map[string]mcp.Config
	for _, f := range r.Map(n) {
		if servers == nil {
			servers = map[string]mcp.Config{}
		}
		servers[f.Key] = part(r, mcp.Prefix+f.Key, func() mcp.Config { return r.mcpServer(f) })
	}
	return servers
}

func (r *reader) mcpServer(f yamlnode.Field) mcp.Config {
	before := len(r.Diagnostics)
	fields := r.Object(f.Value,
		[]string{"command", "env", "dir", "url", "headers", "approval", "elicit", "timeout"}, nil)
	cfg := mcp.Config{
		Name:     f.Key,
		Command:  r.texts(fields["command"]),
		Env:      r.guarded(fields["env"], r.text),
		Dir:      r.text(fields["dir"]),
		URL:      r.text(fields["url"]),
		Headers:  r.guarded(fields["headers"], r.header),
		Approval: read(r, fields["approval"], readApproval),
		Elicit:   r.Bool(fields["elicit"]),
		Timeout:  read(r, fields["timeout"], readDuration),
		Secrets:  slices.Concat(r.values(fields["env"]), r.values(fields["headers"])),
	}
	if err := cfg.Check(); err != nil && len(r.Diagnostics) == before && r.absent[r.part] == "" {
		message, hint, _ := strings.Cut(err.Error(), "\n  hint: ")
		r.Errorf(f.Pos, diagnostics.CodeInvalidValue, hint, "%s", strings.TrimPrefix(message, "mcp: "))
	}
	return cfg
}

// inherited are variables that every program gets: what they hold is no secret.
var inherited = []string{"PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "TZ", "TERM", "USER"}

// values lists what the variables in texts by name hold, so that it can be kept out of what a server says.
func (r *reader) values(n *yamlnode.Node) []string {
	if n == nil {
		return nil
	}
	var values []string
	for _, f := range n.Fields {
		if f.Value.Kind != yamlnode.String {
			continue
		}
		_, _ = expand(f.Value.Value.(string), func(name string) (string, bool) { // reported where it is read
			v, ok := r.env(name)
			if ok && !slices.Contains(inherited, name) {
				values = append(values, strings.TrimSpace(v))
			}
			return v, ok
		})
	}
	return values
}

// header reads the value of a header, without white space around it, see reader.option.
func (r *reader) header(n *yamlnode.Node) string {
	if !r.sendable(n) {
		return ""
	}
	return strings.TrimSpace(r.text(n))
}

// guarded reads texts by name, each with get. Those that hold secrets, by their names, may not stand in the file.
func (r *reader) guarded(n *yamlnode.Node, get func(*yamlnode.Node) string) map[string]string {
	var texts map[string]string
	for _, f := range r.Map(n) {
		if texts == nil {
			texts = map[string]string{}
		}
		if credential.MatchString(f.Key) {
			r.secret(f.Value)
		}
		texts[f.Key] = get(f.Value)
	}
	return texts
}
