package checkpoint_test

import "github.com/braise-run/braise/checkpoint"

var _ checkpoint.Store = (*checkpoint.Memory)(nil)
