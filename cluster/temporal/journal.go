package temporal

import (
	"bytes"
	"compress/zlib"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/journal"
	"github.com/braise-run/braise/internal/ledger"
	"github.com/braise-run/braise/internal/past"
)

// store has the records of a run in the memory of its workflow: they are as durable as that.
type store struct {
	sum     checkpoint.Summary
	recs    []checkpoint.Record
	carried map[string]bool // the answers and values that the journal names, see said.ID
}

// append adds events. run is the run that a journal begins with.
func (s *store) append(run checkpoint.Run, events []journal.Event) error {
	recs, err := ledger.Encode(events)
	if err != nil {
		return err
	}
	var sum checkpoint.Summary
	if len(s.recs) == 0 {
		sum, recs, err = checkpoint.Begin(run, recs)
	} else {
		sum, recs, err = s.sum.Next(s.sum.Seq, recs)
	}
	if err != nil {
		return err
	}
	s.sum, s.recs = sum, append(s.recs, recs...)
	if s.carried == nil {
		s.carried = map[string]bool{}
	}
	maps.Copy(s.carried, past.Signals(events))
	return nil
}

// events are the events of all records.
func (s *store) events() ([]journal.Event, error) { return ledger.Decode(s.recs) }

// lines are records from the one after a number on, as the next execution reads them: as many as have so many bytes
// together, but at least one.
func (s *store) lines(after, most int) (list []string) {
	for _, r := range s.recs[min(max(after, 0), len(s.recs)):] {
		line := string(r.AppendLine(nil))
		if most -= len(line); most < 0 && list != nil {
			break
		}
		list = append(list, line)
	}
	return list
}

// parse reads what lines returned.
func parse(lines []string) (recs []checkpoint.Record, err error) {
	recs = make([]checkpoint.Record, len(lines))
	for i, l := range lines {
		if recs[i], err = checkpoint.ParseLine([]byte(l)); err != nil {
			return nil, err
		}
	}
	return recs, nil
}

// pack is what an execution hands to the next: a line of JSON, then the lines of the journal, compressed.
func (c *carried) pack(s *store) ([]byte, error) {
	head, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	_, _ = w.Write(append(head, '\n')) // a buffer takes everything
	for _, r := range s.recs {
		_, _ = w.Write(append(r.AppendLine(nil), '\n'))
	}
	_ = w.Close()
	return b.Bytes(), nil
}

// unpack is the reverse of carried.pack.
func unpack(id string, packed []byte) (c carried, s store, err error) {
	r, err := zlib.NewReader(bytes.NewReader(packed))
	if err != nil {
		return c, s, err
	}
	text, err := io.ReadAll(r)
	if err != nil {
		return c, s, err
	}
	head, lines, _ := strings.Cut(strings.TrimSuffix(string(text), "\n"), "\n")
	if err = json.Unmarshal([]byte(head), &c); err != nil {
		return c, s, err
	}
	if s.recs, err = parse(strings.Split(lines, "\n")); err != nil {
		return c, s, err
	}
	events, err := s.events()
	if err != nil {
		return c, s, err
	}
	s.carried = past.Signals(events)
	s.sum, err = checkpoint.Fold(id, slices.Clone(s.recs))
	return c, s, err
}
