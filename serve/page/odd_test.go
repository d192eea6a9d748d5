package page_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/serve"
	"github.com/braise-run/braise/trace"
)

const lena = "limited-0123456789abcdef" // sees the recipes asks and reply

// Who sees some recipes sees their runs one recipe at a time, and all their pauses; of others there is nothing.
func TestSomeRecipesOnly(t *testing.T) {
	s := newSite(t, options{recipes: map[string]string{"asks": asks, "reply": reply, "refund": refund}, answers: dear, idle: true,
		change: func(o *serve.Server) {
			o.Access.Tokens = append(o.Access.Tokens, serve.Token{Name: "lena", Secret: lena, Recipes: []string{"asks", "reply"},
				Roles: []serve.Role{serve.Read, serve.Answer}})
		}})
	asked, replied := s.run("asks", map[string]any{"order": 1}), s.run("reply", map[string]any{"ticket": "T-1"})
	hidden := s.run("refund", map[string]any{"order": 2})
	b := s.open(lena, "#/runs")
	b.rows(asked)
	b.sees(".top nav .badge", "2")
	b.is("[...document.querySelectorAll('.filter select option')].map((e) => e.innerText)", []string{"asks", "reply"})
	b.is("document.querySelector('.filter select').value = 'reply', document.querySelector('.filter select').dispatchEvent(new Event('change')), true", true)
	b.rows(replied)
	b.goTo("#/inbox")
	b.count(".pauses li", 2)
	b.sees(".pauses", "Pay order 1?")
	b.sees(".pauses", "Send the reply to T-1?")
	b.goTo("#/inbox?at=" + asked + "/ask")
	b.press("approve")
	b.sees(".said", "is recorded")
	b.count(".pauses li", 2) // it keeps its place, and is done
	b.goTo("#/recipes")
	b.count("tbody tr", 2)
	b.goTo("#/runs/" + hidden)
	b.sees("[role=alert]", "there is no run")
	b.goTo("#/inbox?at=" + hidden + "/ask")
	b.see(".pane .said")
}

// A part of the page that cannot be loaded says so; what shows stays, and another attempt has it.
func TestPartIsMissing(t *testing.T) {
	c := &sent{shut: "/compare.js"}
	s, ids := asking(t, 2, options{front: c.front})
	b := s.open(rita, "#/runs")
	b.rows(ids[1], ids[0])
	b.goTo("#/compare?a=" + ids[0] + "&b=" + ids[1])
	b.sees("[role=alert]", "could not be loaded")
	b.axe("a part that is missing")
	b.goTo("#/runs") // other screens work
	b.rows(ids[1], ids[0])
	b.goTo("#/compare?a=" + ids[0] + "&b=" + ids[1])
	b.sees("[role=alert]", "could not be loaded")
	c.mu.Lock()
	c.shut = ""
	c.mu.Unlock()
	b.press("Try again")
	b.sees("p[role=status]", "Inputs: 1 differs.")
}

// A page that is open while the server is upgraded begins anew before it loads a part of the new version; where servers
// are of several versions, once a minute.
func TestUpgrade(t *testing.T) {
	var upgraded atomic.Bool
	s, ids := asking(t, 2, options{front: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if upgraded.Load() && strings.HasSuffix(r.URL.Path, "/here") {
				w.WriteHeader(http.StatusGone)
				return
			}
			next.ServeHTTP(w, r)
		})
	}})
	b := s.open(rita, "#/runs")
	b.rows(ids[1], ids[0])
	late := "performance.now = () => 60_000, window.old = true"
	b.is(late, true)
	upgraded.Store(true)
	b.goTo("#/compare?a=" + ids[0] + "&b=" + ids[1])
	b.sees("p[role=status]", "Inputs: 1 differs.")
	b.is("window.old === undefined", true)
	b.is(late, true)
	b.goTo("#/runs/" + ids[0] + "/fork?at=ask")
	b.see("section[aria-label='Runs again']")
	b.is("window.old", true)
}

// A screen that fails says so, and the others work.
func TestScreenFails(t *testing.T) {
	s, ids := asking(t, 1, options{front: func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/compare.js") {
				w.Header().Set("Content-Type", "text/javascript")
				_, _ = io.WriteString(w, "export function Compare() { throw new Error('out of order'); }")
				return
			}
			next.ServeHTTP(w, r)
		})
	}})
	b := s.open(rita, "#/compare")
	b.sees("h1", "This screen failed")
	b.sees("pre", "out of order")
	b.press("Try again")
	b.sees("h1", "This screen failed")
	b.axe("error")
	b.goTo("#/runs")
	b.rows(ids[0])
}

// A request for a fork that is sent again is one run, and so is a double click; the next fork is another one.
func TestForkOnce(t *testing.T) {
	s, ids := asking(t, 1, options{})
	b := s.open(olga, "#/runs/"+ids[0]+"/fork?at=ask")
	b.sees("section[aria-label='Runs again'] li", "tell")
	b.is(`window.real = window.fetch, window.lost = 0, window.fetch = async (to, init) => {
		const answer = await real(to, init);
		if (init?.method === "POST" && String(to).endsWith("/fork") && !init.body.includes("dry") && !lost++) throw new TypeError("lost");
		return answer;
	}, true`, true)
	b.press("Fork")
	b.sees(".trouble", "cannot be reached")
	b.do(chromedp.Evaluate[chromedp.Void](`for (const e of [...document.querySelectorAll("button")].filter((e) => e.innerText === "Fork")) { e.click(); e.click(); }`))
	b.is("location.hash.includes('fork')", false)
	b.sees("h1", "asks")
	if all := s.runs(); len(all) != 2 || all[0] != value[string](b, "location.hash.split(/[/?]/)[2]") {
		t.Errorf("there are runs %v", all)
	}
	b.goTo("#/runs/" + ids[0] + "/fork?at=ask")
	b.sees("section[aria-label='Runs again'] li", "tell")
	b.press("Fork")
	b.is("location.hash.includes('fork')", false)
	b.sees("h1", "asks")
	if all := s.runs(); len(all) != 3 {
		t.Errorf("there are runs %v", all)
	}
}

