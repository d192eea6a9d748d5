package checkpoint_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/braise-run/braise/checkpoint"
)

func TestCode(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{checkpoint.ErrExists, "run.exists"},
		{checkpoint.ErrBusy, "run.busy"},
		{checkpoint.ErrFenced, "run.fenced"},
		{checkpoint.ErrConflict, "run.fenced"},
		{checkpoint.ErrNotFound, "run.notFound"},
		{checkpoint.ErrToken, "resume.invalidToken"},
		{checkpoint.ErrCorrupt, "journal.corrupt"},
		{checkpoint.ErrVersion, "journal.version"},
		{checkpoint.ErrInvalid, "store.failed"},
		{checkpoint.ErrClosed, "store.failed"},
		{errors.New("the disk is full"), "store.failed"},
		{fmt.Errorf("run %q: %w", "r", checkpoint.ErrBusy), "run.busy"},
	} {
		if got := checkpoint.Code(tt.err); got != tt.want {
			t.Errorf("Code(%v) = %q, want %q", tt.err, got, tt.want)
		}
	}
}
