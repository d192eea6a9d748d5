package temporal

import (
	"bytes"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	commonpb "go.temporal.io/api/common/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/proto"

	"github.com/braise-run/braise/runtime"
)

// The encodings of payloads, by the names that Temporal's own codecs have.
const (
	compressed = "binary/zlib"
	encrypted  = "binary/encrypted"
	keyIDName  = "encryption-key-id"
)

const (
	minCompressed = 256      // bytes of a payload from which on zlib is tried
	maxPlain      = 64 << 20 // bytes of a payload before it is compressed, twice what a run may keep
)

// A Codec makes the payloads of runs smaller, and with keys nobody without one of them can read them: neither
// the server nor whoever reads its database. It is a [converter.PayloadCodec], safe for concurrent use.
//
// A payload of 256 bytes or more is compressed with zlib, if that makes it smaller. Then it is encrypted with
// AES-256-GCM under the first key, whose id stands beside it. Decode takes what any of the keys has encrypted. It
// leaves alone what no codec has encoded: who begins to encrypt can still read the runs from before.
//
// All workers and clients of a namespace need the same keys. To change the key, give everybody the new one
// behind the old one, then change their order, and remove the old one when no run that it encrypted is kept.
type Codec struct {
	keys []key // the first encrypts; none: payloads are only compressed
}

// Most payloads are small, and zlib takes longer to begin with one than to compress it.
var (
	writers = sync.Pool{New: func() any {
		w, _ := zlib.NewWriterLevel(nil, zlib.BestSpeed) // there is this level
		return w
	}}
	readers sync.Pool
)

// NewCodec returns a codec with these keys of 32 bytes each, as [ParseKeys] returns them. Without a key it only
// compresses. The error is a *runtime.Error with the code cluster.codecKey.
func NewCodec(keys ...[]byte) (*Codec, error) {
	c := &Codec{}
	for i, secret := range keys {
		k, err := newKey(secret)
		if err != nil {
			return nil, keyError("key %d: %w", i+1, err)
		}
		if slices.ContainsFunc(c.keys, func(other key) bool { return other.id == k.id }) {
			return nil, keyError("key %d is there twice", i+1)
		}
		c.keys = append(c.keys, k)
	}
	return c, nil
}

// Options returns o with the codec, around the data converter that o has. With keys the messages and the stacks
// of failures are encrypted too, but for the one that a key is missing: whoever reads it may have other keys.
func (c *Codec) Options(o client.Options) client.Options {
	inner := o.DataConverter
	if inner == nil {
		inner = converter.GetDefaultDataConverter()
	}
	o.DataConverter = converter.NewCodecDataConverter(inner, c)
	if len(c.keys) > 0 {
		o.FailureConverter = failures{temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{
			DataConverter:          o.DataConverter,
			EncodeCommonAttributes: true,
		})}
	}
	return o
}

// failures encrypts what failures say, but for the one that a key is missing.
type failures struct{ converter.FailureConverter }

func (f failures) ErrorToFailure(err error) *failurepb.Failure {
	if known, ok := errors.AsType[*runtime.Error](err); ok && known.Code == "cluster.codecKey" {
		return temporal.GetDefaultFailureConverter().ErrorToFailure(err)
	}
	return f.FailureConverter.ErrorToFailure(err)
}

// KeyIDs returns the ids of the keys, in their order. An id says nothing of its key.
func (c *Codec) KeyIDs() []string {
	ids := make([]string, len(c.keys))
	for i, k := range c.keys {
		ids[i] = k.id
	}
	return ids
}

// Encode compresses and encrypts payloads. A payload of more than 64 MiB is refused: cluster.tooLarge.
func (c *Codec) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	return each(payloads, func(p *commonpb.Payload) (*commonpb.Payload, error) {
		p, err := compress(p)
		if err != nil || len(c.keys) == 0 {
			return p, err
		}
		return c.keys[0].encrypt(p)
	})
}

