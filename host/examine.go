package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/braise-run/braise/adapters/skills"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/retry"
	"github.com/braise-run/braise/trace/oteltrace"
	"github.com/braise-run/braise/workflow"
)

// CheckStatus is how a part of an installation is.
type CheckStatus string

// The statuses of checks.
const (
	CheckOK   CheckStatus = "ok"
	CheckWarn CheckStatus = "warn" // may be meant so
	CheckFail CheckStatus = "fail" // what needs this part will fail
)

// Check is what [Config.Examine] or [Host.CallModels] says about one part of an installation. It holds no secret.
type Check struct {
	Part    string      `json:"part"`           // config, model, tool, mcp, secret, var, skill, telemetry, memory, …
	Name    string      `json:"name,omitempty"` // of the model, tool, server, secret or skill
	Status  CheckStatus `json:"status"`
	Message string      `json:"message"`
	Hint    string      `json:"hint,omitempty"` // what to do about it, or what it means

	// What a model answered to CallModels. Its Usage has the cost if the configuration has its price; nil: no answer.
	Model     string          `json:"model,omitempty"` // as the provider names it
	LatencyMS int64           `json:"latencyMs,omitempty"`
	Usage     *workflow.Usage `json:"usage,omitempty"`
}

// endpointTimeout is how long Examine waits for one endpoint.
const endpointTimeout = 5 * time.Second

// Examine checks that everything the configuration names exists: it reads the scripts, asks each endpoint for its list
// of models and connects to the collector, each for at most 5 s, opens each MCP server within its timeout, and looks
// for folders, programs and secrets. No model answers, no tool is called, and nothing is sent to the collector. dir is
// the folder of the configuration, as for Runtime. The checks are those of models, tools, MCP servers, secrets, and
// skills, instructions, telemetry and memory if they are configured, and the store; models, servers, secrets and skills
// in the order of names. A store that does not exist yet is not made, except for the tables in a postgres database. A
// nil c is an installation without a braise.yaml.
func (c *Config) Examine(ctx context.Context, dir string) []Check {
	if c == nil {
		c = &Config{}
	}
	names := slices.Sorted(maps.Keys(c.Models))
	checks := make([]Check, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() {
			checks[i] = c.Models[name].examine(ctx, name, dir)
			if checks[i].Status != CheckFail {
				checks[i].Message += c.Models[name].limits()
			}
			checks[i].Part, checks[i].Name = "model", name
		})
	}
	var collector, servers []Check
	all.Go(func() { servers = c.examineServers(ctx, dir) })
	if c.OTLP != nil {
		all.Go(func() { collector = []Check{examineCollector(ctx, c.OTLP)} })
	}
	all.Wait()
	checks = append(checks, c.examineTools(dir)...)
	checks = append(checks, servers...)
	secrets, _ := c.secretValues(dir) // it says what is wrong, too
	checks = append(checks, secrets.examine(ctx)...)
	checks = append(checks, c.examineSkills(ctx, dir)...)
	checks = append(checks, c.examineInstructions(dir)...)
	checks = append(checks, c.Search.examine(dir)...)
	checks = append(checks, collector...)
	if c.Memory {
		check := Check{Part: "memory", Status: CheckOK, Message: "on: conversations of agents are kept in the store"}
		if cmp.Or(c.Store, MemoryStore) == MemoryStore {
			check.Status, check.Message = CheckWarn, "on, but conversations are gone when the process ends"
			check.Hint = "another store keeps them"
		}
		checks = append(checks, check)
	}
	checks = append(checks, examineStore(ctx, cmp.Or(c.Store, MemoryStore), dir))
	return c.examineAbsent(checks)
}

