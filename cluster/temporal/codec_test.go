package temporal

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/proto"

	"github.com/braise-run/braise/internal/seedtest"
)

var (
	keyA = bytes.Repeat([]byte{0xaa}, 32)
	keyB = bytes.Repeat([]byte{0xbb}, 32)
)

func newCodec(t testing.TB, keys ...[]byte) *Codec {
	t.Helper()
	c, err := NewCodec(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// payloads are of all kinds: small and large ones, some that zlib makes smaller and some that it does not.
func payloads() []*commonpb.Payload {
	random := make([]byte, 100_000)
	rand.NewChaCha8([32]byte{1}).Read(random)
	return []*commonpb.Payload{
		{},
		encodedAs("json/plain", []byte(`{"canary":"a small one"}`)),
		encodedAs("json/plain", []byte(`"`+strings.Repeat("canary ", 50_000)+`"`)),
		encodedAs("binary/plain", random),
		{Metadata: map[string][]byte{"encoding": []byte("json/plain"), "messageType": bytes.Repeat([]byte("x"), 5000)}},
	}
}

func encode(t testing.TB, c *Codec, in []*commonpb.Payload) []*commonpb.Payload {
	t.Helper()
	out, err := c.Encode(in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func same(a, b []*commonpb.Payload) bool {
	return cmp.Equal(a, b, cmp.Comparer(func(a, b *commonpb.Payload) bool { return proto.Equal(a, b) }))
}

func TestCodec(t *testing.T) {
	for _, tt := range []struct {
		name     string
		to, from *Codec
	}{
		{"no key", newCodec(t), newCodec(t)},
		{"a key", newCodec(t, keyA), newCodec(t, keyA)},
		{"the key is the second there", newCodec(t, keyA), newCodec(t, keyB, keyA)},
		{"written before there were keys", newCodec(t), newCodec(t, keyA)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := payloads()
			coded := encode(t, tt.to, in)
			if !same(in, payloads()) {
				t.Error("Encode changes its argument")
			}
			before := make([]*commonpb.Payload, len(coded))
			for i := range coded {
				before[i] = proto.CloneOf(coded[i])
			}
			out, err := tt.from.Decode(coded)
			if err != nil || !same(out, in) {
				t.Errorf("Decode: %v; the payloads are other ones", err)
			}
			if !same(coded, before) {
				t.Error("Decode changes its argument")
			}
		})
	}
}

// Without keys only what gains is encoded; with one nothing of a payload shows but the key's id, and a long text is short.
func TestEncode(t *testing.T) {
	in := payloads()
	plain := encode(t, newCodec(t), in)
	for i, want := range []string{"", "json/plain", "binary/zlib", "binary/plain", "binary/zlib"} {
		if got := encodingOf(plain[i]); got != want {
			t.Errorf("payload %d without a key is %q, want %q", i, got, want)
		}
	}
	c := newCodec(t, keyA, keyB)
	for i, p := range encode(t, c, in) {
		want := map[string][]byte{"encoding": []byte("binary/encrypted"), "encryption-key-id": []byte(c.KeyIDs()[0])}
		if diff := cmp.Diff(want, p.Metadata); diff != "" {
			t.Errorf("the metadata of payload %d (-want +got):\n%s", i, diff)
		}
		if bytes.Contains(p.Data, []byte("canary")) {
			t.Errorf("payload %d can be read", i)
		}
	}
	if got := len(encode(t, c, in)[2].Data); got > 2000 {
		t.Errorf("350,000 bytes of one word are %d bytes", got)
	}
	if again := encode(t, c, in); bytes.Equal(again[1].Data, encode(t, c, in)[1].Data) {
		t.Error("the same payload is encrypted to the same bytes twice")
	}
	large := &commonpb.Payload{Data: make([]byte, maxPlain)}
	if _, err := c.Encode([]*commonpb.Payload{large}); codeOf(err) != "cluster.tooLarge" {
		t.Errorf("64 MiB and some bytes: %v, want cluster.tooLarge", err)
	}
}

func TestDecodeRefuses(t *testing.T) {
	in := payloads()[1:3]
	a, b := newCodec(t, keyA), newCodec(t, keyB)
	ofA, zipped := encode(t, a, in), encode(t, newCodec(t), in)[1]
	change := func(p *commonpb.Payload, f func(*commonpb.Payload)) *commonpb.Payload {
		p = proto.CloneOf(p)
		f(p)
		return p
	}
	var bomb bytes.Buffer
	w := zlib.NewWriter(&bomb)
	w.Write(make([]byte, maxPlain+1))
	w.Close()
	for _, tt := range []struct {
		name  string
		codec *Codec
		p     *commonpb.Payload
		code  string
		say   string
	}{
		{"no key", newCodec(t), ofA[0], "cluster.codecKey", `the key "` + a.KeyIDs()[0] + `"` + "\n  hint: there is no key here"},
		{"another key", b, ofA[0], "cluster.codecKey", "hint: the keys here are " + b.KeyIDs()[0]},
		{"cut", a, change(ofA[1], func(p *commonpb.Payload) { p.Data = p.Data[:len(p.Data)-1] }), "cluster.payload", "the key"},
		{"empty", a, change(ofA[1], func(p *commonpb.Payload) { p.Data = nil }), "cluster.payload", "the key"},
		{"a changed bit", a, change(ofA[0], func(p *commonpb.Payload) { p.Data[20] ^= 1 }), "cluster.payload", "the key"},
		{"the id of another key", newCodec(t, keyA, keyB), change(ofA[0], func(p *commonpb.Payload) {
			p.Metadata["encryption-key-id"] = []byte(b.KeyIDs()[0])
		}), "cluster.payload", "not what the key"},
		{"no id", a, change(ofA[0], func(p *commonpb.Payload) { delete(p.Metadata, "encryption-key-id") }), "cluster.codecKey", `the key ""`},
		{"zlib, cut", a, change(zipped, func(p *commonpb.Payload) { p.Data = p.Data[:len(p.Data)/2] }), "cluster.payload", "ends too early"},
		{"zlib, without its sum", a, change(zipped, func(p *commonpb.Payload) { p.Data = p.Data[:len(p.Data)-4] }), "cluster.payload", "ends too early"},
		{"zlib, empty", a, encodedAs("binary/zlib", nil), "cluster.payload", ""},
		{"a bomb", a, encodedAs("binary/zlib", bomb.Bytes()), "cluster.payload", "more than"},
		{"no payload inside", a, encodedAs("binary/zlib", deflated("\xff")), "cluster.payload", ""},
		{"no zlib", a, encodedAs("binary/zlib", []byte("text")), "cluster.payload", "zlib"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, err := tt.codec.Decode([]*commonpb.Payload{tt.p})
			if out != nil || codeOf(err) != tt.code || !strings.Contains(err.Error(), tt.say) {
				t.Errorf("Decode = %v, %v, want %s that says %q", out, err, tt.code, tt.say)
			}
		})
	}
}

func deflated(text string) []byte {
	var out bytes.Buffer
	w := zlib.NewWriter(&out)
	w.Write([]byte(text))
	w.Close()
	return out.Bytes()
}

func TestParseKeys(t *testing.T) {
	digits := hex.EncodeToString(keyA)
	text := base64.StdEncoding.EncodeToString(keyB) // with a "=" behind
	for _, tt := range []struct {
		name, text string
		want       [][]byte
	}{
		{"base64", text, [][]byte{keyB}},
		{"base64 without padding", strings.TrimRight(text, "="), [][]byte{keyB}},
		{"base64url", base64.URLEncoding.EncodeToString(keyB), [][]byte{keyB}},
		{"hexadecimal", digits, [][]byte{keyA}},
		{"capitals", strings.ToUpper(digits), [][]byte{keyA}},
		{"several", " " + digits + ",\n" + text + "\t", [][]byte{keyA, keyB}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := ParseKeys(tt.text)
			if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
				t.Errorf("ParseKeys (-want +got): %v\n%s", err, diff)
			}
		})
	}
	for _, tt := range []struct{ name, text, say string }{
		{"empty", "", "there is no key"},
		{"blank", " ,\n", "there is no key"},
		{"short", base64.StdEncoding.EncodeToString(keyA[:16]), "key 1: it has 16 bytes, not 32"},
		{"long", text + "," + hex.EncodeToString(append(keyA, 0)), "key 2: it has 49 bytes, not 32"}, // as base64
		{"62 digits", digits[2:], "key 1: it has 46 bytes, not 32"},
		{"63 digits", digits[1:], "key 1: it has 47 bytes, not 32"},
		{"a password", "correct-horse-battery-staple!", "key 1: it is neither base64 nor 64 hexadecimal digits"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			keys, err := ParseKeys(tt.text)
			if keys != nil || codeOf(err) != "cluster.codecKey" || !strings.Contains(err.Error(), tt.say) {
				t.Errorf("ParseKeys = %x, %v, want cluster.codecKey that says %q", keys, err, tt.say)
			}
			if field := strings.Trim(tt.text, " ,\n"); field != "" && strings.Contains(err.Error(), field) {
				t.Errorf("the error shows the key: %v", err)
			}
		})
	}
}

