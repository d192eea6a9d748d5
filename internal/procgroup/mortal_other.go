//go:build !linux

package procgroup

import "syscall"

func mortal(attr *syscall.SysProcAttr) *syscall.SysProcAttr { return attr }
