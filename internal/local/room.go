package local

import "runtime"

// makeRoom grows the goroutine's stack at once to what a run needs. By itself it would double several times, in the
// depth of the first call, and be copied each time.
//
//go:noinline
func makeRoom() {
	var room [6 << 10]byte
	runtime.KeepAlive(&room)
}
