package page_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

const yes = `apiVersion: braise/v1
name: yes
steps:
  check: {uses: set, with: {total: 80}}
  pay: {uses: human, needs: [check], with: {prompt: "Pay **80 euros** to [Ada](https://ada.example)?"}}
  odd: {uses: set, when: "steps.check.output.total < 10", with: 1}
  sent: {uses: say, when: steps.pay.output.decision == "approve", with: {text: Paid}}
  after: {uses: say, needs: [sent], with: {text: Paid}}
finally:
  lost: {uses: fail, with: {code: report.lost, message: The report is lost}}
  tidy: {uses: wait, with: {duration: 1h}}
`

// A step that waits for a person shows as one that waits, everywhere; what is not done says why, in words.
func TestYes(t *testing.T) {
	s := newSite(t, options{recipes: map[string]string{"yes": yes}})
	id := s.run("yes", nil)
	b := s.open(olga, "#/runs")
	b.sees("tbody tr .why", "pay: Pay 80 euros to Ada?")
	b.goTo("#/runs/" + id)
	b.see(`.graph .node.waiting[data-id="pay"]`)
	b.sees(".why", "waits at pay: Pay 80 euros to Ada?")
	b.goTo("#/runs/" + id + "/time")
	b.see(`.line[data-step="pay"] .bar.waiting`)
	b.goTo("#/runs/" + id + "/steps")
	b.sees(`.line[data-step="pay"]`, "waiting")
	b.sees(`.line[data-step="odd"]`, "its condition is false")
	b.goTo("#/inbox?at=" + id + "/pay")
	b.sees(".pane h2", "Pay 80 euros to Ada?")
	b.see(`.pane .prompt a[href="https://ada.example"]`)
	b.press("reject")
	b.sees(".said", "is recorded")
	b.goTo("#/runs/" + id + "/steps")
	b.sees(`.line[data-step="sent"]`, "its condition is false")
	b.sees(`.line[data-step="after"]`, "a step that it needs has not succeeded")
	b.sees(".why", "waits at tidy: continues by itself, at ")
	b.sees(".why", ", in 59 m")
	b.goTo("#/runs")
	b.is("[...document.querySelectorAll('tbody .why')].some((e) => /^tidy: continues by itself, at .*\\d:\\d\\d:\\d\\d/.test(e.innerText))", true)

	id = s.run("yes", nil)
	status := value[int](b, `fetch('api/v1/runs/`+id+`/cancel', {method: 'POST', body: '{"reason":"too dear"}',
		headers: {'Content-Type': 'application/json'}}).then((r) => r.status)`)
	if status != http.StatusAccepted {
		t.Fatal(status)
	}
	b.goTo("#/runs/" + id + "/diagnostics")
	b.sees(".why", "olga has cancelled it: too dear.")
}

// A warning of the run is no error, and has its word.
func TestWarning(t *testing.T) {
	s := newSite(t, options{recipes: map[string]string{"yes": strings.Split(yes, "  tidy:")[0] + "output: 1\n"}})
	id := s.run("yes", nil)
	b := s.open(olga, "#/inbox?at="+id+"/pay")
	b.press("approve")
	b.sees(".said", "is recorded")
	b.goTo("#/runs/" + id + "/diagnostics")
	b.sees(".diagnostics .warn", `warning: step "lost" of finally failed: The report is lost`)
	b.axe("diagnostics")
}

// The screens fit a telephone: nothing is beside the window, the head of the page is one line, and everybody can use them.
func TestNarrow(t *testing.T) {
	s := newSite(t, options{recipes: map[string]string{"yes": yes}})
	id, other := s.run("yes", nil), s.run("yes", nil)
	b := s.open(olga, "#/inbox?at="+other+"/pay")
	b.press("reject")
	b.sees(".said", "is recorded")
	b.status(other, "waiting")
	b.do(chromedp.EmulateViewport(360, 740))
	for _, tt := range []struct{ place, shown string }{
		{"runs", "tbody tr"}, {"recipes", "tbody tr"}, {"recipes/yes", ".starts button"}, {"inbox", ".list li"},
		{"inbox?at=" + id + "/pay", ".decide"}, {"runs/" + id, ".graph .node"}, {"runs/" + id + "/time", ".bar"},
		{"runs/" + id + "/trace", ".event"}, {"runs/" + other + "/steps", ".line[data-step] .error"},
		{"runs/" + id + "/steps?step=check", ".detail .json"}, {"runs/" + id + "/result", ".result"},
		{"runs/" + id + "/fork?at=pay", "section[aria-label='Runs again']"}, {"compare?a=" + id + "&b=" + other, "tr.part"},
	} {
		b.goTo("#/" + tt.place)
		b.see(tt.shown)
		b.is(`document.documentElement.scrollWidth <= 360 && document.querySelector('.top').offsetHeight < 50`, true)
		b.is(`[...document.querySelectorAll('main .scroll, .steps .rows, .compare table')].every((e) => e.scrollWidth <= e.clientWidth)`, true)
		b.is(`[...document.querySelectorAll('.steps .error, .compare td')].every((e) => e.getBoundingClientRect().right <= innerWidth)`, true)
		b.axe("narrow, " + tt.place)
	}
}
