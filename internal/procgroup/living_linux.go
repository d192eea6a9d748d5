package procgroup

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// Living returns, by idempotency key, the ids of the processes of this host that have one of the keys in their
// environment, sorted: the programs of the call with that key, and what they started and did not give another
// environment. It sees only processes whose environment this process may read, its user's. The error says that nothing
// can be known. Without keys it looks at nothing.
func Living(keys ...string) (map[string][]int, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	if len(dirs) == 0 { // this process exists
		return nil, os.ErrNotExist
	}
	pids := map[string][]int{}
	for _, dir := range dirs {
		env, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err != nil { // it has ended, or belongs to another user
			continue
		}
		for e := range bytes.SplitSeq(env, []byte{0}) {
			key, ok := bytes.CutPrefix(e, []byte(KeyVariable+"="))
			if ok && slices.Contains(keys, string(key)) {
				pid, _ := strconv.Atoi(filepath.Base(dir))
				pids[string(key)] = append(pids[string(key)], pid)
				break
			}
		}
	}
	for _, list := range pids {
		slices.Sort(list)
	}
	return pids, nil
}
