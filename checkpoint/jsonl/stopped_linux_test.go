package jsonl

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/braise-run/braise/checkpoint"
)

// stopHolder has another process lock a file, and stops it.
func stopHolder(t *testing.T, name string) *os.Process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), lockVar+"="+name)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	said := make([]byte, 100)
	if n, err := out.Read(said); string(said[:n]) != "locked\n" {
		t.Fatalf("%q, %v", said[:n], err)
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	return cmd.Process
}

// Who reads does not wait for a process that was stopped in the middle of a write. Who writes gets an error that names
// the file and the process, and goes on when that has ended.
func TestStoppedInAWrite(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir()).(*Store)
	_, rec := begin(t, s)
	runs := filepath.Join(s.dir, ".lock")
	first, second := stopHolder(t, s.journal("run")), stopHolder(t, runs)
	ctx := t.Context()
	edit(t, s.journal("run"), func(text string) string { return text + `{"seq":9` }) // so far it has come
	if sum, recs, err := s.Load(ctx, "run", 0); err != nil || sum.Seq != int64(len(recs)) || len(recs) == 0 {
		t.Errorf("Load: %v, %d records, %v", sum, len(recs), err)
	}
	if all, err := s.List(ctx, checkpoint.Filter{}); err != nil || len(all) != 1 {
		t.Errorf("List: %v, %v", all, err)
	}
	if all, err := s.Signals(ctx, "run", true); err != nil || len(all) != 0 {
		t.Errorf("Signals: %v, %v", all, err)
	}
	var writers sync.WaitGroup
	for _, tt := range []struct {
		file   string
		holder *os.Process
		write  func() error
	}{
		{s.journal("run"), first, func() error { _, err := s.Claim(ctx, "run", "other", 0); return err }},
		{s.journal("run"), first, func() error { return s.PutSignal(ctx, "run", left("a")) }},
		{runs, second, func() error {
			_, err := s.Create(ctx, checkpoint.Run{ID: "new", Recipe: "r", Digest: "d", StartedAt: rec.At}, "o", 0)
			return err
		}},
	} {
		writers.Go(func() {
			err := tt.write()
			want := fmt.Sprintf("%s is locked by process %d, which is stopped\n", tt.file, tt.holder.Pid)
			if !errors.Is(err, checkpoint.ErrBusy) || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %s", err, want)
			}
		})
	}
	writers.Wait()
	for _, holder := range []*os.Process{first, second} {
		if err := holder.Kill(); err != nil {
			t.Error(err)
		}
	}
	edit(t, s.journal("run"), func(text string) string { return strings.TrimSuffix(text, `{"seq":9`) })
	if l, err := s.Claim(ctx, "run", "other", time.Minute); err != nil {
		t.Error(err)
	} else if err := s.Append(ctx, l, 2, rec); err != nil {
		t.Error(err)
	}
}

// A holder that is woken in time is waited for.
func TestWokenInAWrite(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir()).(*Store)
	begin(t, s)
	holder := stopHolder(t, s.journal("run"))
	woken := time.AfterFunc(stoppedWait/3, func() { holder.Kill() })
	defer woken.Stop()
	if _, err := s.Claim(t.Context(), "run", "other", 0); err != nil {
		t.Error(err)
	}
}

// Those of one process who want a lock wait together: each is refused as soon as the first is.
func TestManyWantALockOfAStopped(t *testing.T) {
	t.Parallel()
	s := open(t, t.TempDir()).(*Store)
	begin(t, s)
	stopHolder(t, s.journal("run"))
	began := time.Now()
	errs := make(chan error)
	for range 20 {
		go func() { _, err := s.Claim(t.Context(), "run", "other", 0); errs <- err }()
	}
	for range 20 {
		if err := <-errs; !errors.Is(err, checkpoint.ErrBusy) {
			t.Error(err)
		}
	}
	if took := time.Since(began); took >= 20*stoppedWait { // one after the other
		t.Errorf("20 waited for %v", took)
	}
}
