package host

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/braise-run/braise/adapters/builtin"
	"github.com/braise-run/braise/adapters/mcp"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/programs"
	"github.com/braise-run/braise/internal/regular"
	"github.com/braise-run/braise/internal/yamlnode"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace/oteltrace"
)

// FileName is the name of the configuration file that [FindConfig] looks for.
const FileName = "braise.yaml"

// Config is a braise.yaml as read, its variables replaced, without the line ends behind their values. What needs one
// that is not set, or empty where a value is needed, is absent: recipes that do without it work, and runs that need it
// say why it is missing. The zero value, and nil, is an installation without one: no models, no secrets, of the
// built-in tools only http.request. Paths are as written; relative ones start at the folder of the configuration.
type Config struct {
	Models   map[string]Model         // by the name that recipes use
	Prices   map[string]runtime.Price // of models, by the name that recipes use; nil: none
	Tools    builtin.Options          // folders as written; Runtime resolves them
	MCP      map[string]mcp.Config    // servers of tools, by name; folders as written, Connect resolves them. nil: none
	Approval map[string]string        // what calls of agents need, see runtime.Runtime. nil: nothing
	Deny     []string                 // what agents may not call, likewise. nil: nothing
	Secrets  []string                 // names of environment variables that recipes may use as secrets, beside files
	Limits   runtime.Limits
	Budget   runtime.Budget
	OTLP     *oteltrace.OTLPOptions // nil: no telemetry
	Search   Search                 // what retrieve and index steps name
	Index    string                 // folder of documents that retrieve steps look in, as written. "": none
	Skills   string                 // folder of the skills of agents, as written. "": none
	Memory   bool                   // conversations of agents are kept in the store of the runs
	Store    string                 // URL of where runs are kept, see OpenStore, as written. "": it says nothing
	Engine   string                 // URL of where runs are executed instead of in this process. "": it says nothing
	Serve    *Serve                 // what braise serve does. nil: it says nothing
	Roots    []string               // folders with recipes that others name, in order, as written. nil: none
	Running

	source
}

// source is where a Config comes from.
type source struct {
	env    lookup            // for the secrets; nil: os.LookupEnv
	sum    string            // SHA-256 of the file, in hex
	absent map[string]string // why parts are absent, see part; models apart

	sources      secretSources
	instructions []written // InstructionsFrom in the file; nil: there is none
}

// LoadConfig reads the file at path, with the variables of the process's environment. The error is
// a *diagnostics.Error.
func LoadConfig(path string) (*Config, error) { return loadConfig(path, false) }

// loadConfig is LoadConfig. With names, of the models only the names are read, so that keys and scripts need not
// exist.
func loadConfig(path string, names bool) (*Config, error) {
	data, err := regular.ReadFile(path)
	if err != nil {
		return nil, unreadable(diagnostics.Position{File: filepath.ToSlash(path)}, "configuration", path, err).Err()
	}
	c, err := parseConfig(filepath.ToSlash(path), data, os.LookupEnv, names)
	if err != nil {
		return nil, err
	}
	c.sum = fmt.Sprintf("%x", sha256.Sum256(data))
	return c, nil
}

// ParseConfig reads a configuration. filename is for messages only. env finds the environment
// variables that ${NAME} stands for, as os.LookupEnv does; nil: none is set. The error is a
// *diagnostics.Error that holds everything that is wrong, sorted by position; it quotes the file
// as written, never what a variable holds.
func ParseConfig(filename string, data []byte, env func(name string) (string, bool)) (*Config, error) {
	return parseConfig(filename, data, env, false)
}

func parseConfig(filename string, data []byte, env lookup, replay bool) (*Config, error) {
	if env == nil {
		env = func(string) (string, bool) { return "", false }
	}
	root, found := yamlnode.Parse(filename, data, nil)
	r := reader{Reader: yamlnode.Reader{Diagnostics: found}, env: trimmed(env), replay: replay,
		absent: map[string]string{}, sources: secretSources{at: map[string]diagnostics.Position{}}}
	c := r.config(root)
	c.env, c.absent, c.sources = r.env, r.absent, r.sources
	r.Diagnostics.Sort()
	if err := r.Diagnostics.Err(); err != nil {
		return nil, err
	}
	return c, nil
}

