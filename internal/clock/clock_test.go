package clock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/clock"
)

type clocked struct {
	*checkpoint.Memory
	err error
}

func (c clocked) Now(context.Context) (time.Time, error) { return time.Now().Add(-time.Hour), c.err }

func TestOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := errors.New("away")
		for name, tt := range map[string]struct {
			store checkpoint.Store
			want  time.Time
			err   error
		}{
			"no store":             {nil, time.Now(), nil},
			"no clock":             {&checkpoint.Memory{}, time.Now(), nil},
			"a clock":              {clocked{&checkpoint.Memory{}, nil}, time.Now().Add(-time.Hour), nil},
			"a clock that is away": {clocked{&checkpoint.Memory{}, away}, time.Now(), away},
		} {
			if got, err := clock.Of(t.Context(), tt.store); !got.Equal(tt.want) || got.Location() != time.UTC || err != tt.err {
				t.Errorf("%s: %v %v, want %v %v", name, got, err, tt.want, tt.err)
			}
		}
	})
}
