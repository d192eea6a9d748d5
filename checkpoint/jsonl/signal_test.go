package jsonl

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/internal/seedtest"
)

// left returns a signal.
func left(id string) checkpoint.Signal {
	return checkpoint.Signal{ID: id, Kind: checkpoint.SignalCancel, By: "ada", At: time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)}
}

func putSignals(t *testing.T, s *Store, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if err := s.PutSignal(t.Context(), "run", left(id)); err != nil {
			t.Fatal(err)
		}
	}
}

// signalIDs lists the signals of a run: "a b!", where b is done.
func signalIDs(t *testing.T, s *Store) string {
	t.Helper()
	all, err := s.Signals(t.Context(), "run", false)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, o := range all {
		if o.Done {
			o.ID += "!"
		}
		ids = append(ids, o.ID)
	}
	return strings.Join(ids, " ")
}

// The format is public, like that of journals.
func TestSignalsFormat(t *testing.T) {
	s := open(t, t.TempDir()).(*Store)
	l, _ := begin(t, s)
	putSignals(t, s, "a", "b")
	answer := left("answer:p")
	answer.Kind, answer.By, answer.Data = checkpoint.SignalAnswer, "", []byte(`{"pause":"p","value":1}`)
	if err := errors.Join(s.PutSignal(t.Context(), "run", answer), s.EndSignals(t.Context(), l, "answer:p", "a")); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(s.signalsFile("run"))
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`"sum":"[0-9a-f]{8}"`).ReplaceAllString(string(got), `"sum":"…"`)
	text = regexp.MustCompile(`"at":"[^"]*","kind":"signals`).ReplaceAllString(text, `"at":"…","kind":"signals`)
	want := `{"seq":1,"at":"2026-01-31T12:00:00Z","kind":"signal","path":"a","data":{"by":"ada","kind":"cancel"},"sum":"…"}
{"seq":1,"at":"2026-01-31T12:00:00Z","kind":"signal","path":"b","data":{"by":"ada","kind":"cancel"},"sum":"…"}
{"seq":1,"at":"2026-01-31T12:00:00Z","kind":"signal","path":"answer:p","data":{"data":{"pause":"p","value":1},"kind":"answer"},"sum":"…"}
{"seq":1,"at":"…","kind":"signals.ended","data":{"ids":["a","answer:p"]},"sum":"…"}
`
	if diff := cmp.Diff(want, text); diff != "" {
		t.Errorf("signals (-want +got):\n%s", diff)
	}
}

// However much of a line is on disk, its write has not happened, and the next one goes well.
func TestSignalsTornAnywhere(t *testing.T) {
	s := open(t, t.TempDir()).(*Store)
	l, _ := begin(t, s)
	putSignals(t, s, "a", "b")
	before, err := os.ReadFile(s.signalsFile("run"))
	if err == nil {
		err = s.EndSignals(t.Context(), l, "b", "a")
	}
	if err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(s.signalsFile("run"))
	if err != nil {
		t.Fatal(err)
	}
	for n := len(before); n < len(whole); n++ {
		edit(t, s.signalsFile("run"), func(string) string { return string(whole[:n]) })
		if got := signalIDs(t, s); got != "a b" {
			t.Fatalf("%d bytes: signals %q", n, got)
		}
		putSignals(t, s, "c")
		if got := signalIDs(t, s); got != "a b c" {
			t.Fatalf("%d bytes, and one more signal: signals %q", n, got)
		}
	}
}

