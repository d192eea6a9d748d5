package host_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// mcpEndpoint is an MCP server with a tool "greet", and counts how often it is opened.
type mcpEndpoint struct {
	*httptest.Server
	opened atomic.Int32
}

func newMCPEndpoint() *mcpEndpoint {
	e := &mcpEndpoint{}
	e.Server = httptest.NewServer(e)
	return e
}

// ServeHTTP implements http.Handler.
func (e *mcpEndpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var req struct {
		ID     json.RawMessage
		Method string
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil || req.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	answer := `"error": {"code": -32601, "message": "what?"}`
	switch req.Method {
	case "initialize":
		e.opened.Add(1)
		answer = `"result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}`
	case "tools/list":
		answer = `"result": {"tools": [{"name": "greet", "description": "Greet.", "annotations": {"readOnlyHint": true},
			"inputSchema": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}}]}`
	case "tools/call":
		answer = `"result": {"content": [{"type": "text", "text": "hello"}]}`
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"jsonrpc": "2.0", "id": %s, %s}`, req.ID, answer)
}

const mcpRecipe = "apiVersion: braise/v1\nname: greeting\nsteps:\n  greet:\n    uses: mcp.crm.greet\n    with: {name: Ada}\noutput: ${{ steps.greet.output }}\n"

func ExampleConfig_Connect() {
	crm := newMCPEndpoint()
	defer crm.Close()
	config, err := host.ParseConfig("braise.yaml", []byte(`mcp: {crm: {url: "`+crm.URL+`"}}`), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	greeting, err := recipe.Parse("greeting.yaml", []byte(mcpRecipe))
	if err != nil {
		fmt.Println(err)
		return
	}

	rt, err := config.Runtime("")
	if err != nil {
		fmt.Println(err)
		return
	}
	disconnect, err := config.Connect(context.Background(), "", greeting, rt)
	defer disconnect()
	if err != nil {
		fmt.Println(err)
		return
	}
	wf, err := workflow.Compile(greeting, &workflow.Options{Tools: rt.ToolSpecs()})
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := wf.Run(context.Background(), nil, rt)
	fmt.Println(out.Output, err)
	// Output:
	// hello <nil>
}

// trust 1.10: a recipe has the servers opened whose tools it names, wherever; an agent that lists no tools may call
// every one.
func TestConnect(t *testing.T) {
	for _, tt := range []struct{ name, steps, want string }{
		{"none", "  a: {uses: http.request, with: {url: 'http://h'}}", ""},
		{"a step", "  a: {uses: mcp.one.greet, with: {name: x}}", "mcp.one.greet"},
		{"a rollback", "  a: {uses: http.request, with: {url: 'http://h'}, rollback: {uses: mcp.two.greet, with: {name: x}}}", "mcp.two.greet"},
		{"a step in a branch", "  a: {uses: fork, with: {branches: {left: {steps: {b: {uses: mcp.two.greet, with: {name: x}}}}}}}", "mcp.two.greet"},
		{"requires", "  a: {uses: set, with: 1}\nrequires: {tools: [mcp.one.greet]}", "mcp.one.greet"},
		{"a server that is not configured", "  a: {uses: mcp.on.greet}", ""},
		{"an agent with all", "  a: {uses: agent, with: {agent: b, prompt: x}}\nagents: {b: {model: m, instructions: x, tools: all}}", "mcp.one.greet mcp.two.greet"},
		{"an agent that lists its tools", "  a: {uses: agent, with: {agent: b, prompt: x}}\nagents: {b: {model: m, instructions: x, tools: [mcp.two.greet]}}", "mcp.two.greet"},
		{"an agent that lists none", "  a: {uses: agent, with: {agent: b, prompt: x}}\nagents: {b: {model: m, instructions: x}}", ""}, // trust 8.4
		{"an agent whose list an expression gives", "  a: {uses: agent, with: {agent: b, prompt: x}}\nagents: {b: {model: m, instructions: x, tools: '${{ inputs.tools }}'}}", "mcp.one.greet mcp.two.greet"},
		{"an agent with a tool that an expression gives", "  a: {uses: agent, with: {agent: b, prompt: x}}\nagents: {b: {model: m, instructions: x, tools: [file.read, '${{ inputs.tool }}']}}", "mcp.one.greet mcp.two.greet"},
		{"an agent that a step does not run", "  a: {uses: agent, with: {agent: b, prompt: x}}\nagents: {b: {model: m, instructions: x, tools: []}, c: {model: m, instructions: x}}", ""},
		{"a delegate", "  a: {uses: agent, with: {agent: b, prompt: x}}\nagents: {b: {model: m, instructions: x, tools: [], delegates: [c]}, c: {model: m, instructions: x, tools: [mcp.one.greet]}}", "mcp.one.greet"},
		{"a key of an approval", "  a: {uses: agent, with: {agent: b, prompt: x}}\nagents: {b: {model: m, instructions: x, tools: ['mcp.one.greet'], approval: {'mcp.one.*': pause}}}", "mcp.one.greet"},
		{"no recipe", "", "mcp.one.greet mcp.two.greet"},
	} {
		one, two := newMCPEndpoint(), newMCPEndpoint()
		config, err := host.ParseConfig("braise.yaml", []byte(`mcp: {two: {url: "`+two.URL+`"}, one: {url: "`+one.URL+`"}}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		var r *recipe.Recipe
		if tt.steps != "" {
			if r, err = recipe.Parse("r.yaml", []byte("apiVersion: braise/v1\nname: r\ninputs: {tool: string, tools: {type: array}}\nsteps:\n"+tt.steps+"\n")); err != nil {
				t.Fatal(err)
			}
		}
		rt := &runtime.Runtime{}
		disconnect, err := config.Connect(t.Context(), "", r, rt)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		disconnect()
		one.Close()
		two.Close()
		if got := toolNames(rt); got != tt.want {
			t.Errorf("%s: tools %q, want %q", tt.name, got, tt.want)
		}
		if got, want := int(one.opened.Load()+two.opened.Load()), len(strings.Fields(tt.want)); got != want {
			t.Errorf("%s: %d servers opened, want %d", tt.name, got, want)
		}
	}
}