// examineSkills reads all skills.
func (c *Config) examineSkills(ctx context.Context, dir string) []Check {
	if c.Skills == "" {
		return nil
	}
	folder := skills.Dir(within(dir, c.Skills))
	names, err := folder.Names()
	switch {
	case err != nil:
		return []Check{{Part: "skill", Status: CheckFail, Message: err.Error(), Hint: "agents with skills fail"}}
	case names == nil:
		return []Check{{Part: "skill", Status: CheckWarn,
			Message: "there is none in " + filepath.ToSlash(within(dir, c.Skills)),
			Hint:    "a skill is a folder with a " + skills.File}}
	}
	var checks []Check
	for _, name := range names {
		var check Check
		if loaded, err := folder.Load(ctx, []string{name}); err != nil {
			check = failed(err)
		} else {
			check = Check{Status: CheckOK, Message: loaded[0].Path}
		}
		check.Part, check.Name = "skill", name
		checks = append(checks, check)
	}
	return checks
}

// examineStore opens a store, if it exists.
func examineStore(ctx context.Context, url, dir string) Check {
	if url == MemoryStore {
		return Check{Part: "store", Status: CheckOK, Message: "memory: runs are not kept when the process ends"}
	}
	ctx, cancel := context.WithTimeout(ctx, endpointTimeout)
	defer cancel()
	scheme, path, _ := strings.Cut(url, ":")
	name := scheme
	if scheme == "sqlite" || scheme == "jsonl" {
		name += " " + filepath.ToSlash(within(dir, path))
	}
	store, err := FindStore(ctx, url, dir)
	const kept = "runs are kept here, with their inputs, prompts and answers; " +
		"braise runs prune --older-than 7d removes old ones"
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Check{Part: "store", Status: CheckOK, Message: name + ": does not exist yet, the first run makes it",
			Hint: kept}
	case err != nil:
		return Check{Part: "store", Status: CheckFail, Message: err.Error(),
			Hint: "no run can start or be resumed; --store names another one"}
	}
	defer store.Close()
	return Check{Part: "store", Status: CheckOK, Message: name + ": can be opened", Hint: kept}
}

// examine says how a model is.
func (m Model) examine(ctx context.Context, name, dir string) Check {
	if m.absent != "" {
		return absentCheck(m.absent)
	}
	if !m.hasEndpoint() {
		_, err := (&Config{Models: map[string]Model{name: m}}).Runtime(dir)
		if err != nil {
			return failed(err)
		}
		shown := filepath.ToSlash(within(dir, cmp.Or(m.written, m.File)))
		return Check{Status: CheckOK, Message: fmt.Sprintf("script: answers come from %q", shown)}
	}

	model, err := m.endpoint(endpointTimeout)
	if err != nil {
		return Check{Status: CheckFail, Message: err.Error()}
	}
	listed, err := model.Models(ctx)
	if err != nil {
		return unlisted(m.Provider, err)
	}
	wanted := model.Metadata().Model
	if len(listed) > 0 && !slices.Contains(listed, wanted) && !slices.Contains(listed, wanted+":latest") {
		hint := "it may know more models than it lists"
		if near := diagnostics.Suggest(wanted, listed); near != "" {
			hint = fmt.Sprintf("did you mean %q?", near)
		}
		return Check{Status: CheckWarn,
			Message: fmt.Sprintf("%s: the endpoint answers, but does not list the model %q", m.Provider, wanted),
			Hint:    hint}
	}
	return Check{Status: CheckOK,
		Message: fmt.Sprintf("%s: the endpoint answers and has the model %q", m.Provider, wanted)}
}

// failed is the check of what cannot be read.
func failed(err error) Check {
	message, hint, _ := strings.Cut(err.Error(), "\n  hint: ")
	if list, ok := errors.AsType[*diagnostics.Error](err); ok {
		d := list.List[0]
		message, hint = strings.TrimPrefix(fmt.Sprintf("%s: %s", d.Position, d.Message), "-: "), d.Hint
	}
	return Check{Status: CheckFail, Message: message, Hint: hint}
}

// ends is where base URLs end, by provider.
var ends = map[string]string{"openai": "before /chat/completions, often in /v1",
	"anthropic": "before /messages, often in /v1", "gemini": "before /models, often in /v1beta"}

// unlisted says what it means that an endpoint does not list its models.
func unlisted(provider string, err error) Check {
	f, ok := errors.AsType[*retry.Failure](err)
	if ok && (f.Status == http.StatusNotFound || f.Status == http.StatusMethodNotAllowed) {
		return Check{Status: CheckWarn, Message: provider + ": the endpoint answers, but has no list of models",
			Hint: "if calls fail too: base_url ends " + ends[provider]}
	}
	return failed(err)
}

