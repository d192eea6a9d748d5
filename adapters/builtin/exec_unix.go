//go:build unix

package builtin

import (
	"os"
	"syscall"
)

// ownGroup makes a program the leader of a process group, which its children join.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills the group that p leads, or led: the group lives on in the children of a leader
// that has ended. There may be nothing left to kill.
func killGroup(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }
