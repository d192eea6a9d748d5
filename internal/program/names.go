package program

// HintLine is a hint as the last line of an error; "" for no hint.
func HintLine(hint string) string {
	if hint == "" {
		return ""
	}
	return "\n  hint: " + hint
}
