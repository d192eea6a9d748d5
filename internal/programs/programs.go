// Package programs says which programs a command line runs, as far as its words say so: through wrappers, shells and
// other programs that run what their arguments are. What it cannot decide may be any program.
//
//	argv ─▶ command ──▶ a wrapper      the command behind it
//	                    a shell, -c    script ─▶ command of each simple command
//	                    find, awk, …   what their arguments run
package programs

import (
	"path"
	"slices"
	"strings"
	"unicode"
)

// Lists of programs by their names. A version at the end of a name does not matter.
var (
	// wrappers run the command that stands behind their name.
	wrappers = strings.Fields(`busybox doas env nice nohup setsid stdbuf sudo time timeout toybox xargs`)

	// launchers run a command that stands somewhere in their arguments, in a file or in their input.
	launchers = strings.Fields(`
		ansible ansible-playbook at batch bwrap chroot chrt crontab dbus-run-session docker entr expect fakeroot
		faketime flock gdb ionice kubectl ld.so ldd lldb nerdctl nsenter parallel pkexec podman prlimit rlwrap
		run-parts runcon runuser screen script setarch setpriv ssh start-stop-daemon strace su systemd-run taskset
		tmux unbuffer unshare valgrind watch xvfb-run`)

	// shells run what stands behind -c. Only the language of the first ones, up to sh, can be read.
	shells = strings.Fields(`ash bash dash ksh mksh rbash sh csh fish tcsh zsh cmd cmd.exe powershell pwsh`)

	// interpreters run code that stands in a file, in their arguments or in their input.
	interpreters = strings.Fields(`
		bun deno elixir erl ghci groovy irb java jrunscript jshell julia lua luajit node nodejs octave osascript
		perl php pypy python rscript ruby scala swift tclsh ts-node tsx wish`)

	// runners do what a file or an argument of theirs says, which may be to run other programs.
	runners = strings.Fields(`
		ant apt apt-get awk bazel bpftrace bundle cargo cc clang cmake composer csi dc dotnet ed emacs ex gawk gcc
		gem gh go gmake gradle guile hg just less make man mawk meson more msbuild mvn mysql nawk nc ncat ninja nix
		nix-shell npm npx nvim pip pipx pnpm poetry psql pytest rake rg rsync scp sed sftp socat sqlite tar
		terraform tox uv uvx vi vim yarn zip`)

	// plain run nothing else, and write nothing, whatever their arguments are.
	plain = strings.Fields(`
		arch base32 base64 basename cat cksum cmp comm cut df diff dirname du echo expand expr false fold grep
		groups head id join logname ls md5sum nl nproc od paste printenv printf pwd readlink realpath seq sha1sum
		sha224sum sha256sum sha384sum sha512sum stat strings sum tac tail test tr true tsort tty uname unexpand
		uptime users wc which who whoami`)
)

// IsName reports whether a text is the name of one program: without a folder, blanks, and characters that stand for
// others.
func IsName(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune(`/\*?[]{}"'`, r)
	})
}

// Plain returns the programs that run nothing else and write nothing, whatever their arguments are, sorted.
func Plain() []string { return slices.Clone(plain) }

// RunOthers returns the programs that run other programs, or code, as they are told to, sorted.
func RunOthers() []string {
	return slices.Sorted(slices.Values(slices.Concat(wrappers, launchers, shells, interpreters, runners)))
}

// RunsOthers reports whether a program is one of [RunOthers]. A folder before its name, case, and a version at its end
// do not matter.
func RunsOthers(name string) bool {
	return isOne(name, wrappers, launchers, shells, interpreters, runners)
}

func isOne(name string, lists ...[]string) bool {
	base := strings.ToLower(path.Base(name))
	short := strings.TrimRight(base, "0123456789.-")
	return slices.ContainsFunc(lists, func(list []string) bool {
		return slices.Contains(list, base) || slices.Contains(list, short)
	})
}

// Of returns the names of the programs that a command line runs, as they stand there, in their order. plain is false
// when it may run other programs, too: what it runs is not plain to see.
func Of(argv []string) (names []string, plain bool) {
	l := &line{plain: true}
	l.command(argv)
	return l.names, l.plain
}

// unknown is a word of a script that only the shell knows. No argument of a program is such a text.
const unknown = "\x00"

// maxDepth is how deep commands in commands are followed.
const maxDepth = 20

// line is what is known of a command line.
type line struct {
	names []string
	plain bool
	depth int
}

func (l *line) hidden() { l.plain = false }

// command adds what one command runs.
func (l *line) command(argv []string) {
	l.depth++
	defer func() { l.depth-- }()
	if len(argv) == 0 || argv[0] == "" || argv[0] == unknown || l.depth > maxDepth {
		l.hidden()
		return
	}
	name, args := argv[0], argv[1:]
	if strings.Contains(name, "/") && !path.IsAbs(name) {
		l.hidden() // another folder, another program
		return
	}
	l.names = append(l.names, name)
	switch base := strings.ToLower(path.Base(name)); {
	case isOne(base, shells):
		l.shell(base, args)
	case isOne(base, wrappers):
		l.wrapped(base, args)
	case isOne(base, launchers):
		l.hidden()
	case isOne(base, interpreters):
		if len(args) == 0 || args[0] == unknown || strings.HasPrefix(args[0], "-") {
			l.hidden() // its code is not in a file
		}
	default:
		l.arguments(base, args)
	}
}

// wrapped adds what a wrapper runs.
func (l *line) wrapped(wrapper string, args []string) {
	switch wrapper {
	case "timeout":
		if len(args) > 0 && args[0] != unknown && !strings.HasPrefix(args[0], "-") {
			args = args[1:] // the time
		}
	case "xargs":
		args = append(slices.Clone(args), unknown) // from its input
	}
	if len(args) > 0 && (strings.HasPrefix(args[0], "-") || strings.Contains(args[0], "=")) {
		l.hidden() // an option may have a value, and a variable may say what runs
		return
	}
	l.command(args)
}

// shell adds what a shell runs that is called with args.
func (l *line) shell(name string, args []string) {
	readable := slices.Index(shells, "csh")
	if len(args) < 2 || !isOne(name, shells[:readable]) || !slices.Contains([]string{"-c", "-ec", "-euc"}, args[0]) {
		l.hidden()
		return
	}
	l.script(args[1])
}
