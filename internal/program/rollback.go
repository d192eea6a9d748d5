package program

import "time"

// rollbackTime is how long a rollback may take where neither the step nor defaults gives a timeout.
const rollbackTime = time.Minute
