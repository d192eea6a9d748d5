package builtin

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/braise-run/braise/internal/procgroup"
)

// inherited are the variables that programs get from the host's environment.
var inherited = []string{"PATH", "HOME", "LANG", "TZ", "TERM"}

// ownPrefix begins the names of variables that a call may set wherever it runs: no program looks at them by itself.
const ownPrefix = "ARG_"

// environ is the program's environment, never nil: exec.Cmd takes nil for all of the host's.
func (opts ExecOptions) environ(own map[string]string, key string) ([]string, error) {
	env := []string{}
	for _, name := range inherited {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		if err := opts.maySet(name, own[name]); err != nil {
			return nil, err
		}
		env = append(env, name+"="+own[name]) // of two with one name the last counts
	}
	if key != "" {
		env = append(env, procgroup.KeyVariable+"="+key)
	}
	return env, nil
}

// maySet says why a call may not set a variable; nil: it may.
func (opts ExecOptions) maySet(name, value string) error {
	switch {
	case name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00"):
		return fmt.Errorf("env %q is not a variable", name)
	case strings.EqualFold(name, procgroup.KeyVariable):
		return errors.New("env " + procgroup.KeyVariable + " is set by Braise")
	case strings.HasPrefix(name, ownPrefix), slices.Contains(opts.Env, name):
		return nil
	}
	return fmt.Errorf("env %q is not allowed here: programs may use it to choose which code to run\n"+
		"  hint: name it %s, or have the host allow it by tools.exec.env in braise.yaml",
		name, ownPrefix+strings.TrimLeft(name, "_"))
}