// examineCollector says whether a connection to the collector can be made, or to the proxy on the way
// to it. The endpoint's path is not shown: it may hold a key.
func examineCollector(ctx context.Context, opts *oteltrace.OTLPOptions) Check {
	check := Check{Part: "telemetry", Status: CheckWarn, Message: "the endpoint cannot be used",
		Hint: "runs work, but their telemetry is lost"}
	endpoint, err := url.Parse(opts.Endpoint)
	if err != nil || endpoint.Hostname() == "" { // of a Config that was not read from a file
		return check
	}
	to, what := endpoint, "the collector at "+endpoint.Host
	if proxy, err := http.ProxyFromEnvironment(&http.Request{URL: endpoint}); err == nil && proxy != nil {
		to, what = proxy, fmt.Sprintf("the proxy %s on the way to %s", proxy.Host, what)
	}
	ctx, cancel := context.WithTimeout(ctx, endpointTimeout)
	defer cancel()
	port := cmp.Or(to.Port(), map[bool]string{true: "443", false: "80"}[to.Scheme == "https"])
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", net.JoinHostPort(to.Hostname(), port))
	if err != nil {
		check.Message = fmt.Sprintf("%s cannot be reached: %v", what, err)
		check.Hint += "; is it running, and is telemetry.otlp right?"
		return check
	}
	conn.Close()
	check.Status, check.Message = CheckOK, what+" can be reached"
	check.Hint = "spans and metrics of runs go there, without content"
	if opts.Content {
		check.Hint = "spans and metrics of runs go there, with what models and tools are given and what they answer"
	}
	return check
}

// examineTools says which built-in tools are on and what that means.
func (c *Config) examineTools(dir string) []Check {
	request := Check{Status: CheckOK, Message: "on, for public addresses",
		Hint: "tools.http.allow_private would let steps reach this machine and its network"}
	if c.Tools.HTTP != nil && c.Tools.HTTP.AllowPrivate {
		request.Message, request.Hint = "on, for private addresses too", "steps can reach this machine and its network"
	}
	run := Check{Status: CheckOK, Message: "off: every program is refused",
		Hint: "tools.exec.allow would let steps start the programs that it lists"}
	if e := c.Tools.Exec; e != nil {
		run = Check{Status: CheckOK, Message: "on, for " + cmp.Or(strings.Join(e.Allow, ", "), "no program"),
			Hint: "steps can do what these programs can; a shell or an interpreter can do everything"}
		var missing []string
		for _, name := range e.Allow {
			if _, err := exec.LookPath(program(within(dir, e.Dir), name)); err != nil {
				missing = append(missing, name)
			}
		}
		if missing != nil {
			run.Status, run.Message = CheckWarn, "on, but not found: "+strings.Join(missing, ", ")
			run.Hint = "steps that start them fail"
		}
		if e.Dir != "" {
			if info, err := os.Stat(within(dir, e.Dir)); err != nil || !info.IsDir() {
				run.Status, run.Message = CheckFail, "on, but tools.exec.dir is not a folder"
				run.Hint = "no program can start before it exists"
			}
		}
	}
	file := Check{Status: CheckOK, Message: "off: every path is refused",
		Hint: "tools.file.base would let steps read and write files below it"}
	if f := c.Tools.File; f != nil {
		file.Message, file.Hint = "on, below tools.file.base", "steps can read and write files there"
		switch info, err := os.Stat(within(dir, f.Base)); {
		case errors.Is(err, fs.ErrNotExist):
			file.Status, file.Message = CheckWarn, "on, but tools.file.base does not exist yet"
			file.Hint = "the first file.write makes it"
		case err != nil || !info.IsDir():
			file.Status, file.Message = CheckFail, "on, but tools.file.base is not a folder"
			file.Hint = "no file can be read or written until it is one"
		}
	}
	checks := []Check{request, run, file, file}
	for i, name := range []string{"http.request", "exec.run", "file.read", "file.write"} {
		checks[i].Part, checks[i].Name = "tool", name
	}
	return checks
}