// reader reads the parts of a configuration. Like those of yamlnode.Reader, its methods take nil
// for a missing key.
type reader struct {
	yamlnode.Reader
	env    lookup
	replay bool              // models are names only
	part   string            // what is being read; "": what all runs need
	absent map[string]string // why parts are absent

	sources secretSources
}

// part reads a part of the configuration that is absent, and zero, if it needs a variable that is not set; the other
// parts work without it.
func part[T any](r *reader, name string, get func() T) (got T) {
	r.part = name
	read := get()
	if r.part = ""; r.absent[name] != "" {
		return got
	}
	return read
}

// why says why a part of the configuration is absent, with a hint on a second line; "" if it is not, and of nil.
func (c *Config) why(part string) string {
	if c == nil {
		return ""
	}
	return c.absent[part]
}

var keys = []string{"models", "prices", "tools", "mcp", "approval", "deny", "secrets", "limits", "memory", "retriever",
	"retrievers", "embedders", "rerankers", "skills", "store", "engine", "telemetry", "serve", "recipes",
	"agents", "retry", "interrupt", "strict", "instructions_from", "notify"}

func (r *reader) config(n *yamlnode.Node) *Config {
	fields := r.Object(n, keys, nil)
	c := &Config{
		Models:  r.models(fields["models"]),
		Prices:  r.prices(fields["prices"]),
		MCP:     r.mcp(fields["mcp"]),
		Secrets: r.secrets(fields["secrets"]),
		OTLP:    part(r, "telemetry", func() *oteltrace.OTLPOptions { return r.telemetry(fields["telemetry"]) }),
		Index:   part(r, "retriever", func() string { return r.retriever(fields["retriever"]) }),
		Search:  r.search(fields),
		Skills:  part(r, "skills", func() string { return r.text(fields["skills"]) }),
		Memory:  r.memory(fields["memory"]),
		Store:   part(r, "store", func() string { return read(r, fields["store"], readStore) }),
		Engine:  part(r, "engine", func() string { return read(r, fields["engine"], readEngine) }),
		Serve:   part(r, "serve", func() *Serve { return r.serve(fields["serve"]) }),
		Running: r.running(fields),
	}
	c.Roots = r.texts(r.Object(fields["recipes"], []string{"roots"}, nil)["roots"])
	c.instructions = r.instructionsFrom(fields["instructions_from"], c)
	c.Limits, c.Budget = r.limits(fields["limits"])
	approval, deny := r.agents(fields["agents"], c)
	c.Tools, c.Agents.PlainPrograms = r.tools(fields["tools"])
	approval, deny = r.either(fields["approval"], approval), r.either(fields["deny"], deny)
	c.Approval, c.Deny = r.approvals(approval), r.texts(deny)
	r.checkNames(c, approval, deny)
	return c
}

// tools reads what the tools may do, and the programs of exec.run that are plain.
func (r *reader) tools(n *yamlnode.Node) (tools builtin.Options, plain []string) {
	fields := r.Object(n, []string{"exec", "file", "http"}, nil)
	exec := part(r, "exec", func() execPart { return r.exec(fields["exec"]) })
	return builtin.Options{
		Exec: exec.options,
		File: part(r, "file", func() *builtin.FileOptions { return r.file(fields["file"]) }),
		HTTP: part(r, "http", func() *builtin.HTTPOptions { return r.http(fields["http"]) }),
	}, exec.plain
}

// execPart is the part tools.exec of a configuration. The zero value lets no program run.
type execPart struct {
	options *builtin.ExecOptions
	plain   []string // see runtime.AgentLimits.PlainPrograms
}

func (r *reader) exec(n *yamlnode.Node) execPart {
	fields := r.Object(n, []string{"allow", "timeout", "dir", "env", "plain"}, nil)
	if fields == nil {
		return execPart{}
	}
	r.Require(n, fields, "allow")
	return execPart{&builtin.ExecOptions{
		Allow:   r.texts(fields["allow"]),
		Timeout: read(r, fields["timeout"], readDuration),
		Dir:     r.text(fields["dir"]),
		Env:     r.names(fields["env"]),
	}, r.plain(fields["plain"])}
}

