package value

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// addNumber adds the forms of a secret that is a decimal number, if this one is.
func (r *Redactor) addNumber(secret string) {
	if strings.Trim(secret, "+-.0123456789eE") != "" {
		return
	}
	f, err := strconv.ParseFloat(secret, 64)
	if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
		return
	}
	r.numbers = append(r.numbers, f)
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
	n, _ := strconv.Atoi(exponent)
	forms := []string{strconv.FormatFloat(f, 'f', -1, 64)}
	for _, e := range []string{exponent, strconv.Itoa(n), "+" + strconv.Itoa(n)} {
		forms = append(forms, mantissa+"e"+e, mantissa+"E"+e)
	}
	for _, form := range forms {
		if len(form) >= minPart { // a shorter one is in texts that have nothing to do with the secret
			r.plain.add(needle{text: form})
		}
	}
}

// number replaces a number that is a secret, or whose digits, all of them written, show one. Above 2^53 the digits
// alone tell: there, several integers are one float64.
func (r *Redactor) number(f float64, digits string) (w any, changed bool) {
	if math.Abs(f) <= 1<<53 && slices.Contains(r.numbers, f) {
		return Redacted, true
	}
	s := r.Text(digits)
	return s, s != digits
}

// showsBytes reports whether a list of bytes shows a secret.
func (r *Redactor) showsBytes(list []any) bool {
	if len(list) < 2 {
		return false
	}
	var digits []byte
	for _, e := range list {
		b, ok := e.(int64)
		if !ok || b < 0 || b > 255 {
			return false
		}
		digits = append(strconv.AppendInt(digits, b, 10), ' ')
	}
	found := false
	r.coded.find(string(digits), func(span) { found = true })
	return found
}
