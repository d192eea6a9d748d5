package page_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/resume"
	"github.com/braise-run/braise/workflow"
)

const asks = `apiVersion: braise/v1
name: asks
inputs: {order: integer}
steps:
  ask: {uses: human, with: {prompt: "Pay order ${{ inputs.order }}?", decisions: [approve, reject]}}
  tell: {uses: set, with: {said: "${{ steps.ask.output.decision }}", order: "${{ inputs.order }}"}}
output: ${{ steps.tell.output }}
`

const fails = `apiVersion: braise/v1
name: fails
inputs: {text: string}
steps:
  fetch: {uses: fail, with: {message: "${{ inputs.text }}", code: fetch.failed}}
`

// answer answers the pause of a run of this process.
func (s *site) answer(id, decision string) {
	s.Helper()
	sum, _, err := s.store.Load(s.Context(), id, 0)
	if err != nil || len(sum.Pauses) != 1 {
		s.Fatal(err, sum.Pauses)
	}
	rt := *s.rt
	rt.Resume = resume.PassThrough{}
	if _, err := workflow.Answer(s.Context(), id, sum.Pauses[0].ID, map[string]any{"decision": decision}, &rt, nil); err != nil {
		s.Fatal(err)
	}
}

// enqueue records a run of the first recipe for the queue default.
func (s *site) enqueue(id string, inputs map[string]any, labels map[string]string) {
	s.Helper()
	if _, err := s.recipes[0].Workflow.Enqueue(s.Context(), inputs, s.rt,
		&workflow.EnqueueOptions{RunID: id, Queue: "default", Labels: labels}); err != nil {
		s.Fatal(err)
	}
}

// rows waits until the list has these runs, in this order.
func (b *tab) rows(ids ...string) {
	b.Helper()
	b.is("[...document.querySelectorAll('tbody tr')].map((row) => row.dataset.run)", append([]string{}, ids...))
}

// Runs in view change where they stand; new ones wait until they are asked for.
func TestRuns(t *testing.T) {
	s := newSite(t, options{recipes: map[string]string{"asks": asks}, idle: true})
	b := s.open(olga, "#/runs")
	b.sees(".empty", "no runs yet")
	s.enqueue("r1", map[string]any{"order": 1}, map[string]string{"customer": "4711"})
	b.rows("r1") // nothing is pushed away
	b.sees("[data-run=r1]", "queued")
	b.sees("[data-run=r1]", "in queue default")
	b.sees("[data-run=r1] .label", "customer=4711")
	b.sees(".tabs", "queued 1")
	b.do(chromedp.Evaluate[chromedp.Void]("document.querySelector('[data-run=r1]').kept = true, document.querySelector('[data-run=r1] a.open').focus()"))

	s.enqueue("r2", map[string]any{"order": 2}, nil)
	b.sees(".news", "1 new")
	b.rows("r1")
	s.work()
	b.sees("[data-run=r1]", "waiting")
	b.sees("[data-run=r1]", "ask: Pay order 1?")
	b.sees(".tabs", "waiting 2")
	b.is("document.querySelector('[data-run=r1]').kept && document.activeElement === document.querySelector('[data-run=r1] a.open')", true)
	before := b.text("[data-run=r1] .lasts")
	b.is(fmt.Sprintf("document.querySelector('[data-run=r1] .lasts').innerText !== %q", before), true) // it ticks
	b.press("1 new")
	b.rows("r2", "r1")
	b.gone(".news")
	b.is("document.title.startsWith('Runs ')", true)

	b.goTo("#/runs?phase=waiting")
	b.is("document.querySelector('table[aria-label=Runs]')?.ariaBusy", "false") // these are the rows of the new address
	b.rows("r2", "r1")
	s.answer("r1", "approve")
	b.sees("[data-run=r1]", "ok") // it keeps its place
	b.sees(".news", "1 changed")
	b.press("1 changed")
	b.rows("r2")

	if err := s.store.Delete(t.Context(), "r1"); err != nil {
		t.Fatal(err)
	}
	b.goTo("#/runs?phase=ok")
	b.sees(".empty", "No run is ok now")
	b.goTo("#/runs?q=nope")
	b.sees(".empty", "No run is like that")
	b.press("Show all runs")
	b.rows("r2")
}