// plain reads the programs that a yes for the run covers whatever their arguments are.
func (r *reader) plain(n *yamlnode.Node) []string {
	names := r.texts(n)
	for i, name := range names {
		switch {
		case !programs.IsName(name):
			r.Errorf(n.Items[i].Pos, diagnostics.CodeInvalidValue, "name one program, without a folder and arguments",
				"%q is not the name of a program", name)
		case programs.RunsOthers(name):
			r.Errorf(n.Items[i].Pos, diagnostics.CodeInvalidValue, "",
				"%q runs other programs: a yes to one call is never one to all", name)
		}
	}
	return names
}

func (r *reader) file(n *yamlnode.Node) *builtin.FileOptions {
	fields := r.Object(n, []string{"base"}, nil)
	if fields == nil {
		return nil
	}
	r.Require(n, fields, "base")
	return &builtin.FileOptions{Base: r.text(fields["base"])}
}

func (r *reader) http(n *yamlnode.Node) *builtin.HTTPOptions {
	fields := r.Object(n, []string{"allow_private", "timeout"}, nil)
	if fields == nil {
		return nil
	}
	return &builtin.HTTPOptions{
		AllowPrivate: r.Bool(fields["allow_private"]),
		Timeout:      read(r, fields["timeout"], readDuration),
	}
}

// names reads a list of names of variables; nil where there is none.
func (r *reader) names(n *yamlnode.Node) []string {
	if n == nil {
		return nil
	}
	names := []string{}
	for _, item := range r.List(n) {
		names = append(names, read(r, item, func(r *yamlnode.Reader, n *yamlnode.Node) string {
			name := r.Text(n)
			if name != "" && !envName.MatchString(name) {
				r.Errorf(n.Pos, diagnostics.CodeInvalidValue, "", "%q does not name an environment variable", name)
			}
			return name
		}))
	}
	return names
}

func (r *reader) limits(n *yamlnode.Node) (runtime.Limits, runtime.Budget) {
	fields := r.Object(n, []string{"max_parallel", "grace", "tokens", "cost_usd", "cost_usd_per_day",
		"per_label", "tool_calls", "wall_time", "on_exceeded", "max_plan_steps", "max_items", "max_output_bytes",
		"max_run_bytes"}, nil)
	limits := runtime.Limits{
		MaxParallel: r.Int(fields["max_parallel"], 1, math.MaxInt32),
		Grace:       read(r, fields["grace"], readDuration),

		MaxSteps:       r.Int(fields["max_plan_steps"], 1, runtime.DefaultMaxSteps),
		MaxItems:       r.Int(fields["max_items"], 1, runtime.DefaultMaxItems),
		MaxOutputBytes: r.Int(fields["max_output_bytes"], 1, runtime.DefaultMaxOutputBytes),
		MaxRunBytes:    r.Int(fields["max_run_bytes"], 1, runtime.DefaultMaxRunBytes),
	}
	budget := runtime.Budget{
		Tokens:  r.Int(fields["tokens"], 1, math.MaxInt32),
		CostUSD: r.Amount(fields["cost_usd"]),

		CostUSDPerDay: r.Amount(fields["cost_usd_per_day"]),
		PerLabel:      r.perLabel(fields["per_label"]),

		ToolCalls: r.Int(fields["tool_calls"], 1, math.MaxInt32),
		WallTime:  read(r, fields["wall_time"], readDuration),
	}
	if on := fields["on_exceeded"]; on != nil {
		budget.Pause = read(r, on, func(r *yamlnode.Reader, n *yamlnode.Node) string {
			return r.OneOf(n, "fail", "pause")
		}) == "pause"
		of := []string{"tokens", "cost_usd", "cost_usd_per_day", "per_label", "tool_calls", "wall_time"}
		if !slices.ContainsFunc(of, func(key string) bool { return fields[key] != nil }) {
			r.Errorf(on.Pos, diagnostics.CodeInvalidValue, "give one of "+strings.Join(of, ", ")+", or leave it out",
				"%q means nothing without a limit", on.Key)
		}
	}
	return limits, budget
}

