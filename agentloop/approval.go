package agentloop

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/braise-run/braise/internal/value"
)

const execTool = "exec.run"

// stricter returns the one that lets less happen without a person's word. What it does not know counts as
// always.
func stricter(a, b Approval) Approval {
	order := []Approval{"", ApproveNever, ApprovePause, ApproveAlways, ApproveRefuse}
	place := func(a Approval) int {
		if i := slices.Index(order, a); i >= 0 {
			return i
		}
		return len(order)
	}
	if i := max(place(a), place(b)); i < len(order) {
		return order[i]
	}
	return ApproveAlways
}

// approvalKeys returns what an approval of the call for the session covers, sorted: the tool, or for
// exec.run the names of its commands. A command line whose commands are not plain to see is a key of
// its own.
func approvalKeys(tool string, args json.RawMessage) []string {
	if tool != execTool {
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
		return []string{fmt.Sprintf("%s=%x", execTool, sha256.Sum256(args))}
	}
	for i, n := range names {
		names[i] = execTool + ":" + n
	}
	return union(nil, names)
}

// Commands that run another one, and shells, which run what stands behind -c.
var (
	wrappers = []string{"sudo", "doas", "env", "time", "command", "nohup", "nice", "exec"}
	shells   = []string{"sh", "bash", "dash", "zsh", "ksh"}
)

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
			return names, true
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

// covered reports whether earlier approvals cover a call.
func covered(keys, grants []string) bool {
	for _, k := range keys {
		if _, ok := slices.BinarySearch(grants, k); !ok {
			return false
		}
	}
	return len(keys) > 0
}

// granted returns the approvals for the session of a loop and its children, sorted.
func (s *State) granted() []string {
	all := s.Grants
	for _, name := range value.SortedKeys(s.Children) {
		if g := s.Children[name].granted(); len(g) > 0 {
			all = union(all, g)
		}
	}
	return all
}
