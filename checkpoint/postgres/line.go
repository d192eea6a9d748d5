package postgres

import (
	"encoding/json"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/braise-run/braise/checkpoint"
)

// encode returns the form in which a summary is kept, with a checksum. It stays as it is while only
// the number and the time of the last record change.
func encode(sum checkpoint.Summary) ([]byte, error) {
	data, err := json.Marshal(sum)
	if err != nil {
		return nil, fmt.Errorf("run %q: summary: %w: %w", sum.ID, checkpoint.ErrInvalid, err)
	}
	return checkpoint.Record{Seq: sum.Seq, At: sum.UpdatedAt, Kind: summaryKind, Path: sum.ID,
		Data: data}.AppendLine(nil), nil
}

// summaryKind is the kind of the record in which a summary is kept; it is in no journal.
const summaryKind checkpoint.Kind = "summary"

// alike reports whether next, which records made of sum, differs in nothing but what mark tells. The list of a
// summary is never changed, only replaced.
func alike(sum, next checkpoint.Summary) bool {
	a, b := sum.Pauses, next.Pauses
	return sum.Status == next.Status && sum.Usage == next.Usage && len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// lines are the records of one write.
func lines(recs []checkpoint.Record) []byte {
	var text []byte
	for _, rec := range recs {
		text = append(rec.AppendLine(text), '\n')
	}
	return text
}

// stamp writes a time so that the order of texts is that of times; "" for the zero time. The
// database's own type knows no nanoseconds.
func stamp(t time.Time) string {
	switch {
	case t.IsZero():
		return ""
	case t.Year() > 9999:
		return "~" // behind all that a journal may hold
	}
	return t.UTC().Format("2006-01-02T15:04:05.000000000Z")
}

const stampLen = len("2026-01-31T12:00:00.000000000Z")

// mark is the stamp of the last record with a checksum, also of its number.
func mark(sum checkpoint.Summary) string {
	at := stamp(sum.UpdatedAt)
	return fmt.Sprintf("%s %08x", at, crc32.Checksum(fmt.Append(nil, at, sum.Seq), castagnoli))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)
