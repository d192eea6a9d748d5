package command

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/host"
)

// examineOpen checks what takes an open installation: its models if call is set, and what serve would refuse. There
// are no checks where the configuration cannot be opened.
func (a *app) examineOpen(ctx context.Context, call bool) (checks []host.Check) {
	h, err := host.Open(ctx, &host.Options{Config: a.config, Models: a.models, Reporter: silent{},
		Warn: func(string) {}}) // the other checks say it
	if err != nil {
		return nil
	}
	defer h.Close()
	if call {
		checks = h.CallModels(ctx)
	}
	return append(checks, a.examineServe(ctx, h)...)
}

// examineServe checks what serve would refuse of its part of the configuration, without listening, and without the
// store, servers and models that have checks of their own. There are no checks where the configuration has no such
// part.
func (a *app) examineServe(ctx context.Context, h *host.Host) (checks []host.Check) {
	config, err := h.Serve()
	if err != nil || reflect.ValueOf(*config).IsZero() {
		return nil
	}
	s := &server{session: &session{app: a, host: h}, store: &checkpoint.Memory{}, draining: make(chan struct{})}
	flags := &serveFlags{}
	s.configure(config, flags)
	look := func(err error) {
		if err == nil {
			return
		}
		if e, ok := errors.AsType[*exitError](err); ok {
			err = e.err
		}
		message, hint, _ := strings.Cut(err.Error(), "\n  hint: ")
		checks = append(checks, host.Check{Part: "serve", Status: host.CheckFail, Message: message, Hint: hint})
	}
	look(s.checkListen(flags.insecure))
	served := 0
	if len(s.conf.Recipes) > 0 {
		s.recipes, err = h.Recipes(ctx, s.conf.Recipes)
		look(err)
		if err == nil {
			checks = append(checks, s.examineRecipes()...)
			served = len(s.recipes.List())
		}
	}
	rt := h.Bare()
	rt.Store = s.store
	if err := s.prepareServers(rt, flags); err != nil {
		look(err)
	} else {
		look(s.prepareNotify(""))
	}
	if checks == nil {
		checks = []host.Check{{Part: "serve", Status: host.CheckOK, Message: fmt.Sprintf(
			"braise serve can begin; recipes: %d, schedules: %d, triggers: %d", served, len(s.conf.Schedules),
			len(s.conf.Triggers))}}
	}
	return checks
}

// examineRecipes checks that the recipes that are served can run, and that those of schedules and triggers are among
// them. A server begins without, so that they can come later.
func (s *server) examineRecipes() (checks []host.Check) {
	warn := func(hint, format string, args ...any) {
		checks = append(checks, host.Check{Part: "serve", Status: host.CheckWarn,
			Message: fmt.Sprintf(format, args...), Hint: hint})
	}
	for _, r := range s.recipes.List() {
		if r.Workflow == nil {
			warn("braise validate says what is wrong", "recipe %q has errors: no run of it can begin", r.Name)
		}
	}
	lacks := func(what, name, recipe string) {
		if _, ok := s.recipes.Find(recipe); !ok {
			warn("serve.recipes names files and folders of recipes",
				"%s %q begins runs of recipe %q, which is not served", what, name, recipe)
		}
	}
	for _, c := range s.conf.Schedules {
		lacks("schedule", c.Name, c.Recipe)
	}
	for _, c := range s.conf.Triggers {
		lacks("trigger", c.Name, c.Recipe)
	}
	return checks
}