func toolNames(rt *runtime.Runtime) string {
	var names []string
	for _, t := range rt.Tools {
		names = append(names, t.Spec().Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// One missing server does not take the tools of the others away.
func TestConnectToServersThatAreGone(t *testing.T) {
	here, gone := newMCPEndpoint(), newMCPEndpoint()
	defer here.Close()
	gone.Close()
	config, err := host.ParseConfig("braise.yaml", []byte(`mcp: {here: {url: "`+here.URL+`"}, gone: {url: "`+gone.URL+`"}, none: {command: [no-such-program-3141]}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	rt := &runtime.Runtime{}
	disconnect, err := config.Connect(t.Context(), "", nil, rt)
	defer disconnect()
	if err == nil || !strings.Contains(err.Error(), `mcp server "gone": it could not be opened`) || !strings.Contains(err.Error(), `mcp server "none": it could not start`) {
		t.Errorf("error %v", err)
	}
	if got := toolNames(rt); got != "mcp.here.greet" {
		t.Errorf("tools %q", got)
	}

	var got []string
	for _, c := range config.Examine(t.Context(), "") {
		if c.Part == "mcp" {
			got = append(got, fmt.Sprint(c.Status, " ", c.Name, ": ", c.Message, "; ", c.Hint))
		}
	}
	want := []string{
		`fail gone: it could not be opened: dial tcp ` + strings.TrimPrefix(gone.URL, "http://") + `: connect: connection refused; recipes that use its tools, and agents, cannot run`,
		`ok here: it offers 1 tools; braise kinds lists them as mcp.here.…`,
		`fail none: it could not start: exec: "no-such-program-3141": executable file not found in $PATH; recipes that use its tools, and agents, cannot run`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("checks (-want +got):\n%s", diff)
	}
}

// For checks that open nothing, the tools of configured servers are known by name.
func TestAssume(t *testing.T) {
	config, err := host.ParseConfig("braise.yaml", []byte(`mcp: {crm: {url: "http://localhost:1"}}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := recipe.Parse("r.yaml", []byte("apiVersion: braise/v1\nname: r\nsteps:\n  a: {uses: mcp.crm.greet, with: {name: 1}}\n  b: {uses: mcp.crn.greet}\n  c: {uses: mcp.crm.greet}\n"))
	if err != nil {
		t.Fatal(err)
	}
	rt := &runtime.Runtime{}
	config.Assume(r, rt)
	if got := toolNames(rt); got != "mcp.crm.greet" {
		t.Errorf("tools %q", got)
	}
	if err := rt.Validate(); err != nil {
		t.Error(err)
	}
	if _, err := rt.Tools[0].Call(t.Context(), nil); err == nil || err.Error() != `the server of "mcp.crm.greet" has not been opened` {
		t.Errorf("a call: %v", err)
	}
}

// trust 1.10, 7.6: a server that cannot be opened fails the step that names its tool, and the agent that lists it; an
// agent that lists no tools runs without them, with a diagnostic. Nothing else fails.
func TestBrokenServersFailWhatNeedsThem(t *testing.T) {
	here, gone := newMCPEndpoint(), newMCPEndpoint()
	defer here.Close()
	gone.Close()
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("braise.yaml", `mcp: {here: {url: "`+here.URL+`"}, gone: {url: "`+gone.URL+`"}}
models: {m: {provider: script, file: script.yaml}}
store: "memory:"
`)
	write("script.yaml", "turns:\n  - {text: done}\n")
	for _, tt := range []struct{ name, needs, code, finding string }{
		{"nothing", "{uses: set, with: 1}", "", ""},
		{"a step", "{uses: mcp.gone.greet, with: {name: x}}", "tool.missing", `no tool named "mcp.gone.greet" is configured; step "a" needs it: mcp server "gone": it could not be opened`},
		{"an agent", "{uses: agent, with: {agent: {model: m, instructions: x, tools: [mcp.gone.greet, mcp.here.greet]}, prompt: x}}", "tool.missing", `no tool named "mcp.gone.greet" is configured; step "a" needs it: mcp server "gone"`},
		{"an agent that needs the other", "{uses: agent, with: {agent: {model: m, instructions: x, tools: [mcp.here.greet]}, prompt: x}}", "", ""},
		{"an agent with all", "{uses: agent, with: {agent: {model: m, instructions: x, tools: all}, prompt: x}}", "", "the agent goes without the tools mcp.gone.*"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			write("recipe.yaml", "apiVersion: braise/v1\nname: r\nsteps:\n  other: {uses: mcp.here.greet, with: {name: x}}\n  a: "+strings.ReplaceAll(tt.needs, "{uses", "{needs: [other], uses")+"\n")
			file := filepath.Join(dir, "recipe.yaml")
			h, err := host.Open(t.Context(), &host.Options{Recipe: file, Trust: trust})
			if err != nil {
				t.Fatal(err)
			}
			defer h.Close()
			wf, err := h.Load(t.Context(), file)
			if err != nil {
				t.Fatal(err)
			}
			rt, err := h.Runtime(t.Context(), wf)
			if err != nil {
				t.Fatal(err)
			}
			out, _ := wf.Run(t.Context(), nil, rt)
			code := ""
			if e := out.Failure(); e != nil {
				if code = e.Code; !strings.Contains(e.Error(), `mcp server "gone"`) {
					t.Errorf("error %v", e)
				}
			}
			found := ""
			for _, d := range out.Diagnostics {
				found += d.Message + "\n"
			}
			if code != tt.code || out.Artefact["other"] == nil || !strings.Contains(found, tt.finding) || (tt.finding == "") != (found == "") {
				t.Errorf("error %v, artefact %v, diagnostics %q", out.Err, out.Artefact, found)
			}
		})
	}
}

// What an MCP server says of what the configuration gave it from variables is taken out: trust 6.7.
func TestServersSecretsAreTakenOut(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req struct {
			ID     json.RawMessage
			Method string
		}
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil || req.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		answer := `"result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}`
		said := fmt.Sprintf("%s, %s, %s", r.Header.Get("X-Who"), r.Header.Get("X-Level"), r.Header.Get("X-Home"))
		switch req.Method {
		case "tools/list":
			answer = fmt.Sprintf(`"result": {"tools": [{"name": "greet", "description": %q, "inputSchema": {"type": "object"}}]}`, said)
		case "tools/call":
			answer = fmt.Sprintf(`"result": {"content": [{"type": "text", "text": %q}]}`, said)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc": "2.0", "id": %s, %s}`, req.ID, answer)
	})
	s := httptest.NewServer(handler)
	defer s.Close()
	env := map[string]string{"WHO": "somebody secret", "HOME": "/home/somebody"}
	c, err := host.ParseConfig("braise.yaml", []byte("mcp:\n  crm:\n    url: "+s.URL+
		"\n    headers: {X-Who: \"as ${WHO}\", X-Level: information, X-Home: \"${HOME}\"}\n"), func(name string) (string, bool) {
		v, ok := env[name]
		return v, ok
	})
	if err != nil {
		t.Fatal(err)
	}
	rt := &runtime.Runtime{}
	disconnect, err := c.Connect(t.Context(), ".", nil, rt)
	defer disconnect()
	if err != nil {
		t.Fatal(err)
	}
	const want = "as ***, information, /home/somebody"
	if got := rt.Tools[0].Spec().Description; got != want {
		t.Errorf("description %q, want %q", got, want)
	}
	if got, err := rt.Tools[0].Call(t.Context(), json.RawMessage("{}")); err != nil || string(got) != `"`+want+`"` {
		t.Errorf("result %s, %v, want %q", got, err, want)
	}
}
