package runtime

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/braise-run/braise/internal/value"
)

// Fingerprint says in short what a tool is: its effect, and hashes of its description and its parameters.
func (s *ToolSpec) Fingerprint() string {
	hash := func(text []byte) string {
		sum := sha256.Sum256(text)
		return hex.EncodeToString(sum[:8])
	}
	parameters := []byte(s.Parameters)
	if v, err := value.Decode(parameters); err == nil {
		if text, err := value.JSON(v); err == nil { // the order of members does not count
			parameters = text
		}
	}
	return string(s.EffectFor(nil)) + " " + hash([]byte(s.Description)) + " " + hash(parameters)
}

// Since says how the tool differs from what had this fingerprint; "": it does not.
func (s *ToolSpec) Since(fingerprint string) string {
	is := strings.Fields(s.Fingerprint())
	was := strings.Fields(fingerprint)
	if len(was) != len(is) {
		return ""
	}
	var changes []string
	if was[0] != is[0] {
		changes = append(changes, "its effect was "+was[0]+" and is "+is[0])
	}
	for i, part := range []string{"its description", "the schema of its arguments"} {
		if was[i+1] != is[i+1] {
			changes = append(changes, part+" is another one")
		}
	}
	return strings.Join(changes, ", ")
}
