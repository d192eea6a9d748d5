//go:build !linux

package mcp

import "syscall"

// diesWithParent has nothing to offer here: a process sees that its stdin ends.
func diesWithParent(attr *syscall.SysProcAttr) *syscall.SysProcAttr { return attr }
