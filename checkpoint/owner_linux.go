package checkpoint

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
)

// machine names the boot of this machine and this process's namespace; "" for what is unknown. A
// process id means nothing outside of both.
var machine = sync.OnceValues(func() (boot, namespace string) {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	namespace, _ = os.Readlink("/proc/self/ns/pid")
	return strings.TrimSpace(string(id)), namespace
})

// started returns when a process began, in ticks since boot, "" when that cannot be known. gone: there
// is surely no such process, or it has ended and only its exit code is left.
func started(pid int) (start string, gone bool) {
	// The signal tells more than a missing file: /proc may hide the processes of other users.
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return "", true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", false
	}
	// pid (name) state ppid …: the name may hold anything, so count from its end; see proc(5).
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 {
		return "", false
	}
	return string(fields[19]), fields[0][0] == 'Z' || fields[0][0] == 'X'
}
