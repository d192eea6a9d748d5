package jsonl

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/regular"
)

// batch is the kind of the line that stands before records that were appended together.
const batch checkpoint.Kind = "batch"

var errTorn = fmt.Errorf("%w: its last write is incomplete\n  hint: braise runs repair cuts it off",
	checkpoint.ErrCorrupt)

// encode returns the lines of one write.
func encode(recs []checkpoint.Record) []byte {
	var text []byte
	if len(recs) > 1 {
		head := checkpoint.Record{Seq: recs[0].Seq, At: recs[0].At, Kind: batch,
			Data: fmt.Appendf(nil, `{"records":%d}`, len(recs))}
		text = append(head.AppendLine(nil), '\n')
	}
	for _, rec := range recs {
		text = append(rec.AppendLine(text), '\n')
	}
	return text
}

// decode returns the records of a journal and how many bytes of it are whole writes. errTorn when
// the text ends within a write; the records are those before it.
func decode(text []byte) (recs []checkpoint.Record, whole int64, err error) {
	left := 0 // records that the write lacks
	done := 0 // records of whole writes
	for at := 0; at < len(text); {
		n := bytes.IndexByte(text[at:], '\n')
		if n < 0 {
			return recs[:done], whole, errTorn
		}
		rec, err := checkpoint.ParseLine(text[at : at+n])
		if err != nil {
			return nil, 0, fmt.Errorf("line %d: %w", 1+bytes.Count(text[:at], []byte("\n")), err)
		}
		at += n + 1
		if left == 0 && rec.Kind == batch {
			if left, err = batchSize(rec); err != nil {
				return nil, 0, err
			}
			continue
		}
		recs = append(recs, rec)
		if left = max(left-1, 0); left == 0 {
			whole, done = int64(at), len(recs)
		}
	}
	if left > 0 {
		return recs[:done], whole, errTorn
	}
	return recs, whole, nil
}

func batchSize(rec checkpoint.Record) (int, error) {
	text, ok := bytes.CutPrefix(rec.Data, []byte(`{"records":`))
	text, ok2 := bytes.CutSuffix(text, []byte("}"))
	n, err := strconv.Atoi(string(text))
	if !ok || !ok2 || err != nil || n < 2 {
		return 0, fmt.Errorf("batch of %s: %w", rec.Data, checkpoint.ErrCorrupt)
	}
	return n, nil
}

// readAll reads a whole journal, to which nobody writes.
func readAll(f *os.File, runID string) (checkpoint.Summary, []checkpoint.Record, error) {
	text, err := text(f)
	if err != nil {
		return checkpoint.Summary{}, nil, fmt.Errorf("run %q: %w", runID, err)
	}
	recs, _, err := decode(text)
	return fold(runID, recs, err)
}

// fold is checkpoint.Fold of what decode returned.
func fold(runID string, recs []checkpoint.Record, err error) (checkpoint.Summary, []checkpoint.Record, error) {
	if err != nil {
		return checkpoint.Summary{}, nil, fmt.Errorf("run %q: %w", runID, err)
	}
	sum, err := checkpoint.Fold(runID, recs)
	return sum, recs, err
}

// digestOf reads the digest in a journal that somebody may be writing to.
func digestOf(name string) (string, error) {
	text, err := regular.ReadFile(name)
	if err != nil {
		return "", err
	}
	recs, _, err := decode(text)
	if len(recs) == 0 {
		return "", errors.Join(checkpoint.ErrCorrupt, err)
	}
	var sum checkpoint.Summary
	err = sum.Apply(recs[0])
	return sum.Digest, err
}

// isAt reports whether the file still has its name.
func (f *lockedFile) isAt(name string) (bool, error) {
	now, err := os.Stat(name)
	if err != nil {
		return false, err
	}
	mine, err := f.Stat()
	return err == nil && os.SameFile(mine, now), err
}

// text reads the whole file.
func text(f *os.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	text := make([]byte, info.Size())
	n, err := io.ReadFull(io.NewSectionReader(f, 0, info.Size()), text)
	if errors.Is(err, io.ErrUnexpectedEOF) { // a write that failed was taken back meanwhile
		err = nil
	}
	return text[:n], err
}

// extend writes text at the end of a file of the given size and syncs it. On an error the file is as it was.
func extend(f *os.File, size int64, text []byte) error {
	_, err := f.WriteAt(text, size)
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return errors.Join(err, cut(f, size))
	}
	return nil
}

// cut makes the file end at size.
func cut(f *os.File, size int64) error {
	if err := f.Truncate(size); err != nil {
		return err
	}
	return f.Sync()
}

// writeTemp writes a file under a name of no meaning and syncs it.
func (s *Store) writeTemp(text []byte) (name string, err error) {
	f, err := os.CreateTemp(s.dir, tempMark+"*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}

// publish gives a finished file its name. On an error there is no file of either name.
func (s *Store) publish(temp, name string) error {
	err := os.Rename(temp, name)
	if err == nil {
		err = syncDir(filepath.Dir(name))
	}
	if err != nil {
		os.Remove(temp)
		os.Remove(name)
	}
	return err
}

// isReadOnly reports whether an error says that a file or folder cannot be written to.
func isReadOnly(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
}

// syncDir makes names in a folder durable.
func syncDir(name string) error {
	if runtime.GOOS == "windows" {
		return nil // it cannot sync a folder
	}
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// readLease returns the last lease of a run that is locked; the zero one when there was none, as
// for a journal that was copied here.
func (s *Store) readLease(runID string) (checkpoint.Lease, error) {
	text, err := regular.ReadFile(s.leaseFile(runID))
	if errors.Is(err, fs.ErrNotExist) {
		return checkpoint.Lease{RunID: runID}, nil
	}
	if err != nil {
		return checkpoint.Lease{}, fmt.Errorf("run %q: %w", runID, err)
	}
	return checkpoint.ParseLeaseLine(runID, bytes.TrimSuffix(text, []byte("\n")))
}

// writeLease replaces the lease of a run in one step.
func (s *Store) writeLease(l checkpoint.Lease) error {
	line, err := l.Line()
	if err != nil {
		return err
	}
	temp, err := s.writeTemp(append(line, '\n'))
	if err != nil {
		return err
	}
	if err := os.Rename(temp, s.leaseFile(l.RunID)); err != nil {
		os.Remove(temp)
		return err
	}
	return nil
}

// changeLease is writeLease with an error that names the run.
func (s *Store) changeLease(l checkpoint.Lease) (checkpoint.Lease, error) {
	if err := s.writeLease(l); err != nil {
		return checkpoint.Lease{}, fmt.Errorf("run %q: lease: %w", l.RunID, err)
	}
	return l, nil
}