// Decode is the inverse of Encode. The errors are *runtime.Error: cluster.codecKey names the id of a key that the codec
// does not have; cluster.payload means a payload that was cut or changed.
func (c *Codec) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	return each(payloads, func(p *commonpb.Payload) (*commonpb.Payload, error) {
		p, err := c.decrypt(p)
		if err != nil {
			return nil, err
		}
		return decompress(p)
	})
}

// each does the same with every payload.
func each(payloads []*commonpb.Payload, f func(*commonpb.Payload) (*commonpb.Payload, error)) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		var err error
		if out[i], err = f(p); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// compress returns the payload in zlib's format, or itself if that is no gain.
func compress(p *commonpb.Payload) (*commonpb.Payload, error) {
	if size := proto.Size(p); size > maxPlain {
		return nil, &runtime.Error{Category: runtime.CategoryLimit, Code: "cluster.tooLarge",
			Err: fmt.Errorf("a payload has %d bytes, the limit is %d", size, maxPlain)}
	} else if size < minCompressed {
		return p, nil
	}
	plain, err := proto.Marshal(p)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	w := writers.Get().(*zlib.Writer)
	defer writers.Put(w)
	w.Reset(&out)
	if _, err := w.Write(plain); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if out.Len() >= len(plain) {
		return p, nil
	}
	return encodedAs(compressed, out.Bytes()), nil
}

// decompress is the inverse of compress.
func decompress(p *commonpb.Payload) (*commonpb.Payload, error) {
	if encodingOf(p) != compressed {
		return p, nil
	}
	data := bytes.NewReader(p.GetData())
	r, ok := readers.Get().(io.ReadCloser)
	var err error
	if ok {
		err = r.(zlib.Resetter).Reset(data, nil)
	} else {
		r, err = zlib.NewReader(data)
	}
	if err != nil {
		return nil, damaged(err)
	}
	defer readers.Put(r)
	plain, err := io.ReadAll(io.LimitReader(r, maxPlain+1))
	if err != nil {
		return nil, damaged(err)
	}
	if len(plain) > maxPlain {
		return nil, damaged(fmt.Errorf("decompressed it has more than %d bytes", maxPlain))
	}
	return payload(plain)
}

// decrypt is the inverse of key.encrypt.
func (c *Codec) decrypt(p *commonpb.Payload) (*commonpb.Payload, error) {
	if encodingOf(p) != encrypted {
		return p, nil
	}
	id := string(p.GetMetadata()[keyIDName])
	for _, k := range c.keys {
		if k.id == id {
			return k.decrypt(p)
		}
	}
	hint := "there is no key here"
	if len(c.keys) > 0 {
		hint = "the keys here are " + strings.Join(c.KeyIDs(), ", ")
	}
	return nil, keyError("a payload is encrypted with the key %q\n  hint: %s; give the codec that one too", id, hint)
}

// payload decodes the bytes of a payload that was inside another.
func payload(data []byte) (*commonpb.Payload, error) {
	var p commonpb.Payload
	if err := proto.Unmarshal(data, &p); err != nil {
		return nil, damaged(err)
	}
	return &p, nil
}

func encodedAs(encoding string, data []byte) *commonpb.Payload {
	return &commonpb.Payload{Metadata: map[string][]byte{converter.MetadataEncoding: []byte(encoding)}, Data: data}
}

func encodingOf(p *commonpb.Payload) string {
	return string(p.GetMetadata()[converter.MetadataEncoding])
}

func damaged(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errors.New("it ends too early")
	}
	return &runtime.Error{Category: runtime.CategoryInfra, Code: "cluster.payload",
		Err: fmt.Errorf("a payload cannot be decoded: %w", err)}
}

func keyError(format string, args ...any) error {
	return &runtime.Error{Category: runtime.CategoryConfig, Code: "cluster.codecKey", Err: fmt.Errorf(format, args...)}
}
