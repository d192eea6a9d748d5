package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/braise-run/braise/adapters/mcp"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/trace/oteltrace"
	"github.com/braise-run/braise/workflow"
)

// Options say which installation to open, and what is different from its configuration. A nil *Options is the zero
// Options.
type Options struct {
	// Config is the path of the configuration. "": the braise.yaml beside Recipe, else that in the working folder, else
	// none, which allows no models and of the built-in tools only http.request.
	Config string
	// Recipe is the path of the recipe beside which a configuration is looked for; nothing else is done with it. "":
	// none.
	Recipe string
	// Store is the URL of the store, see OpenStore, its path relative to the working folder. "": that of the
	// configuration, else DefaultStore.
	Store string
	// Look opens the store only if it exists: a missing one counts as empty, and is not made.
	Look bool
	// Dry is Look for a program that keeps no runs: that there is no store is no news then.
	Dry bool
	// StoreOnly is for programs that only look into the store: the configuration is read only if it may say where the
	// store is, and of its models only the names. Nothing can be run.
	StoreOnly bool
	// Models answer instead of those of the configuration, each given as NAME=script:FILE, the file relative to the
	// working folder.
	Models []string
	// Replay reads of the configuration's models only the names: for runs that answer from a cassette, see the function
	// Replay.
	Replay bool
	// Strict makes diagnostics about a recipe, and about what it needs, stop its runs before the first step.
	Strict bool
	// MaxParallel limits the calls at once of a run, if lower than what the configuration says. 0: it does not.
	MaxParallel int
	// By is who runs recipes and answers, for the record. "": the user of this process and its machine, ada@laptop.
	By string
	// Trust says whether a configuration is used that is beside Recipe, but outside of the working folder: it allows
	// programs, and may be a stranger's. nil: it is not, with a warning.
	Trust func(path string) bool
	// NewRunID makes the ids of runs. nil: UUIDv7.
	NewRunID func() string
	// Reporter takes the warnings of runs. nil: as in a runtime.Runtime.
	Reporter runtime.Reporter
	// Drain, once it is closed, makes all runs give way, see runtime.Runtime. nil: they do not.
	Drain <-chan struct{}
	// Guard is a [builtin.ExecOptions.Guard], for the programs of exec.run and of MCP servers.
	Guard []string
	// Warn takes what is to be said of the installation though nothing fails of it. It may be called at any time, until
	// Close returns. nil: slog.Default.
	Warn func(message string)
	// Version is that of the program, for telemetry. "": none.
	Version string
}

// Host is an open installation. The store, MCP servers and telemetry are opened when something needs them first, then
// shared by all that runs, until Close. It is safe for concurrent use.
type Host struct {
	opts   Options
	config *Config // nil: none
	path   string  // of the configuration; "": none
	dir    string  // of the configuration
	base   *runtime.Runtime
	kept   *kept // from file.write; shared with the children

	mu       sync.Mutex // guards what follows
	closed   bool
	store    checkpoint.Store
	exporter *oteltrace.Exporter
	servers  map[string]*server
	children map[string]*Host // for runs with a configuration of their own
}

// server is an MCP server; open waits only for callers that need the same one.
type server struct {
	mu     sync.Mutex
	opened *mcp.Server // nil: not yet
}

// openTime is how long a store may take to open.
const openTime = 30 * time.Second

// Open reads the configuration of an installation, and the scripts that models answer from. What else it names is
// opened when it is needed. The error is a *diagnostics.Error, or says which file or option is at fault.
func Open(ctx context.Context, opts *Options) (*Host, error) {
	return open(ctx, opts, "", new(kept))
}

// open is Open. What the configuration starts has a folder as its working folder; "": that of the process. What the
// host keeps is added to k.
func open(ctx context.Context, opts *Options, folder string, k *kept) (*Host, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	h := &Host{base: &runtime.Runtime{}, kept: k, servers: map[string]*server{}}
	if opts != nil {
		h.opts = *opts
	}
	if h.opts.StoreOnly && h.opts.Store != "" {
		return h, nil
	}
	var err error
	if h.path = h.opts.Config; h.path == "" {
		if h.path, err = h.opts.find(h.warn); err != nil {
			return nil, err
		}
	}
	if h.path != "" {
		if h.config, err = loadConfig(h.path, h.opts.Replay || h.opts.StoreOnly); err != nil {
			return nil, err
		}
	}
	h.config.guard(h.opts.Guard)
	if why := h.config.why("telemetry"); why != "" && !h.opts.StoreOnly {
		h.warn("nothing is sent, as telemetry is not configured: " + why)
	}
	h.config.startIn(folder)
	h.config.keep(h.kept, h.path)
	h.config.keepFrom(h.keptFrom)
	h.dir = filepath.Dir(h.path)
	if h.base, err = h.config.Runtime(h.dir); err != nil {
		return nil, err
	}
	for _, spec := range h.opts.Models {
		if err := overrideModel(h.base, spec); err != nil {
			return nil, err
		}
	}
	h.base.Reporter, h.base.NewRunID, h.base.Drain = h.opts.Reporter, h.opts.NewRunID, h.opts.Drain
	h.base.By = cmp.Or(h.opts.By, who())
	if h.config != nil {
		h.base.Origin = newOrigin(h.path, h.config.sum, folder)
	} else {
		h.base.Origin = newOrigin("", "", folder)
	}
	if h.opts.Strict {
		h.base.Diagnostics = diagnostics.Strict
	}
	if n, most := h.opts.MaxParallel, h.base.Limits.MaxParallel; n > 0 && (most == 0 || n < most) {
		h.base.Limits.MaxParallel = n
	}
	return h, nil
}

