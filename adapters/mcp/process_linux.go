package mcp

import "syscall"

// diesWithParent has a process killed when the one that has started it dies.
func diesWithParent(attr *syscall.SysProcAttr) *syscall.SysProcAttr {
	attr.Pdeathsig = syscall.SIGKILL
	return attr
}
