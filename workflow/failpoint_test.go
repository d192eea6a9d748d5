package workflow

import (
	"time"

	"github.com/braise-run/braise/internal/failpoint"
	"github.com/braise-run/braise/internal/ledger"
	"github.com/braise-run/braise/internal/local"
)

// SetFailpoint lets f be called at each boundary of the runs that begin from now on.
func SetFailpoint(f func(name string)) { failpoint.Hook = f }

// SetTimes changes how long a lease lasts and how long a record waits for others.
func SetTimes(lease, record time.Duration) { ledger.LeaseTime, local.RecordTime = lease, record }
