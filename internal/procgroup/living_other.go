//go:build !linux

package procgroup

import "errors"

// Living returns the ids of the processes of this host that have an idempotency key in their environment. On this
// system nothing can be known.
func Living(string) ([]int, error) { return nil, errors.ErrUnsupported }