// perLabel reads what the runs with each value of a label may cost on a day.
func (r *reader) perLabel(n *yamlnode.Node) map[string]float64 {
	var limits map[string]float64
	for _, f := range r.Map(n) {
		if len(f.Key) > 64 {
			r.Errorf(f.Pos, diagnostics.CodeInvalidValue, "",
				"the key of a label has 64 bytes at most, and this one %d", len(f.Key))
			continue
		}
		if limits == nil {
			limits = map[string]float64{}
		}
		limits[f.Key] = r.Amount(f.Value)
	}
	return limits
}

func (r *reader) retriever(n *yamlnode.Node) string {
	fields := r.Object(n, []string{"index"}, nil)
	if fields != nil {
		r.Require(n, fields, "index")
	}
	return r.text(fields["index"])
}

func (r *reader) memory(n *yamlnode.Node) bool {
	fields := r.Object(n, []string{"store"}, nil)
	if fields != nil {
		r.Require(n, fields, "store")
	}
	return r.Bool(fields["store"])
}

func (r *reader) text(n *yamlnode.Node) string { return read(r, n, (*yamlnode.Reader).Text) }

func (r *reader) texts(n *yamlnode.Node) []string {
	var texts []string
	for _, item := range r.List(n) {
		texts = append(texts, r.text(item))
	}
	return texts
}

// read reads n with get, its variables replaced. Diagnostics are those that get has about n as
// written: what variables hold may be secret.
func read[T any](r *reader, n *yamlnode.Node, get func(*yamlnode.Reader, *yamlnode.Node) T) (got T) {
	if n == nil || n.Kind != yamlnode.String || !strings.Contains(n.Value.(string), "${") {
		return get(&r.Reader, n)
	}
	text, err := expand(n.Value.(string), r.env)
	if err != nil {
		r.fault(n, err, `"$${" stands for "${" itself`)
		return got
	}
	replaced := *n
	replaced.Value = text
	var quiet yamlnode.Reader
	if got = get(&quiet, &replaced); quiet.Diagnostics.HasErrors() {
		if f, ok := unfit(n.Value.(string), r.env, ifEmpty); ok {
			r.fault(n, f, f.hint)
			return got
		}
		before := len(r.Diagnostics)
		if get(&r.Reader, n); len(r.Diagnostics) == before {
			r.Errorf(n.Pos, diagnostics.CodeInvalidValue, "",
				"%q does not fit here once its variables are replaced", n.Value)
		}
	}
	return got
}

// fault reports why variables in n cannot be replaced. A part that needs a variable with a fault is absent.
func (r *reader) fault(n *yamlnode.Node, err error, hint string) {
	if f, ok := err.(faulty); ok && r.part != "" {
		r.absent[r.part] = cmp.Or(r.absent[r.part], f.at(n.Pos))
		return
	}
	r.Errorf(n.Pos, diagnostics.CodeInvalidValue, hint, "%v", err)
}

// sendable reports whether the variables in n, which goes into a header, hold what can go there.
func (r *reader) sendable(n *yamlnode.Node) bool {
	if n == nil || n.Kind != yamlnode.String {
		return true // others report it
	}
	f, found := unfit(n.Value.(string), r.env, ifNoHeader)
	if found {
		r.fault(n, f, f.hint)
	}
	return !found
}

func readDuration(r *yamlnode.Reader, n *yamlnode.Node) time.Duration {
	before := len(r.Diagnostics)
	d := r.Duration(n)
	if n != nil && d == 0 && len(r.Diagnostics) == before && n.Kind == yamlnode.String {
		r.Errorf(n.Pos, diagnostics.CodeInvalidValue, "", "%q must be more than 0", n.Key)
	}
	return d
}

func readStore(r *yamlnode.Reader, n *yamlnode.Node) string {
	url := r.Text(n)
	if url != "" {
		if _, message, hint := splitStore(url); message != "" {
			r.Errorf(n.Pos, diagnostics.CodeInvalidValue, hint, "%s", message)
		}
	}
	return url
}

// unreadable is the diagnostic about a file that cannot be read; name is what to call it.
func unreadable(pos diagnostics.Position, what, name string, err error) diagnostics.List {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathErr.Err // without the path: a variable may be in it
	}
	return diagnostics.List{{
		Level: diagnostics.ErrorLevel, Kind: diagnostics.KindRecipe, Code: diagnostics.CodeFile,
		Message: fmt.Sprintf("the %s %q cannot be read: %v", what, name, err), Position: pos,
	}}
}
