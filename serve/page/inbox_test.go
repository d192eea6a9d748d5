package page_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/braise-run/braise/runtime"
)

const reply = `apiVersion: braise/v1
name: reply
inputs: {ticket: string}
steps:
  approve:
    uses: human
    with:
      prompt: "Send the reply to ${{ inputs.ticket }}?"
      show: {reply: "Dear <b>Ada</b>"}
      decisions: [approve, reject]
      form:
        type: object
        required: [text]
        properties: {text: {type: string, maxLength: 300}, lines: {type: array, items: {type: integer, maximum: 9}}}
      expires: 72h
output: ${{ steps.approve.output }}
`

const guarded = `apiVersion: braise/v1
name: guarded
steps:
  sign: {uses: human, with: {prompt: "Sign **this**?", to: [support], four_eyes: true}}
  other: {uses: human, with: {prompt: "For finance", to: [finance]}}
output: ${{ steps.sign.output.decision }}
`

const event = `apiVersion: braise/v1
name: event
steps: {paid: {uses: wait, with: {event: payment}}, nap: {uses: wait, with: {duration: 24h}}}
output: ${{ steps.paid.output }}
`

// status waits until a run is in a phase.
func (b *tab) status(id, phase string) {
	b.Helper()
	b.is(fmt.Sprintf("fetch('api/v1/runs/%s').then((r) => r.json()).then((v) => window.phase = v.phase), window.phase", id), phase)
}

// Somebody answers with the keyboard alone: a form, an answer that does not fit, a decision.
func TestInboxByKeyboard(t *testing.T) {
	s := newSite(t, options{recipes: map[string]string{"reply": reply, "event": event}})
	id := s.run("reply", map[string]any{"ticket": "T-1"})
	s.run("event", nil)
	b := s.open(olga, "#/recipes")
	b.sees(".top nav .badge", "2") // the wait for a time asks nobody
	b.keys("gi")
	b.sees(".pauses", "Send the reply to T-1?")
	b.count(".pauses li", 2)
	b.keys("j")
	b.sees(".pane h2", "Send the reply to T-1?")
	b.sees(".pane .show", "Dear <b>Ada</b>")
	b.keys("\r")
	b.is("document.activeElement.tagName", "H2")
	b.is("document.querySelectorAll('.decide textarea').length", 1)
	b.tabTo("approve")
	b.keys("\r")
	b.wrong("is required")
	b.keys("Dear Ada, j k x")
	b.tabTo("Add")
	b.keys("\r")
	b.is("document.activeElement.tagName", "INPUT")
	b.keys("12")
	b.tabTo("approve")
	b.keys("\r")
	b.wrong("at most 9")
	b.keys("\b3")
	b.keys("\b\b7")
	b.tabTo("approve")
	b.keys("\r")
	b.sees(".said", "Your answer approve is recorded. See the run")
	b.status(id, "ok")
	if out := s.api("GET", "runs/"+id+"/output", ""); !strings.Contains(out, `"output":{"decision":"approve","form":{"lines":[7],"text":"Dear Ada, j k x"}}`) {
		t.Errorf("the outcome is %s", out)
	}
	b.count(".pauses li", 1)
	b.sees(".top nav .badge", "1")
}

// The title of the pause that is chosen has the focus when it has loaded, unless somebody types elsewhere by then.
func TestInboxFocus(t *testing.T) {
	var gate atomic.Pointer[chan struct{}] // a pause is read when it is closed
	hold := func() {
		c := make(chan struct{})
		gate.Store(&c)
	}
	release := func() { close(*gate.Load()) }
	s := newSite(t, options{recipes: map[string]string{"reply": reply}, idle: true, front: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/pauses/approve") {
				<-*gate.Load()
			}
			next.ServeHTTP(w, r)
		})
	}})
	for _, ticket := range []string{"T-1", "T-2", "T-3"} {
		s.run("reply", map[string]any{"ticket": ticket})
	}
	const focus = "document.activeElement.innerText"
	choose := func(b *tab, i int) {
		t.Helper()
		b.count(".pauses a", 3)
		hold()
		b.is(fmt.Sprintf("document.querySelectorAll('.pauses a')[%d].focus(), true", i), true)
		b.keys("\r")
		b.sees(".pane .empty", "Loading")
	}
	b := s.open(olga, "#/inbox")
	choose(b, 0)
	release()
	b.is("document.activeElement === document.querySelector('.pane h2')", true)
	title := b.text(".pane h2")
	choose(b, 1)
	b.is("document.querySelector('.inbox select').focus(), true", true)
	release()
	b.see(".decide")
	b.is("document.activeElement.tagName", "SELECT")
	if b.text(".pane h2") == title {
		t.Errorf("both pauses have the title %s", title)
	}
	b.do(chromedp.EmulateViewport(390, 800))
	b.click(".back")
	hold()
	b.click(".pauses li:nth-child(3) a")
	b.sees(".pane .empty", "Loading")
	release()
	b.is("document.activeElement === document.querySelector('.pane h2')", true)
	b.keys("k")
	b.is("document.activeElement === document.querySelector('.pane h2') && "+focus+" !== "+strconv.Quote(title), true)
}

