package agents

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/braise-run/braise/agentloop"
	"github.com/braise-run/braise/internal/value"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// stricter returns the one that allows less without a person's approval. What it does not know counts as
// always.
func stricter(a, b agentloop.Approval) agentloop.Approval {
	order := []agentloop.Approval{"", agentloop.ApproveNever, agentloop.ApprovePause, agentloop.ApproveAlways,
		agentloop.ApproveRefuse}
	place := func(a agentloop.Approval) int {
		if i := slices.Index(order, a); i >= 0 {
			return i
		}
		return slices.Index(order, agentloop.ApproveAlways)
	}
	return order[max(place(a), place(b))]
}

// approvalKeys returns what an approval of the call for the run covers, sorted: the tool, or for
// exec.run the names of its commands. A command line whose commands are not plain to see is a key of
// its own.
func approvalKeys(tool string, args json.RawMessage) []string {
	if tool != agentloop.ExecTool {
		return []string{tool}
	}
	v, err := value.DecodeStrict(args)
	m, _ := v.(map[string]any)
	list, _ := m["argv"].([]any)
	argv := make([]string, len(list))
	for i, a := range list {
		argv[i], _ = a.(string) // an empty name is no command
	}
	names, ok := commandNames(argv, nil)
	for _, member := range value.SortedKeys(m) { // env, say: PATH may make another command of the name
		ok = ok && slices.Contains([]string{"argv", "stdin", "dir", "timeout"}, member)
	}
	if !ok || err != nil {
		return []string{fmt.Sprintf("%s=%x", agentloop.ExecTool, sha256.Sum256(args))}
	}
	for i, n := range names {
		names[i] = agentloop.ExecTool + ":" + n
	}
	return union(nil, names)
}

// Commands that run the one that their arguments are, shells, which run what stands behind -c, and other programs that
// run what their arguments, their input or a file says.
var (
	wrappers = strings.Fields(`
		chrt command doas env exec ionice nice nohup pkexec setsid stdbuf sudo time timeout unbuffer xargs`)
	shells  = strings.Fields(`ash bash csh dash fish ksh mksh rbash sh tcsh zsh`)
	runners = strings.Fields(`
		ant ansible ansible-playbook apt apt-get at awk batch bazel bpftrace bun bundle busybox cargo chroot cmake
		cmd cmd.exe composer crontab csi dc deno docker dotnet ed elixir emacs entr erl ex expect fakeroot flock
		gawk gdb gem ghci go gradle guile irb java jrunscript jshell julia just kubectl less lldb lua luajit make
		man mawk meson more msbuild mvn mysql nc ncat nerdctl ninja nix nix-shell node nodejs npm npx nsenter nvim
		octave osascript parallel perl php pip pipx pnpm podman poetry powershell psql pwsh pypy python rake rlwrap
		rscript rsync ruby run-parts runuser scala scp screen script sed sftp socat sqlite ssh start-stop-daemon
		strace su swift systemd-run taskset tar tclsh tmux toybox tox ts-node tsx unshare uv uvx valgrind vi vim
		watch wish yarn zip`)
)

// runsOthers reports whether a program runs other programs, or code, as it is told to: an approval of it would cover
// anything. A version at the end of its name does not matter.
func runsOthers(name string) bool {
	base := strings.ToLower(path.Base(name))
	for _, list := range [][]string{wrappers, shells, runners} {
		if slices.Contains(list, base) || slices.Contains(list, strings.TrimRight(base, "0123456789.-")) {
			return true
		}
	}
	return false
}

// grantable reports whether an approval may cover more than this call, by its keys.
func grantable(keys []string) bool {
	for _, k := range keys {
		name, program := strings.CutPrefix(k, agentloop.ExecTool+":")
		if program && runsOthers(name) || strings.HasPrefix(k, agentloop.ExecTool+"=") {
			return false
		}
	}
	return true
}

// gitRunners are the commands of git that run other programs, or say what is run later.
var gitRunners = []string{"config", "bisect", "submodule", "filter-branch", "difftool", "mergetool"}

// hidesOthers reports whether the arguments have a program run others that a reader would have to look for.
func hidesOthers(program string, argv []string) bool {
	has := func(words ...string) bool {
		return slices.ContainsFunc(argv, func(a string) bool {
			return slices.ContainsFunc(words, func(w string) bool { return strings.HasPrefix(a, w) })
		})
	}
	switch program {
	case "find", "fd":
		return has("-exec", "-ok", "-x", "-X", "--exec")
	case "git":
		return has("-c", "--config", "--exec", "-x", "--upload-pack", "--receive-pack", "-u", "ext::") ||
			slices.ContainsFunc(argv, func(a string) bool {
				return slices.Contains(gitRunners, a)
			})
	}
	return false
}

