package host

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/runtime"
)

// lookup finds an environment variable, as os.LookupEnv does.
type lookup = func(name string) (value string, ok bool)

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expand replaces every ${NAME} in s by the variable's value, and $${ by ${. What a value holds is
// not expanded again. The error never holds a value.
func expand(s string, env lookup) (string, error) {
	var b strings.Builder
	for {
		i := strings.Index(s, "${")
		if i < 0 {
			b.WriteString(s)
			return b.String(), nil
		}
		if i > 0 && s[i-1] == '$' {
			b.WriteString(s[:i-1] + "${")
			s = s[i+2:]
			continue
		}
		b.WriteString(s[:i])
		name, rest, closed := strings.Cut(s[i+2:], "}")
		switch {
		case !closed:
			return "", errors.New(`"${" without a "}"`)
		case !envName.MatchString(name):
			return "", fmt.Errorf("${%s} does not name an environment variable", name)
		}
		value, ok := env(name)
		if !ok {
			return "", unset(name)
		}
		b.WriteString(value)
		s = rest
	}
}

// unset is the name of an environment variable that is not set, as an error.
type unset string

func (name unset) Error() string {
	return fmt.Sprintf("the environment variable %q is not set", string(name))
}

// at is why what needs the variable is not configured; pos is where the file names it.
func (name unset) at(pos diagnostics.Position) string {
	return fmt.Sprintf("environment variable %s is not set (%s:%d)\n  hint: export %s=…", string(name),
		pos.File, pos.Line, string(name))
}

// hasVariable reports whether expand would replace something in s.
func hasVariable(s string) bool { return strings.Contains(strings.ReplaceAll(s, "$${", ""), "${") }

// envSecrets is runtime.Secrets that takes the listed names from the environment, at use.
type envSecrets struct {
	names []string
	env   lookup
}

func (s envSecrets) Secret(_ context.Context, name string) (string, error) {
	if !slices.Contains(s.names, name) {
		return "", fmt.Errorf("%q: %w: it is not in secrets.from_env", name, runtime.ErrNoSecret)
	}
	value, ok := s.env(name)
	if !ok {
		return "", fmt.Errorf("%q: %w: the environment variable is not set", name, runtime.ErrNoSecret)
	}
	return value, nil
}
