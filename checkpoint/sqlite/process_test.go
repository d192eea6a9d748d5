package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/checkpointtest"
)

// childFile is the environment variable that makes the test binary another process on a file.
const childFile = "BRAISE_TEST_SQLITE"

func TestMain(m *testing.M) {
	if path := os.Getenv(childFile); path != "" {
		if err := child(path); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	checkpointtest.Main(m, openPlace)
}

// child claims "shared", appends to it and to a run of its own, says so, and waits for its end.
func child(path string) error {
	ctx := context.Background()
	s, err := Open(ctx, path, nil)
	if err != nil {
		return err
	}
	shared, err := s.Claim(ctx, "shared", checkpoint.NewOwner(), time.Hour)
	if err != nil {
		return err
	}
	own, err := s.Create(ctx, checkpoint.Run{ID: "child", Digest: "d", StartedAt: started}, checkpoint.NewOwner(), time.Hour)
	if err != nil {
		return err
	}
	for i := range int64(100) {
		rec := checkpoint.Record{At: started, Kind: "step.end"}
		for _, l := range []checkpoint.Lease{shared, own} {
			if err := s.Append(ctx, l, i+1, rec); err != nil {
				return err
			}
		}
		if i == 0 {
			fmt.Println("begun")
		}
	}
	fmt.Println("written")
	select {} // killed here
}

func TestTwoProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	s := open(t, path, nil)
	create(t, s, "shared", 0)
	mine := create(t, s, "parent", time.Hour)

	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0", childFile+"="+path)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	says := func(want string) {
		t.Helper()
		if !lines.Scan() || lines.Text() != want {
			t.Fatalf("the other process says %q, want %q", lines.Text(), want)
		}
	}
	says("begun")
	for i := range int64(100) { // both write
		want(t, "Append", s.Append(t.Context(), mine, i+1, note(t, "parent")), nil)
	}
	_, err = s.Claim(t.Context(), "shared", checkpoint.NewOwner(), time.Hour)
	want(t, "Claim of a run that the other process holds", err, checkpoint.ErrBusy)
	says("written")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()

	for _, id := range []string{"shared", "child", "parent"} {
		sum, recs, err := s.Load(t.Context(), id, 0)
		if err != nil || sum.Seq != 101 || len(recs) != 101 {
			t.Errorf("%s: %d records, last %d, want 101 (%v)", id, len(recs), sum.Seq, err)
		}
	}
	if checkpoint.OwnerGone(strings.Replace(checkpoint.NewOwner(), fmt.Sprintf("/%d/", os.Getpid()), fmt.Sprintf("/%d/", cmd.Process.Pid), 1)) {
		l, err := s.Claim(t.Context(), "shared", checkpoint.NewOwner(), time.Hour)
		want(t, "Claim of a dead owner's run", err, nil)
		want(t, "Append", s.Append(t.Context(), l, 101, note(t, "taken over")), nil)
	}
}
