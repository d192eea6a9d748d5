package checkpoint

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/braise-run/braise/internal/value"
)

// Format is the version of the journal's format that this package writes, and the only one that it
// reads. It is in every journal's first record.
const Format = 1

// Kind says what a record is about.
type Kind string

// The kinds that a store understands, with the members of their data; more members are opaque, as
// are all other kinds. Times are in RFC 3339.
const (
	RunCreated    Kind = "run.created"    // of members see Begin; always the first record
	RunExecution  Kind = "run.execution"  // owner, by?; an execution begins: a queued run is running
	RunPaused     Kind = "run.paused"     // usage?, models?; no step starts until a pause is answered
	RunEnded      Kind = "run.ended"      // status: ok, error or cancelled; error?, usage?, models?; always the last
	PauseOpened   Kind = "pause.opened"   // pause, kind, expiresAt?, dueAt?; the record's path is the step's
	PauseAnswered Kind = "pause.answered" // pause; its tokens become invalid, a paused run is running again
	PauseClosed   Kind = "pause.closed"   // pause: it no longer needs an answer; its tokens become invalid
	TokenMinted   Kind = "token.minted"   // pause, hash (in hex), expiresAt?
)

// Record is one entry of a journal.
type Record struct {
	Seq  int64     // from 1, without a gap
	At   time.Time // UTC
	Kind Kind
	Path string          // of the step it is about; "": the run
	Data json.RawMessage // a canonical JSON object; nil: none
}

// NewRecord returns a record with the canonical form of data, which is decoded JSON or what package
// json can encode; nil means none. The store fills in its Seq.
func NewRecord(at time.Time, kind Kind, path string, data map[string]any) (Record, error) {
	rec := Record{At: at.UTC().Round(0), Kind: kind, Path: path}
	if data == nil {
		return rec, nil
	}
	var err error
	if rec.Data, err = value.JSON(data); err != nil {
		return Record{}, fmt.Errorf("record %s: data: %w", kind, err)
	}
	return rec, nil
}

// Check returns an ErrInvalid for a record that no journal could take: without a kind or a time,
// with text that is not UTF-8, or with data that does not look like one canonical object. It looks
// no deeper into the data than that, for it is on the way of every write.
func (r Record) Check() error {
	if err := r.check(); err != nil {
		return fmt.Errorf("record %s: %w: %w", r.Kind, ErrInvalid, err)
	}
	return nil
}

