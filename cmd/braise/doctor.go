package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/host"
)

func (a *app) doctorCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check the installation: configuration, models, tools, MCP servers, secrets, telemetry, store, versions",
		Long: "Doctor reads the configuration and looks whether what it names is there. Endpoints of " +
			"models are asked for their list\n" +
			"of models, which costs nothing, MCP servers for their tools, and the collector of telemetry is " +
			"connected to; no model\n" +
			"answers, no tool is called and no telemetry is sent.",
		Args: exactly(0, "doctor takes no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			checks, code := a.examine(cmd.Context())
			if err := a.printChecks(checks); err != nil {
				return err
			}
			return exit(code)
		},
	}
}

// examine checks the installation. The exit code says whether runs can begin with its
// configuration, and whether something that it names is missing.
func (a *app) examine(ctx context.Context) (checks []host.Check, code int) {
	v := version()
	checks = []host.Check{{Part: "version", Status: host.CheckOK,
		Message: fmt.Sprintf("braise %s, %s, recipe format %s", v.Version, v.Go, v.Format)}}
	path, err := a.config, error(nil)
	if path == "" {
		path, err = host.FindConfig("")
	}
	var config *host.Config
	if err == nil && path != "" {
		config, err = host.LoadConfig(path)
	}
	if err == nil {
		config, err = a.withModels(config)
	}
	if err == nil {
		config.Store, err = a.storeOf(config)
	}
	if err != nil {
		for _, d := range findings(err) {
			checks = append(checks, configCheck(d))
		}
		return checks, host.ExitInvalid
	}
	if path == "" {
		checks = append(checks, host.Check{Part: "config", Status: host.CheckWarn,
			Message: "no " + host.FileName + " here: no models, no secrets",
			Hint:    "braise init DIR writes one; --config names another file"})
	} else {
		checks = append(checks, host.Check{Part: "config", Status: host.CheckOK,
			Message: filepath.ToSlash(path) + " is valid"})
	}
	if _, err := config.Runtime(filepath.Dir(path)); err != nil { // a script; the checks say which
		code = host.ExitInvalid
	}
	for _, c := range config.Examine(ctx, filepath.Dir(path)) {
		checks = append(checks, c)
		if c.Status == host.CheckFail && code == host.ExitOK {
			code = host.ExitMissing
		}
	}
	return checks, code
}

// withModels adds the models that the flag --model gives to a configuration, which may be nil.
func (a *app) withModels(config *host.Config) (*host.Config, error) {
	if config == nil {
		config = &host.Config{}
	}
	if config.Models == nil {
		config.Models = map[string]host.Model{}
	}
	for _, spec := range a.models {
		name, file, _ := strings.Cut(spec, "=script:")
		file, err := filepath.Abs(file) // not beside the configuration
		if err != nil {
			return nil, err
		}
		config.Models[name] = host.Model{Provider: "script", File: file}
	}
	return config, nil
}

// storeOf is the URL of the store that runs would have, its path absolute unless the configuration names it.
func (a *app) storeOf(config *host.Config) (url string, err error) {
	switch {
	case a.store != "":
		url = a.store
	case config.Store != "":
		return config.Store, nil
	default:
		if url, err = host.DefaultStore(); err != nil {
			return "", err
		}
	}
	scheme, path, _ := strings.Cut(url, ":")
	if scheme != "sqlite" && scheme != "jsonl" {
		return url, nil
	}
	path, err = filepath.Abs(path)
	return scheme + ":" + path, err
}

// configCheck is a finding about the configuration as a check.
func configCheck(d diagnostics.Diagnostic) host.Check {
	c := host.Check{Part: "config", Status: host.CheckFail, Message: d.Message, Hint: d.Hint}
	if d.Level == diagnostics.Warn {
		c.Status = host.CheckWarn
	}
	if !d.Position.IsZero() {
		c.Message = d.Position.String() + ": " + d.Message
	}
	if strings.HasPrefix(d.Message, "the environment variable ") {
		c.Hint = "set it where braise runs; no recipe can run before"
	}
	return c
}

// health is what doctor prints as JSON.
type health struct {
	Status host.CheckStatus `json:"status"` // the worst of the checks
	Checks []host.Check     `json:"checks"`
}

func (a *app) printChecks(checks []host.Check) error {
	result := health{host.CheckOK, checks}
	for _, c := range checks {
		if c.Status == host.CheckFail || c.Status == host.CheckWarn && result.Status == host.CheckOK {
			result.Status = c.Status
		}
	}
	if a.output != "human" {
		return a.printJSON(result)
	}
	for _, c := range checks {
		if a.quiet && c.Status == host.CheckOK {
			continue
		}
		what := c.Part
		if c.Name != "" {
			what += " " + c.Name
		}
		fmt.Fprintf(a.stdout, "%-4s  %s: %s\n", c.Status, visible(what), visible(c.Message))
		if c.Hint != "" {
			fmt.Fprintf(a.stdout, "      hint: %s\n", visible(c.Hint))
		}
	}
	return nil
}
