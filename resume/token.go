package resume

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"regexp"

	"github.com/braise-run/braise/checkpoint"
)

// secretBytes is a multiple of three: base64 has no spare bits then, so that a secret has one form.
const secretBytes = 24

// A run's id is what checkpoint takes as one; it may contain dots, a secret may not.
var tokenForm = regexp.MustCompile(`^([A-Za-z0-9][-A-Za-z0-9_.]{0,127})\.[-A-Za-z0-9_]{32}$`)

// Mint returns a new token, which is the run's id, a dot and a secret of 192 random bits in
// base64url, and the hash under which a store keeps it. runID is one that a store takes.
//
// The hash is the SHA-256 of the token, so it belongs to the run. What ties it to a pause is the
// record that holds it, which names the pause, and to a recipe the first record of that journal,
// which has the digest. The caller that resumes has neither yet: the store finds both by the run's id and
// the hash, and compares them again when it takes the answer.
func Mint(runID string) (token string, hash []byte) {
	var secret [secretBytes]byte
	rand.Read(secret[:]) // never fails
	token = runID + "." + base64.RawURLEncoding.EncodeToString(secret[:])
	return token, hashOf(token)
}

// Parse returns the run that a token belongs to and the token's hash. Of anything that Mint cannot
// have made it returns the error that a store returns for an unknown token:
// [checkpoint.ErrToken], without showing it.
func Parse(token string) (runID string, hash []byte, err error) {
	m := tokenForm.FindStringSubmatch(token)
	if m == nil {
		return "", nil, checkpoint.ErrToken
	}
	return m[1], hashOf(token), nil
}

func hashOf(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// Tokens are the latest tokens of a run's pauses, by the pauses' ids. Make it before the first Note.
type Tokens map[string]string

// Note notes the tokens of an outcome's pauses. Those of earlier outcomes are good for pauses that have none here.
func (t Tokens) Note(pauses []Pause) {
	for _, p := range pauses {
		if p.Token != "" {
			t[p.ID] = p.Token
		}
	}
}
