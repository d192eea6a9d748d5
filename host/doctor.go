package host

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/braise-run/braise/diagnostics"
)

// Examine looks whether the installation that [Open] would open with these options works: [Config.Examine], with what
// the options change, behind checks of the configuration itself, one for each diagnostic about it. A configuration with
// errors is all that is looked at. The error is one with which Open would refuse; the checks say what is wrong then,
// too. Of the options Config, Recipe, Store and Models count. A nil o is the zero Options.
func (o *Options) Examine(ctx context.Context) ([]Check, error) {
	if o == nil {
		o = &Options{}
	}
	config, path, err := o.config()
	if err != nil {
		var checks []Check
		for _, d := range Refused(err).Diagnostics {
			checks = append(checks, configCheck(d))
		}
		return checks, err
	}
	check := Check{Part: "config", Status: CheckOK, Message: filepath.ToSlash(path) + " is valid"}
	if path == "" {
		check = Check{Part: "config", Status: CheckWarn, Message: noConfig(o.Recipe) + ": no models, no secrets",
			Hint: "braise init DIR writes one; --config names another file"}
		if why := notUsed(o.Recipe); why != "" {
			check.Message, check.Hint = why, "without it there are no models and no secrets"
		}
	}
	dir := filepath.Dir(path)
	_, err = config.Runtime(dir) // a script may be at fault; the checks say which
	return append([]Check{check}, config.Examine(ctx, dir)...), err
}

// config reads the configuration, and puts what the options change into it; their paths become absolute.
func (o *Options) config() (config *Config, path string, err error) {
	if path = o.Config; path == "" {
		if path, err = o.find(func(string) {}); err != nil {
			return nil, "", err
		}
	}
	config = &Config{}
	if path != "" {
		if config, err = LoadConfig(path); err != nil {
			return nil, "", err
		}
	}
	if config.Models == nil {
		config.Models = map[string]Model{}
	}
	for _, spec := range o.Models {
		name, file, _ := strings.Cut(spec, "=script:")
		if file, err = filepath.Abs(file); err != nil {
			return nil, "", err
		}
		config.Models[name] = Model{Provider: "script", File: file}
	}
	url := o.Store
	if url == "" && config.Store == "" && config.why("store") == "" {
		if url, err = DefaultStore(); err != nil {
			return nil, "", err
		}
	}
	if url != "" {
		scheme, place, _ := strings.Cut(url, ":")
		if scheme == "sqlite" || scheme == "jsonl" {
			if place, err = filepath.Abs(place); err != nil {
				return nil, "", err
			}
			url = scheme + ":" + place
		}
		config.Store = url
		delete(config.absent, "store")
	}
	return config, path, nil
}

// configCheck is a diagnostic about the configuration as a check.
func configCheck(d diagnostics.Diagnostic) Check {
	c := Check{Part: "config", Status: CheckFail, Message: d.Message, Hint: d.Hint}
	if d.Level == diagnostics.Warn {
		c.Status = CheckWarn
	}
	if !d.Position.IsZero() {
		c.Message = d.Position.String() + ": " + d.Message
	}
	return c
}