// All of the filter is in the URL: a link reproduces it, and Back works.
func TestFilterOfRuns(t *testing.T) {
	s := newSite(t, options{recipes: map[string]string{"asks": asks}, idle: true})
	start := time.Now()
	s.enqueue("abc-1", map[string]any{"order": 1}, map[string]string{"customer": "4711", "tier": "a b"})
	s.enqueue("abc-2", map[string]any{"order": 2}, map[string]string{"customer": "4712"})
	s.enqueue("xyz-3", map[string]any{"order": 3}, nil)
	b := s.open(rita, "#/runs")
	b.rows("xyz-3", "abc-2", "abc-1")
	b.keys("/")
	b.is("document.activeElement.type", "search")
	b.fill("input[type=search]", "abc")
	b.rows("abc-2", "abc-1")
	b.is("document.activeElement.type", "search") // the field keeps the focus and what is typed
	b.is("document.activeElement.value", "abc")
	b.is("location.hash", "#/runs?q=abc")
	b.press("customer=4712")
	b.rows("abc-2")
	b.is("location.hash", "#/runs?label=customer%3D4712")
	b.do(chromedp.NavigateBack())
	b.rows("abc-2", "abc-1")
	b.goTo("#/runs?phase=queued&label=tier%3Da+b&label=customer%3D4711")
	b.rows("abc-1")
	b.goTo("#/runs?recipe=other")
	b.rows()
	b.press("Clear")
	b.rows("xyz-3", "abc-2", "abc-1")
	b.goTo("#/runs?to=" + start.Add(-time.Hour).UTC().Format(time.RFC3339))
	b.sees(".empty", "No run is like that")
	b.see("details[open]")
	b.goTo("#/runs?queue=default&from=" + start.Add(-time.Hour).UTC().Format(time.RFC3339))
	b.rows("xyz-3", "abc-2", "abc-1")
	b.goTo("#/runs?label=wrong")
	b.sees(".trouble", "key=value")
	b.goTo("#/runs?after=nonsense")
	b.sees(".trouble", "not a place in a list")
}

func TestKeysOfRuns(t *testing.T) {
	s := newSite(t, options{recipes: map[string]string{"asks": asks}, idle: true})
	for i := range 3 {
		s.enqueue(fmt.Sprint("r", i), map[string]any{"order": i}, nil)
	}
	b := s.open(olga, "#/runs")
	b.rows("r2", "r1", "r0")
	b.keys("jjx")
	b.is("document.activeElement.closest('tr').dataset.run", "r1")
	b.is("document.querySelector('[data-run=r1] input').checked", true)
	b.keys("jjkx") // the last is the last: it is r1 again
	b.is("document.querySelectorAll('tr.marked').length", 0)
	b.click("[data-run=r0] input") // keys work from a box, too
	b.keys("kx")
	b.is("[...document.querySelectorAll('tr.marked')].map((row) => row.dataset.run)", []string{"r1", "r0"})
	b.keys(kb.Enter)
	b.is("location.hash", "#/runs/r1")
	b.sees(".facts code", "r1")
	b.is("document.title.startsWith('r1 ')", true)
	b.is("document.activeElement.id", "main") // the new screen has the focus
	b.do(chromedp.NavigateBack())
	b.rows("r2", "r1", "r0")
}

