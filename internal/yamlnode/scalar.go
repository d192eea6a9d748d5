package yamlnode

import (
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/braise-run/braise/internal/value"
)

// number matches the decimal numbers of the YAML core schema; the group is for floats.
var number = regexp.MustCompile(`^[-+]?(?:[0-9]+|` +
	`([0-9]+\.[0-9]*(?:[eE][-+]?[0-9]+)?|\.[0-9]+(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+))$`)

// resolve gives a plain scalar its type by the YAML 1.2 core schema, which has no yes, no, 0b1,
// 1_000 or dates. A number that JSON cannot hold is Invalid. Integers are int64, or json.Number beyond that.
func resolve(text string) (Kind, any) {
	switch text {
	case "", "~", "null", "Null", "NULL":
		return Null, nil
	case "true", "True", "TRUE":
		return Bool, true
	case "false", "False", "FALSE":
		return Bool, false
	case ".nan", ".NaN", ".NAN":
		return Invalid, nil
	}
	if !strings.Contains("+-.0123456789", text[:1]) {
		return String, text
	}
	switch strings.TrimLeft(text, "+-") {
	case ".inf", ".Inf", ".INF":
		return Invalid, nil
	}
	if kind, v := resolveRadix(text); kind != String {
		return kind, v
	}
	m := number.FindStringSubmatch(text)
	if m == nil {
		return String, text
	}
	if m[1] == "" {
		if i, ok := value.Integer(text); ok {
			return Int, i
		}
		return Invalid, nil // it has too many digits
	}
	f, _ := strconv.ParseFloat(text, 64)
	if math.IsInf(f, 0) {
		return Invalid, nil
	}
	return Float, f
}

// resolveRadix reads 0o17 and 0xff; everything else is a String.
func resolveRadix(text string) (Kind, any) {
	if len(text) < 3 || text[0] != '0' || text[2] == '+' || text[2] == '-' {
		return String, text
	}
	base := map[byte]int{'o': 8, 'x': 16}[text[1]]
	if base == 0 {
		return String, text
	}
	i, err := strconv.ParseInt(text[2:], base, 64)
	switch {
	case err == nil:
		return Int, i
	case strings.Contains(err.Error(), strconv.ErrRange.Error()):
		return Invalid, nil
	}
	return String, text
}
