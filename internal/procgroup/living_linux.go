package procgroup

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// Living returns the ids of the processes of this host that have an idempotency key in their environment, sorted: the
// programs of the call with that key, and what they started and did not give another environment. It sees those of
// which this process may read the environment, its user's. The error says that nothing can be known.
func Living(key string) ([]int, error) {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil, err
	}
	if len(dirs) == 0 { // this process exists
		return nil, os.ErrNotExist
	}
	entry := []byte(KeyVariable + "=" + key)
	var pids []int
	for _, dir := range dirs {
		env, err := os.ReadFile(filepath.Join(dir, "environ"))
		if err != nil { // it has ended, or is somebody else's
			continue
		}
		for e := range bytes.SplitSeq(env, []byte{0}) {
			if bytes.Equal(e, entry) {
				pid, _ := strconv.Atoi(filepath.Base(dir))
				pids = append(pids, pid)
				break
			}
		}
	}
	slices.Sort(pids)
	return pids, nil
}
