package endpoint

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
)

// Member is a member of requests, encoded.
type Member struct {
	name string
	text []byte // ,"name":value
}

var memberName = regexp.MustCompile(`^[A-Za-z0-9_.-]+$`)

// Members encodes members that requests have by default, sorted by name. Those in ours, which an adapter sets itself,
// are an error.
func Members(given map[string]any, ours []string) (encoded []Member, err error) {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if slices.Contains(ours, name) || !memberName.MatchString(name) {
			return nil, fmt.Errorf("%q is not a default: each request has its own", name)
		}
		text, err := json.Marshal(given[name])
		if err != nil {
			return nil, fmt.Errorf("the default %q cannot be JSON: %w", name, err)
		}
		encoded = append(encoded, Member{name, append([]byte(`,"`+name+`":`), text...)})
	}
	return encoded, nil
}

// WithMembers adds members to the body of a request, a JSON object that is not empty, but those that it says itself.
func WithMembers(body []byte, members []Member, says func(name string) bool) []byte {
	for _, m := range members {
		if !says(m.name) {
			body = append(append(body[:len(body)-1], m.text...), '}')
		}
	}
	return body
}
