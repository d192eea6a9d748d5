package programs_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/internal/programs"
	"github.com/braise-run/braise/internal/seedtest"
)

// What command lines run: trust 8.3. A want that ends in "…" says that there may be more programs.
func TestOf(t *testing.T) {
	for _, tt := range []struct{ argv, want string }{
		// Programs. Arguments are separated by a blank, or by | where one holds blanks.
		{"git push", "git"},
		{"/usr/bin/git push", "/usr/bin/git"},
		{"./git", "…"},
		{"tools/git", "…"},
		{"", "…"},
		{"ls -l /tmp", "ls"},
		{"make all", "make"},
		// Wrappers.
		{"sudo git push", "sudo git"},
		{"nohup sudo rm -rf /", "nohup sudo rm"},
		{"env git", "env git"},
		{"env", "env …"},
		{"env PATH=. git", "env …"},
		{"sudo -u git rm", "sudo …"},
		{"timeout 5 git pull", "timeout git"},
		{"timeout -k 1 5 git", "timeout …"},
		{"busybox rm a", "busybox rm"},
		{"xargs rm", "xargs rm"},
		{"xargs", "xargs …"},
		{"xargs find", "xargs find …"},
		{"xargs -n1 rm", "xargs …"},
		{"chroot / rm a", "chroot …"},
		{"setarch x86_64 rm a", "setarch …"},
		{"flock lock rm a", "flock …"},
		{"ssh host rm a", "ssh …"},
		// Interpreters.
		{"python3 run.py", "python3"},
		{"python3.12 -c code", "python3.12 …"},
		{"python3 -", "python3 …"},
		{"python3", "python3 …"},
		{"perl -e code", "perl …"},
		{"node --eval code", "node …"},
		// find, awk, sed, tar, git.
		{"find . -name x", "find"},
		{"find . -exec rm {} ;", "find rm"},
		{"find . -exec rm {} + -execdir cp {} b ;", "find rm cp"},
		{"find|.|-ok|sh|-c|rm a|;", "find sh rm"},
		{"fd x -x rm", "fd rm"},
		{"fd x -Hxrm", "fd …"},
		{"fd x --exec=rm", "fd …"},
		{"awk|{print $1}|f", "awk"},
		{"awk -F : -v|a=b|{print $a}", "awk"},
		{`awk|BEGIN { system("rm i") }`, "awk …"},
		{`awk|{print > "x" }`, "awk"},
		{"awk -f prog.awk", "awk …"},
		{"gawk -i lib {print}", "gawk …"},
		{"sed -n 1,3p f", "sed"},
		{"sed|s/a b/c/g;2d|f", "sed"},
		{"sed -i.bak -e s/a/b/ -e /x/d f", "sed"},
		{"sed|1e rm a|f", "sed …"},
		{"sed s/.*/rm/e f", "sed …"},
		{"sed s/a/b/w f", "sed …"},
		{"sed s/a/b/ f -f script", "sed …"},
		{"tar xzf a.tgz -C dir", "tar"},
		{"tar xf a.tar --to-command=rm", "tar …"},
		{"tar xf a.tar --to-c rm", "tar …"},
		{"tar cf a.tar --checkpoint=1 --checkpoint-action=exec=rm .", "tar …"},
		{"tar xIf prog a.tar", "tar …"},
		{"git status", "git"},
		{"git -c alias.x=!rm x", "git …"},
		{"git -calias.x=!rm x", "git …"},
		{"git config alias.x !rm", "git …"},
		{"git clone|ext::sh -c rm", "git …"},
		{"git grep -Otouch x", "git …"},
		{"git grep --open-files-in-p=touch x", "git …"},
		{"git ls-remote --upload-p=x .", "git …"},
		{"git rebase --ex=rm --root", "git …"},
		// Shells.
		{"sh script", "sh …"},
		{"sh", "sh …"},
		{"sh -c", "sh …"},
		{"sh -c|", "sh …"},
		{"bash -lc|rm a", "bash …"},
		{"zsh -c|rm a", "zsh …"},
		{"fish -c|rm a", "fish …"},
		{"sh -c|rm a", "sh rm"},
		{"sh -c|rm a|name|argument", "sh rm"},
		{"/bin/sh -ec|true && rm b", "/bin/sh true rm"},
		{"sh -c|git pull; make \x01 tee log && sudo make install", "sh git make tee sudo make"},
	} {
		check(t, tt.argv, tt.want)
	}
}

