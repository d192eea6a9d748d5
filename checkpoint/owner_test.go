package checkpoint_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/braise-run/braise/checkpoint"
)

func TestOwner(t *testing.T) {
	a, b := checkpoint.NewOwner(), checkpoint.NewOwner()
	if a == b {
		t.Errorf("two owners are %q", a)
	}
	if checkpoint.OwnerGone(a) {
		t.Errorf("this process, %q, is gone", a)
	}
	for _, owner := range []string{"", "me", "a/b", "/////", "////////", strings.Replace(a, "/", "", 1)} {
		if checkpoint.OwnerGone(owner) {
			t.Errorf("%q is surely gone", owner)
		}
	}
	if runtime.GOOS != "linux" {
		t.Skip("this system does not tell")
	}
	change := func(part int, to string) string {
		parts := strings.Split(a, "/")
		parts[part] = to
		return strings.Join(parts, "/")
	}
	for _, tt := range []struct {
		name, owner string
		want        bool
	}{
		{"another start time: the id was used again", change(4, "1"), true},
		{"no such process", change(3, "4194305"), true}, // over the highest id of Linux, 2^22
		{"another machine of this boot: a copy (trust 6.1)", strings.Replace(change(4, "1"), strings.Split(a, "/")[0], "clone", 1), false},
		{"another boot", strings.Replace(change(4, "1"), strings.Split(a, "/")[1], "boot", 1), false},
		{"another namespace", strings.Replace(change(4, "1"), strings.Split(a, "/")[2], "pid:[1]", 1), false},
		{"no start time", change(4, ""), false},
		{"a group of processes", change(3, "-1"), false},
		{"no process id", change(3, "x"), false},
	} {
		if got := checkpoint.OwnerGone(tt.owner); got != tt.want {
			t.Errorf("%s: OwnerGone(%q) = %v, want %v", tt.name, tt.owner, got, tt.want)
		}
	}
}

// One look at many leases looks for the process of each owner once.
func TestLook(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("this system does not tell")
	}
	child := exec.CommandContext(t.Context(), "sleep", "60")
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(checkpoint.NewOwner(), "/")
	parts[3], parts[4] = fmt.Sprint(child.Process.Pid), strings.Fields(string(stat))[21] // see proc(5); the name has no space
	var clock checkpoint.Clock
	first := clock.Give("first", strings.Join(parts, "/"), 1, time.Hour)
	second := clock.Give("second", first.Owner, 1, time.Hour)
	look := clock.Look()
	if !look(first) || !look(clock.Give("mine", checkpoint.NewOwner(), 1, time.Hour)) {
		t.Error("a lease of a process that lives is not held")
	}
	child.Process.Kill()
	child.Wait()
	if !look(second) {
		t.Error("the same look has looked for the process again")
	}
	if look(clock.Give("ended", first.Owner, 1, 0)) || look(clock.Give("free", "", 1, time.Hour)) || clock.Look()(second) {
		t.Error("a lease that ended, one of nobody or one of a process that is gone is held")
	}
}
