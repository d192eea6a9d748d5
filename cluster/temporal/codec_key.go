package temporal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	commonpb "go.temporal.io/api/common/v1"
	"google.golang.org/protobuf/proto"
)

const keyBytes = 32 // of AES-256

// ParseKeys reads keys as an environment variable has them: each is 32 bytes in base64 or as 64 hexadecimal digits, and
// white space or commas stand between them. `openssl rand -base64 32` makes one. There must be at least one. The
// error is a *runtime.Error with the code cluster.codecKey, and never shows a key.
func ParseKeys(text string) ([][]byte, error) {
	var keys [][]byte
	for i, field := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\r\n,", r) }) {
		k, err := parseKey(field)
		if err != nil {
			return nil, keyError("key %d: %w", i+1, err)
		}
		keys = append(keys, k)
	}
	if keys == nil {
		return nil, keyError("there is no key%s", keyHint)
	}
	return keys, nil
}

const keyHint = "\n  hint: openssl rand -base64 32 makes a key"

// parseKey reads one key. Hexadecimal digits are base64 too, but 64 of them are 48 bytes.
func parseKey(text string) ([]byte, error) {
	if len(text) == hex.EncodedLen(keyBytes) {
		if k, err := hex.DecodeString(text); err == nil {
			return k, nil
		}
	}
	text = strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(text, "="))
	k, err := base64.RawStdEncoding.DecodeString(text)
	if err != nil {
		return nil, errors.New("it is neither base64 nor 64 hexadecimal digits" + keyHint)
	}
	return k, checkKey(k)
}

func checkKey(k []byte) error {
	if len(k) != keyBytes {
		return fmt.Errorf("it has %d bytes, not %d%s", len(k), keyBytes, keyHint)
	}
	return nil
}

// key encrypts payloads.
type key struct {
	id   string
	aead cipher.AEAD
}

// newKey returns the key of 32 bytes. Its id is made of them, so that the same key has the same id everywhere.
func newKey(secret []byte) (key, error) {
	if err := checkKey(secret); err != nil {
		return key{}, err
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		return key{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return key{}, err
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("the id of a key"))
	return key{hex.EncodeToString(mac.Sum(nil)[:4]), aead}, nil
}

// encrypt returns the payload, with its metadata, as one that names the key. A nonce is 96 random bits: a key is good for
// about four billion payloads.
func (k *key) encrypt(p *commonpb.Payload) (*commonpb.Payload, error) {
	plain, err := proto.Marshal(p)
	if err != nil {
		return nil, err
	}
	out := encodedAs(encrypted, k.aead.Seal(nil, nil, plain, []byte(k.id)))
	out.Metadata[keyIDName] = []byte(k.id)
	return out, nil
}

func (k *key) decrypt(p *commonpb.Payload) (*commonpb.Payload, error) {
	plain, err := k.aead.Open(nil, nil, p.GetData(), []byte(k.id))
	if err != nil {
		return nil, damaged(fmt.Errorf("it is not what the key %q encrypted", k.id))
	}
	return payload(plain)
}
