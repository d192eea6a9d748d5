package value

import (
	"errors"
	"fmt"
	"strings"
)

// placed is an error at a place inside a value.
type placed struct {
	path string // JSON pointer, not ""
	err  error
}

func (e *placed) Error() string { return e.path + ": " + e.err.Error() }
func (e *placed) Unwrap() error { return e.err }

// at says that err happened in the member or item called token.
func at(token string, err error) error {
	if err == errDeep {
		return err // a path of a thousand names helps nobody
	}
	token = Pointer("", token)
	if p, ok := err.(*placed); ok {
		return &placed{token + p.path, p.err}
	}
	return &placed{token, err}
}

// Pointer appends a member's or item's name to a JSON pointer (RFC 6901).
func Pointer(pointer, token string) string {
	if strings.ContainsAny(token, "~/") {
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~", "~0"), "/", "~1")
	}
	return pointer + "/" + token
}

// Tokens returns the names that a JSON pointer is made of; none for the root, "".
func Tokens(pointer string) []string {
	tokens := strings.Split(pointer, "/")[1:]
	for i, token := range tokens {
		tokens[i] = strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~")
	}
	return tokens
}

// Place splits an error of this package into the JSON pointer of the place, "" for the root, and
// what is wrong there.
func Place(err error) (pointer string, cause error) {
	if p, ok := errors.AsType[*placed](err); ok {
		return p.path, p.err
	}
	return "", err
}

var errDeep = fmt.Errorf("nested more than %d deep", MaxDepth)

func errNumber(f float64) error { return fmt.Errorf("%v is not a JSON number", f) }
