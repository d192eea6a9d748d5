package value

import "unicode"

// unseen are characters that turn text around, have no width or separate lines: with them, what is read need not be
// what the text holds.
var unseen = []*unicode.RangeTable{unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point,
	unicode.Variation_Selector}

// IsUnseen reports whether a reader would not see a character as what it is, but for the controls of ASCII up to the
// space, and what says how an emoji looks.
func IsUnseen(r rune) bool {
	return r >= 0x7f && r != 0xfe0e && r != 0xfe0f && (unicode.IsControl(r) || unicode.In(r, unseen...))
}