// Whole lines that make no sense together are damage.
func TestSignalsDamaged(t *testing.T) {
	for name, damage := range map[string]func(lines []string) []string{
		"one is there twice":     func(lines []string) []string { return append(lines, lines[0]) },
		"one that ended is gone": func(lines []string) []string { return lines[1:] },
		"the end is of none":     func(lines []string) []string { return []string{lines[2], lines[0], lines[1]} },
		"an empty line":          func(lines []string) []string { return append(lines, "") },
	} {
		s := open(t, t.TempDir()).(*Store)
		l, _ := begin(t, s)
		putSignals(t, s, "a", "b")
		if err := s.EndSignals(t.Context(), l, "a"); err != nil {
			t.Fatal(err)
		}
		edit(t, s.signalsFile("run"), func(text string) string {
			return strings.Join(damage(strings.Split(strings.TrimSuffix(text, "\n"), "\n")), "\n") + "\n"
		})
		_, err := s.Signals(t.Context(), "run", true)
		for what, err := range map[string]error{
			"Signals":    err,
			"PutSignal":  s.PutSignal(t.Context(), "run", left("c")),
			"EndSignals": s.EndSignals(t.Context(), l, "b"),
		} {
			if !errors.Is(err, checkpoint.ErrCorrupt) || !strings.Contains(err.Error(), `run "run"`) {
				t.Errorf("%s: %s: %v", name, what, err)
			}
		}
	}
}

// A run does not get the signals of one that was there before it.
func TestSignalsLeftBehind(t *testing.T) {
	s := open(t, t.TempDir()).(*Store)
	begin(t, s)
	putSignals(t, s, "a")
	if err := os.Remove(s.journal("run")); err != nil { // as who dies in the middle of a Delete
		t.Fatal(err)
	}
	begin(t, s)
	if got := signalIDs(t, s); got != "" {
		t.Errorf("signals %q of a run that is new", got)
	}
	putSignals(t, s, "a")
	if err := s.Delete(t.Context(), "run"); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(s.dir, "run*")); left != nil {
		t.Errorf("left behind: %q", left)
	}
}

// The names of a run's files are those of no other run.
func TestSignalsOfOddNames(t *testing.T) {
	s := open(t, t.TempDir()).(*Store)
	begin(t, s)
	for _, id := range []string{"run.signals", "run.lease", "run.signals.jsonl"} {
		run := checkpoint.Run{ID: id, Digest: "d", StartedAt: left("").At}
		if _, err := s.Create(t.Context(), run, "me", 0); err != nil {
			t.Fatal(err)
		}
		if err := s.PutSignal(t.Context(), id, left("of "+id)); err != nil {
			t.Fatal(err)
		}
	}
	putSignals(t, s, "a")
	all, err := s.List(t.Context(), checkpoint.Filter{Signalled: true})
	if err != nil || len(all) != 4 {
		t.Errorf("%d runs, %v", len(all), err)
	}
	if err := s.Delete(t.Context(), "run"); err != nil {
		t.Fatal(err)
	}
	if all, err := s.List(t.Context(), checkpoint.Filter{Signalled: true}); err != nil || len(all) != 3 {
		t.Errorf("after Delete: %d runs, %v", len(all), err)
	}
}

func FuzzDecodeSignals(target *testing.F) {
	f := seedtest.Fuzz(target)
	one, err := left("a").Line()
	if err != nil {
		f.Fatal(err)
	}
	done := checkpoint.Record{Seq: 1, At: left("").At, Kind: ended, Data: []byte(`{"ids":["a"]}`)}
	f.Add(append(one, '\n'))
	f.Add(append(append(one, '\n'), append(done.AppendLine(nil), '\n')...))
	f.Add([]byte("\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := decodeSignals(text)
		if err != nil && !errors.Is(err, checkpoint.ErrCorrupt) {
			t.Errorf("error %v", err)
		}
		for _, s := range all {
			if _, err := s.Line(); err != nil {
				t.Errorf("signal %v: %v", s, err)
			}
		}
	})
}

// A journal that has to be repaired does not keep anybody from asking for something.
func TestSignalsOfATornJournal(t *testing.T) {
	s := open(t, t.TempDir()).(*Store)
	begin(t, s)
	edit(t, s.journal("run"), func(text string) string { return text + `{"seq":3,` })
	putSignals(t, s, "a")
	if cut, err := s.Repair(t.Context(), "run"); err != nil || cut != 9 {
		t.Errorf("Repair cut off %d, %v", cut, err)
	}
	if got := signalIDs(t, s); got != "a" {
		t.Errorf("signals %q", got)
	}
}
