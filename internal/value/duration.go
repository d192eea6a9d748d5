package value

import (
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"time"
)

// inDays matches the parts of a duration that are days.
var inDays = regexp.MustCompile(`([0-9]+(?:\.[0-9]*)?|\.[0-9]+)d`)

// Duration reads a duration as Go has them, with days of 24 hours: 90s, 1h30m, 7d, 1d12h.
func Duration(text string) (time.Duration, error) {
	if !strings.Contains(text, "d") {
		return time.ParseDuration(text)
	}
	d, err := time.ParseDuration(inDays.ReplaceAllStringFunc(text, func(days string) string {
		n, _ := new(big.Rat).SetString("0" + strings.TrimRight(strings.TrimSuffix(days, "d"), "."))
		return n.Mul(n, big.NewRat(24, 1)).FloatString(9) + "h"
	}))
	if err != nil {
		return 0, fmt.Errorf("invalid duration %q", text)
	}
	return d, nil
}
