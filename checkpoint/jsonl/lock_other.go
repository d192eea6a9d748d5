//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package jsonl

import "os"

func tryLock(f *os.File) (unlock func(), err error) { return tryLockFile(f) }
