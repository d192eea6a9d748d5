package wire

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/braise-run/braise/internal/engine"
)

// Version is that of the form. It grows when an older reader would take something for what it is not.
const Version = 1

// Why bytes are refused.
var (
	ErrCorrupt = errors.New("it is cut off, or no message of Braise")
	ErrNewer   = errors.New("a newer version of Braise has written it")
	ErrDigest  = errors.New("it is of another recipe")
)

// message is what bytes hold.
type message struct {
	Version int             `json:"version"`
	Digest  string          `json:"digest"`
	Call    json.RawMessage `json:"call,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
}

// EncodeCall writes a call of a run of the recipe with this digest.
func EncodeCall(digest string, c *engine.Call) ([]byte, error) {
	text, err := json.Marshal(CallOf(c))
	if err != nil {
		return nil, fmt.Errorf("call of %q: %w", c.Path, err)
	}
	return json.Marshal(message{Version: Version, Digest: digest, Call: text})
}

// DecodeCall reads what EncodeCall has written for the same digest. Otherwise the error is one of [ErrCorrupt],
// [ErrNewer] and [ErrDigest], and says more.
func DecodeCall(digest string, data []byte) (*engine.Call, error) {
	m, err := read(digest, data)
	if err != nil {
		return nil, fmt.Errorf("call: %w", err)
	}
	var c Call
	if err := json.Unmarshal(m.Call, &c); err != nil {
		return nil, fmt.Errorf("call: %w: %w", ErrCorrupt, err)
	}
	call, err := c.Restore()
	if err != nil {
		return nil, fmt.Errorf("call of %q: %w: %w", c.Path, ErrCorrupt, err)
	}
	return call, nil
}

// EncodeResult writes what came of a call of a run of the recipe with this digest.
func EncodeResult(digest string, res *engine.Result) ([]byte, error) {
	text, err := json.Marshal(ResultOf(res))
	if err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	return json.Marshal(message{Version: Version, Digest: digest, Result: text})
}

// DecodeResult reads what EncodeResult has written for the same digest; for the errors see [DecodeCall].
func DecodeResult(digest string, data []byte) (*engine.Result, error) {
	m, err := read(digest, data)
	if err != nil {
		return nil, fmt.Errorf("result: %w", err)
	}
	var r Result
	if err := json.Unmarshal(m.Result, &r); err != nil {
		return nil, fmt.Errorf("result: %w: %w", ErrCorrupt, err)
	}
	return r.Restore(), nil
}

// read reads a message, and checks that this process can use it.
func read(digest string, data []byte) (m message, err error) {
	err = json.Unmarshal(data, &m)
	switch {
	case err != nil && m.Version <= Version:
		return m, fmt.Errorf("%w: after %d bytes of %d: %w", ErrCorrupt, offset(err), len(data), err)
	case m.Version > Version:
		return m, fmt.Errorf("%w: version %d, this one reads up to %d\n  hint: update this process first",
			ErrNewer, m.Version, Version)
	case m.Version < 1:
		return m, fmt.Errorf("%w: it has no version", ErrCorrupt)
	case m.Digest != digest:
		return m, fmt.Errorf("%w: digest %q, this one is %q", ErrDigest, m.Digest, digest)
	}
	return m, nil
}

// offset is where in the bytes an error is.
func offset(err error) int64 {
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		return e.Offset
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return e.Offset
	}
	return 0
}
