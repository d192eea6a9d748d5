package builtin

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/braise-run/braise/internal/procgroup"
)

// inherited are the variables that programs get from the host's environment.
var inherited = []string{"PATH", "HOME", "LANG", "TZ", "TERM"}

// RefusedEnv returns the patterns of the variables that a call of exec.run may not set, sorted: what loaders, shells,
// interpreters and well-known tools read, and what would have an allowed program run other code than its own. A *
// stands for any characters; case does not matter.
func RefusedEnv() []string { return slices.Clone(refusedEnv) }

var refusedEnv = []string{
	"*FLAGS", "*JAVA*", "*PATH", "*PRELOAD*", "*_CONFIG_FILE", "*_HOME", "*_OPTIONS", "*_OPTS", "*_PROXY",
	"ANSIBLE_*", "AWK*", "AWS_SHARED_CREDENTIALS_FILE", "BASH*", "BROWSER", "BUNDLE_*", "BUN_*", "CARGO*", "CC",
	"COMPOSER_*", "COMSPEC", "CURL_*", "CXX", "DENO_*", "DOCKER_*", "DOTNET_*", "DYLD_*", "EDITOR", "ENV", "GCC_*",
	"GCONV*", "GEM_*", "GIT_*", "GLIBC_*", "GNUPGHOME", "GO111MODULE", "GOBIN", "GODEBUG", "GOENV", "GOPROXY",
	"GOROOT", "GOTOOLCHAIN", "GOWORK", "HOME", "HOSTALIASES", "IFS", "INPUTRC", "JULIA_*", "KUBECONFIG", "LD_*",
	"LESS*", "LOCALDOMAIN", "LUA*", "MAKE*", "MALLOC_*", "MANPAGER", "NIX_*", "NODE_*", "NPM_*", "OPENSSL_*",
	"PAGER", "PATHEXT", "PERL*", "PHP*", "PIP_*", "PROMPT_COMMAND", "PS4", "PSMODULE*", "PYTHON*", "RUBY*",
	"RUST*", "R_ENVIRON*", "R_LIBS*", "R_PROFILE*", "SHELL*", "SQLITE*", "SSH*", "SSL*", "SUDO_*", "SYSTEMD_*",
	"TERMCAP", "TERMINFO*", "UV_*", "VIM*", "VISUAL", "WGETRC", "XDG_*", "YARN_*", "ZDOTDIR",
}

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
	case opts.Env == nil:
		for _, pattern := range refusedEnv {
			if matches, _ := path.Match(pattern, strings.ReplaceAll(strings.ToUpper(name), "/", "_")); matches {
				return fmt.Errorf("env %q may not be set by a recipe (%s): programs use it to choose which code to run"+
					"\n  hint: a host allows it by tools.exec.env in braise.yaml", name, pattern)
			}
		}
	case !slices.Contains(opts.Env, name):
		return fmt.Errorf("env %q is not allowed here, only %q are"+
			"\n  hint: a host allows it by tools.exec.env in braise.yaml", name, opts.Env)
	}
	return nil
}
