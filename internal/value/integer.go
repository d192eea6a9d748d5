package value

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// MaxDigits is how many digits an integer may have. Some of what reads them takes more than linear time.
const MaxDigits = 10_000

// Integer returns the integer that text writes in decimal digits, which may have a sign and leading zeros: an int64,
// or a json.Number where int64 does not hold it. ok is false for other texts, and for more than [MaxDigits].
func Integer(text string) (v any, ok bool) {
	if i, err := strconv.ParseInt(text, 10, 64); err == nil {
		return i, true
	}
	digits, negative := strings.CutPrefix(text, "-")
	if !negative {
		digits = strings.TrimPrefix(text, "+")
	}
	if digits = strings.TrimLeft(digits, "0"); negative {
		digits = "-" + digits
	}
	n := json.Number(digits)
	return n, isBig(n)
}

// isBig reports whether n is an integer that int64 does not hold, as [Integer] writes it.
func isBig(n json.Number) bool {
	const most = "9223372036854775807"
	digits := strings.TrimPrefix(string(n), "-")
	if len(digits) < len(most) || len(digits) > MaxDigits || digits[0] == '0' {
		return false
	}
	for i := range len(digits) {
		if digits[i] < '0' || digits[i] > '9' {
			return false
		}
	}
	return len(digits) > len(most) || digits > most && string(n) != "-9223372036854775808"
}

// Compare orders two numbers by their exact values.
func Compare(a, b any) int {
	if n, ok := a.(json.Number); ok {
		return compareBig(n, b)
	}
	if n, ok := b.(json.Number); ok {
		return -compareBig(n, a)
	}
	i, isInt := a.(int64)
	j, isInt2 := b.(int64)
	f, _ := a.(float64)
	g, _ := b.(float64)
	switch {
	case isInt && isInt2:
		return order(i, j)
	case isInt:
		return compareIntFloat(i, g)
	case isInt2:
		return -compareIntFloat(j, f)
	}
	return order(f, g)
}

func order[T int | int64 | float64 | string](a, b T) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func compareIntFloat(i int64, f float64) int {
	switch { // 2^63 is a float64, MaxInt64 is not
	case f >= -math.MinInt64:
		return -1
	case f < math.MinInt64:
		return 1
	}
	if o := order(i, int64(f)); o != 0 {
		return o
	}
	return order(math.Trunc(f), f)
}

// compareBig orders an integer that int64 does not hold, and any number.
func compareBig(n json.Number, v any) int {
	sign, text := 1, "" // text: of v, if it is as large
	if n[0] == '-' {
		sign = -1
	}
	switch v := v.(type) {
	case float64:
		if math.Abs(v) >= 1<<63 { // it has no fraction
			text = strconv.FormatFloat(v, 'f', 0, 64)
		}
	case json.Number:
		text = string(v)
	}
	if text == "" || (text[0] == '-') != (sign < 0) {
		return sign
	}
	if o := order(len(n), len(text)); o != 0 {
		return sign * o
	}
	return sign * order(string(n), text)
}

// NoReckoning is the error of who wants to calculate with an integer that int64 does not hold.
func NoReckoning(n json.Number) error {
	text := string(n)
	if len(text) > 80 {
		text = text[:80] + "…"
	}
	return fmt.Errorf("%s does not fit in 64 bits: it can be passed on and compared, not calculated with; "+
		"write it as a string", text)
}
