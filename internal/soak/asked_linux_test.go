package soak

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/braise-run/braise/checkpoint"
)

// question is a run that asks while a call of a minute is under way.
var question = recipe{
	name: "question",
	text: "steps:\n  ask: {uses: human, with: {prompt: \"Now?\", decisions: [approve, reject]}}\n" +
		"  then: {needs: [ask], " + request("then", "") + "}\n" +
		"  slow: {timeout: 2m, " + request("slow", ", delay: 60000") + "}\n",
}

// A hundred people answer a pause at the same time, at three servers. One answer counts; the others learn whose it was
// and when.
func TestAnswersAtOnce(t *testing.T) {
	for _, place := range []string{"sqlite", "postgres"} {
		t.Run("serve 12.5/"+place, func(t *testing.T) {
			t.Parallel()
			people := make([]string, 100)
			for i := range people {
				people[i] = fmt.Sprintf("p%d", i)
			}
			f := newFleet(t, place, "", people...)
			ask := recipe{name: "ask", text: "steps:\n  ask: {uses: human, with: {prompt: \"Now?\", decisions: [approve, reject]}}\n" +
				"  then: {needs: [ask], " + request("then", "") + "}\noutput: ${{ steps.ask.output.decision }}\n"}
			f.writeRecipe(&ask)
			three := []*server{f.serves("ask.yaml"), f.serves("ask.yaml"), f.serves("ask.yaml")}
			three[0].begins("ask", "r")
			three[0].awaits("r", "it asks", func(v view) bool { return v.Phase == "waiting" })
			answers := make([]answer, len(people))
			var all sync.WaitGroup
			for i, name := range people {
				all.Go(func() {
					var err error
					answers[i], err = three[i%3].send(tokenOf(name), "POST", "/api/v1/runs/r/pauses/ask/answer",
						map[string]any{"decision": []string{"approve", "reject"}[i%2]})
					if err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			f.oneCounts(people, answers)
			if v := three[1].ends("r"); v.Phase != "ok" || count(f.effects("r"), "then") != 1 {
				t.Errorf("%+v, and %d effects", v, count(f.effects("r"), "then"))
			}
		})
	}
}

// oneCounts checks the responses to the answers.
func (f *fleet) oneCounts(people []string, answers []answer) {
	first := ""
	for i, a := range answers {
		if a.status == http.StatusAccepted {
			first += people[i] + " "
		}
	}
	first = strings.TrimSpace(first)
	recs, signals := f.records("r")
	if len(signals) != 1 || signals[0].By != first {
		f.t.Fatalf("the answers of %q were accepted, and the run got %+v", first, signals)
	}
	times := []time.Time{signals[0].At} // of the answer, and once a server has taken it, of its record
	for _, rec := range recs {
		if rec.Kind == checkpoint.PauseAnswered {
			times = append(times, rec.At)
		}
	}
	for i, a := range answers {
		if people[i] == first {
			continue
		}
		var body struct {
			Error struct{ Code, Message string }
		}
		err := json.Unmarshal(a.body, &body)
		told := slices.ContainsFunc(times, func(at time.Time) bool {
			return strings.Contains(body.Error.Message, at.UTC().Format("15:04:05"))
		})
		if a.status != http.StatusConflict || err != nil || body.Error.Code != "pause.answered" ||
			!strings.Contains(body.Error.Message, first) || !told {
			f.t.Errorf("%s got %d %s; want 409 with %s and one of %v", people[i], a.status, a.body, first, times)
		}
	}
}

// An answer to a pause beside a call under way, and a cancel of a run, take effect while the call lasts: at once in the
// process that executes the run, and soon when they come by another.
func TestSignalsWhileAtWork(t *testing.T) {
	for _, place := range []string{"sqlite", "postgres"} {
		t.Run("serve 12.5/"+place, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, place, "")
			f.writeRecipe(&question)
			works, looks := f.serves("question.yaml"), f.serves("question.yaml", "--no-work")
			for _, tt := range []struct {
				name string
				by   *server
				most time.Duration // twice what is promised
			}{{"same", works, 2 * time.Second}, {"other", looks, 12 * time.Second}} {
				tt.by.begins("question", tt.name)
				if !f.await(time.Minute, func() bool { return len(f.requests[tt.name]) == 1 }) {
					t.Fatal("the call does not begin")
				}
				tt.by.awaits(tt.name, "it asks", func(v view) bool { return len(v.Pending) > 0 })
				tt.by.must(http.StatusAccepted, "POST", "/api/v1/runs/"+tt.name+"/pauses/ask/answer", map[string]any{"decision": "approve"}, nil)
				if !f.await(30*time.Second, func() bool { return len(f.requests[tt.name]) == 2 }) {
					t.Fatalf("%s process: the answer has no effect", tt.name)
				}
				tt.by.must(http.StatusAccepted, "POST", "/api/v1/runs/"+tt.name+"/cancel", map[string]any{"force": true}, nil)
				v := tt.by.ends(tt.name)
				recs, signals := f.records(tt.name)
				answered := lag(recs, signals, checkpoint.SignalAnswer, checkpoint.PauseAnswered)
				ended := lag(recs, signals, checkpoint.SignalCancel, checkpoint.RunEnded)
				t.Logf("%s, %s process: answered after %v, cancelled after %v", place, tt.name, answered, ended)
				if v.Phase != "cancelled" || answered > tt.most || ended > tt.most {
					t.Errorf("%s, %s process: %s, answered after %v, cancelled after %v; want at most %v", place, tt.name, v.Phase,
						answered, ended, tt.most)
				}
			}
		})
	}
}

// lag is the time between a signal and the last record of a kind.
func lag(recs []checkpoint.Record, signals []checkpoint.Signal, kind string, carried checkpoint.Kind) (d time.Duration) {
	for _, s := range signals {
		for _, r := range recs {
			if s.Kind == kind && r.Kind == carried {
				d = r.At.Sub(s.At)
			}
		}
	}
	return d
}
