package workflow

import "time"

// SetFailpoint lets f be called at each boundary of the runs that begin from now on.
func SetFailpoint(f func(name string)) { failpoint = f }

// SetTimes changes how long a lease lasts and how long a record waits for others.
func SetTimes(lease, record time.Duration) { leaseTime, recordTime = lease, record }
