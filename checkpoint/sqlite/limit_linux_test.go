package sqlite

import (
	"os/signal"
	"syscall"
	"testing"

	"github.com/braise-run/braise/checkpoint"
)

func init() {
	// No file of this process can grow until mend is called: a write stops half-way, as on a full disk.
	limitFiles = func(t *testing.T, _ checkpoint.Store) (mend func()) {
		t.Helper()
		signal.Ignore(syscall.SIGXFSZ)
		var old syscall.Rlimit
		err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old)
		if err == nil {
			err = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 100, Max: old.Max})
		}
		if err != nil {
			t.Fatal(err)
		}
		return func() {
			signal.Reset(syscall.SIGXFSZ)
			if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old); err != nil {
				t.Fatal(err)
			}
		}
	}
}
