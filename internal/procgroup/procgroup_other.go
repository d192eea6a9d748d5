//go:build !unix

// Package procgroup starts programs as the leaders of process groups, and ends the groups. On systems
// that have none it is about the program alone.
package procgroup

import (
	"os"
	"syscall"
)

// Own makes a program the leader of a process group, which its children join.
func Own() *syscall.SysProcAttr { return nil }

// Kill kills the group that p leads, or led: the group lives on in the children of a leader that has
// ended. There may be nothing left to kill.
func Kill(p *os.Process) { _ = p.Kill() }

// Terminate asks the group that p leads to end.
func Terminate(p *os.Process) { _ = p.Kill() } // there is no way to ask
