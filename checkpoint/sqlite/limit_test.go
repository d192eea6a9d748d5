package sqlite

import (
	"testing"

	"github.com/braise-run/braise/checkpoint"
)

// limitFiles makes writes fail until mend is called, on systems that can do it.
var limitFiles = func(t *testing.T, s checkpoint.Store) (mend func()) {
	t.Skip("this system does not limit the size of files")
	return nil
}
