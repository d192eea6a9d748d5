package jsonl

import (
	"os/signal"
	"syscall"
	"testing"
)

// limitFiles lets no file of this process grow past max bytes until mend is called: a longer write
// stops half-way, as on a full disk.
func limitFiles(t *testing.T, max int64) (mend func()) {
	t.Helper()
	signal.Ignore(syscall.SIGXFSZ)
	var old syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &old)
	if err == nil {
		err = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: uint64(max), Max: old.Max})
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &old)
		signal.Reset(syscall.SIGXFSZ)
		if err != nil {
			t.Fatal(err)
		}
	}
}
