package checkpoint_test

import (
	"testing"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/checkpointtest"
)

func TestMemory(t *testing.T) {
	checkpointtest.Run(t, func(*testing.T) checkpoint.Store { return &checkpoint.Memory{} }, checkpointtest.Options{})
}