// Several runs are cancelled at once, and what came of each is told.
func TestCancelRuns(t *testing.T) {
	s := newSite(t, options{recipes: map[string]string{"asks": asks}})
	a, c := s.run("asks", map[string]any{"order": 1}), s.run("asks", map[string]any{"order": 2})
	b := s.open(olga, "#/runs")
	b.rows(c, a)
	b.keys("jxjx")
	b.press("Cancel 2")
	b.fill("dialog input", "a mistake")
	s.answer(a, "approve") // it is over before the button is pressed
	b.sees("[data-run='"+a+"']", "ok")
	b.press("Cancel 2 runs")
	b.sees("dialog", "1 of 2 are recorded")
	b.sees("dialog li", a)
	b.press("Close")
	b.gone("dialog")
	b.sees("[data-run='"+c+"']", "cancelled")
	reader := s.open(rita, "#/runs")
	reader.rows(c, a)
	reader.keys("jxjx")
	reader.sees(".tools", "Unmark 2")
	reader.is("document.querySelector('.tools').innerText.includes('Cancel')", false)
}

// Several runs that nobody executes are recovered at once.
func TestRecoverRuns(t *testing.T) {
	s, ids := asking(t, 2, options{})
	s.answer(ids[0], "approve") // it is over: there is nothing to recover
	for _, id := range []string{"s1", "s2"} {
		s.stopped(id)
	}
	b := s.open(olga, "#/runs?phase=interrupted")
	b.rows("s2", "s1")
	b.keys("jxjx")
	b.press("Recover 2")
	b.press("Recover 2 runs")
	b.sees("dialog", "2 of 2 are recorded")
	b.press("Close")
	b.gone("dialog")
	for _, id := range []string{"s1", "s2"} {
		signals, err := s.store.(checkpoint.Signals).Signals(t.Context(), id, true)
		if err != nil || len(signals) != 1 || signals[0].Kind != checkpoint.SignalTake || signals[0].By != "olga" {
			t.Error(err, signals)
		}
	}
}

// stopped records a run that is interrupted.
func (s *site) stopped(id string) {
	s.Helper()
	begun := checkpoint.Record{At: time.Now().UTC().Round(0), Kind: "run.input", Data: []byte(`{"inputs":{}}`)}
	lease, err := s.store.Create(s.Context(), checkpoint.Run{ID: id, Recipe: "asks", Digest: "d", Queue: "default",
		StartedAt: begun.At}, "test", time.Minute, begun)
	if err == nil {
		err = s.store.Release(s.Context(), lease)
	}
	if err != nil {
		s.Fatal(err)
	}
}

func TestPagesOfRuns(t *testing.T) {
	s := newSite(t, options{recipes: map[string]string{"asks": asks}, idle: true})
	for i := range 120 {
		s.enqueue(fmt.Sprintf("r%03d", i), map[string]any{"order": i}, nil)
	}
	page := func(first, last int) (ids []string) {
		for i := first; i >= last; i-- {
			ids = append(ids, fmt.Sprintf("r%03d", i))
		}
		return ids
	}
	b := s.open(rita, "#/runs")
	b.rows(page(119, 70)...)
	b.press("older →")
	b.rows(page(69, 20)...)
	b.press("older →")
	b.rows(page(19, 0)...)
	s.enqueue("new", map[string]any{"order": 0}, nil) // nothing for this page
	link := value[string](b, "location.hash")
	b.beside(link).rows(page(19, 0)...)
	b.press("← newer")
	b.rows(page(69, 20)...)
	b.do(chromedp.NavigateBack())
	b.rows(page(19, 0)...)
	b.gone(".news")
	b.sees(".tabs", "all")
	b.press("← newer")
	b.rows(page(69, 20)...)
	b.press("← newer")
	b.rows(append([]string{"new"}, page(119, 71)...)...)
	b.sees(".tabs", "queued 121")
}

