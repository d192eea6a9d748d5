package value

import (
	"math"
	"strconv"
)

// MaxMicros is how many millionths of a dollar an amount has at most, so that sums do not overflow.
const MaxMicros = 1 << 52

// Micros rounds millionths of a dollar up, to [MaxMicros] at most; any positive amount is at least one.
func Micros(f float64) int64 {
	if !(f < MaxMicros) {
		return MaxMicros
	}
	return int64(math.Ceil(f - f*1e-12)) // 0.000007*1e6 may be a little over 7
}

// Dollars prints millionths of a dollar as dollars, without a sign: 0.01.
func Dollars(micros int64) string { return strconv.FormatFloat(float64(micros)/1e6, 'f', -1, 64) }