// What the scripts of shells run: trust 8.3.
func TestScripts(t *testing.T) {
	for _, tt := range []struct{ script, want string }{
		{"for f in c; do rm c; done", "rm"},
		{"if true; then rm d; fi", "true rm"},
		{"while rm e; do break; done", "rm"},
		{"until rm e; do :; done", "rm"},
		{"case x in x) rm a;; esac", "rm"},
		{"{ rm a; } && (cp b c)", "rm cp"},
		{"! rm a", "rm"},
		{"time rm a", "rm"},
		{"rm a &", "rm"},
		{"ls | xargs rm", "ls xargs rm"},
		{"f() { rm a; }; f", "rm f"},
		{"echo $(rm a)", "echo rm"},
		{"echo `rm a`", "echo rm"},
		{`echo "x $(rm a)"`, "echo rm"},
		{"cat <<X\n$(rm a)\nX", "cat rm"},
		{"diff <(rm a) b", "diff rm"},
		{"x=$(rm a)", "rm"},
		{"eval rm f", "rm"},
		{`eval "rm f; cp a b"`, "rm cp"},
		{`eval "$x"`, "…"},
		{"trap 'rm a' EXIT", "rm"},
		{"trap - EXIT; ls", "ls"},
		{`trap "$x" EXIT`, "…"},
		{". ./rm-g.sh", "…"},
		{"source rm-g.sh", "…"},
		{"builtin command rm h", "rm"},
		{"exec rm a", "rm"},
		{"exec >log; ls", "ls"},
		{"exec -a ls rm a", "…"},
		{"command -v rm", "rm"},
		{`"rm" a`, "rm"},
		{`r\m a`, "rm"},
		{`'r'm a`, "rm"},
		{`$'rm' a`, "…"},
		{"$x a", "…"},
		{"r* a", "…"},
		{"{rm,a}", "…"},
		{"~/rm a", "…"},
		{"./rm a", "…"},
		{"ls $x *.go", "ls"},
		{`find "$x" -name y`, "find …"},
		{`xargs "$x"`, "xargs …"},
		{"PATH=. ls", "ls …"},
		{"LD_PRELOAD=./x.so ls", "ls …"},
		{"export PATH=.; ls", "ls …"},
		{"for PATH in .; do ls; done", "ls …"},
		{"read PATH; ls", "ls …"},
		{"read -r line; ls", "ls"},
		{"x=1; ls $x", "ls"},
		{"declare -i x=y; ls", "ls …"},
		{"alias ls='rm a'; ls", "ls …"},
		{"hash -p ./x ls; ls", "ls …"},
		{"enable -f ./x.so ls; ls", "ls …"},
		{"mapfile -C rm x", "…"},
		{"set -euo pipefail; ls", "ls"},
		{"set -k; ls", "ls …"},
		{"echo $((a[$(rm a)]))", "echo rm …"},
		{"echo $((1+1))", "echo …"},
		{"((rm a))", "…"},
		{"[[ a || rm x ]]", "…"},
		{"test -v 'a[$(rm)]'", "test …"},
		{"printf -v 'a[$(rm)]' x", "printf …"},
		{`[ -n "$x" ] && ls`, "[ ls"},
		{"echo ${x@P}", "echo …"},
		{"echo ${!x}", "echo …"},
		{"echo ${x:-y}", "echo"},
		{"coproc rm a", "rm"},
		{"cd x && ls", "ls"},
		{"sh -c 'rm a'", "sh rm"},
		{"cat x | sh", "cat sh …"},
		{"if", "…"},
		{"# nothing", "…"},
		{"cat <x", "cat"},
		{"rm a\x00b", "…"},
		{strings.Repeat("eval ", 30) + "rm", "…"},
		{strings.Repeat(":;", 40<<10), "…"},
	} {
		check(t, "bash|-c|"+strings.ReplaceAll(tt.script, "|", "\x01"), strings.TrimSpace("bash "+tt.want))
	}
}