// ConfigPath returns the path of the configuration; "" when there is none, or it was not needed.
func (h *Host) ConfigPath() string { return h.path }

// StoreURL returns the URL of the store, and the folder at which its relative paths start; "" is the working folder.
func (h *Host) StoreURL() (url, dir string, err error) {
	switch {
	case h.opts.Store != "":
		return h.opts.Store, "", nil
	case h.config.why("store") != "":
		return "", "", notConfigured(diagnostics.CodeMissingCapability, "the store", h.config.why("store"))
	case h.config != nil && h.config.Store != "":
		return h.config.Store, h.dir, nil
	}
	url, err = DefaultStore()
	return url, "", err
}

// Store returns the store of the installation. Opening it takes at most 30 s; after an error the next call tries again.
func (h *Host) Store(ctx context.Context) (checkpoint.Store, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, checkpoint.ErrClosed
	}
	if h.store != nil {
		return h.store, nil
	}
	url, dir, err := h.StoreURL()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	open := OpenStore
	looks := h.opts.Look || h.opts.Dry
	if looks {
		open = FindStore
	}
	store, err := open(ctx, url, dir)
	if looks && errors.Is(err, fs.ErrNotExist) {
		if !h.opts.Dry {
			h.warn("there is no store yet: " + url)
		}
		store, err = &checkpoint.Memory{}, nil
	}
	if err != nil {
		return nil, err
	}
	h.store = store
	h.keepStore(url, dir)
	return store, nil
}

func (h *Host) warn(message string) {
	if h.opts.Warn == nil {
		slog.Warn(message)
		return
	}
	h.opts.Warn(message)
}

// Bare returns a new Runtime of the configuration and the options, without store, MCP servers and telemetry: to look
// at, or for tests of recipes.
func (h *Host) Bare() *runtime.Runtime {
	rt := *h.base
	rt.Models = maps.Clone(rt.Models)
	_ = h.config.UseStore(&rt, nil) // only a store can be at fault
	return &rt
}

// Look loads and compiles a recipe to look at it, and returns the Runtime that it was checked against. No MCP server is
// opened: their tools are taken for granted. A recipe with errors is compiled too, so that all of them are found in one
// go; then the error is a *diagnostics.Error, or says that the folder cannot be opened. A nil h is an unknown
// installation.
func (h *Host) Look(path string) (*workflow.Workflow, *runtime.Runtime, error) {
	r, err := h.Recipe(path)
	if r == nil {
		return nil, nil, err
	}
	var opts workflow.Options
	var rt *runtime.Runtime
	if h != nil {
		rt = h.Assume(r)
		opts.Tools = rt.ToolSpecs()
	}
	wf, err := workflow.Compile(r, &opts)
	return wf, rt, err
}

// Recipe is [LoadRecipe] for a recipe that may also name those in the roots of the configuration. A nil h has none.
func (h *Host) Recipe(path string) (*recipe.Recipe, error) {
	if h == nil {
		return LoadRecipe(path)
	}
	return h.keepRecipe(h.config.loadRecipe(path, h.dir))
}

// Assume returns a Runtime to check a recipe against, with a store that is empty. No MCP server is opened: their tools
// are taken for granted.
func (h *Host) Assume(r *recipe.Recipe) *runtime.Runtime {
	rt := h.Bare()
	rt.Store, rt.Resume = &checkpoint.Memory{}, resume.PassThrough{} // runs have them
	h.config.Assume(r, rt)
	return rt
}

// Load loads and compiles a recipe to run it, and opens the MCP servers that it needs. The error is a
// *diagnostics.Error that has everything that is wrong with the recipe, or says that its folder cannot be opened. The
// tools of a server that cannot be opened count as missing.
func (h *Host) Load(ctx context.Context, path string) (*workflow.Workflow, error) {
	r, err := h.Recipe(path)
	if err != nil {
		if r != nil {
			_, err = workflow.Compile(r, nil) // finds the rest
		}
		return nil, err
	}
	rt := h.Bare()
	h.connect(ctx, r, rt)
	return workflow.Compile(r, &workflow.Options{Tools: rt.ToolSpecs()})
}

// Runtime returns a new Runtime to run a workflow with, and opens everything that it needs: the store, the MCP servers
// of its tools, telemetry. The tools of a server that cannot be opened have [runtime.ToolSpec.Missing] set. A nil wf is
// any: all servers are opened, and one that cannot be is a *runtime.Error with the code tool.missing. Otherwise the
// error says that the store, or where telemetry goes, is at fault. The caller may change the fields of the struct, and
// the entries of Models.
func (h *Host) Runtime(ctx context.Context, wf *workflow.Workflow) (*runtime.Runtime, error) {
	rt := h.Bare()
	if wf != nil {
		h.connect(ctx, wf.Recipe(), rt)
	} else if err := h.Connect(ctx, nil, rt); err != nil {
		return nil, err
	}
	return rt, h.equip(ctx, rt)
}

