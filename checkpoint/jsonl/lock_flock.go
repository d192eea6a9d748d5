//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package jsonl

import (
	"errors"
	"os"
	"syscall"
)

var tryLock = flock

// flock is tryLock where the system takes the lock from a process that dies.
func flock(f *os.File) (unlock func(), err error) {
	for {
		switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case err == nil:
			return func() {}, nil // closing the file does it
		case errors.Is(err, syscall.EWOULDBLOCK):
			return nil, nil
		case !errors.Is(err, syscall.EINTR):
			return nil, &os.PathError{Op: "lock", Path: f.Name(), Err: err}
		}
	}
}
