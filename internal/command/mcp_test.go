package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/braise-run/braise/internal/npmtest"
)

// The command with published MCP servers.
func TestMCP(t *testing.T) {
	server := npmtest.Program(t, "@modelcontextprotocol/server-filesystem", "2026.8.31", "mcp-server-filesystem")
	everything := npmtest.Program(t, "@modelcontextprotocol/server-everything", "2026.8.31", "mcp-server-everything")
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/mcp",
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", t.TempDir()) // a working folder above it would vouch for nothing
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			env.Setenv("PATH", strings.Join([]string{filepath.Dir(server), filepath.Dir(everything), env.Getenv("PATH")},
				string(filepath.ListSeparator)))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "token": token},
	})
}
