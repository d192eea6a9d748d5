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
	boot, namespace := machine()
	pid := os.Getpid()
	start, _ := started(pid)
	return fmt.Sprintf("%s/%s/%s/%d/%s/%s", host(), boot, namespace, pid, start, rand.Text())
}

func host() string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		return "?"
	}
	return strings.ReplaceAll(name, "/", "_")
}

// Busy returns the error about a run that an owner holds: an [ErrBusy] that says which process that is.
func Busy(runID, owner string) error {
	return fmt.Errorf("run %q: %w: %s", runID, ErrBusy, Lease{Owner: owner}.Holder())
}

// Holder words the owner for people: process 4711 on laptop. One that NewOwner did not name is quoted.
func (l Lease) Holder() string {
	if parts := strings.Split(l.Owner, "/"); len(parts) == 6 {
		return fmt.Sprintf("process %s on %s", parts[3], parts[0])
	}
	return strconv.Quote(l.Owner)
}

// OwnerGone reports whether an owner that NewOwner named is surely gone: it was a process of this
// machine, under its present name, since this boot, in this process namespace, and there is no such process any
// more. False means alive or unknown; on other systems than Linux it is always false.
func OwnerGone(owner string) bool {
	parts := strings.Split(owner, "/")
	if len(parts) != 6 {
		return false
	}
	boot, namespace := machine()
	pid, err := strconv.Atoi(parts[3])
	if err != nil || pid <= 0 || boot == "" || namespace == "" ||
		host() != parts[0] || boot != parts[1] || namespace != parts[2] || parts[4] == "" {
		return false
	}
	start, gone := started(pid)
	return gone || start != "" && start != parts[4]
}
