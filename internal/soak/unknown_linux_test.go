package soak

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/braise-run/braise/history"
)

// beside are runs in which something ends a payment that is on its way. LIMIT is how long it may take, in milliseconds. The server
// books at once, and would answer in a minute.
var beside = []struct {
	name, text string
	pay        string   // the path of the call
	decisions  []string // of the question; nil: a warning reports it, and nobody is asked
	status     string   // of the run, once it is answered
	never      string   // what must not happen before the answer; "" is nothing
}{
	{
		name: "sibling fails", pay: "pay", decisions: []string{"result", "fail"}, status: "error",
		text: "  pay: {" + paying("pay") + "}\n  no: {" + request("no", ", fail: 9, status: 400, delay: LIMITms") + "}\n",
	},
	{
		name: "timeout of the step", pay: "pay", decisions: []string{"retry", "result", "fail"}, status: "ok",
		text: "  pay: {timeout: LIMITms, " + paying("pay") + "}\n",
	},
	{
		name: "timeout of the body", pay: "b/pay", decisions: []string{"result", "fail"}, status: "error",
		text: "  b: {uses: recipe, timeout: LIMITms, with: {steps: {pay: {" + paying("b/pay") + "}}}}\n",
	},
	{
		name: "second provider", pay: "pay", decisions: []string{"retry", "result", "fail"}, status: "ok", never: "other",
		text: "  pay: {timeout: LIMITms, on_error: continue, " + paying("pay") + "}\n  other: {needs: [pay], when: steps.pay.status == \"failed\", " + request("other", "") + "}\n",
	},
	{
		name: "wall time", pay: "pay", status: "error",
		text: "  pay: {" + paying("pay") + "}\nlimits: {wall_time: LIMITms}\n",
	},
	{
		name: "lost race", pay: "r/a/pay", status: "ok",
		text: "  r: {uses: fork, with: {mode: race, branches: {a: {steps: {pay: {" + paying("r/a/pay") + "}}}, b: {steps: {b: {" + request("b", ", delay: LIMIT") + "}}}}}}\n",
	},
}

// paying is a payment that can be undone.
func paying(path string) string {
	return request(path, ", delay: 60000") + ", rollback: {" + request(path+"!rollback", "") + "}"
}

// A payment with an unknown outcome leads to a question, or to a warning if its recipe continues without it.
func TestPaymentCutOff(t *testing.T) {
	if !long() {
		return
	}
	t.Parallel()
	w := newWorld(t)
	s := &soak{world: w, t: t, place: openStore(t, w, "sqlite")}
	s.journal = s.open()
	for i, tt := range beside {
		t.Run("trust 6.2/"+tt.name, func(t *testing.T) {
			s := &soak{world: w, t: t, place: s.place, journal: s.journal}
			var r *run
			for limit := 400; ; limit *= 2 { // until the payment was on its way when it was ended
				text := strings.ReplaceAll(tt.text, "LIMIT", strconv.Itoa(limit))
				rec := &recipe{name: fmt.Sprintf("beside-%d-%d", i, limit), text: "steps:\n" + text}
				w.writeRecipe(rec)
				r = s.newRun(rec.name, rec)
				if r.end(r.first()); count(w.effects(r.id), tt.pay) == 1 || limit > 10000 {
					break
				}
			}
			if tt.decisions != nil {
				s.askedAbout(r, tt.pay, tt.decisions, tt.never)
			}
			s.settled(r, tt.pay, tt.status, tt.decisions == nil)
		})
	}
}

// askedAbout checks the question, and answers it with what happened.
func (s *soak) askedAbout(r *run, pay string, decisions []string, never string) {
	now, err := history.Load(s.t.Context(), s.journal, r.id)
	if err != nil {
		s.t.Fatal(err)
	}
	if len(now.Pauses) != 1 || now.Pauses[0].Reason != "indeterminate" || !slices.Equal(now.Pauses[0].Decisions, decisions) {
		r.errorf("%s, pending pauses are %+v, want a question about %s with %v", now.Status, now.Pauses, pay, decisions)
	}
	if never != "" && count(s.effects(r.id), never) > 0 {
		r.errorf("%s happened while the outcome of %s was unknown", never, pay)
	}
	if len(now.Pauses) == 1 {
		r.say("runs", "answer", r.id, now.Pauses[0].ID, "--decision", "result", "--inputs-json",
			fmt.Sprintf(`{"status": 200, "headers": {}, "body": "did %s", "json": null}`, pay))
	}
}

// settled checks how the run ended: a failed one has undone the payment, and a warning tells of one that nobody was
// asked about.
func (s *soak) settled(r *run, pay, status string, warned bool) {
	out := r.say("runs", "recover", r.id)
	if out.Status != status {
		r.errorf("it ended with %s %v, want %s", out.Status, out.Error, status)
	}
	told := slices.ContainsFunc(out.Found, func(d struct{ Code, Step string }) bool { return d.Code == "call.unknown" && d.Step == pay })
	if told != warned {
		r.errorf("diagnostics are %v; one is about the payment: %v, want %v", out.Found, told, warned)
	}
	all := s.effects(r.id)
	undone := 0
	if !warned && status == "error" {
		undone = 1
	}
	if paid, undo := count(all, pay), count(all, pay+"!rollback"); paid != 1 || undo != undone {
		r.errorf("paid %d times and undone %d times, want 1 and %d", paid, undo, undone)
	}
}
