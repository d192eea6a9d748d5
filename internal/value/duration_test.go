package value_test

import (
	"strings"
	"testing"
	"time"

	"github.com/braise-run/braise/internal/value"
)

func TestDuration(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "0": 0, "-5m": -5 * time.Minute,
		"1d": day, "7d": 7 * day, "1d12h": 36 * time.Hour, "1.5d": 36 * time.Hour, ".5d": 12 * time.Hour, "1.d": day,
		"-1d1s": -day - time.Second, "1h1d": 25 * time.Hour, "106751d": 106751 * day, "0d": 0,
	} {
		if got, err := value.Duration(text); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "d", "1", "1 d", "1D", "1day", "1dd", "d1", "106752d", "1e3d", "..1d", strings.Repeat("9", 400) + "d"} {
		if got, err := value.Duration(text); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
