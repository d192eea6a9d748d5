//go:build !unix

package builtin

import (
	"os"
	"syscall"
)

func ownGroup() *syscall.SysProcAttr { return nil }

// killGroup kills p alone: this system has no process groups that could be killed as one.
func killGroup(p *os.Process) { _ = p.Kill() }