// RuntimeOf is Runtime for a run of the store: for the workflow of opts if that has one, else for the recipe that the
// store has. Unless opts say Complete, which leaves a run as it is that lacks something, a server that cannot be opened
// is an error. For a run that the store does not have, or cannot read, no server is opened; resuming it says what
// is wrong. A host without a configuration takes that of the run's beginning, if it has not changed and is of this
// machine and user; otherwise the error is a *runtime.Error with the code config.elsewhere.
func (h *Host) RuntimeOf(ctx context.Context, runID string, opts *workflow.ResumeOptions) (*runtime.Runtime, error) {
	if opts != nil && opts.Workflow != nil {
		return h.Runtime(ctx, opts.Workflow)
	}
	store, err := h.Store(ctx)
	if err != nil {
		return nil, err
	}
	if h, err = h.of(ctx, store, runID); err != nil {
		return nil, err
	}
	rt := h.Bare()
	if r := storedRecipe(ctx, store, runID); r != nil {
		if opts != nil && opts.Complete {
			h.connect(ctx, r, rt)
		} else if err := h.Connect(ctx, r, rt); err != nil {
			return nil, err
		}
	}
	return rt, h.equip(ctx, rt)
}

// equip gives rt the store and telemetry, and takes what comes in for a pause as its answer.
func (h *Host) equip(ctx context.Context, rt *runtime.Runtime) error {
	if err := h.keep(ctx, rt); err != nil {
		return err
	}
	rt.Resume = resume.PassThrough{}
	return h.report(rt)
}

// keep gives rt the store.
func (h *Host) keep(ctx context.Context, rt *runtime.Runtime) error {
	store, err := h.Store(ctx)
	if err != nil {
		return err
	}
	return h.config.UseStore(rt, store)
}

// report gives rt telemetry.
func (h *Host) report(rt *runtime.Runtime) (err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return checkpoint.ErrClosed
	case h.exporter == nil:
		if h.exporter, err = h.config.Telemetry(h.opts.Version); err != nil {
			return err
		}
	}
	if h.exporter != nil {
		rt.Trace = append(slices.Clip(rt.Trace), h.exporter)
	}
	return nil
}

// Connect opens the MCP servers that a recipe needs, as [Config.Connect] does, and adds their tools to rt. They stay
// open until Close, for others too. The error, a *runtime.Error with the code tool.missing, says which servers could
// not be opened; the tools of the others are added.
func (h *Host) Connect(ctx context.Context, r *recipe.Recipe, rt *runtime.Runtime) error {
	if h.config == nil || len(h.config.MCP) == 0 {
		return nil
	}
	_, errs := h.openFor(ctx, r, rt)
	if err := errors.Join(errs...); err != nil {
		return &runtime.Error{Category: runtime.CategoryConfig, Code: "tool.missing", Err: err}
	}
	return nil
}

// connect is Connect for runs: a server that cannot be opened fails what needs it, and nothing else.
func (h *Host) connect(ctx context.Context, r *recipe.Recipe, rt *runtime.Runtime) {
	if h.config == nil || len(h.config.MCP) == 0 {
		return
	}
	names, errs := h.openFor(ctx, r, rt)
	for i, err := range errs {
		if err != nil {
			rt.Tools = slices.Concat(rt.Tools, absent(names[i], err, r))
		}
	}
}

// openFor opens the servers that a recipe needs, all at once, and adds their tools to rt. There is an error, or nil,
// for each of them.
func (h *Host) openFor(ctx context.Context, r *recipe.Recipe, rt *runtime.Runtime) (names []string, errs []error) {
	names = h.config.serversFor(r)
	servers := make([]*mcp.Server, len(names))
	errs = make([]error, len(names))
	var opening sync.WaitGroup
	for i, name := range names {
		opening.Go(func() { servers[i], errs[i] = h.server(ctx, name) })
	}
	opening.Wait()
	for _, s := range servers {
		if s != nil {
			rt.Tools = slices.Concat(rt.Tools, s.Tools())
		}
	}
	return names, errs
}

// server returns a server, and opens it if it is not open yet.
func (h *Host) server(ctx context.Context, name string) (*mcp.Server, error) {
	h.mu.Lock()
	s := h.servers[name]
	if s == nil {
		s = new(server)
		h.servers[name] = s
	}
	h.mu.Unlock()

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opened != nil {
		_ = s.opened.Update(ctx) // without it the tools are those that were listed before
		return s.opened, nil
	}
	opened, err := h.config.openServer(ctx, name, h.dir)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		opened.Close()
		return nil, fmt.Errorf("mcp server %q: the host is closed", name)
	}
	s.opened = opened
	return opened, nil
}

// maxWarning is how many characters of what a collector says are told.
const maxWarning = 500
