package host

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/yamlnode"
	"github.com/braise-run/braise/runtime"
)

// secrets reads which secrets there are.
func (r *reader) secrets(n *yamlnode.Node) []string {
	list := r.Object(n, []string{"from_env"}, nil)["from_env"]
	names := r.names(list)
	for i, name := range names {
		if _, twice := r.secretAt[name]; !twice {
			r.secretAt[name] = list.Items[i].Pos
		}
	}
	return names
}

// secretValues gives the secrets of the configuration.
func (c *Config) secretValues() envSecrets {
	env := c.env
	if env == nil {
		env = trimmed(os.LookupEnv)
	}
	return envSecrets{names: c.Secrets, at: c.secretAt, env: env}
}

// envSecrets is runtime.Secrets that takes the listed names from the environment, at use.
type envSecrets struct {
	names []string
	at    map[string]diagnostics.Position // where the file names them; nil: nowhere
	env   lookup
}

func (s envSecrets) Secret(_ context.Context, name string) (string, error) {
	if !slices.Contains(s.names, name) {
		return "", fmt.Errorf("%q: %w: it is not in secrets.from_env", name, runtime.ErrNoSecret)
	}
	switch value, ok := s.env(name); {
	case !ok:
		return "", fmt.Errorf("%q: %w: %s", name, runtime.ErrNoSecret, unset(name).at(s.at[name]))
	case value == "":
		return "", fmt.Errorf("%q: %w: %s", name, runtime.ErrNoSecret, empty(name).at(s.at[name]))
	default:
		return value, nil
	}
}

// examine says which of the secrets are there.
func (s envSecrets) examine() (checks []Check) {
	for _, name := range slices.Compact(slices.Sorted(slices.Values(s.names))) {
		check := Check{Part: "secret", Name: name, Status: CheckOK, Message: "set"}
		switch value, ok := s.env(name); {
		case !ok || value == "":
			check.Status, check.Message = CheckFail, "the environment variable is not set"
			if ok {
				check.Message = "the environment variable is empty"
			}
			check.Hint = "steps that use secrets." + name + " fail"
		case len(value) < runtime.MinSecretBytes:
			check.Status, check.Message = CheckFail, fmt.Sprintf("shorter than %d bytes", runtime.MinSecretBytes)
			check.Hint = "runs that use secrets." + name + " are refused, as it could not be kept out of outputs"
		case strings.ContainsFunc(value, isControl):
			check.Status, check.Message = CheckWarn, "set, with a line break or another control character inside"
			check.Hint = "calls that put secrets." + name + " into a header are refused"
		}
		checks = append(checks, check)
	}
	return checks
}
