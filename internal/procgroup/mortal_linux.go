package procgroup

import "syscall"

// mortal has a program killed when the thread dies that has started it.
func mortal(attr *syscall.SysProcAttr) *syscall.SysProcAttr {
	attr.Pdeathsig = syscall.SIGKILL
	return attr
}
