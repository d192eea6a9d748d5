package temporal

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/seedtest"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/runtime"
)

var (
	tokenKey = bytes.Repeat([]byte{1}, 32)
	otherKey = bytes.Repeat([]byte{2}, 32)
	pending  = []resume.Pause{{ID: "approve"}, {ID: "ask[2]/sign"}}
)

func TestToken(t *testing.T) {
	// printf '3:r.1,7:approve,3:d-1,' | openssl dgst -sha256 -mac HMAC -macopt hexkey:0101…01 -binary | basenc --base64url
	const want = "r.1.VbZ_wrlFEmlgm1YIyBu-Vnn5BLaKJwThjrnhREB5c5Q"
	token := mintToken(tokenKey, "r.1", "approve", "d-1")
	if token != want {
		t.Errorf("mintToken = %q, want %q", token, want)
	}
	run, err := runOfToken(token)
	if run != "r.1" || err != nil {
		t.Errorf("runOfToken = %q, %v, want r.1", run, err)
	}
}

func TestPauseOfToken(t *testing.T) {
	token := mintToken(tokenKey, "r", "ask[2]/sign", "d")
	for _, tt := range []struct {
		name               string
		key                []byte
		token, run, digest string
		pending            []resume.Pause
		want               string
	}{
		{"right", tokenKey, token, "r", "d", pending, "ask[2]/sign"},
		{"the other pause", tokenKey, mintToken(tokenKey, "r", "approve", "d"), "r", "d", pending, "approve"},
		{"another key", otherKey, token, "r", "d", pending, ""},
		{"another run", tokenKey, token, "s", "d", pending, ""},
		{"another recipe", tokenKey, token, "r", "e", pending, ""},
		{"answered", tokenKey, token, "r", "d", pending[:1], ""},
		{"nothing pending", tokenKey, token, "r", "d", nil, ""},
		{"of no pause", tokenKey, mintToken(tokenKey, "r", "pay", "d"), "r", "d", pending, ""},
		{"the run changed", tokenKey, "s" + strings.TrimPrefix(token, "r"), "s", "d", pending, ""},
		{"the last bit changed", tokenKey, flipLast(token), "r", "d", pending, ""},
		{"empty", tokenKey, "", "r", "d", pending, ""},
		// Whoever moves a boundary between the parts makes another token.
		{"moved parts", tokenKey, mintToken(tokenKey, "r", "approved", ""), "r", "d", pending, ""},
		{"moved parts, the other way", tokenKey, mintToken(tokenKey, "rapprove", "", "d"), "r", "d", pending, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := pauseOfToken(tt.key, tt.token, tt.run, tt.digest, tt.pending)
			if got != tt.want || (err == nil) != (tt.want != "") {
				t.Errorf("pauseOfToken = %q, %v, want %q", got, err, tt.want)
			}
			if err != nil && codeOf(err) != "resume.invalidToken" {
				t.Errorf("the error is %v, want resume.invalidToken", err)
			}
		})
	}
}

// flipLast changes a bit of the last character that the hash does not use: base64 would decode it to the same bytes.
func flipLast(token string) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	last := len(token) - 1
	return token[:last] + string(alphabet[strings.IndexByte(alphabet, token[last])^1])
}

func TestRunOfToken(t *testing.T) {
	good := mintToken(tokenKey, "r", "p", "d")
	ofStore, _ := resume.Mint("r")
	for _, tt := range []struct{ name, token, say string }{
		{"empty", "", "unknown"},
		{"no run", strings.TrimPrefix(good, "r"), "unknown"},
		{"short", good[:len(good)-1], "unknown"},
		{"long", good + "A", "unknown"},
		{"padded", good + "=", "unknown"},
		{"a newline behind", good + "\n", "unknown"},
		{"a path", "../" + good, "unknown"},
		{"of a store", ofStore, "in a store"},
		{"huge", strings.Repeat("x.", 1<<20) + good, "unknown"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			run, err := runOfToken(tt.token)
			if run != "" || codeOf(err) != "resume.invalidToken" || !strings.Contains(err.Error(), tt.say) {
				t.Errorf("runOfToken = %q, %v, want resume.invalidToken that says %q", run, err, tt.say)
			}
			if tt.token != "" && strings.Contains(err.Error(), tt.token) {
				t.Errorf("the error shows the token: %v", err)
			}
		})
	}
	// What stores make of a token of a cluster is what they make of an unknown one.
	if run, _, err := resume.Parse(good); run != "" || !errors.Is(err, checkpoint.ErrToken) {
		t.Errorf("resume.Parse = %q, %v, want ErrToken", run, err)
	}
}

func TestCheckTokenKey(t *testing.T) {
	for _, n := range []int{0, 1, 31} {
		if err := checkTokenKey(make([]byte, n)); codeOf(err) != "cluster.tokenKey" {
			t.Errorf("a key of %d bytes: %v, want cluster.tokenKey", n, err)
		}
	}
	for _, n := range []int{32, 64} {
		if err := checkTokenKey(make([]byte, n)); err != nil {
			t.Errorf("a key of %d bytes: %v", n, err)
		}
	}
}

// codeOf returns the code of a runtime.Error; "" of another error.
func codeOf(err error) string {
	if e, ok := errors.AsType[*runtime.Error](err); ok {
		return e.Code
	}
	return ""
}

func FuzzRunOfToken(target *testing.F) {
	f := seedtest.Fuzz(target)
	f.Add(mintToken(tokenKey, "018f4f5e-7b1a-7c3d-9e2f-0123456789ab", "approve", "d"))
	stored, _ := resume.Mint("r")
	f.Add(stored)
	f.Add("../etc/passwd.")
	f.Add("\xff.")
	f.Fuzz(func(t *testing.T, token string) {
		run, err := runOfToken(token)
		if err != nil {
			if run != "" || codeOf(err) != "resume.invalidToken" {
				t.Fatalf("runOfToken = %q, %v", run, err)
			}
			return
		}
		if len(token) != len(run)+44 || !strings.HasPrefix(token, run+".") {
			t.Errorf("the run of %q is %q", token, run)
		}
		if pause, err := pauseOfToken(tokenKey, token, run, "d", pending); err == nil && token != mintToken(tokenKey, run, pause, "d") {
			t.Errorf("%q is of the pause %q", token, pause)
		}
	})
}
