package runtime

import (
	"context"
	"errors"
	"fmt"

	"github.com/braise-run/braise/internal/value"
)

// MinSecretBytes is the least length of a secret: a shorter one could not be told from ordinary
// text when results are redacted.
const MinSecretBytes = 8

// ErrNoSecret is what Secrets.Secret wraps when there is no secret of that name. What the error says behind it and a
// colon is shown as the reason.
var ErrNoSecret = errors.New("no such secret")

// Secrets gives secrets by name. It is asked before the first step, once for each name that the
// recipe uses; the values reach only the tools that the recipe gives them to, and are replaced by
// *** in whatever adapters return.
type Secrets interface {
	Secret(ctx context.Context, name string) (string, error)
}

// SecretMap is Secrets held in memory.
type SecretMap map[string]string

// Secret returns the value of name, or an error that wraps ErrNoSecret.
func (m SecretMap) Secret(_ context.Context, name string) (string, error) {
	if v, ok := m[name]; ok {
		return v, nil
	}
	return "", fmt.Errorf("%q: %w", name, ErrNoSecret)
}

// Redact returns text with the secrets of the run that a call is of replaced by ***. ctx is that of the call; any
// other leaves text as it is. The engine does the same with whatever an adapter returns: an adapter calls Redact
// before it cuts a text or folds white space, for a part of a secret is not found afterwards.
func Redact(ctx context.Context, text string) string { return value.RedactorOf(ctx).Text(text) }