func (r Record) check() error {
	switch data := r.Data; {
	case r.Kind == "":
		return fmt.Errorf("no kind")
	case r.At.IsZero() || r.At.Year() < 1 || r.At.Year() > 9999:
		return fmt.Errorf("at %s", r.At)
	case !utf8.ValidString(string(r.Kind)) || !utf8.ValidString(r.Path) || !utf8.Valid(data):
		return fmt.Errorf("invalid UTF-8")
	case data != nil && (len(data) < 2 || data[0] != '{' || data[len(data)-1] != '}' ||
		bytes.IndexByte(data, '\n') >= 0):
		return fmt.Errorf("data is not a canonical JSON object")
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const (
	sumMember = `,"sum":"`
	sumLen    = len(sumMember) + 8 + len(`"}`)
	lineRoom  = 128 // at least what a line without escapes has besides kind, path and data
)

// AppendLine appends the record as one line of JSON without its end:
//
//	{"seq":2,"at":"2026-01-31T12:00:00.5Z","kind":"…","path":"…","data":{…},"sum":"0a1b2c3d"}
//
// path and data are left out when empty. sum is the CRC-32C of everything before its comma. Stores
// keep records in this form, so that each finds a flipped byte.
func (r Record) AppendLine(dst []byte) []byte {
	from := len(dst)
	dst = slices.Grow(dst, len(r.Kind)+len(r.Path)+len(r.Data)+lineRoom)
	dst = strconv.AppendInt(append(dst, `{"seq":`...), r.Seq, 10)
	dst = r.At.UTC().AppendFormat(append(dst, `,"at":"`...), time.RFC3339Nano)
	dst = value.AppendString(append(dst, `","kind":`...), string(r.Kind))
	if r.Path != "" {
		dst = value.AppendString(append(dst, `,"path":`...), r.Path)
	}
	if r.Data != nil {
		dst = append(append(dst, `,"data":`...), r.Data...)
	}
	sum := crc32.Checksum(dst[from:], castagnoli)
	return appendSum(dst, sum)
}

// appendSum appends the end of a line.
func appendSum(dst []byte, sum uint32) []byte {
	dst = append(dst, sumMember...)
	dst = hex.AppendEncode(dst, binary.BigEndian.AppendUint32(nil, sum))
	return append(dst, `"}`...)
}

// ParseLine reads what AppendLine writes, and nothing else: any other text is an ErrCorrupt. The
// record keeps a part of line as its data.
func ParseLine(line []byte) (Record, error) {
	rec, err := parseLine(line)
	if err != nil {
		return Record{}, fmt.Errorf("record: %w: %w", ErrCorrupt, err)
	}
	return rec, nil
}

func parseLine(line []byte) (rec Record, err error) {
	body := line[:max(0, len(line)-sumLen)]
	var sum [sumLen]byte
	if !bytes.Equal(line[len(body):], appendSum(sum[:0], crc32.Checksum(body, castagnoli))) {
		return rec, fmt.Errorf("the line does not end in its checksum")
	}
	p := lineParser{rest: body}
	rec.Seq, _ = strconv.ParseInt(p.upTo(`{"seq":`, ','), 10, 64)
	at := p.upTo(`,"at":"`, '"')
	p.skip(`"`)
	rec.Kind = Kind(p.str(`,"kind":`))
	if p.has(`,"path":`) {
		rec.Path = p.str(`,"path":`)
	}
	if p.has(`,"data":`) {
		p.skip(`,"data":`)
		rec.Data, p.rest = p.rest[:len(p.rest):len(p.rest)], nil
		if !json.Valid(rec.Data) {
			return rec, fmt.Errorf("data is not JSON")
		}
	}
	if rec.At, err = time.Parse(time.RFC3339Nano, at); err != nil {
		return rec, err
	}
	rec.At = rec.At.UTC()
	if err := rec.check(); err != nil {
		return rec, err
	}
	// Whatever the parser let pass, only the one way to write a record is right.
	if rec.Seq < 1 || !bytes.Equal(rec.AppendLine(nil), line) {
		return rec, fmt.Errorf("the line is not in canonical form")
	}
	return rec, nil
}

// lineParser takes a line apart without minding mistakes: they show when the record is written again.
type lineParser struct{ rest []byte }

func (p *lineParser) has(prefix string) bool { return bytes.HasPrefix(p.rest, []byte(prefix)) }

func (p *lineParser) skip(prefix string) { p.rest = bytes.TrimPrefix(p.rest, []byte(prefix)) }

// upTo returns what is between prefix and the next end.
func (p *lineParser) upTo(prefix string, end byte) string {
	p.skip(prefix)
	i := bytes.IndexByte(p.rest, end)
	if i < 0 {
		return ""
	}
	s := string(p.rest[:i])
	p.rest = p.rest[i:]
	return s
}

// str returns the JSON string behind prefix.
func (p *lineParser) str(prefix string) string {
	p.skip(prefix)
	for i := 1; i < len(p.rest); i++ {
		switch p.rest[i] {
		case '\\':
			i++
		case '"':
			v, _ := value.Decode(p.rest[:i+1])
			p.rest = p.rest[i+1:]
			s, _ := v.(string)
			return s
		}
	}
	return ""
}

// definition is the kind of the record in which a definition is kept; it is in no journal.
const definition Kind = "definition"

// DefinitionLine returns the form in which a store keeps a run's definition, with a checksum.
func DefinitionLine(run Run) []byte {
	return Record{Seq: 1, At: run.StartedAt, Kind: definition, Path: run.Digest, Data: run.Definition}.AppendLine(nil)
}

// ParseDefinitionLine returns the definition that DefinitionLine wrote for digest; ErrCorrupt when
// line is anything else.
func ParseDefinitionLine(digest string, line []byte) (json.RawMessage, error) {
	rec, err := ParseLine(line)
	if err == nil && (rec.Kind != definition || rec.Path != digest) {
		err = ErrCorrupt
	}
	if err != nil {
		return nil, fmt.Errorf("definition %q: %w", digest, err)
	}
	return rec.Data, nil
}
