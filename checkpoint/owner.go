package checkpoint

import (
	"crypto/rand"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// NewOwner names this process as the owner of leases: host, boot, process namespace, process id,
// the process's start time and a random part, with slashes between. Two calls give two owners.
func NewOwner() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "?"
	}
	boot, namespace := machine()
	pid := os.Getpid()
	start, _ := started(pid)
	return fmt.Sprintf("%s/%s/%s/%d/%s/%s",
		strings.ReplaceAll(host, "/", "_"), boot, namespace, pid, start, rand.Text())
}

// OwnerGone reports whether an owner that NewOwner named is surely gone: it was a process of this
// machine, since this boot, in this process namespace, and there is no such process any more. False
// means alive or unknown; on other systems than Linux it is always false.
func OwnerGone(owner string) bool {
	parts := strings.Split(owner, "/")
	if len(parts) != 6 {
		return false
	}
	boot, namespace := machine()
	pid, err := strconv.Atoi(parts[3])
	if err != nil || pid <= 0 || boot == "" || namespace == "" ||
		boot != parts[1] || namespace != parts[2] || parts[4] == "" {
		return false
	}
	start, gone := started(pid)
	return gone || start != "" && start != parts[4]
}
