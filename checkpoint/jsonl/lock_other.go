//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package jsonl

var tryLock = tryLockFile
