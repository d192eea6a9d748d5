package value

import (
	"net/url"
	"strings"
)

// QueryEscape escapes a text for the query of a URL. A space is %20, which is one wherever it stands; "+" is not.
func QueryEscape(text string) string { return strings.ReplaceAll(url.QueryEscape(text), "+", "%20") }
