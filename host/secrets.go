package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/braise-run/braise/diagnostics"
	"github.com/braise-run/braise/internal/yamlnode"
	"github.com/braise-run/braise/runtime"
)

// secretSources are where a file says that secrets are, apart from the names of variables.
type secretSources struct {
	at      map[string]diagnostics.Position // of the names of variables
	files   string                          // the folder of from_files, as written; "": none
	filesAt diagnostics.Position
}

// secrets reads which secrets there are.
func (r *reader) secrets(n *yamlnode.Node) []string {
	fields := r.Object(n, []string{"from_env", "from_files"}, nil)
	if folder := fields["from_files"]; folder != nil {
		r.sources.files, r.sources.filesAt = r.text(folder), folder.Pos
	}
	list := fields["from_env"]
	names := r.names(list)
	for i, name := range names {
		if _, twice := r.sources.at[name]; !twice {
			r.sources.at[name] = list.Items[i].Pos
		}
	}
	return names
}

// secretFolder is the folder whose files are secrets; "": there is none. dir is that of the configuration.
func (c *Config) secretFolder(dir string) string { return within(dir, c.sources.files) }

// secretValues gives the secrets of the configuration, and what is wrong with their names.
func (c *Config) secretValues(dir string) (secrets, diagnostics.List) {
	s := secrets{env: c.env, names: c.Secrets, at: c.sources.at,
		files: runtime.FileSecrets(c.secretFolder(dir)), filesAt: c.sources.filesAt}
	if s.env == nil {
		s.env = trimmed(os.LookupEnv)
	}
	var found diagnostics.List
	for _, name := range s.inBoth() {
		found = append(found, diagnostics.Diagnostic{
			Level: diagnostics.ErrorLevel, Kind: diagnostics.KindRecipe, Code: diagnostics.CodeInvalidValue,
			Message: fmt.Sprintf("the secret %q is a variable of from_env and a file of from_files, %s", name,
				filepath.ToSlash(filepath.Join(string(s.files), name))),
			Hint: "remove one of the two", Position: s.at[name]})
	}
	return s, found
}

// secrets is runtime.Secrets of variables and of files, which it reads at use.
type secrets struct {
	env     lookup
	names   []string                        // of variables
	at      map[string]diagnostics.Position // where the file names them; nil: nowhere
	files   runtime.FileSecrets             // "": none
	filesAt diagnostics.Position
}

// inBoth lists the names that are those of a variable and a file, sorted.
func (s secrets) inBoth() (names []string) {
	if s.files == "" || len(s.names) == 0 {
		return nil
	}
	files, _ := s.files.Names() // a folder that cannot be read is reported by who needs it
	return slices.DeleteFunc(files, func(name string) bool { return !slices.Contains(s.names, name) })
}

func (s secrets) Secret(ctx context.Context, name string) (string, error) {
	if !slices.Contains(s.names, name) {
		return s.fromFile(ctx, name)
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

func (s secrets) fromFile(ctx context.Context, name string) (string, error) {
	if s.files == "" {
		return "", fmt.Errorf("%q: %w: it is not in secrets.from_env", name, runtime.ErrNoSecret)
	}
	value, err := s.files.Secret(ctx, name)
	if err != nil {
		return "", fmt.Errorf("%w%s\n  hint: %s", err, placeOf(s.filesAt),
			"put the secret into this file, as text of at most 64 KiB that the user of this process may read")
	}
	return value, nil
}

// examine says which of the secrets are there.
func (s secrets) examine(ctx context.Context) (checks []Check) {
	both := s.inBoth()
	for _, name := range slices.Compact(slices.Sorted(slices.Values(s.names))) {
		var check Check
		switch value, ok := s.env(name); {
		case slices.Contains(both, name):
			check.Status, check.Message = CheckFail, "both a variable of from_env and a file of from_files"
			check.Hint = "remove one of the two: no run can begin"
		case !ok:
			check = absentSecret(name, "the environment variable is not set")
		case value == "":
			check = absentSecret(name, "the environment variable is empty")
		default:
			check = examineSecret(name, value, "set")
		}
		check.Part, check.Name = "secret", name
		checks = append(checks, check)
	}
	return append(checks, s.examineFiles(ctx)...)
}

// examineFiles says which files are secrets. Those of both sources are told already.
func (s secrets) examineFiles(ctx context.Context) (checks []Check) {
	if s.files == "" {
		return nil
	}
	folder := filepath.ToSlash(string(s.files))
	names, err := s.files.Names()
	switch pathErr, ok := errors.AsType[*fs.PathError](err); {
	case ok:
		return []Check{{Part: "secret", Status: CheckFail, Message: "the folder " + folder + ": " + pathErr.Err.Error(),
			Hint: "steps that use secrets of secrets.from_files fail"}}
	case len(names) == 0:
		return []Check{{Part: "secret", Status: CheckWarn, Message: "there is no file in " + folder,
			Hint: "the file NAME in it is the secret NAME"}}
	}
	for _, name := range slices.DeleteFunc(names, func(name string) bool { return slices.Contains(s.names, name) }) {
		var check Check
		if value, err := s.Secret(ctx, name); !envName.MatchString(name) {
			check = Check{Status: CheckWarn, Message: "no recipe can name the file " + folder + "/" + name,
				Hint: "the name of a secret has letters, digits and _, and no digit first"}
		} else if err != nil {
			check.Status = CheckFail
			check.Message, check.Hint, _ = strings.Cut(err.Error(), "\n  hint: ")
		} else {
			check = examineSecret(name, value, "in "+folder)
		}
		check.Part, check.Name = "secret", name
		checks = append(checks, check)
	}
	return checks
}

func absentSecret(name, why string) Check {
	return Check{Status: CheckFail, Message: why, Hint: "steps that use secrets." + name + " fail"}
}

// examineSecret says what a secret can be used for. fine is the message if that is everything.
func examineSecret(name, value, fine string) Check {
	switch {
	case len(value) < runtime.MinSecretBytes:
		return Check{Status: CheckFail, Message: fmt.Sprintf("shorter than %d bytes", runtime.MinSecretBytes),
			Hint: "runs that use secrets." + name + " are refused, as it could not be kept out of outputs"}
	case strings.ContainsFunc(value, isControl):
		return Check{Status: CheckWarn, Message: fine + ", with a line break or another control character inside",
			Hint: "calls that put secrets." + name + " into a header are refused"}
	}
	return Check{Status: CheckOK, Message: fine}
}
