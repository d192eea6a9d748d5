package checkpoint_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/seedtest"
)

func TestSignalLine(t *testing.T) {
	for _, tt := range []struct {
		signal checkpoint.Signal
		want   string // without its sum
	}{
		{checkpoint.Signal{ID: "a", Kind: checkpoint.SignalTake, At: noon},
			`{"seq":1,"at":"2026-01-31T12:00:00Z","kind":"signal","path":"a","data":{"kind":"take"}`},
		{checkpoint.Signal{ID: `ü"` + "\n", Kind: checkpoint.SignalTell, By: "ada <a@b>", At: noon.Add(5e8),
			Data: []byte(`{"step":"a[2]/b","text":"x","x":1.5}`)},
			`{"seq":1,"at":"2026-01-31T12:00:00.5Z","kind":"signal","path":"ü\"\n",` +
				`"data":{"by":"ada <a@b>","data":{"step":"a[2]/b","text":"x","x":1.5},"kind":"tell"}`},
		{checkpoint.Signal{ID: checkpoint.Pause{ID: "verify[2]/check"}.AnswerID(), Kind: checkpoint.SignalAnswer, At: noon,
			Data: []byte(`{}`)},
			`{"seq":1,"at":"2026-01-31T12:00:00Z","kind":"signal","path":"answer:verify[2]/check","data":{"data":{},"kind":"answer"}`},
	} {
		line, err := tt.signal.Line()
		if err != nil {
			t.Fatal(err)
		}
		got, _, _ := strings.Cut(string(line), `,"sum"`)
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("line (-want +got):\n%s", diff)
		}
		again, err := checkpoint.ParseSignalLine(line)
		if err != nil || !reflect.DeepEqual(again, tt.signal) {
			t.Errorf("%+v, %v, want %+v", again, err, tt.signal)
		}
	}
	done := checkpoint.Signal{ID: "a", Kind: "take", At: noon.In(time.FixedZone("", 3600)), Done: true}
	line, err := done.Line()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := checkpoint.ParseSignalLine(line); err != nil || got.Done || got.At != noon {
		t.Errorf("%+v, %v, want the time in UTC, and not done", got, err)
	}
}

// A line with a right checksum, but not as Line writes it, is damage.
func TestParseSignalLineRefuses(t *testing.T) {
	line := func(change func(r *checkpoint.Record)) []byte {
		r := checkpoint.Record{Seq: 1, At: noon, Kind: "signal", Path: "a", Data: []byte(`{"kind":"take"}`)}
		change(&r)
		return r.AppendLine(nil)
	}
	if _, err := checkpoint.ParseSignalLine(line(func(*checkpoint.Record) {})); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(r *checkpoint.Record){
		"seq":                   func(r *checkpoint.Record) { r.Seq = 2 },
		"kind":                  func(r *checkpoint.Record) { r.Kind = "document" },
		"no id":                 func(r *checkpoint.Record) { r.Path = "" },
		"no data":               func(r *checkpoint.Record) { r.Data = nil },
		"no kind":               func(r *checkpoint.Record) { r.Data = []byte(`{}`) },
		"another member":        func(r *checkpoint.Record) { r.Data = []byte(`{"kind":"take","x":1}`) },
		"another spelling":      func(r *checkpoint.Record) { r.Data = []byte(`{"Kind":"take"}`) },
		"another order":         func(r *checkpoint.Record) { r.Data = []byte(`{"kind":"take","by":"ada"}`) },
		"an empty name":         func(r *checkpoint.Record) { r.Data = []byte(`{"by":"","kind":"take"}`) },
		"a number":              func(r *checkpoint.Record) { r.Data = []byte(`{"kind":1}`) },
		"data is null":          func(r *checkpoint.Record) { r.Data = []byte(`{"data":null,"kind":"take"}`) },
		"data is a list":        func(r *checkpoint.Record) { r.Data = []byte(`{"data":[],"kind":"take"}`) },
		"an answer to no pause": func(r *checkpoint.Record) { r.Data = []byte(`{"kind":"answer"}`) },
	} {
		if got, err := checkpoint.ParseSignalLine(line(change)); !errors.Is(err, checkpoint.ErrCorrupt) {
			t.Errorf("%s: %+v, %v, want ErrCorrupt", name, got, err)
		}
	}
}

func FuzzParseSignalLine(target *testing.F) {
	f := seedtest.Fuzz(target)
	for _, s := range []checkpoint.Signal{
		{ID: "a", Kind: checkpoint.SignalTake, At: noon},
		{ID: "answer:p", Kind: checkpoint.SignalAnswer, By: "ada", At: noon.Add(1), Data: []byte(`{"pause":"p","value":[1,"ü"]}`)},
	} {
		line, err := s.Line()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		s, err := checkpoint.ParseSignalLine(line)
		if err != nil {
			if !errors.Is(err, checkpoint.ErrCorrupt) {
				t.Errorf("error %v", err)
			}
			return
		}
		if again, err := s.Line(); err != nil || string(again) != string(line) {
			t.Errorf("%q became %q, %v", line, again, err)
		}
	})
}