func TestNewCodecRefuses(t *testing.T) {
	for _, tt := range []struct {
		keys [][]byte
		want string
	}{
		{[][]byte{keyA, keyB[:31]}, "key 2: it has 31 bytes, not 32"},
		{[][]byte{nil}, "key 1: it has 0 bytes, not 32"},
		{[][]byte{keyA, keyB, keyA}, "key 3 is there twice"},
	} {
		if _, err := NewCodec(tt.keys...); codeOf(err) != "cluster.codecKey" || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("NewCodec: %v, want cluster.codecKey that says %q", err, tt.want)
		}
	}
}

// What a client sends and reads is coded: values, and with a key what failures say.
func TestCodecOptions(t *testing.T) {
	for _, tt := range []struct {
		name string
		keys [][]byte
		says string // of a failure on its way
	}{
		{"no key", nil, "the canary died"},
		{"a key", [][]byte{keyA}, "Encoded failure"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := newCodec(t, tt.keys...).Options(client.Options{Namespace: "n"})
			text := strings.Repeat("canary ", 100)
			p, err := o.DataConverter.ToPayload(text)
			if err != nil || o.Namespace != "n" || bytes.Contains(p.Data, []byte("canary canary")) {
				t.Errorf("%v, %q", err, p.Data)
			}
			var back string
			if err := o.DataConverter.FromPayload(p, &back); back != text || err != nil {
				t.Errorf("FromPayload = %q, %v", back, err)
			}
			failures := o.FailureConverter
			if failures == nil {
				failures = temporal.GetDefaultFailureConverter()
			}
			f := failures.ErrorToFailure(temporal.NewApplicationError("the canary died", "bird"))
			if f.Message != tt.says {
				t.Errorf("the failure says %q, want %q", f.Message, tt.says)
			}
			if err := failures.FailureToError(f); !strings.Contains(err.Error(), "the canary died") {
				t.Errorf("the failure comes back as %v", err)
			}
		})
	}
	inner := converter.NewCompositeDataConverter(converter.NewByteSlicePayloadConverter())
	o := newCodec(t).Options(client.Options{DataConverter: inner})
	if _, err := o.DataConverter.ToPayload("text"); err == nil {
		t.Error("the data converter that the options had is not asked")
	}
}

