package expr

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// trust 8.8: what expressions do with an integer that int64 does not hold: it is passed on and compared exactly, and
// calculating with it is an error.
func TestLargeIntegers(t *testing.T) {
	const big, next = `fromJSON("18446744073709551615")`, `fromJSON("18446744073709551616")`
	for text, want := range map[string]any{
		big:                                      json.Number("18446744073709551615"),
		`[` + big + `, {a: ` + big + `}]`:        []any{json.Number("18446744073709551615"), map[string]any{"a": json.Number("18446744073709551615")}},
		`string(` + big + `)`:                    "18446744073709551615",
		`toJSON({a: ` + big + `})`:               `{"a":18446744073709551615}`,
		`type(` + big + `)`:                      "int",
		big + ` == ` + big:                       true,
		big + ` == ` + next:                      false,
		big + ` != ` + next:                      true,
		big + ` == 18446744073709551615.0`:       false, // that is 18446744073709551616
		next + ` == 18446744073709551615.0`:      true,
		big + ` in [1, ` + big + `]`:             true,
		big + ` in [18446744073709551616.0]`:     false,
		big + ` < ` + next:                       true,
		big + ` >= 9223372036854775807`:          true,
		`-1 > fromJSON("-99999999999999999999")`: true,
		`max(1, ` + big + `, 2.5)`:               json.Number("18446744073709551615"),
		`sort([` + next + `, 3, ` + big + `])`:   []any{int64(3), json.Number("18446744073709551615"), json.Number("18446744073709551616")},
		`uniq([` + next + `, 18446744073709551616.0, ` + big + `, ` + next + `])`: []any{json.Number("18446744073709551616"), json.Number("18446744073709551615")},
		`groupBy([` + big + `, ` + big + `], #) | keys()`:                         []any{"18446744073709551615"},
		`join([` + big + `], ",")`:                                                "18446744073709551615",
		`[1, 2]?.[` + big + `]`:                                                   nil, // like any other index that is out of range
		`9007199254740993 > 9007199254740992.0`:                                   true,
	} {
		got, err := evaluate(t, "${{ "+text+" }}")
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	const hint = "18446744073709551615 does not fit in 64 bits: it can be passed on and compared, not calculated with; write it as a string"
	for text, want := range map[string]string{
		big + ` + 1`: hint, `1.5 - ` + big: hint, big + ` * 1`: hint, big + ` / 2`: hint, big + ` ** 2`: hint, `-` + big: hint,
		big + ` % 7`: hint, `1..` + big: "the right side of ..: " + hint,
		`int(` + big + `)`: hint, `float(` + big + `)`: hint, `abs(` + big + `)`: hint, `round(` + big + `)`: hint,
		`sum([` + big + `], #)`: hint, `mean(` + big + `)`: hint, `median(1, ` + big + `)`: hint,
		`"abc"[` + big + `:]`: "the bound of a slice: " + hint, `[1, 2][` + big + `]`: "has no item 18446744073709551615, its length is 2",
		`repeat("a", ` + big + `)`:                         "the number of repetitions: " + hint,
		`fromJSON("` + strings.Repeat("9", 200) + `") + 1`: strings.Repeat("9", 80) + "… does not fit in 64 bits",
	} {
		got, err := evaluate(t, "${{ "+text+" }}")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s is %v, %v, want the error %q", text, got, err, want)
		}
	}
}