const odd = `apiVersion: braise/v1
name: odd
inputs: {n: integer}
steps:
  constructor: {uses: test.odd, with: {n: "${{ inputs.n }}"}}
  total: {uses: set, with: {n: "${{ inputs.n + 1 }}", half: "${{ steps.constructor.output.half }}"}}
output: ${{ steps.total.output }}
`

// halves is what a tool gives of which the strings have halves of pairs of surrogates.
var halves = tool{"test.odd", func(context.Context, json.RawMessage) (json.RawMessage, error) {
	return json.RawMessage(`{"half": "a\ud800b\udc00c", "turn": "\u202eabc", "whole": "\ud83d\ude00"}`), nil
}}

// Names that objects have of themselves, numbers that JavaScript would round, and texts that are no Unicode show as they are.
func TestOddValues(t *testing.T) {
	s := newSite(t, options{recipes: map[string]string{"odd": odd}, idle: true, tools: []runtime.Tool{halves}})
	id := s.run("odd", map[string]any{"n": int64(9007199254740992)})
	other := s.run("odd", map[string]any{"n": int64(9007199254740994)})
	b := s.open(rita, "#/runs/"+id+"/graph?step=constructor")
	b.see(node("constructor") + ".succeeded.picked")
	b.see(node("total") + ".succeeded")
	b.sees(".detail .json", `half: “a`)
	b.sees(".detail .json", `turn: “\u202eabc”`)
	b.sees(".detail .json", "whole: “😀”")
	half := fetch[struct{ Output struct{ Half string } }](s, "runs/"+id+"/steps/constructor").Output.Half
	b.sees(".detail .json", half) // as the API has it: Go knows no halves
	b.press("Events")
	b.sees(".detail .event", "step.start")
	for _, tab := range []string{"time", "steps", "trace"} {
		b.goTo("#/runs/" + id + "/" + tab)
		b.sees(".view", "constructor")
	}
	b.goTo("#/runs/" + id + "/trace?in=constructor")
	b.sees(".event", "step.start")
	b.goTo("#/runs/" + id + "/result?step=total")
	b.sees(".result .json", "n: 9007199254740993")
	b.sees(".detail .json", "n: 9007199254740993")
	b.goTo("#/compare?a=" + id + "&b=" + other)
	b.sees("tr", "inputs.n")
	b.is("[...document.querySelectorAll('tr')].filter((r) => r.cells[0].innerText === 'output.n')[0]?.innerText.trim().split(/\\s+/)",
		[]string{"output.n", "9007199254740993", "9007199254740995"})
	b.goTo("#/compare?a=" + id + "&b=" + id)
	b.sees("p[role=status]", "Inputs: none differ. Steps: none differ.")
}

// An output of 16 MiB does not come with the page; it can be shown. Only apps that raise the limits have such outputs.
func TestLargeOutput(t *testing.T) {
	limits := runtime.Limits{MaxOutputBytes: 32 << 20, MaxRunBytes: 512 << 20}
	s := newSite(t, options{idle: true, change: func(o *serve.Server) { o.Runtime.Limits = limits }, recipes: map[string]string{"large": `apiVersion: braise/v1
name: large
steps:
  make: {uses: test.large, with: {}}
  after: {uses: test.echo, needs: [make], with: {}}
output: ${{ steps.make.output }}
`}, tools: []runtime.Tool{echo, tool{"test.large", func(context.Context, json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage(`"` + strings.Repeat("0123456789abcdef", 1<<20) + `"`), nil
	}}}})
	s.rt.Limits = limits
	id := s.run("large", nil)
	b := s.open(rita, "#/runs/"+id+"/result?step=make")
	b.sees(".result", "16.8 MB of JSON")
	b.sees(".detail", "16.8 MB of JSON")
	b.is("performance.getEntriesByType('resource').every((e) => e.decodedBodySize < 1e6)", true)
	b.press("Show")
	b.sees(".result .json", "0123456789abcdef")
	b.sees(".result .json", "16.8 MB more")
	b.is("document.body.innerText.length < 20000", true) // 2,000 characters of it
}

// Numbers keep their digits in events that come while one looks, too.
func TestOddEvents(t *testing.T) {
	s := newSite(t, options{idle: true, recipes: map[string]string{"tells": `apiVersion: braise/v1
name: tells
steps: {a: {uses: test.tells, with: {}}}
`}, tools: []runtime.Tool{tool{"test.tells", func(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
		return json.RawMessage("1"), trace.Emit(ctx, "counted", map[string]any{"n": int64(9007199254740993), "half": "a\ufffd"})
	}}}})
	s.enqueue("r1", nil, nil)
	b := s.open(rita, "#/runs/r1/trace")
	b.sees("h1 .state", "queued")
	b.sees("[role=status]", "events")
	s.work()
	b.sees(".event", "run.end")
	b.sees(".event .what", "9007199254740993")
}
