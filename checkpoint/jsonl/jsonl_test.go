package jsonl

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/checkpointtest"
	"github.com/braise-run/braise/internal/seedtest"
)

// lockVar is the file that a process locks until it is killed.
const lockVar = "BRAISE_JSONL_LOCK"

// lockForGood is what such a process does.
func lockForGood(name string) {
	if _, err := openLocked(context.Background(), name, os.O_CREATE|os.O_RDWR); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("locked")
	select {}
}

func TestMain(m *testing.M) {
	if name := os.Getenv(lockVar); name != "" {
		lockForGood(name)
	}
	checkpointtest.Main(m, openPlace)
}

// What the store can do besides.
var _ interface {
	checkpoint.Repairer
	checkpoint.Documents
	checkpoint.Signals
	checkpoint.Querier
	checkpoint.Watcher
} = (*Store)(nil)

func openPlace(dir string) (checkpoint.Store, error) { return Open(dir) }

func open(t *testing.T, dir string) checkpoint.Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// edit replaces the text of a file.
func edit(t *testing.T, name string, edit func(text string) string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err == nil {
		err = os.WriteFile(name, []byte(edit(string(text))), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// suite are the ways to get at the medium.
var suite = checkpointtest.Options{
	Reopen: func(t *testing.T, s checkpoint.Store) checkpoint.Store {
		other := open(t, s.(*Store).dir)
		t.Cleanup(func() { other.Close() })
		return other
	},
	Edit: func(t *testing.T, s checkpoint.Store, runID string, change func([]string) []string) {
		edit(t, s.(*Store).journal(runID), func(text string) string {
			return strings.Join(change(strings.Split(strings.TrimSuffix(text, "\n"), "\n")), "\n") + "\n"
		})
	},
	EditDefinition: func(t *testing.T, s checkpoint.Store, digest string, change func(string) string) {
		edit(t, s.(*Store).definition(digest), func(text string) string { return change(strings.TrimSuffix(text, "\n")) + "\n" })
	},
	EditDocument: func(t *testing.T, s checkpoint.Store, collection, name string, change func(string) string) {
		edit(t, s.(*Store).collection(collection), func(text string) string {
			lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
			at := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, `"path":"`+name+`"`) })
			if at < 0 {
				at = len(lines) - 1 // it was changed before
			}
			lines[at] = change(lines[at])
			return strings.Join(lines, "\n") + "\n"
		})
	},
	EditSignal: func(t *testing.T, s checkpoint.Store, runID, id string, change func(string) string) {
		edit(t, s.(*Store).signalsFile(runID), func(text string) string {
			lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
			at := slices.IndexFunc(lines, func(line string) bool { return strings.Contains(line, `"path":"`+id+`"`) })
			if at < 0 {
				at = 1 // it was changed before
			}
			lines[at] = change(lines[at])
			return strings.Join(lines, "\n") + "\n"
		})
	},
	EditLease: func(t *testing.T, s checkpoint.Store, runID string, change func(checkpoint.Lease) checkpoint.Lease) {
		l, err := s.(*Store).readLease(runID)
		if err == nil {
			err = s.(*Store).writeLease(change(l))
		}
		if err != nil {
			t.Fatal(err)
		}
	},
	Remembered: func(s checkpoint.Store) int { return len(s.(*Store).ends) },
	Tear: func(t *testing.T, s checkpoint.Store, runID string) {
		edit(t, s.(*Store).journal(runID), func(text string) string { return text[:len(text)-9] })
	},
	Break: func(t *testing.T, s checkpoint.Store) func() {
		if !alone {
			t.Skip("see TestWritesFail")
		}
		return limitFiles(t, 100)
	},
	Size: func(t *testing.T, s checkpoint.Store) int64 {
		var size int64
		err := filepath.WalkDir(s.(*Store).dir, func(_ string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			info, err := d.Info()
			if err == nil {
				size += info.Size()
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return size
	},
}

func TestStore(t *testing.T) {
	checkpointtest.Run(t, func(t *testing.T) checkpoint.Store { return open(t, t.TempDir()) }, suite)
}

// The lock of systems without flock works on all of them.
func TestStoreWithLockFiles(t *testing.T) {
	flock := tryLock
	tryLock = tryLockFile
	t.Cleanup(func() { tryLock = flock })
	checkpointtest.Run(t, func(t *testing.T) checkpoint.Store { return open(t, t.TempDir()) }, suite)
}

func TestProcesses(t *testing.T) {
	checkpointtest.RunProcesses(t, (*testing.T).TempDir, openPlace)
}

// begin creates the run "run" with one more record.
func begin(t *testing.T, s checkpoint.Store) (checkpoint.Lease, checkpoint.Record) {
	t.Helper()
	rec, err := checkpoint.NewRecord(time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC), "step.end", "a", map[string]any{"n": 1})
	if err != nil {
		t.Fatal(err)
	}
	run := checkpoint.Run{ID: "run", Recipe: "greet", Digest: "d", Definition: []byte("{}"), StartedAt: rec.At}
	l, err := s.Create(t.Context(), run, "me", 0, rec)
	if err != nil {
		t.Fatal(err)
	}
	return l, rec
}

// alone says that this process runs only tests that may break its files.
var alone = os.Getenv("JSONL_TEST_ALONE") != ""

// The limit on files is one of the process, and go test writes files too: so this is another one.
func TestWritesFail(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^(TestStore|TestPartialWrite)$/^broken_medium")
	cmd.Env = append(os.Environ(), "JSONL_TEST_ALONE=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// A write that stops after some bytes leaves nothing behind, wherever it stops.
func TestPartialWrite(t *testing.T) {
	if !alone {
		t.Skip("see TestWritesFail")
	}
	s := open(t, t.TempDir()).(*Store)
	l, rec := begin(t, s)
	want, err := os.ReadFile(s.journal("run"))
	if err != nil {
		t.Fatal(err)
	}
	for _, more := range []int{0, 1, 50, 130, 270} { // of 276
		mend := limitFiles(t, int64(len(want)+more))
		err := s.Append(t.Context(), l, 2, rec, rec)
		mend()
		if !errors.Is(err, syscall.EFBIG) {
			t.Errorf("after %d bytes: error %v, want %v", more, err, syscall.EFBIG)
		}
		if got, _ := os.ReadFile(s.journal("run")); string(got) != string(want) {
			t.Fatalf("after %d bytes the journal is\n%s", more, got)
		}
	}
	if err := s.Append(t.Context(), l, 2, rec, rec); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(s.dir, tempMark+"*")); left != nil {
		t.Errorf("left behind: %q", left)
	}
}

// The format is public: it is read by people, and by later versions.
func TestFormat(t *testing.T) {
	s := open(t, t.TempDir()).(*Store)
	l, rec := begin(t, s)
	if err := s.Append(t.Context(), l, 2, rec); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(s.journal("run"))
	if err != nil {
		t.Fatal(err)
	}
	sums := regexp.MustCompile(`"sum":"[0-9a-f]{8}"`)
	want := `{"seq":1,"at":"2026-01-31T12:00:00Z","kind":"batch","data":{"records":2},"sum":"…"}
{"seq":1,"at":"2026-01-31T12:00:00Z","kind":"run.created","data":{"digest":"d","format":1,"recipe":"greet","run":"run"},"sum":"…"}
{"seq":2,"at":"2026-01-31T12:00:00Z","kind":"step.end","path":"a","data":{"n":1},"sum":"…"}
{"seq":3,"at":"2026-01-31T12:00:00Z","kind":"step.end","path":"a","data":{"n":1},"sum":"…"}
`
	if diff := cmp.Diff(want, sums.ReplaceAllString(string(got), `"sum":"…"`)); diff != "" {
		t.Errorf("journal (-want +got):\n%s", diff)
	}
}

// However much of a write is on disk, the journal is read as if the write had not happened, or not at all.
func TestTornAnywhere(t *testing.T) {
	s := open(t, t.TempDir()).(*Store)
	l, rec := begin(t, s)
	before, err := os.ReadFile(s.journal("run"))
	if err == nil {
		err = s.Append(t.Context(), l, 2, rec, rec, rec)
	}
	if err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(s.journal("run"))
	if err != nil {
		t.Fatal(err)
	}
	for n := len(before) + 1; n < len(after); n++ {
		edit(t, s.journal("run"), func(string) string { return string(after[:n]) })
		if _, _, err := s.Load(t.Context(), "run", 0); !errors.Is(err, checkpoint.ErrCorrupt) {
			t.Fatalf("Load of %d bytes: %v", n, err)
		}
		cut, err := s.Repair(t.Context(), "run")
		if err != nil || cut != int64(n-len(before)) {
			t.Fatalf("Repair of %d bytes cut off %d, %v", n, cut, err)
		}
		if got, _ := os.ReadFile(s.journal("run")); string(got) != string(before) {
			t.Fatalf("repaired journal:\n%s", got)
		}
	}
}

// Repair takes no more than the unfinished end.
func TestRepairRefuses(t *testing.T) {
	for _, damage := range []func(text string) string{
		func(text string) string { return strings.Replace(text, "greet", "greed", 1) },
		func(text string) string { return strings.Replace(text, "greet", "greed", 1) + "torn" },
		func(text string) string { return text[strings.Index(text, "\n")+1:] + "torn" }, // a batch without its head is fine
		func(text string) string { return "torn" },
		func(text string) string { return "" },
	} {
		s := open(t, t.TempDir()).(*Store)
		begin(t, s)
		var want string
		edit(t, s.journal("run"), func(text string) string { want = damage(text); return want })
		cut, err := s.Repair(t.Context(), "run")
		got, _ := os.ReadFile(s.journal("run"))
		if strings.HasPrefix(want, `{"seq":1,"at":"2026-01-31T12:00:00Z","kind":"run.created"`) {
			if err != nil || cut != 4 {
				t.Errorf("Repair cut off %d, %v", cut, err)
			}
		} else if !errors.Is(err, checkpoint.ErrCorrupt) || string(got) != want {
			t.Errorf("Repair cut off %d, %v; the journal is\n%s", cut, err, got)
		}
	}
}

// A journal that was copied without its lease can be claimed; a lease that cannot be read is an
// error, not a lease that ran out.
func TestLeaseFile(t *testing.T) {
	s := open(t, t.TempDir()).(*Store)
	old, rec := begin(t, s)
	edit(t, s.leaseFile("run"), func(text string) string { return text[:len(text)/2] })
	if _, err := s.Claim(t.Context(), "run", "other", 0); !errors.Is(err, checkpoint.ErrCorrupt) {
		t.Errorf("Claim: %v, want %v", err, checkpoint.ErrCorrupt)
	}
	if err := s.Append(t.Context(), old, 2, rec); !errors.Is(err, checkpoint.ErrCorrupt) {
		t.Errorf("Append: %v, want %v", err, checkpoint.ErrCorrupt)
	}
	if err := os.Remove(s.leaseFile("run")); err != nil {
		t.Fatal(err)
	}
	l, err := s.Claim(t.Context(), "run", "other", time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Append(t.Context(), old, 2, rec); !errors.Is(err, checkpoint.ErrFenced) {
		t.Errorf("Append: %v, want %v", err, checkpoint.ErrFenced)
	}
	if err := s.Append(t.Context(), l, 2, rec); err != nil {
		t.Error(err)
	}
}

// A process that was stopped while it had a lock does not stop others for good.
func TestLockedForGood(t *testing.T) {
	s := open(t, t.TempDir()).(*Store)
	begin(t, s)
	flock := tryLock
	tryLock = func(*os.File) (func(), error) { return nil, nil }
	t.Cleanup(func() { tryLock = flock })
	synctest.Test(t, func(t *testing.T) {
		claim := func(ctx context.Context, want error) {
			t.Helper()
			if _, err := s.Claim(ctx, "run", "other", 0); !errors.Is(err, want) {
				t.Errorf("Claim: %v, want %v", err, want)
			}
		}
		began := time.Now()
		claim(t.Context(), checkpoint.ErrBusy)
		if took := time.Since(began); took < lockWait || took > lockWait+time.Second {
			t.Errorf("it waited for %v", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		claim(ctx, context.DeadlineExceeded)
	})
}

// However many of this process want a lock, each gets it: only what others keep it from counts as waiting.
func TestManyWantALock(t *testing.T) {
	name := filepath.Join(t.TempDir(), ".lock")
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() {
				f, err := openLocked(t.Context(), name, os.O_CREATE|os.O_RDWR)
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(lockWait / 10) // a write on a loaded machine
				f.Close()
			})
		}
		all.Wait()
		if took := time.Since(began); took < 20*lockWait {
			t.Errorf("200 held it one after the other for %v in all", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		f, err := openLocked(ctx, name, os.O_RDWR)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := openLocked(ctx, name, os.O_RDWR); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a second lock: %v, want %v", err, context.DeadlineExceeded)
		}
	})
	if len(lines.all) > 0 {
		t.Errorf("lines are left: %v", lines.all)
	}
}

// What a process left when it died in the middle of a Create goes with Prune, once it is old; the
// fresh may be of a living one.
func TestPruneSweeps(t *testing.T) {
	s := open(t, t.TempDir()).(*Store)
	begin(t, s)
	old, fresh := filepath.Join(s.dir, tempMark+"1"), filepath.Join(s.dir, tempMark+"2")
	for _, name := range []string{old, fresh} {
		if err := os.WriteFile(name, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	hours := time.Now().Add(-2 * time.Hour)
	if err := os.Chtimes(old, hours, hours); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Prune(t.Context(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("old file: %v", err)
	}
	if _, err := os.Stat(fresh); err != nil {
		t.Errorf("fresh file: %v", err)
	}
	if _, err := s.Definition(t.Context(), "d"); err != nil {
		t.Error(err)
	}
}

// trust 6.10: an auditor who may not write reads all that there is.
func TestReadOnly(t *testing.T) { checkpointtest.RunReadOnly(t, t.TempDir(), openPlace) }

func FuzzDecode(target *testing.F) {
	f := seedtest.Fuzz(target)
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	one := checkpoint.Record{Seq: 1, At: at, Kind: "a"}
	f.Add(encode([]checkpoint.Record{one}))
	f.Add(encode([]checkpoint.Record{one, {Seq: 2, At: at, Kind: "b", Data: []byte("{}")}}))
	f.Add([]byte("\n\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		recs, whole, err := decode(text)
		if err == nil && whole != int64(len(text)) {
			t.Errorf("%d of %d bytes are whole, and no error", whole, len(text))
		}
		if err != nil && !errors.Is(err, checkpoint.ErrCorrupt) {
			t.Errorf("error %v", err)
		}
		again, _, err := decode(text[:whole])
		if err != nil || len(again) != len(recs) {
			t.Errorf("the whole part has %d records, %v; want %d", len(again), err, len(recs))
		}
	})
}