// A run that failed says why, whatever is in the text; one that was interrupted can be recovered.
func TestFailedRuns(t *testing.T) {
	s := newSite(t, options{recipes: map[string]string{"fails": fails, "asks": asks}, idle: true})
	evil := "<img src=x onerror=alert(1)>\u202eabc\u0007"
	for _, r := range s.recipes {
		if r.Name == "fails" {
			if out, err := r.Workflow.Run(t.Context(), map[string]any{"text": evil}, s.rt); err == nil || out.Status != workflow.StatusError {
				t.Fatal(out.Status)
			}
		}
	}
	s.stopped("stopped")
	b := s.open(olga, "#/runs")
	b.sees("tr", `fetch: <img src=x onerror=alert(1)>\u202eabc\u0007`)
	b.sees("tr code", "fetch.failed")
	b.is("[...document.querySelectorAll('td.why a')].map((a) => a.innerText + ' ' + a.hash.replace(/runs.[0-9a-f-]{20,}/, 'ID')).sort()",
		[]string{"Fork #/ID/fork?at=fetch", "Fork #/runs/stopped/fork"})
	b.sees("[data-run=stopped]", "interrupted")
	b.press("Recover")
	b.is("!!document.querySelector('[data-run=stopped] [aria-busy=true]')", false)
	signals, err := s.store.(checkpoint.Signals).Signals(t.Context(), "stopped", true)
	for deadline := time.Now().Add(patience); err == nil && len(signals) == 0 && time.Now().Before(deadline); {
		signals, err = s.store.(checkpoint.Signals).Signals(t.Context(), "stopped", true)
	}
	if err != nil || len(signals) != 1 || signals[0].Kind != checkpoint.SignalTake {
		t.Error(err, signals)
	}
}

// What differs between two runs stands beside each other.
func TestCompare(t *testing.T) {
	changed := strings.ReplaceAll(asks, "${{ steps.ask.output.decision }}", "it is ${{ steps.ask.output.decision }}")
	s := newSite(t, options{recipes: map[string]string{"asks": asks}})
	a := s.run("asks", map[string]any{"order": 1})
	s.answer(a, "approve")
	s.recipes[0].Workflow = compile(t, changed)
	c := s.run("asks", map[string]any{"order": 2})
	s.answer(c, "reject")
	b := s.open(rita, "#/runs")
	b.rows(c, a)
	b.keys("jxjx")
	b.press("Compare")
	b.is("location.hash.split('&')", []string{"#/compare?a=" + a, "b=" + c})
	row := func(name string, want ...string) {
		t.Helper()
		b.is(fmt.Sprintf("[...document.querySelectorAll('tr')].filter((r) => r.cells[0].innerText === %q).map((r) => [...r.cells].slice(1, 3).map((c) => c.innerText).join(' | '))", name), want)
	}
	row("inputs.order", "1 | 2")
	row("output.said", `"approve" | "it is reject"`, `"approve" | "it is reject"`) // of the run, and of the step tell
	row("output.decision", `"approve" | "reject"`)
	b.sees("p[role=status]", "Inputs: 1 differs. Steps: 2 differ.")
	b.sees("tr.part", "The recipe is another text")
	b.press("swap")
	row("inputs.order", "2 | 1")
	same := s.run("asks", map[string]any{"order": 2})
	s.answer(same, "reject")
	b.goTo("#/compare?a=" + c + "&b=" + same)
	b.sees("p[role=status]", "Inputs: none differ. Steps: none differ.")
	b.click("input[type=checkbox]")
	b.is("[...document.querySelectorAll('tr th[scope=row]')].map((h) => h.innerText)", []string{"Lasts", "Used", "ask", "tell"})
	b.goTo("#/compare?a=" + c + "&b=nope")
	b.sees(".trouble", "there is no run")
	b.goTo("#/compare")
	b.sees(".empty", "Mark two runs")
}

