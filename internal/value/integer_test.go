package value_test

import (
	"encoding/json"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/braise-run/braise/internal/seedtest"
	"github.com/braise-run/braise/internal/value"
)

func TestInteger(t *testing.T) {
	for text, want := range map[string]any{
		"0": int64(0), "-0": int64(0), "+7": int64(7), "-007": int64(-7), "9223372036854775807": int64(math.MaxInt64),
		"-9223372036854775808": int64(math.MinInt64), "9223372036854775808": json.Number("9223372036854775808"),
		"-9223372036854775809": json.Number("-9223372036854775809"), "+00018446744073709551615": json.Number("18446744073709551615"),
	} {
		if got, ok := value.Integer(text); !ok || got != want {
			t.Errorf("%s is %#v, %t, want %#v", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "-", "+", "x", "1.0", "1e30", "99999999999999999999x", "--99999999999999999999", strings.Repeat("9", value.MaxDigits+1)} {
		if got, ok := value.Integer(text); ok {
			t.Errorf("%.40q is %v", text, got)
		}
	}
}

// trust 8.8: an integer of any length is read and written with the same digits.
func TestIntegersKeepTheirDigits(t *testing.T) {
	random := rand.New(rand.NewPCG(seedtest.Seed, 1))
	for range 2000 {
		digits := fmt.Sprint(1 + random.IntN(9))
		for len(digits) < 19+random.IntN(42) {
			digits += fmt.Sprint(random.IntN(10))
		}
		if random.IntN(2) == 0 {
			digits = "-" + digits
		}
		v, err := value.DecodeStrict([]byte(digits))
		if err != nil {
			t.Fatal(err)
		}
		same, err := value.Normalise(v)
		if err != nil || !value.Equal(v, same) {
			t.Fatalf("%s: normalised to %v, %v", digits, same, err)
		}
		for name, write := range map[string]func(any) ([]byte, error){"JSON": value.JSON, "encoding/json": json.Marshal,
			"Text": func(v any) ([]byte, error) { s, err := value.Text(v); return []byte(s), err }} {
			if got, err := write(value.Clone(v)); err != nil || string(got) != digits {
				t.Errorf("%s: %s wrote %s, %v", digits, name, got, err)
			}
		}
		if n, err := value.Size(v, 1000); n != len(digits) || err != nil {
			t.Errorf("%s: Size is %d, %v", digits, n, err)
		}
	}
	long := strings.Repeat("7", value.MaxDigits)
	if v, err := value.Decode([]byte(long)); err != nil || v != any(json.Number(long)) {
		t.Errorf("%d digits: %v", len(long), err)
	}
	if _, err := value.Decode([]byte("[1, " + long + "7]")); err == nil || err.Error() != "/1: line 1, column 5: an integer may have at most 10000 digits" {
		t.Errorf("%d digits: %v", len(long)+1, err)
	}
}

// Compare and Equal agree with exact arithmetic.
func TestCompare(t *testing.T) {
	var all []any
	for _, text := range []string{
		"0", "1", "-1", "0.5", "-0.5", "9007199254740992", "9007199254740993", "9007199254740992.0", "9223372036854775807", "9223372036854775808",
		"9223372036854775808.0", "-9223372036854775808", "-9223372036854775808.0", "-9223372036854775809", "18446744073709551615", "18446744073709551616",
		"18446744073709551616.0", "-18446744073709551616", "100000000000000000000", "1e20", "-1e20", "1e300", "-1e300", "1" + strings.Repeat("0", 400), "-1" + strings.Repeat("0", 400),
	} {
		v, err := value.Decode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	exact := func(v any) *big.Rat {
		if f, ok := v.(float64); ok {
			return new(big.Rat).SetFloat64(f)
		}
		text, _ := value.JSON(v)
		r, _ := new(big.Rat).SetString(string(text))
		return r
	}
	for _, a := range all {
		for _, b := range all {
			want := exact(a).Cmp(exact(b))
			if got := value.Compare(a, b); got != want {
				t.Errorf("Compare(%v, %v) = %d, want %d", a, b, got, want)
			}
			if got := value.Equal(a, b); got != (want == 0) {
				t.Errorf("Equal(%v, %v) = %t", a, b, got)
			}
		}
	}
}
