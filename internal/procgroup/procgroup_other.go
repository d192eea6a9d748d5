//go:build !unix

package procgroup

import (
	"io"
	"os"
	"syscall"
)

// Own makes a program the leader of a process group, which its children join.
func Own() *syscall.SysProcAttr { return nil }

func joining(int) *syscall.SysProcAttr { return nil }

// Kill kills the group that p leads, or led: the group lives on in the children of a leader that has
// ended. There may be nothing left to kill.
func Kill(p *os.Process) { _ = p.Kill() }

// Terminate asks the group that p leads to end.
func Terminate(p *os.Process) { _ = p.Kill() } // there is no way to ask

// Guard is all that a guard of [Start] does. It does not return. Without groups, it has nothing to kill.
func Guard() {
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(1)
}
