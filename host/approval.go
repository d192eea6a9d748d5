package host

import (
	"maps"
	"slices"
	"strings"

	"github.com/braise-run/braise/adapters/mcp"
	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/yamlnode"
)

func readApproval(r *yamlnode.Reader, n *yamlnode.Node) string {
	return r.OneOf(n, "never", "pause", "always", "refuse")
}

// approvals reads what calls of agents need: one word for all, or words by keys.
func (r *reader) approvals(n *yamlnode.Node) map[string]string {
	if n == nil {
		return nil
	}
	if n.Kind == yamlnode.String {
		return map[string]string{"*": read(r, n, readApproval)}
	}
	words := map[string]string{}
	for _, f := range r.Map(n) {
		words[f.Key] = read(r, f.Value, readApproval)
	}
	return words
}

// checkNames reports keys of approval and entries of deny that can match no tool: those of MCP servers that are not
// configured, and what is no name at all. Any other tool may be one that a program adds.
func (r *reader) checkNames(c *Config, approval, deny *yamlnode.Node) {
	var servers []string
	for server := range c.MCP {
		servers = append(servers, mcp.Prefix+server+".*")
	}
	check := func(pos diagnostics.Position, key string) {
		loop := agentloop.Loop{Deny: []string{key}}
		_, unknown := loop.Unmatched(servers)
		server := serverOf(key)
		reserved := agentloop.Reserved(key)
		if len(unknown) == 0 || reserved || server == "" && strings.Contains(key, ".") && !strings.Contains(key, ":") {
			return
		}
		hint := "it takes a tool's name, PREFIX.*, exec.run:PROGRAM, read_only, idempotent, external or *"
		if strings.HasPrefix(key, agentloop.ExecTool+":") {
			hint = agentloop.SuggestTool(key, nil)
		}
		if server != "" {
			hint = diagnostics.DidYouMean(server, slices.Collect(maps.Keys(c.MCP)))
		}
		r.Errorf(pos, diagnostics.CodeInvalidValue, hint, "%q can match no tool", key)
	}
	if approval != nil {
		for _, f := range approval.Fields {
			check(f.Pos, f.Key)
		}
	}
	if deny != nil {
		for _, n := range deny.Items {
			if text, ok := n.Value.(string); ok && n.Kind == yamlnode.String {
				check(n.Pos, text)
			}
		}
	}
}