// Workers use one codec for all their runs.
func TestCodecAtOnce(t *testing.T) {
	c, in := newCodec(t, keyA), payloads()
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 20 {
				coded, err := c.Encode(in)
				if err != nil {
					t.Error(err)
					return
				}
				if out, err := c.Decode(coded); err != nil || !same(out, in) {
					t.Errorf("Decode: %v; the payloads are other ones", err)
				}
			}
		})
	}
	all.Wait()
}

func FuzzCodecDecode(target *testing.F) {
	f := seedtest.Fuzz(target)
	c, err := NewCodec(keyA)
	if err != nil {
		f.Fatal(err)
	}
	for _, p := range append(encode(f, c, payloads()), encode(f, newCodec(f), payloads())...) {
		data, err := proto.Marshal(p)
		if err != nil {
			f.Fatal(err)
		}
		if len(data) < 10_000 {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var p commonpb.Payload
		if proto.Unmarshal(data, &p) != nil {
			return
		}
		out, err := c.Decode([]*commonpb.Payload{&p})
		if err != nil {
			if code := codeOf(err); out != nil || code != "cluster.codecKey" && code != "cluster.payload" {
				t.Fatalf("Decode = %v, %v", out, err)
			}
			return
		}
		// What could be decoded can go the same way again.
		again, err := c.Decode(encode(t, c, out))
		if encodingOf(out[0]) == compressed { // one layer more than Encode makes
			return
		}
		if err != nil || !same(again, out) {
			t.Errorf("%v becomes %v, %v", out, again, err)
		}
	})
}
