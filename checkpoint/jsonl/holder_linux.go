package jsonl

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// holder returns the process that has the lock of an open file, and whether it is stopped; 0 when that cannot be
// known, as of a process of another user.
func holder(f *os.File) (pid int, stopped bool) {
	info, err := f.Stat()
	if err != nil {
		return 0, false
	}
	inode := fmt.Sprint(info.Sys().(*syscall.Stat_t).Ino)
	locks, _ := os.ReadFile("/proc/locks")
	for line := range strings.Lines(string(locks)) {
		// 1: FLOCK ADVISORY WRITE 4711 fe:00:778394 0 EOF. The device may be another than the file's, the inode is not.
		w := strings.Fields(line)
		if len(w) < 6 || w[1] != "FLOCK" || !strings.HasSuffix(w[5], ":"+inode) {
			continue
		}
		pid, err := strconv.Atoi(w[4])
		if err == nil && pid > 0 && hasOpen(pid, info) {
			return pid, isStopped(pid)
		}
	}
	return 0, false
}

// hasOpen reports whether a process has a file open.
func hasOpen(pid int, info os.FileInfo) bool {
	open, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	for _, name := range open {
		if other, err := os.Stat(name); err == nil && os.SameFile(info, other) {
			return true
		}
	}
	return false
}

// isStopped reports whether a process is stopped, by a signal or a debugger.
func isStopped(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	// pid (name) state ppid …: the name may hold anything, so count from its end; see proc(5).
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	return err == nil && len(fields) > 0 && bytes.ContainsAny(fields[0], "Tt")
}