func check(t *testing.T, argv, want string) {
	t.Helper()
	sep := " "
	if strings.Contains(argv, "|") {
		head, tail, _ := strings.Cut(argv, "|")
		argv, sep = strings.ReplaceAll(head, " ", "|")+"|"+tail, "|"
	}
	var list []string
	if argv != "" {
		list = strings.Split(argv, sep)
	}
	for i, a := range list {
		list[i] = strings.ReplaceAll(a, "\x01", "|")
	}
	names, plain := programs.Of(list)
	if !plain {
		names = append(names, "…")
	}
	if got := strings.Join(names, " "); got != want {
		t.Errorf("%.100q: %s, want %s", list, got, want)
	}
}

// A program on one list is on no other, and both lists are published: trust 8.3.
func TestListsArePublished(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/tools.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "### What a yes for the run covers")
	for _, want := range [][]string{programs.Plain(), programs.RunOthers()} {
		_, text, _ = strings.Cut(text, "```\n")
		list, rest, _ := strings.Cut(text, "```")
		if diff := cmp.Diff(want, strings.Fields(list)); diff != "" {
			t.Errorf("docs/reference/tools.md (-want +got)\n%s", diff)
		}
		if len(slices.Compact(slices.Clone(want))) != len(want) || !slices.IsSorted(want) {
			t.Errorf("%v is not sorted, or has a program twice", want)
		}
		text = rest
	}
	for _, name := range programs.Plain() {
		if programs.RunsOthers(name) {
			t.Errorf("%s is on both lists", name)
		}
	}
	for _, name := range []string{"Python3.12", "/usr/bin/env", "lua5.4", "bash"} {
		if !programs.RunsOthers(name) {
			t.Errorf("%s runs others", name)
		}
	}
}

// A name is that of one program: trust 8.2.
func TestIsName(t *testing.T) {
	for _, name := range []string{"git", "python3.12", "x-y_z", "cmd.exe", "g++", "é"} {
		if !programs.IsName(name) {
			t.Errorf("%q is a name", name)
		}
	}
	for _, name := range []string{"", " ", "git push", " git", "git ", "/usr/bin/git", "./git", "*", "git*", "g?t", "[g]it", "{a,b}", "a\nb", `a"b`, `a\b`} {
		if programs.IsName(name) {
			t.Errorf("%q is not a name", name)
		}
	}
}

// Whatever is written, it is read without a panic, and the first program is the one that is called.
func FuzzOf(target *testing.F) {
	f := seedtest.Fuzz(target)
	for _, script := range []string{"for f in c; do rm c; done", "eval 'rm a' && find . -exec rm {} \\;", "x=$(rm a); awk '{system(x)}' | sed s/a/b/e",
		"trap \"rm a\" EXIT; [[ a ]] || tar xIf a", "cat <<X\n${x:-$(rm a)}\nX"} {
		f.Add(script)
	}
	f.Fuzz(func(t *testing.T, script string) {
		names, plain := programs.Of([]string{"bash", "-c", script})
		if len(names) == 0 || names[0] != "bash" {
			t.Errorf("%q", names)
		}
		if slices.Contains(names, "\x00") || slices.Contains(names, "") {
			t.Errorf("%q: %q, %v", script, names, plain)
		}
		programs.Of(strings.Fields(script))
	})
}
