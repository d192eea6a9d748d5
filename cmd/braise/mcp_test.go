package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/braise-run/braise/internal/npmtest"
)

// The command with a published MCP server.
func TestMCP(t *testing.T) {
	server := npmtest.Program(t, "@modelcontextprotocol/server-filesystem", "2026.8.31", "mcp-server-filesystem")
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/mcp",
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			env.Setenv("PATH", filepath.Dir(server)+string(filepath.ListSeparator)+env.Getenv("PATH"))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits, "token": token},
	})
}
