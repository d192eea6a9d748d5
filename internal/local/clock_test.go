package local

import (
	"testing"
	"time"
	"unsafe"
)

// trust 6.1: a wall clock that is set by an hour, either way, while an execution goes on changes nothing of what the run tells: no step
// takes an hour, or less than no time.
func TestWallClockIsSet(t *testing.T) {
	for _, hour := range []int64{3600, -3600} {
		r := &Run{clock: time.Now()}
		// The first word of a Time has the seconds on the wall, from bit 30 on: as if the clock had been set since.
		*(*uint64)(unsafe.Pointer(&r.clock)) -= uint64(hour) << 30
		r.began = r.clock.UTC()
		if off := time.Since(r.began); off.Abs() < time.Hour-time.Minute {
			t.Fatalf("the test does not set the clock: %v", off)
		}
		if took := r.now().Sub(r.began); took < 0 || took > time.Minute {
			t.Errorf("the clock was set by %d s: the execution takes %v", hour, took)
		}
	}
}
