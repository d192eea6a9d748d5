package jsonl

import (
	"errors"
	"io/fs"
	"os"
	"time"
)

// tryLock locks an open file against all others who opened it, in this process too; unlock comes
// before the file is closed. unlock is nil when somebody else has the lock.
var _ func(f *os.File) (unlock func(), err error) = tryLock

// stale is how old a lock file is that was left behind.
const stale = 30 * time.Second

// tryLockFile is tryLock for systems without flock: the lock is a file beside the one that it
// guards. One that has been there for long was left by a process that died. (Should two find such a
// one at the same time, both may go on; the lease still tells them apart. What this lock cannot do is
// stop a process that slept for longer in the middle of a write.)
func tryLockFile(f *os.File) (unlock func(), err error) {
	name := f.Name() + ".lock"
	lock, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, fs.ErrExist) {
		if info, err := os.Stat(name); err == nil && time.Since(info.ModTime()) > stale {
			os.Remove(name)
		}
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return func() { os.Remove(name) }, lock.Close()
}
