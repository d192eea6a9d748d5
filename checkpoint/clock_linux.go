package checkpoint

import (
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// bootClock returns what the clock of this machine's boot shows, which goes on while the machine sleeps, and its name:
// that of the machine, of the boot and of the namespace in which it is read. Tests change it.
var bootClock = func() (id string, now time.Duration) {
	var t unix.Timespec
	id = bootID()
	if id == "" || unix.ClockGettime(unix.CLOCK_BOOTTIME, &t) != nil {
		return processClock()
	}
	return id, time.Duration(t.Nano())
}

var bootID = sync.OnceValue(func() string {
	boot, _ := machine()
	if boot == "" {
		return ""
	}
	id, _ := os.ReadFile("/etc/machine-id") // a container may have none: the boot names it as well
	namespace, _ := os.Readlink("/proc/self/ns/time")
	return strings.Join([]string{strings.TrimSpace(string(id)), boot, namespace}, "/")
})
