package checkpoint_test

import (
	"runtime"
	"strings"
	"testing"

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
