package temporal

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"regexp"

	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

// minTokenKey is how many bytes a key must have at least: those of the hash.
const minTokenKey = sha256.Size

// A token is the id of a run, a dot and the 43 characters of a hash in base64url. Those of stores (resume.Mint) have 32
// characters there, so that no text can be both.
var tokenForm = regexp.MustCompile(`^([A-Za-z0-9][-A-Za-z0-9_.]{0,127})\.[-A-Za-z0-9_]{43}$`)

// checkTokenKey returns an error with the code cluster.tokenKey if the key is too short to keep others from making tokens.
func checkTokenKey(key []byte) error {
	if len(key) < minTokenKey {
		return &runtime.Error{Category: runtime.CategoryConfig, Code: "cluster.tokenKey",
			Err: fmt.Errorf("the key of tokens has %d bytes, the least is %d\n  hint: openssl rand -base64 32 makes one", len(key), minTokenKey)}
	}
	return nil
}

// mintToken returns the token of a pause of a run whose recipe has the digest. It is made of the key and these names
// alone: nobody keeps it. Its pause ends with the first answer, and ids of pauses are unique in a run, so that it
// works once.
func mintToken(key []byte, run, pause, digest string) string {
	mac := hmac.New(sha256.New, key)
	for _, part := range []string{run, pause, digest} {
		fmt.Fprintf(mac, "%d:%s,", len(part), part) // with their lengths: no other parts have these bytes
	}
	return run + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// runOfToken returns the run that a token names. Whether the token is right only its pauses can say. The error is
// resume.invalidToken, and does not show the token.
func runOfToken(token string) (string, error) {
	if m := tokenForm.FindStringSubmatch(token); m != nil {
		return m[1], nil
	}
	if _, _, err := resume.Parse(token); err == nil {
		return "", invalidToken(errors.New("the token is of a run in a store, not of one on a cluster" +
			"\n  hint: resume it where the store is, without an engine"))
	}
	return "", invalidToken(errUnknownToken)
}

// pauseOfToken returns which of the pending pauses of a run a token is of. It takes as long for a wrong token as for a
// right one. The error is resume.invalidToken.
func pauseOfToken(key []byte, token, run, digest string, pending []resume.Pause) (string, error) {
	found := -1
	for i := range pending {
		right := mintToken(key, run, pending[i].ID, digest)
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare([]byte(token), []byte(right)), i, found)
	}
	if found < 0 {
		return "", invalidToken(errUnknownToken)
	}
	return pending[found].ID, nil
}

var errUnknownToken = errors.New("the token is unknown, used or expired")

func invalidToken(err error) error {
	return &runtime.Error{Category: runtime.CategoryConfig, Code: "resume.invalidToken", Err: err}
}
