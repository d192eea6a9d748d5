package value_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/braise-run/braise/internal/value"
)

// trust 8.8: a secret that is a number is redacted in every form in which programs write that number.
func TestSecretsThatAreNumbers(t *testing.T) {
	for _, tt := range []struct {
		secret string
		shows  []string // texts that show it, which are JSON too
		not    []string // other numbers
	}{
		{"31415.926535", []string{"31415.926535", "31415.926535000", "3.1415926535e4", "3.1415926535e+04", "3.1415926535E4", "31415926.535e-3"}, []string{"31415.926536", "31415"}},
		{"1234567890", []string{"1234567890", "1234567890.0", "1234567890.00", "1.23456789e9", "1.23456789e+09", "1.23456789E+9", "-1234567890", "71234567890"}, []string{"1234567891", "1.23456788e9"}},
		{"1200000000", []string{"1200000000", "1.2e9", "1.2E+09", "12e8", "1200000000.0"}, []string{"1200000001", "1.2e8"}},
		{"00481516", []string{"481516", "481516.0", "4.81516e5"}, []string{"481517"}},
		{"1234567.50", []string{"1234567.5", "1234567.50", "1.2345675e6"}, []string{"1234567.6"}},
		{"9007199254740993", []string{"9007199254740993"}, []string{"9007199254740994", "9007199254740991"}},
	} {
		r := value.NewRedactor([]string{tt.secret})
		for _, text := range tt.shows {
			for _, form := range []string{"%s", "[1,%s]", `{"a":{"b":%s}}`} {
				v, err := value.Decode(fmt.Appendf(nil, form, text))
				if err != nil {
					t.Fatal(err)
				}
				want := strings.NewReplacer("%s", `"***"`).Replace(form)
				got, err := value.JSON(r.Value(v))
				if strings.Trim(text, "-") != strings.TrimPrefix(text, "7") { // a part of the digits is left
					want = strings.Replace(want, "***", text[:1]+"***", 1)
				}
				if err != nil || string(got) != want {
					t.Errorf("secret %s, value %s: got %s, %v; want %s", tt.secret, text, got, err, want)
				}
			}
		}
		for _, text := range tt.not {
			v, err := value.Decode([]byte(text))
			if got := r.Value(v); err != nil || got != v {
				t.Errorf("secret %s: %s became %v, %v", tt.secret, text, got, err)
			}
		}
	}
	r := value.NewRedactor([]string{"31415.926535", "1234567890"})
	for _, text := range []string{"3.1415926535e4", "3.1415926535E+04", "1234567890.0", "1.23456789e+09", "1.23456789E9"} {
		for _, form := range []string{"x is %s, twice", `{"x":%s}`} {
			got := r.Text(fmt.Sprintf(form, text))
			if want := fmt.Sprintf(form, value.Redacted); strings.ReplaceAll(got, "***.0", "***") != want {
				t.Errorf("text %q: got %q, want %q", fmt.Sprintf(form, text), got, want)
			}
		}
	}
}

// trust 8.8: a list of numbers that are the bytes of a secret goes as a whole.
func TestSecretsAsListsOfBytes(t *testing.T) {
	r := value.NewRedactor([]string{"correct horse"})
	list := func(text string) (all []any) {
		for _, b := range []byte(text) {
			all = append(all, int64(b))
		}
		return all
	}
	for _, tt := range []struct {
		v    any
		want string
	}{
		{list("correct horse"), `"***"`},
		{list("a correct horse!"), `"***"`},
		{map[string]any{"type": "Buffer", "data": list("correct horse")}, `{"data":"***","type":"Buffer"}`},
		{list("correct"), `[99,111,114,114,101,99,116]`},
		{append(list("correct horse"), int64(256)), ""},
		{[]any{}, `[]`},
	} {
		want := tt.want
		if want == "" {
			text, _ := json.Marshal(tt.v)
			want = string(text)
		}
		if got, err := value.JSON(r.Value(tt.v)); err != nil || string(got) != want {
			t.Errorf("%v: got %s, %v; want %s", tt.v, got, err, want)
		}
	}
}