// Two runs are compared, and one is forked from a step with other output, by keyboard alone.
func TestCompareAndForkByKeyboard(t *testing.T) {
	s := newSite(t, options{recipes: map[string]string{"refund": refund}, answers: dear, idle: true})
	a, c := s.run("refund", map[string]any{"order": 1}), s.run("refund", map[string]any{"order": 2})
	b := s.open(olga, "#/recipes")
	b.sees("h1", "Recipes")
	b.keys("gr")
	b.is("location.hash", "#/runs")
	b.rows(c, a)
	b.keys("jxjx")
	b.is("document.activeElement.blur(), true", true)
	b.do(chromedp.KeyEvent("\t", chromedp.KeyModifiers(kb.ModifierShift)))
	b.tabTo("Compare")
	b.keys(kb.Enter)
	b.sees("p[role=status]", "Inputs: 1 differs.")
	b.is("document.activeElement.id", "main")
	b.tabTo("all steps")
	b.keys(" ")
	b.is(query+".get('all')", "1")
	b.tabTo("swap")
	b.keys(kb.Enter)
	b.is(query+".get('a')", c)
	b.is("[...document.querySelectorAll('thead a')].map((e) => e.hash)", []string{"#/runs/" + c, "#/runs/" + a})

	b.tabTo("refund " + c)
	b.keys(kb.Enter)
	b.sees(".facts", c)
	b.is("document.activeElement.id", "main")
	b.tabTo("Fork…")
	b.keys(kb.Enter)
	b.sees("section[aria-label='Runs again'] li", "ask")
	b.tabTo("Run again from")
	b.keys(kb.ArrowDown) // from ask to pay
	b.is(query+".get('at')", "pay")
	b.keys(kb.ArrowUp)
	b.is(query+".get('at')", "ask")
	b.tabTo("Edit output of draft")
	b.keys(kb.Enter)
	b.tabTo("output of draft")
	b.do(chromedp.KeyEvent("a", chromedp.KeyModifiers(kb.ModifierCtrl)))
	b.keys(`{"text": "Hi Bob"}`)
	b.tabTo("Fork")
	b.keys(kb.Enter)
	b.is("location.hash.includes('fork')", false)
	b.sees(".facts", "fork of")
	id := value[string](b, "location.hash.split(/[/?]/)[2]")
	s.work()
	b.status(id, "waiting")
	if shown := s.api("GET", "runs/"+id, ""); !strings.Contains(shown, "Hi Bob") {
		t.Error(shown)
	}
}

// Places at which JSON differs, worked out by hand.
func TestDifferences(t *testing.T) {
	s := newSite(t, options{recipes: map[string]string{"asks": asks}, idle: true})
	b := s.open(rita, "#/runs")
	got := value[[]string](b, `import(document.scripts[0].src.replace('app', 'compare')).then(({differences}) => differences(
		{a: 1, b: [1, 2, {c: null}], __proto__x: 1, "d e": {f: "x"}, constructor: 1, same: {x: [1]}},
		{a: "1", b: [1, 3, {c: undefined}, 4], "d e": {}, same: {x: [1]}}).map((d) => d.path + ' ' + JSON.stringify(d.a) + ' ' + JSON.stringify(d.b)))`)
	want := []string{`a 1 "1"`, `b[1] 2 3`, `b[2].c null undefined`, `b[3] undefined 4`, `__proto__x 1 undefined`, `["d e"].f "x" undefined`,
		`constructor 1 undefined`}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if n := value[int](b, `import(document.scripts[0].src.replace('app', 'compare')).then(({differences}) => differences(Array.from({length: 5000}, (_, i) => i), []).length)`); n != 100 {
		t.Errorf("%d differences, want the first 100", n)
	}
}

// People see the screens that their roles let them see.
func TestScreensByRole(t *testing.T) {
	s := newSite(t, options{recipes: map[string]string{"asks": asks}, idle: true})
	b := s.open(anton, "#/")
	b.sees("h1", "Inbox")
	b.is("document.querySelectorAll('.top nav a').length", 1)
	b.goTo("#/nowhere")
	b.sees("h1", "There is no such screen")
	b.axe("no such screen")
}
