package endpoint

import (
	"math"
	"strconv"
	"strings"
)

// Count is a count of tokens: a number, with a fraction of 0 or in a string too. What is none counts nothing: that is
// no reason to throw away an answer that is paid for.
type Count int

// UnmarshalJSON reads a count.
func (c *Count) UnmarshalJSON(data []byte) error {
	n, err := strconv.ParseFloat(strings.Trim(string(data), `"`), 64)
	if err != nil || n != n || n > math.MaxInt32 {
		n = 0
	}
	*c = Count(n)
	return nil
}
