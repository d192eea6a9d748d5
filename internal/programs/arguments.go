package programs

import (
	"regexp"
	"slices"
	"strings"
)

// arguments adds what a program runs that takes commands as arguments.
func (l *line) arguments(name string, args []string) {
	switch name {
	case "find":
		l.behind(args, []string{"-exec", "-execdir", "-ok", "-okdir"})
	case "fd", "fdfind":
		l.behind(args, []string{"-x", "-X", "--exec", "--exec-batch"})
	case "awk", "gawk", "mawk", "nawk":
		l.awk(args)
	case "sed", "gsed":
		l.sed(args)
	case "tar", "gtar", "bsdtar":
		l.tar(args)
	case "git":
		l.git(args)
	}
}

// behind adds the commands that stand behind options, each up to a ; or a +.
func (l *line) behind(args, options []string) {
	if slices.Contains(args, unknown) {
		l.hidden()
		return
	}
	for i := 0; i < len(args); i++ {
		name, _, _ := strings.Cut(args[i], "=")
		switch {
		case slices.Contains(options, args[i]):
			end := i + 1
			for end < len(args) && args[end] != ";" && args[end] != "+" {
				end++
			}
			l.command(args[i+1 : end])
			i = end
		case slices.Contains(options, name) || joined(args[i], options): // --exec=COMMAND, -xCOMMAND
			l.hidden()
		}
	}
}

// joined reports whether an argument is a short option of the list with its value, or among others.
func joined(arg string, options []string) bool {
	return slices.ContainsFunc(options, func(o string) bool {
		return len(o) == 2 && len(arg) > 2 && arg[0] == '-' && arg[1] != '-' && strings.Contains(arg, o[1:])
	})
}

// awk reads the program, the first argument that is no option.
func (l *line) awk(args []string) {
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' {
		switch args[0][:2] {
		case "-F", "-v":
			if len(args[0]) == 2 && len(args) > 1 {
				args = args[1:]
			}
			args = args[1:]
		default:
			l.hidden()
			return
		}
	}
	if len(args) == 0 || args[0] == unknown {
		l.hidden()
		return
	}
	for _, word := range []string{"system", "getline", "|", "@"} {
		if strings.Contains(args[0], word) {
			l.hidden()
		}
	}
}

// Commands of sed that run nothing: an address or two, and a letter or a replacement without the flags e and w.
var (
	sedAddress = `(?:(?:\d+|\$|/[^/\\]*/)(?:,(?:\d+|\$|/[^/\\]*/))?\s*!?\s*)?`
	sedPlain   = regexp.MustCompile(`^\s*` + sedAddress + `(?:[pdDPqnNhHgGx=]?` +
		`|s(?:/(?:[^/\\\n]|\\.)*/(?:[^/\\\n]|\\.)*/` +
		`|\|(?:[^|\\\n]|\\.)*\|(?:[^|\\\n]|\\.)*\|` +
		`|#(?:[^#\\\n]|\\.)*#(?:[^#\\\n]|\\.)*#)[gpiIm0-9]*)\s*$`)
	sedOptions = regexp.MustCompile(`^-(?:[nErsuz]+|i[.\w]*)$`)
)

// sed reads the script: behind -e, or the first argument that is no option.
func (l *line) sed(args []string) {
	var scripts []string
	for len(args) > 0 && strings.HasPrefix(args[0], "-") && args[0] != unknown {
		switch {
		case args[0] == "-e" && len(args) > 1:
			scripts, args = append(scripts, args[1]), args[1:]
		case !sedOptions.MatchString(args[0]):
			l.hidden()
			return
		}
		args = args[1:]
	}
	if scripts == nil && len(args) > 0 {
		scripts, args = args[:1], args[1:]
	}
	if len(scripts) == 0 || slices.ContainsFunc(args, option) {
		l.hidden() // GNU sed takes options behind files, too
		return
	}
	for _, script := range scripts {
		for _, c := range strings.FieldsFunc(script, func(r rune) bool { return r == ';' || r == '\n' }) {
			if !sedPlain.MatchString(c) {
				l.hidden()
			}
		}
	}
}

// option reports whether an argument may be an option.
func option(arg string) bool { return arg == unknown || strings.HasPrefix(arg, "-") }

// abbreviates reports whether an argument is one of these long options, perhaps cut short, as GNU's programs take
// them.
func abbreviates(arg string, options []string) bool {
	name, _, _ := strings.Cut(arg, "=")
	return len(name) > 2 && strings.HasPrefix(name, "--") &&
		slices.ContainsFunc(options, func(o string) bool { return strings.HasPrefix("--"+o, name) })
}

var tarRuns = strings.Fields("to-command checkpoint-action use-compress-program rsh-command info-script" +
	" new-volume-script rmt-command")

func (l *line) tar(args []string) {
	for i, a := range args {
		short := i == 0 || strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--")
		if a == unknown || abbreviates(a, tarRuns) || short && strings.ContainsAny(a, "IF") {
			l.hidden()
		}
	}
}

var (
	gitRuns = strings.Fields("config-env exec exec-path upload-pack receive-pack open-files-in-pager extcmd ext-diff" +
		" textconv config")

	// gitRunners are the commands of git that run other programs, or say what is run later.
	gitRunners = strings.Fields("bisect config difftool filter-branch mergetool submodule")
)

func (l *line) git(args []string) {
	for _, a := range args {
		if a == unknown || abbreviates(a, gitRuns) || slices.Contains(gitRunners, a) || strings.HasPrefix(a, "ext::") ||
			len(a) > 1 && a[0] == '-' && strings.ContainsRune("cxuO", rune(a[1])) {
			l.hidden()
		}
	}
}
