//go:build unix

package procgroup

import (
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Own makes a program the leader of a process group, which its children join.
func Own() *syscall.SysProcAttr { return joining(0) }

// joining makes a program join the group of a leader; 0: its own.
func joining(leader int) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pgid: leader}
}

// Kill kills the group that p leads, or led: the group lives on in the children of a leader that has
// ended. There may be nothing left to kill.
func Kill(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }

// Terminate asks the group that p leads to end.
func Terminate(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGTERM) }

// Guard is all that a guard of [Start] does: when its stdin ends, the process that has started it is dead, and it kills
// its own group. It does not return.
func Guard() {
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGTSTP, syscall.SIGUSR1,
		syscall.SIGUSR2) // a program may send them to its group
	_, _ = io.Copy(io.Discard, os.Stdin)
	if syscall.Getpgrp() == os.Getpid() { // else somebody called it by hand
		_ = syscall.Kill(0, syscall.SIGKILL)
	}
	os.Exit(1)
}
