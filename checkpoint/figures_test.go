package checkpoint

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestFigures(t *testing.T) {
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	odd := "a b=@%&+\x00\"ü"
	for want, sum := range map[string]Summary{
		"queued  ":        {Status: Queued},
		"ok -1000000001 ": {Status: OK, EndedAt: at.Add(-time.Second - 1)}, // the clock went back
		"error 1 2,900,300,1,80,4,1200 @=1,0,0,0,0,0,0 @fast=1,900,300,1,80,4,1200 @x= team=red": {Status: Failed, EndedAt: at.Add(1),
			Usage: Usage{2, 900, 300, 1, 80, 4, 1200}, Models: map[string]Usage{"fast": {1, 900, 300, 1, 80, 4, 1200}, "": {Calls: 1}, "x": {}},
			Run: Run{Labels: map[string]string{"team": "red"}}},
		"paused  0,0,0,0,0,0,9223372036854775807 @a+b%3D%40%25%26%2B%00%22%C3%BC=1,0,0,0,0,0,0 " +
			"a+b%3D%40%25%26%2B%00%22%C3%BC=a+b%3D%40%25%26%2B%00%22%C3%BC": {Status: Paused, Usage: Usage{Micros: math.MaxInt64},
			Models: map[string]Usage{odd: {Calls: 1}}, Run: Run{Labels: map[string]string{odd: odd}}},
	} {
		sum.StartedAt = at
		if got := sum.Figures(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		back := Summary{Run: Run{StartedAt: at}}
		ok := back.SetFigures(sum.Status, want)
		if diff := cmp.Diff(sum, back); !ok || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", want, ok, diff)
		}
	}
	for _, text := range []string{"", "ok", "ok ", "ok  1", "ok  1,2,3,4,5,6,7,8", "ok x ", "ok  1,2,3,4,5,6,x", "ok   a", "ok   %=b", "ok   a=%",
		"ok   @a=1", "ok   ", "paused  "} {
		if new(Summary).SetFigures(OK, text) {
			t.Errorf("%q is taken for figures", text)
		}
	}
}

func TestUsageAdd(t *testing.T) {
	u := Usage{1, 2, 3, 4, 5, 6, math.MaxInt64 - 1}
	u.Add(Usage{1, 1, 1, 1, 1, 1, 2})
	if want := (Usage{2, 3, 4, 5, 6, 7, math.MaxInt64}); u != want {
		t.Errorf("got %v, want %v", u, want)
	}
}