// commandNames adds the names of the commands that a command line runs, wrappers included: sudo git
// is not git. It is false when they are not plain to see.
func commandNames(argv, names []string) ([]string, bool) {
	for {
		if len(argv) == 0 || argv[0] == "" {
			return nil, false
		}
		name := argv[0]
		if strings.Contains(name, "/") && !path.IsAbs(name) {
			return nil, false // another folder, another command
		}
		names, argv = append(names, name), argv[1:]
		base := path.Base(name)
		if slices.Contains(shells, base) {
			if len(argv) != 2 || argv[0] != "-c" {
				return nil, false
			}
			return scriptNames(argv[1], names)
		}
		if !slices.Contains(wrappers, base) {
			return names, !hidesOthers(base, argv)
		}
		if base == "timeout" && len(argv) > 0 && !strings.HasPrefix(argv[0], "-") {
			argv = argv[1:] // the time
		}
		if len(argv) == 0 || strings.HasPrefix(argv[0], "-") || strings.Contains(argv[0], "=") {
			return nil, false // an option may have a value, a variable may say what runs
		}
	}
}

// scriptNames is commandNames for a script of plain words.
func scriptNames(script string, names []string) ([]string, bool) {
	if strings.ContainsAny(script, "\"'\\$`<>(){}[]*?~!#=") {
		return nil, false
	}
	if strings.TrimSpace(script) == "" {
		return nil, false
	}
	for _, part := range strings.FieldsFunc(script, func(r rune) bool { return strings.ContainsRune(";&|\n", r) }) {
		words := strings.Fields(part)
		if len(words) == 0 {
			continue
		}
		var ok bool
		if names, ok = commandNames(words, names); !ok {
			return nil, false
		}
	}
	return names, true
}

// wish is what a person is asked about a call.
func (t *thread) wish(c agentloop.Call, b *binding, keys []string, pauses bool) *runtime.ApprovalRequest {
	return &runtime.ApprovalRequest{Run: t.leg.terms.RunID, Step: t.path, Agent: t.loop.Name, Tool: c.Name,
		Arguments: slices.Clone(c.Arguments), Parameters: b.Parameters, Keys: slices.Clone(keys),
		To:   slices.Clone(t.loop.ApprovalTo),
		Once: !grantable(keys), Pauses: pauses}
}

// Where the host gives it a time, the call is refused after that.
func (t *thread) approvalPause(c agentloop.Call, wish *runtime.ApprovalRequest) Pause {
	p := Pause{For: ForApproval, Call: t.n, Tool: c.Name, Pause: wish.Question()}
	if limit := t.leg.offer.Agents.ApprovalExpires; limit > 0 {
		p.ExpiresAt = t.leg.Now.Add(limit)
		p.OnExpire = resume.Expiry{Answered: true, Value: map[string]any{"decision": "reject",
			"form": map[string]any{"reason": "nobody decided in time"}}}
	}
	return p
}

// Approves returns what approving a pause for the run would cover; nil: it is no question about a call, or an approval
// is for this call only.
func (p *Pause) Approves() []string {
	shown, _ := p.Show.(map[string]any)
	list, _ := shown["keys"].([]any)
	var keys []string
	for _, key := range list {
		if text, ok := key.(string); ok && p.For == ForApproval {
			keys = append(keys, text)
		}
	}
	if !grantable(keys) {
		return nil
	}
	return scoped(keys, p.To)
}

// scoped returns what an approval for the run covers if only some people may give it: nothing that others decide about.
// nil: anybody may give it.
func scoped(keys, to []string) []string {
	if len(to) == 0 {
		return keys
	}
	names, _ := value.JSON(slices.Sorted(slices.Values(to))) // they are strings
	list := make([]string, len(keys))
	for i, key := range keys {
		list[i] = key + " " + string(names)
	}
	return list
}

// ApprovedForRun reports whether the answer to a pause that asks about a call approves for the run.
func ApprovedForRun(answer any) bool {
	d := runtime.DecisionOf(answer)
	return d.Allow && forRun(d.Scope) && d.Arguments == nil
}

// Covered reports whether earlier approvals for the run, sorted, cover a call with these keys.
func Covered(keys, grants []string) bool {
	if !grantable(keys) {
		return false
	}
	for _, k := range keys {
		if _, ok := slices.BinarySearch(grants, k); !ok {
			return false
		}
	}
	return len(keys) > 0
}

// granted returns the approvals for the run of a loop and its children, sorted.
func (s *State) granted() []string {
	all := s.Grants
	for _, name := range value.SortedKeys(s.Children) {
		if g := s.Children[name].granted(); len(g) > 0 {
			all = union(all, g)
		}
	}
	return all
}
