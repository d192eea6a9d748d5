package host

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/braise-run/braise/diagnostics"
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

// faulty is an environment variable whose value cannot be used, as an error. It never holds the value.
type faulty struct{ name, why, hint string }

func (f faulty) Error() string { return fmt.Sprintf("the environment variable %q %s", f.name, f.why) }

// at is why what needs the variable is not configured; pos is where the file names it, zero if no file does.
func (f faulty) at(pos diagnostics.Position) string {
	return fmt.Sprintf("environment variable %s %s%s\n  hint: %s", f.name, f.why, placeOf(pos), f.hint)
}

// placeOf is a place in a file behind a message; "" if pos is zero.
func placeOf(pos diagnostics.Position) string {
	if pos.IsZero() {
		return ""
	}
	return fmt.Sprintf(" (%s:%d)", pos.File, pos.Line)
}

func unset(name string) faulty { return faulty{name, "is not set", "export " + name + "=…"} }
func empty(name string) faulty { return faulty{name, "is empty", "export " + name + "=…"} }

// trimmed drops the line ends behind the values of variables: a file that was read into one ends in such.
func trimmed(env lookup) lookup {
	return func(name string) (string, bool) {
		value, ok := env(name)
		return strings.TrimRight(value, "\r\n"), ok
	}
}

// isControl reports what no header may have.
func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// unfit finds the first variable in s of whose value why says something.
func unfit(s string, env lookup, why func(name, value string) faulty) (found faulty, ok bool) {
	_, _ = expand(s, func(name string) (string, bool) { // reported where it is read
		value, set := env(name)
		if f := why(name, value); set && !ok && f.why != "" {
			found, ok = f, true
		}
		return value, set
	})
	return found, ok
}

// ifEmpty says that a value is empty, if it is.
func ifEmpty(name, value string) (f faulty) {
	if value == "" {
		return empty(name)
	}
	return f
}

// ifNoHeader says why a value cannot be in a header, if it cannot.
func ifNoHeader(name, value string) (f faulty) {
	value = strings.TrimSpace(value)
	if i := strings.IndexFunc(value, isControl); i >= 0 {
		return faulty{name, fmt.Sprintf("holds the control character U+%04X, and no header can", value[i]),
			"a key is one line without tabs; line ends behind it do not matter"}
	}
	return ifEmpty(name, value)
}

// hasVariable reports whether expand would replace something in s.
func hasVariable(s string) bool { return strings.Contains(strings.ReplaceAll(s, "$${", ""), "${") }
