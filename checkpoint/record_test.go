package checkpoint_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/seedtest"
)

var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// sealed returns a line with a right checksum.
func sealed(body string) string {
	return fmt.Sprintf(`%s,"sum":"%08x"}`, body, crc32.Checksum([]byte(body), crc32.MakeTable(crc32.Castagnoli)))
}

func TestLine(t *testing.T) {
	for _, tt := range []struct {
		name string
		rec  checkpoint.Record
		want string
	}{
		{"least", checkpoint.Record{Seq: 1, At: noon, Kind: "a"}, `{"seq":1,"at":"2026-01-31T12:00:00Z","kind":"a"`},
		{"all", checkpoint.Record{Seq: math.MaxInt64, At: noon.Add(5e8), Kind: "step.end", Path: "verify[2]/check", Data: json.RawMessage(`{"a":1}`)},
			`{"seq":9223372036854775807,"at":"2026-01-31T12:00:00.5Z","kind":"step.end","path":"verify[2]/check","data":{"a":1}`},
		{"escapes", checkpoint.Record{Seq: 2, At: noon, Kind: `a"\`, Path: "é<\n\x00", Data: json.RawMessage(`{}`)},
			`{"seq":2,"at":"2026-01-31T12:00:00Z","kind":"a\"\\","path":"é<\n\u0000","data":{}`},
		{"data that looks like the end", checkpoint.Record{Seq: 2, At: noon, Kind: "a", Data: json.RawMessage(`{"sum":"00000000"}`)},
			`{"seq":2,"at":"2026-01-31T12:00:00Z","kind":"a","data":{"sum":"00000000"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := string(tt.rec.AppendLine([]byte("before")))
			if want := "before" + sealed(tt.want); got != want {
				t.Errorf("line\n%s\nwant\n%s", got, want)
			}
			back, err := checkpoint.ParseLine([]byte(sealed(tt.want)))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.rec, back); diff != "" {
				t.Errorf("ParseLine (-want +got):\n%s", diff)
			}
		})
	}
}

// The checksum has the value that others compute: CRC-32C of "123456789" is e3069283.
func TestChecksum(t *testing.T) {
	if got := sealed("123456789"); got != `123456789,"sum":"e3069283"}` {
		t.Error(got)
	}
}

func TestParseLineRefuses(t *testing.T) {
	const good = `{"seq":2,"at":"2026-01-31T12:00:00Z","kind":"a","path":"p","data":{"b":1}`
	if _, err := checkpoint.ParseLine([]byte(sealed(good))); err != nil {
		t.Fatal(err)
	}
	for at := range sealed(good) {
		for bit := range 8 {
			line := []byte(sealed(good))
			line[at] ^= 1 << bit
			if _, err := checkpoint.ParseLine(line); !errors.Is(err, checkpoint.ErrCorrupt) {
				t.Errorf("bit %d of byte %d: error %v", bit, at, err)
			}
		}
	}
	for _, line := range []string{
		"", "{}", `,"sum":"00000000"}`, good + "}", sealed(good) + " ", " " + sealed(good), sealed(good)[:40], strings.ToUpper(sealed(good)),
	} {
		if _, err := checkpoint.ParseLine([]byte(line)); !errors.Is(err, checkpoint.ErrCorrupt) {
			t.Errorf("%s: error %v", line, err)
		}
	}
	for _, body := range []string{ // the checksum is right, the rest is not
		"", "{", "null",
		`{"seq":0,"at":"2026-01-31T12:00:00Z","kind":"a"`,
		`{"seq":-1,"at":"2026-01-31T12:00:00Z","kind":"a"`,
		`{"seq":01,"at":"2026-01-31T12:00:00Z","kind":"a"`,
		`{"seq":1.0,"at":"2026-01-31T12:00:00Z","kind":"a"`,
		`{"seq":9223372036854775808,"at":"2026-01-31T12:00:00Z","kind":"a"`,
		`{"seq":1,"at":"2026-01-31T12:00:00.50Z","kind":"a"`,
		`{"seq":1,"at":"2026-01-31T13:00:00+01:00","kind":"a"`,
		`{"seq":1,"at":"2026-01-31","kind":"a"`,
		`{"seq":1,"at":"0001-01-01T00:00:00Z","kind":"a"`,
		`{"seq":1,"at":"2026-01-31T12:00:00Z","kind":""`,
		`{"seq":1,"at":"2026-01-31T12:00:00Z","kind":1`,
		`{"seq":1,"at":"2026-01-31T12:00:00Z","kind":"\u0061"`,
		`{"seq":1,"at":"2026-01-31T12:00:00Z","kind":"a","path":""`,
		`{"seq":1,"at":"2026-01-31T12:00:00Z","kind":"a","path":"p"x`,
		`{"seq":1,"at":"2026-01-31T12:00:00Z","kind":"a","path":"p`,
		`{"seq":1,"at":"2026-01-31T12:00:00Z","kind":"a","data":[]`,
		`{"seq":1,"at":"2026-01-31T12:00:00Z","kind":"a","data":null`,
		`{"seq":1,"at":"2026-01-31T12:00:00Z","kind":"a","data":{},"more":1`,
		`{"seq":1,"at":"2026-01-31T12:00:00Z","kind":"a","data":{"b"}`,
		`{"seq":1,"at":"2026-01-31T12:00:00Z","kind":"a","data":` + "{\"b\":\"\xff\"}",
		`{"seq":1,"at":"2026-01-31T12:00:00Z","kind":"a","data":{` + "\n}",
		`{"seq":1, "at":"2026-01-31T12:00:00Z","kind":"a"`,
		`{"at":"2026-01-31T12:00:00Z","seq":1,"kind":"a"`,
		`{"seq":1,"seq":1,"at":"2026-01-31T12:00:00Z","kind":"a"`,
	} {
		if rec, err := checkpoint.ParseLine([]byte(sealed(body))); !errors.Is(err, checkpoint.ErrCorrupt) {
			t.Errorf("%s: %+v, error %v", body, rec, err)
		}
	}
}

func TestNewRecord(t *testing.T) {
	at := time.Date(2026, 1, 31, 13, 0, 0, 0, time.FixedZone("", 3600))
	got, err := checkpoint.NewRecord(at, "a", "p", map[string]any{"b": []any{1, 2.0, "<"}, "a": nil})
	if err != nil {
		t.Fatal(err)
	}
	want := checkpoint.Record{At: noon, Kind: "a", Path: "p", Data: json.RawMessage(`{"a":null,"b":[1,2,"<"]}`)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	if got.At.Location() != time.UTC {
		t.Errorf("time in %v", got.At.Location())
	}
	if _, err := checkpoint.NewRecord(at, "a", "", map[string]any{"f": math.NaN()}); err == nil {
		t.Error("NaN is fine")
	}
}

func TestDefinitionLine(t *testing.T) {
	run := checkpoint.Run{ID: "run", Digest: "sha256:d", Definition: json.RawMessage(`{"b":1}`), StartedAt: noon}
	line := checkpoint.DefinitionLine(run)
	got, err := checkpoint.ParseDefinitionLine("sha256:d", line)
	if err != nil || string(got) != `{"b":1}` {
		t.Errorf("definition %s, %v", got, err)
	}
	if _, err := checkpoint.ParseDefinitionLine("sha256:e", line); !errors.Is(err, checkpoint.ErrCorrupt) {
		t.Errorf("of another digest: %v", err)
	}
}

func FuzzParseLine(target *testing.F) {
	f := seedtest.Fuzz(target)
	f.Add([]byte(sealed(`{"seq":2,"at":"2026-01-31T12:00:00.5Z","kind":"a","path":"p","data":{"b":1}`)), true)
	f.Add([]byte(`{"seq":1,"at":"2026-01-31T12:00:00Z","kind":"a\"","path":"\u0000"`), false)
	f.Fuzz(func(t *testing.T, line []byte, whole bool) {
		if !whole {
			line = []byte(sealed(string(line)))
		}
		rec, err := checkpoint.ParseLine(line)
		if err != nil {
			if !errors.Is(err, checkpoint.ErrCorrupt) {
				t.Errorf("error %v", err)
			}
			return
		}
		if got := rec.AppendLine(nil); string(got) != string(line) {
			t.Errorf("line %q is written as %q", line, got)
		}
		if err := rec.Check(); err != nil {
			t.Error(err)
		}
		var sum checkpoint.Summary
		sum.Apply(rec) // must not panic
	})
}

func FuzzParseDocumentLine(target *testing.F) {
	f := seedtest.Fuzz(target)
	good, err := checkpoint.DocumentLine("c", checkpoint.Document{Name: "n", Text: "a\u2028\x00\""})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:40])
	f.Add([]byte(`{"seq":1,"at":"2026-01-31T12:00:00Z","kind":"document","path":"n","data":{"collection":"c","text":1},"sum":"00000000"}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		d, err := checkpoint.ParseDocumentLine("c", "", line)
		if err != nil {
			if !errors.Is(err, checkpoint.ErrCorrupt) {
				t.Errorf("%v is not ErrCorrupt", err)
			}
			return
		}
		again, err := checkpoint.DocumentLine("c", d)
		if err != nil {
			t.Fatal(err)
		}
		if back, err := checkpoint.ParseDocumentLine("c", d.Name, again); back != d || err != nil {
			t.Errorf("read back: %+v, %v, want %+v", back, err, d)
		}
	})
}

func BenchmarkAppendLine(b *testing.B) {
	rec := checkpoint.Record{Seq: 12, At: noon.Add(123456789), Kind: "call.ended", Path: "s12", Data: json.RawMessage(`{"n":1234,"output":{"n":12}}`)}
	b.ReportAllocs()
	for b.Loop() {
		rec.AppendLine(nil)
	}
}