// quick makes a tab look every tenth of a second at what it else looks at every few seconds, from its next page on.
func (b *tab) quick() {
	b.Helper()
	if _, err := chromedp.Call(b.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: "{const real = setInterval; window.setInterval = (f, ms) => real(f, Math.min(ms, 100))}"}); err != nil {
		b.Fatal(err)
	}
}

// Two answer at once: one is told who was quicker, and keeps what was typed until then.
func TestInboxTwoAtOnce(t *testing.T) {
	s := newSite(t, options{recipes: map[string]string{"reply": reply}, idle: true})
	id := s.run("reply", map[string]any{"ticket": "T-2"})
	s.run("reply", map[string]any{"ticket": "T-3"})
	at := "#/inbox?at=" + id + "/approve"
	a, b := s.open(olga, at), s.open("", "")
	b.quick()
	b.do(chromedp.Navigate(s.http.URL + "/?#login=" + anton))
	b.see(".top nav")
	b.goTo(at)
	a.put("text", 0, "from Olga")
	b.put("text", 0, "from Anton")
	b.do(chromedp.Reload())
	b.sees(".pane [role=status]", "Draft restored.")
	b.is("document.querySelector('.decide textarea').value", "from Anton")
	s.run("reply", map[string]any{"ticket": "T-4"})
	b.sees(".pauses", "T-4")
	b.is("document.querySelector('.decide textarea').value", "from Anton")
	b.put("text", 0, "from Anton!")
	a.press("approve")
	a.sees(".said", "approve is recorded")
	b.sees(".pane .said", `was answered by "olga"`) // that nobody told, as anton may not read runs
	b.is("document.querySelector('.decide textarea').value", "from Anton!")

	// Both press at the same moment.
	other := s.runs()[1]
	at = "#/inbox?all=1&at=" + other + "/approve"
	a.goTo(at)
	b.goTo(at)
	for _, one := range []*tab{a, b} {
		one.sees(".pane h2", "T-3")
		one.put("text", 0, "mine")
	}
	press := `[...document.querySelectorAll(".decide button")].find((e) => e.innerText === "approve").click()`
	done := make(chan error, 2)
	for _, one := range []*tab{a, b} {
		go func() { done <- chromedp.Do(one.ctx, chromedp.Evaluate[chromedp.Void](press)) }()
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	a.see(".pane .said")
	b.see(".pane .said")
	both := a.text(".pane") + b.text(".pane")
	if strings.Count(both, "is recorded") != 1 || strings.Count(both, "was answered by") < 1 {
		t.Errorf("the two say\n%s", both)
	}
}

// Who began a run does not answer it, others only if they are asked, and the list of mine has what one may answer.
func TestInboxWhoMay(t *testing.T) {
	s := newSite(t, options{recipes: map[string]string{"guarded": guarded}, idle: true})
	s.rt.By = "anton"
	id := s.run("guarded", nil)
	b := s.open(anton, "#/inbox")
	b.sees(".pauses + .empty, .empty", "Nothing waits for you.")
	b.gone(".top nav .badge")
	b.press("Everyone")
	b.count(".pauses li", 2)
	b.goTo("#/inbox?all=1&at=" + id + "/sign")
	b.sees(".pane .about", "not whoever began the run")
	b.press("approve")
	b.sees(".pane .trouble", "answer.notAllowed")
	b.goTo("#/inbox?all=1&at=" + id + "/other")
	b.sees(".pane h2", "For finance")
	b.press("reject")
	b.sees(".pane .trouble", "finance")
	b.goTo("#/inbox?all=1&at=" + id + "/none")
	b.sees(".pane .said", "no pending pause")
	r := s.open(rita, "#/inbox?at="+id+"/sign")
	r.sees(".pane", "takes the role answer")
	r.gone(".decide")
}

// What is under the pointer stays where it is.
func TestInboxCalm(t *testing.T) {
	s := newSite(t, options{recipes: map[string]string{"reply": reply}, idle: true})
	first := s.run("reply", map[string]any{"ticket": "T-1"})
	b := s.open(olga, "#/inbox?sort=newest")
	b.sees(".pauses", "T-1")
	var x, y float64
	box := value[[]float64](b, "(({x, y}) => [x + 80, y + 10])(document.querySelector('.pauses li').getBoundingClientRect())")
	x, y = box[0], box[1]
	b.do(chromedp.MouseEvent("mouseMoved", x, y))
	s.run("reply", map[string]any{"ticket": "T-2"})
	b.sees(".list button", "1 new")
	b.count(".pauses li", 1)
	s.api("POST", "runs/"+first+"/pauses/approve/answer", `{"decision": "reject"}`)
	b.see(".pauses li.gone")
	b.do(chromedp.MouseEvent("mouseMoved", x+700, y))
	b.count(".pauses li", 1)
	b.sees(".pauses", "T-2")
	b.do(chromedp.MouseEvent("mouseMoved", x, y))
	s.run("reply", map[string]any{"ticket": "T-3"})
	b.press("1 new")
	b.count(".pauses li", 2)
}

// Several pauses get one answer; those that somebody else answered say so.
func TestInboxMany(t *testing.T) {
	s := newSite(t, options{recipes: map[string]string{"reply": reply, "event": event}, idle: true})
	var ids []string
	for i := range 4 {
		ids = append(ids, s.run("reply", map[string]any{"ticket": fmt.Sprint("T-", i)}))
	}
	s.run("event", nil)
	b := s.open(olga, "#/inbox?at="+ids[0]+"/approve")
	b.press("Decide 4 alike…")
	b.sees(".pane h2", "Decide 4 alike")
	b.press("approve (4)")
	b.wrong("is required")
	b.press("Back to one")
	b.click("input[aria-label='Mark Send the reply to T-3?']")
	b.press("Decide 3 alike…")
	b.count(".many li", 3)
	b.axe("several pauses")
	s.api("POST", "runs/"+ids[1]+"/pauses/approve/answer", `{"decision": "reject"}`)
	b.put("text", 0, "to all")
	b.press("approve (3)")
	b.sees(".pane .said", "2 of 3 answers are recorded.")
	b.sees(".many li", `was answered by "olga"`)
	b.axe("what came of several answers")
	b.sees(".pauses", "T-3")
	b.count(".pauses li", 2)
	b.goTo("#/inbox?kind=external")
	b.count(".pauses li", 1)
	b.goTo("#/inbox?kind=external&all=1&recipe=reply")
	b.sees(".empty", "No run waits for anybody.")
}

// What came with an event is any JSON; a wait for a time asks nobody.
func TestInboxEvent(t *testing.T) {
	s := newSite(t, options{recipes: map[string]string{"event": event}, idle: true})
	id := s.run("event", nil)
	b := s.open(olga, "#/inbox?all=1&at="+id+"/nap")
	b.sees(".pane", "Nobody needs to answer")
	b.goTo("#/inbox?at=" + id + "/paid")
	b.sees(".pane h2", "waits for payment")
	b.put("what came with the event", 0, "hello")
	b.press("Answer")
	b.wrong("is not JSON")
	b.put("what came with the event", 0, `{"amount": 1234567890123456789}`)
	b.press("Answer")
	b.sees(".said", "is recorded")
	s.work()
	b.is("fetch('api/v1/runs/"+id+"/steps/paid').then((r) => r.text()).then((v) => window.out = v), (window.out ?? '').includes('1234567890123456789')", true)
}

// On a narrow screen there is one column, and nothing is wider than the screen.
func TestInboxNarrow(t *testing.T) {
	s := newSite(t, options{recipes: map[string]string{"reply": reply}, idle: true})
	id := s.run("reply", map[string]any{"ticket": strings.Repeat("long", 40)})
	b := s.open(olga, "#/inbox")
	b.do(chromedp.EmulateViewport(360, 740))
	b.see(".pauses a")
	b.is("document.documentElement.scrollWidth <= 360", true)
	b.click(".pauses a")
	b.see(".decide")
	b.is("document.querySelector('.list').checkVisibility()", false)
	b.press("Add")
	b.is("document.documentElement.scrollWidth <= 360", true)
	b.click(".back")
	b.see(".pauses a")

	link := fetchToken(s, id, "approve")
	a := s.open("", "#answer="+link)
	a.do(chromedp.EmulateViewport(360, 740))
	a.see(".decide")
	a.is("document.documentElement.scrollWidth <= 360", true)
}

// The screens with forms can be used by everybody.
func TestEverybodyCanAnswer(t *testing.T) {
	s := newSite(t, options{recipes: map[string]string{"reply": reply, "order": order, "refund": refund}, answers: dear})
	id := s.run("reply", map[string]any{"ticket": "T-1"})
	other := s.run("refund", map[string]any{"order": 7})
	b := s.open(olga, "#/inbox?at="+id+"/approve")
	b.press("Add")
	b.press("approve")
	b.see(".pane .trouble")
	b.axe("inbox")
	b.goTo("#/recipes/order/inputs")
	b.press("Start")
	b.see(".starts .trouble")
	b.press("Labels, queue, key")
	b.axe("start")
	b.goTo("#/runs/" + other + "/fork?at=ask&edit=draft")
	b.see(".edit textarea")
	b.axe("fork")
	a := s.open("", "#answer="+fetchToken(s, id, "approve"))
	a.see(".decide")
	a.axe("answer")
}

// charge is a tool whose call has no end before its time is over: nobody knows whether it had its effect.
type charge struct{}

func (charge) Spec() runtime.ToolSpec {
	return runtime.ToolSpec{Name: "test.charge", Effect: runtime.External, Parameters: json.RawMessage(`{"type": "object"}`)}
}

func (charge) Call(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// Of a call whose outcome is unknown, the pause tells all that is known; its result is any JSON.
func TestInboxUnknownCall(t *testing.T) {
	const text = `apiVersion: braise/v1
name: charge
steps: {pay: {uses: test.charge, timeout: 100ms, with: {amount: 48, to: Ada}}}
output: ${{ steps.pay.output }}
`
	s := newSite(t, options{recipes: map[string]string{"charge": text}, tools: []runtime.Tool{charge{}}})
	id := s.run("charge", nil)
	b := s.open(olga, "#/inbox?at="+id+"/pay")
	b.sees(".pane .about", "the outcome of a call is unknown")
	b.sees(".pane .about", "test.charge")
	b.sees(".pane .about", "key")
	b.sees(".pane .json", "48")
	words := []string{"Call again", "It happened: take the result", "Let the step fail"}
	said := "[...document.querySelectorAll('.decide button')].map((e) => e.innerText)"
	b.is(said, words)
	b.gone(".decide .main")
	b.is("document.getElementById(document.querySelector('.decide button').getAttribute('aria-describedby')).innerText.includes('twice')", true)
	a := s.open("", "#answer="+fetchToken(s, id, "pay"))
	a.sees("h1", "test.charge")
	a.is(said, words)
	a.gone(".decide .main")
	s.run("charge", nil)
	b.press("Decide 2 alike…")
	b.is(said, []string{words[0] + " (2)", words[1] + " (2)", words[2] + " (2)"})
	b.gone(".decide .main")
	b.press("Back to one")
	b.is("document.activeElement.tagName", "H2")
	b.put("result", 0, `{"receipt": `)
	b.press(words[1])
	b.wrong("is not JSON")
	b.put("result", 0, `{"receipt": "R-1"}`)
	b.press(words[1])
	b.sees(".said", "Your answer It happened: take the result is recorded.")
	b.is("fetch('api/v1/runs/"+id+"/output').then((r) => r.json()).then((v) => window.receipt = v.output?.receipt), window.receipt", "R-1")
}

// A call that an agent asks for shows its decisions without scrolling, and the model gets the reason of a rejection.
func TestInboxCall(t *testing.T) {
	s := newSite(t, options{tools: []runtime.Tool{echo}, recipes: map[string]string{"clerk": `apiVersion: braise/v1
name: clerk
agents: {clerk: {model: fast, instructions: Be kind., tools: [test.echo], approval: {"*": pause}}}
steps: {ask: {uses: agent, with: {agent: clerk, prompt: Echo it.}}}
output: ${{ steps.ask.output.text }}
`}, answers: `steps:
  ask:
    - {tool_calls: [{name: test.echo, args: {n: 1}}]}
    - {text: Well then., expect: {contains: it costs too much}}
`})
	id := s.run("clerk", nil)
	b := s.open(olga, "#/runs/"+id)
	b.press(`agent "clerk" wants to call tool "test.echo"`)
	b.sees(".pauses", "test.echo")
	b.is("[...document.querySelectorAll('.decide button')].at(-1).getBoundingClientRect().bottom < innerHeight", true)
	b.put("reason", 0, "it costs too much")
	b.press("reject")
	b.press("See the run")
	b.status(id, "ok")
}
