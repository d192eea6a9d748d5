package soak

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// offVar says by how much the clock on the wall is off, for the command that offCommand builds.
const offVar = "SOAK_CLOCK_OFF"

// offClock is added to package time of that command.
const offClock = `package time

import "syscall"

var clockOff = func() int64 {
	text, _ := syscall.Getenv("` + offVar + `")
	d, _ := ParseDuration(text)
	return int64(d / Second)
}()
`

// offCommand builds the command with a clock on the wall that can be off. Its monotonic clock is right.
func offCommand(t *testing.T) string {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	const reads = "sec, nsec, mono := runtimeNow()\n"
	if strings.Count(string(text), reads) != 1 {
		t.Fatalf("%s reads the clock in another way", source)
	}
	dir := t.TempDir()
	now, off := filepath.Join(dir, "time.go"), filepath.Join(dir, "off.go")
	overlay, _ := json.Marshal(map[string]any{"Replace": map[string]string{source: now, filepath.Join(filepath.Dir(source), "off.go"): off}})
	for file, text := range map[string]string{now: strings.Replace(string(text), reads, reads+"\tsec += clockOff\n", 1), off: offClock,
		filepath.Join(dir, "overlay.json"): string(overlay)} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	braise := filepath.Join(dir, "braise")
	out, err := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", braise,
		"github.com/braise-run/braise/cmd/braise").CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return braise
}

// Two servers share a store, and the clock of one is an hour off. Calls take longer than a lease: no run is taken from its
// owner, each effect happens once, streams of both servers have every event once, and what waits for a day goes on waiting.
func TestClockOff(t *testing.T) {
	if !long() {
		t.Skip("it builds the standard library anew: -soak.leases")
	}
	braise := offCommand(t)
	for _, place := range []string{"sqlite", "postgres"} {
		for _, off := range []string{"1h", "-1h"} {
			t.Run("serve 11/"+place+" "+off, func(t *testing.T) {
				t.Parallel()
				f := newFleet(t, place, "")
				delay := fmt.Sprintf(", delay: %d", 8000)
				f.writeRecipe(&recipe{name: "slow", text: "steps:\n  a: {" + request("a", delay) + "}\n  b: {needs: [a], " + request("b", delay) + "}\n" +
					"  c: {needs: [b], " + request("c", delay) + "}\noutput: ${{ steps.c.output.body }}\n"})
				f.writeRecipe(&recipe{name: "asks", text: "steps:\n  ask: {uses: human, with: {prompt: Well, expires: 24h, on_expire: fail, decisions: [approve]}}\n"})
				right := f.serves("slow.yaml", "asks.yaml")
				f.braise, f.env = braise, append(f.env, offVar+"="+off)
				both := []*server{right, f.serves("slow.yaml", "asks.yaml")}
				var viewers sync.WaitGroup
				var ids []string
				for i := range 8 {
					id := fmt.Sprintf("r%d", i)
					ids = append(ids, id)
					both[i%2].begins("slow", id)
					viewers.Go(func() { f.follow(both[(i/2)%2:][:1], 0, id) })
				}
				for i, s := range both {
					s.begins("asks", fmt.Sprint("q", i))
				}
				for _, id := range ids {
					f.undisturbed(right, id)
				}
				viewers.Wait()
				for i, s := range both {
					id := fmt.Sprint("q", i)
					if v := s.looks(id); v.Phase != "waiting" || len(v.Pending) != 1 {
						t.Errorf("run %s: %+v", id, v)
					}
					both[1-i].must(202, "POST", "/api/v1/runs/"+id+"/pauses/ask/answer", map[string]any{"decision": "approve"}, nil)
					if v := both[1-i].ends(id); v.Phase != "ok" {
						t.Errorf("run %s: %+v", id, v)
					}
				}
				begun := map[time.Duration]int{} // by the clock that counts: Postgres has its own, else that of who executed the run
				for _, id := range ids {
					recs, _ := f.records(id)
					begun[time.Until(recs[0].At).Round(time.Hour)]++
				}
				want := map[time.Duration]int{0: 8}
				if place == "sqlite" {
					d, _ := time.ParseDuration(off)
					want = map[time.Duration]int{0: 4, d: 4}
				}
				if !maps.Equal(begun, want) {
					t.Errorf("the clocks of the records are off by %v", begun)
				}
			})
		}
	}
}
