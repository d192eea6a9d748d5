// Package host represents an installation: the configuration in its braise.yaml (docs/config.md), its store, MCP
// servers and telemetry. [Open] opens it for programs that run recipes, such as the command; [Config] is only the file.
package host

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/braise-run/braise/adapters/builtin"
	"github.com/braise-run/braise/adapters/limit"
	"github.com/braise-run/braise/adapters/memory"
	"github.com/braise-run/braise/adapters/retriever"
	"github.com/braise-run/braise/adapters/script"
	"github.com/braise-run/braise/adapters/skills"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/regular"
	"github.com/braise-run/braise/runtime"
)

// Runtime makes a new Runtime of the configuration: its models with their prices, the built-in tools, the retriever,
// skills, secrets and limits; what has to do with a store, UseStore adds. Relative paths start at dir, the folder of
// the configuration file; "" is the working folder. It reads the scripts that models answer from, and the names of the
// files that are secrets; the error is a *diagnostics.Error that holds what is wrong with them. A nil c is an
// installation without a braise.yaml.
func (c *Config) Runtime(dir string) (*runtime.Runtime, error) {
	if c == nil {
		c = &Config{}
	}
	rt := &runtime.Runtime{Models: map[string]runtime.Model{}, Prices: c.Prices, Limits: c.Limits, Budget: c.Budget,
		Approval: c.Approval, Deny: c.Deny, Agents: c.Agents,
		RetryDefaults: c.Retry, Fallbacks: c.Fallbacks(), Interrupt: c.Interrupt}
	if c.Strict {
		rt.Diagnostics = diagnostics.Strict
	}
	if err := c.addModels(rt, dir); err != nil {
		return nil, err
	}
	env, found := c.loadInstructions(dir)
	if err := found.Err(); err != nil {
		return nil, err
	}
	rt.Env = env

	tools := c.Tools
	if tools.Exec != nil {
		exec := *tools.Exec
		exec.Dir = within(dir, exec.Dir)
		tools.Exec = &exec
	}
	if tools.File != nil {
		file := *tools.File
		file.Base = within(dir, file.Base)
		if folder := c.secretFolder(dir); folder != "" {
			file.Hide = append(slices.Clone(file.Hide), folder)
		}
		tools.File = &file
	}
	rt.Tools = builtin.Tools(tools)
	for i, t := range rt.Tools {
		spec := t.Spec()
		group, _, _ := strings.Cut(spec.Name, ".")
		if spec.Missing = c.absent[group]; spec.Missing != "" {
			rt.Tools[i] = missing(spec)
		}
	}
	switch why := c.absent["retriever"]; {
	case why != "":
		rt.Retriever = absentPort(why)
	case c.Index != "":
		rt.Retriever = retriever.New(within(dir, c.Index), retriever.Options{})
	}
	searchers, err := c.Search.searchers(dir)
	if err != nil {
		return nil, err
	}
	if rt.Rerankers, err = c.Search.rerankers(); err != nil {
		return nil, err
	}
	if rt.Searchers = searchers; tools.File != nil && c.absent["file"] == "" {
		rt.Files = builtin.Files(*tools.File)
	}
	switch why := c.absent["skills"]; {
	case why != "":
		rt.Skills = absentPort(why)
	case c.Skills != "":
		rt.Skills = skills.Dir(within(dir, c.Skills))
	}
	if len(c.Secrets) > 0 || c.sources.files != "" {
		secrets, found := c.secretValues(dir)
		if err := found.Err(); err != nil {
			return nil, err
		}
		rt.Secrets = secrets
	}
	return rt, nil
}

// addModels adds the models of the configuration to a Runtime.
func (c *Config) addModels(rt *runtime.Runtime, dir string) error {
	var found diagnostics.List
	for _, name := range slices.Sorted(maps.Keys(c.Models)) {
		switch m := c.Models[name]; {
		case m.absent != "":
			rt.Models[name] = absentModel(m.absent)
		case m.Provider == "script":
			shown := within(dir, cmp.Or(m.written, m.File))
			model, problems := loadScript(within(dir, m.File), filepath.ToSlash(shown), m.pos)
			found = append(found, problems...)
			rt.Models[name] = model
		case m.hasEndpoint():
			model, err := m.endpoint(0)
			if err != nil {
				return fmt.Errorf("model %q: %w", name, err)
			}
			rt.Models[name] = limit.New(model, m.Limits)
		case m.Provider == replayed:
			rt.Models[name] = new(script.Cassette).Model(name)
		default:
			return fmt.Errorf("model %q: unknown provider %q", name, m.Provider)
		}
	}
	found.Sort()
	return found.Err()
}

// Fallbacks returns the models that answer instead of others, as a Runtime takes them; nil: none does.
func (c *Config) Fallbacks() map[string][]string {
	if c == nil {
		return nil
	}
	var fallbacks map[string][]string
	for name, m := range c.Models {
		if len(m.Fallback) > 0 {
			if fallbacks == nil {
				fallbacks = map[string][]string{}
			}
			fallbacks[name] = m.Fallback
		}
	}
	return fallbacks
}

// UseStore gives rt its store, and with it the memory of agents if the configuration has one. The limits of models
// then hold over all processes that have the store. A nil store is none: runs are not kept, and conversations last as
// long as the process. A store that has no checkpoint.Documents cannot keep conversations; that is an error. A nil c is
// an installation without a braise.yaml.
func (c *Config) UseStore(rt *runtime.Runtime, store checkpoint.Store) error {
	rt.Store = store
	documents, ok := store.(checkpoint.Documents)
	if ok && c != nil {
		for name := range c.Models {
			limit.Share(rt.Models[name], documents, name)
		}
	}
	if c == nil || !c.Memory {
		return nil
	}
	if store == nil {
		rt.Memory = new(memory.Memory)
		return nil
	}
	if !ok {
		return fmt.Errorf("memory: a %T keeps no conversations", store)
	}
	rt.Memory = memory.New(documents)
	return nil
}

// overrideModel replaces a model of rt, as the flag --model says: NAME=script:FILE, the file relative to the working
// folder. A mistake in the script is a *diagnostics.Error.
func overrideModel(rt *runtime.Runtime, spec string) error {
	name, source, _ := strings.Cut(spec, "=")
	provider, file, ok := strings.Cut(source, ":")
	switch {
	case name == "" || file == "" && (!ok || provider == "script"):
		return fmt.Errorf("model %q: it is given as NAME=script:FILE", spec)
	case provider != "script":
		return fmt.Errorf("model %q: a model cannot be overridden with %q\n  hint: it is given as NAME=script:FILE",
			name, provider)
	}
	model, problems := loadScript(file, filepath.ToSlash(file), diagnostics.Position{})
	if err := problems.Err(); err != nil {
		return err
	}
	rt.Models[name] = model
	return nil
}

// loadScript reads the script at path. Messages call it by name, and say that it cannot be read at
// pos, the place that names it.
func loadScript(path, name string, pos diagnostics.Position) (runtime.Model, diagnostics.List) {
	data, err := regular.ReadFile(path)
	if err != nil {
		return nil, unreadable(pos, "script", name, err)
	}
	model, err := script.Parse(name, data)
	if wrong, ok := errors.AsType[*diagnostics.Error](err); ok {
		return nil, wrong.List
	}
	return model, nil
}

// within resolves path against dir, unless it is absolute or "".
func within(dir, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
