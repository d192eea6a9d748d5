package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/host"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/workflow"
)

// openTime is how long a store may take to open.
const openTime = 30 * time.Second

// storeURL says which store to use, and the folder that its relative paths start at: that of the flag
// --store, else the configuration's, else the default one.
func (a *app) storeURL() (url, dir string, err error) {
	switch {
	case a.store != "":
		return a.store, "", nil
	case a.host != nil && a.host.Store != "":
		return a.host.Store, a.hostDir, nil
	}
	url, err = host.DefaultStore()
	return url, "", err
}

// openStore opens the store of a command; it is made if need be, unless the command only looks at what is
// there: then a store that is not there is an empty one.
func (a *app) openStore(ctx context.Context, look bool) (checkpoint.Store, error) {
	url, dir, err := a.storeURL()
	if err != nil {
		return nil, a.storeError(err)
	}
	ctx, cancel := context.WithTimeout(ctx, openTime)
	defer cancel()
	open := host.OpenStore
	if look {
		open = host.FindStore
	}
	store, err := open(ctx, url, dir)
	switch {
	case look && errors.Is(err, fs.ErrNotExist):
		if !a.quiet {
			fmt.Fprintf(a.stderr, "braise: warning: there is no store yet: %s\n", visible(url))
		}
		return &checkpoint.Memory{}, nil
	case err != nil:
		return nil, a.storeError(err)
	}
	return store, nil
}

func (a *app) storeError(err error) error {
	return &exitError{exitInternal, fmt.Errorf("the store cannot be opened: %w\n"+
		"  hint: --store, or store: in %s, names another one; --store memory: keeps nothing", err, host.FileName)}
}

// keepRuns gives a runtime its store. A run with memory: has none: what would be in it is of no use to
// anybody once the process has ended.
func (a *app) keepRuns(ctx context.Context, rt *runtime.Runtime) (closeStore func(), err error) {
	if url, _, err := a.storeURL(); err == nil && url == host.MemoryStore {
		return func() {}, a.host.UseStore(rt, nil)
	}
	store, err := a.openStore(ctx, false)
	if err != nil {
		return nil, err
	}
	if err := a.host.UseStore(rt, store); err != nil {
		store.Close()
		return nil, &exitError{exitInternal, err}
	}
	return func() { store.Close() }, nil
}

// failure is the outcome of a command for which the store does not have what it needs.
func failure(runID string, err error) *workflow.Outcome {
	e := &runtime.Error{Category: runtime.CategoryInfra, Code: checkpoint.Code(err), Err: err}
	return &workflow.Outcome{Status: workflow.StatusError, RunID: runID, Err: e}
}

// sameFlags are the flags by which another call of the command finds the store and the configuration of this one.
func (a *app) sameFlags() string {
	var flags []string
	add := func(name, value string) { flags = append(flags, " --"+name+" "+quoted(value)) }
	if a.config != "" {
		add("config", a.config)
	} else if found, _ := host.FindConfig(""); a.configPath != "" && filepath.Clean(found) != filepath.Clean(a.configPath) {
		add("config", a.configPath)
	}
	switch {
	case strings.HasPrefix(a.store, "postgres"):
		flags = append(flags, " --store …") // it may hold a password
	case a.store != "":
		add("store", a.store)
	}
	for _, m := range a.models {
		add("model", m)
	}
	return strings.Join(flags, "")
}
