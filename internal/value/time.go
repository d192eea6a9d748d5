package value

import (
	"strings"
	"time"
)

// Time reads a time of RFC 3339, whose "T" and "Z" may be small letters.
func Time(text string) (time.Time, error) { return time.Parse(time.RFC3339, strings.ToUpper(text)) }
