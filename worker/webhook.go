package worker

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// The headers of a webhook as Standard Webhooks has them, https://www.standardwebhooks.com.
const (
	webhookID        = "webhook-id"
	webhookTimestamp = "webhook-timestamp"
	webhookSignature = "webhook-signature"
)

// toleranceTime is how far the time of a webhook may be from the clock's, as Standard Webhooks proposes.
const toleranceTime = 5 * time.Minute

// decodeSecret returns the bytes of a secret: of whsec_ and base64 what that decodes to, else the text.
func decodeSecret(secret string) ([]byte, error) {
	text, ok := strings.CutPrefix(secret, "whsec_")
	if !ok {
		return []byte(secret), nil
	}
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(key) < minSecret {
		return nil, fmt.Errorf("the secret is whsec_, but not the base64 of %d bytes or more behind it", minSecret)
	}
	return key, nil
}

// signature is the signature, version 1, of a message: the HMAC-SHA256 of its id, its time in seconds and its body.
func signature(secret []byte, id, seconds string, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(id + "." + seconds + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// sign adds the headers of a webhook.
func sign(secret []byte, header http.Header, id string, at time.Time, body []byte) {
	seconds := strconv.FormatInt(at.Unix(), 10)
	header.Set(webhookID, id)
	header.Set(webhookTimestamp, seconds)
	header.Set(webhookSignature, signature(secret, id, seconds, body))
}

// verify checks the headers of a webhook.
func verify(secret []byte, header http.Header, body []byte, now time.Time) error {
	id, seconds := header.Get(webhookID), header.Get(webhookTimestamp)
	n, err := strconv.ParseInt(seconds, 10, 64)
	if id == "" || err != nil {
		return fmt.Errorf("the header %s or %s is missing or malformed", webhookID, webhookTimestamp)
	}
	if late := now.Sub(time.Unix(n, 0)); late.Abs() > toleranceTime {
		return fmt.Errorf("it was signed %v from now, and %v are allowed", late.Round(time.Second), toleranceTime)
	}
	want := []byte(signature(secret, id, seconds, body))
	for given := range strings.FieldsSeq(header.Get(webhookSignature)) { // several, while one secret replaces another
		if hmac.Equal(want, []byte(given)) {
			return nil
		}
	}
	return errors.New("the signature is not of this message and secret")
}
