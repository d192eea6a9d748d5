package page_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/braise-run/braise/runtime"
)

// post sends a request as olga.
func (s *site) post(path, body string) {
	s.Helper()
	req, err := http.NewRequestWithContext(s.Context(), http.MethodPost, s.http.URL+"/api/v1"+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+olga)
	req.Header.Set("Content-Type", "application/json")
	res, err := s.http.Client().Do(req)
	if err != nil {
		s.Fatal(err)
	}
	defer res.Body.Close()
	if text, _ := io.ReadAll(res.Body); res.StatusCode >= 300 {
		s.Fatalf("%s: %d %s", path, res.StatusCode, text)
	}
}

// drag presses the mouse at a point of what a selector finds, and moves it.
func (b *tab) drag(selector string, x, y, dx, dy float64) {
	b.Helper()
	at := value[[]float64](b, fmt.Sprintf("(({left, top}) => [left, top])(document.querySelector(%q).getBoundingClientRect())", selector))
	x, y = x+at[0], y+at[1]
	b.do(chromedp.MouseEvent(chromedp.MousePressed, x, y, chromedp.ButtonLeft), chromedp.MouseEvent(chromedp.MouseMoved, x+dx/2, y+dy/2, chromedp.ButtonLeft),
		chromedp.MouseEvent(chromedp.MouseMoved, x+dx, y+dy, chromedp.ButtonLeft), chromedp.MouseEvent(chromedp.MouseReleased, x+dx, y+dy, chromedp.ButtonLeft))
}

const (
	// where is where a step is in the picture.
	where = "((r, c) => [r.left - c.left, r.top - c.top, r.width].map(Math.round))(...['.node[data-id=approve] > .shape', '.canvas']" +
		".map((s) => document.querySelector(s).getBoundingClientRect()))"
	query = "new URLSearchParams(location.hash.split('?')[1])"
)

func node(id string) string { return fmt.Sprintf(".node[data-id=%q]", id) }

// textOf compares the text of a part of a step.
func textOf(id, part, want string) string {
	return fmt.Sprintf("document.querySelector('%s%s')?.textContent === %q", node(id), part, want)
}

// States and counts show at the steps; the picture stays where it is while the run goes on.
func TestGraph(t *testing.T) {
	s := newSite(t, options{recipes: map[string]string{"triage": triage}, tools: []runtime.Tool{check}})
	id := s.run("triage", claims(12))
	b := s.open(olga, "#/runs/"+id+"/graph")
	b.see(node("constructor") + ".succeeded")
	b.see(node("other") + ".skipped")
	b.see(node("verify") + ".succeeded.box")
	b.is(textOf("verify", " .times", "11/12, 1 ✗"), true)
	b.is(textOf("verify/check", ".failed .times", "11/12, 1 ✗"), true)
	b.is(textOf("verify/check", " .sign", "✗"), true)
	b.is(textOf("rounds/try", " .times", "×3"), true)
	b.is(textOf("approve", " > title", "approve, human, waiting"), true)
	b.count(".edges .line", 2) // data and order

	before := value[[]float64](b, where)
	b.drag(".canvas", 40, 60, 90, 50)
	b.is(where, []float64{before[0] + 90, before[1] + 50, before[2]})
	b.gone(".node.picked") // a drag picks nothing
	corner := value[[]float64](b, "((c) => [c.left, c.top])(document.querySelector('.canvas').getBoundingClientRect())")
	b.do(chromedp.MouseEvent(chromedp.MouseWheel, corner[0]+before[0]+90, corner[1]+before[1]+50, func(p *input.DispatchMouseEventParams) { p.DeltaX, p.DeltaY = 0.001, -300 }))
	b.is("Math.abs("+where+"[2] - "+fmt.Sprint(before[2])+" * Math.exp(0.45)) < 2", true) // e to the power of 300 times 0.0015
	b.is("document.querySelector('.sheet').style.transform", "translate(0px, 0px) scale(1)")
	after := value[[]float64](b, where)
	b.is(fmt.Sprintf("Math.hypot(%v, %v) < 3", after[0]-before[0]-90, after[1]-before[1]-50), true) // the pointer stays at the step
	s.post("/runs/"+id+"/pauses/approve/answer", `{"decision": "approve"}`)
	s.post("/runs/"+id+"/recover", `{}`)
	b.see(node("send") + ".succeeded")
	b.see(node("approve") + ".succeeded")
	b.is(where, after)

	b.press("Fit")
	b.see(node("send"))
	b.click(node("send"))
	b.is(query+".get('step')", "send")
	b.see(node("send") + ".picked")
	b.see(".edges.picked")
	b.sees("aside", "send")
}

// Bodies fold, the picture turns, and all of it is in the URL.
func TestGraphFolds(t *testing.T) {
	s := newSite(t, options{recipes: map[string]string{"triage": triage}, tools: []runtime.Tool{check}})
	b := s.open(rita, "#/recipes/triage")
	b.see(node("verify/check"))
	b.click("[data-fold=verify]")
	b.gone(node("verify/check"))
	b.see(node("rounds/try"))
	b.is(query+".get('open')", "rounds")
	b.axe("a folded graph")
	b.press("Left to right")
	b.is(query+".get('dir')", "LR")
	right := "((a, b) => a.right < b.left)(...['constructor', 'other'].map((id) => document.querySelector(`.node[data-id=${id}] > .shape`).getBoundingClientRect()))"
	b.is(right, true)
	b.do(chromedp.Reload())
	b.is(right, true)
	b.gone(node("verify/check"))
	b.click("[data-fold=rounds]")
	b.is(query+".get('open')", ".")
	b.gone(node("rounds/try"))

	// What is found in a body is unfolded, and picked.
	b.fill(".find", "CHECK")
	b.sees(".found", "1 of 9 steps")
	b.keys(kb.Enter)
	b.see(node("verify/check") + ".picked")
	b.sees(".facts", "test.check")
	b.is(query+".get('find')", "CHECK")

	// By the keyboard alone.
	b.fill(".find", kb.Backspace)
	b.gone(".found")
	b.is("document.querySelector('.canvas').focus(), document.activeElement.className", "canvas")
	b.keys("n")
	b.is("document.activeElement.getAttribute('data-id')", "verify/note")
	b.keys("pp")
	b.is("document.activeElement.getAttribute('data-id')", "verify")
	b.keys(kb.Enter)
	b.is(query+".get('step')", "verify")
	b.keys(" ")
	b.gone(node("verify/check"))
	left := "Math.round(document.querySelector('.node[data-id=verify] > .shape').getBoundingClientRect().left)"
	x := value[float64](b, left)
	b.keys(kb.ArrowRight)
	b.is(left, x-80)
	b.keys("0")
	b.is(left+" !== "+fmt.Sprint(x-80), true)
}

// manySteps has n steps in layers of 20, each with two needs in the layer before.
func manySteps(name string, n int) string {
	var text strings.Builder
	fmt.Fprintf(&text, "apiVersion: braise/v1\nname: %s\nsteps:\n", name)
	for i := range n {
		needs := ""
		if i >= 20 {
			needs = fmt.Sprintf(", needs: [s%d, s%d]", i-20, i-20-i%20+(i*7+3)%20)
			if (i*7+3)%20 == i%20 {
				needs = fmt.Sprintf(", needs: [s%d]", i-20)
			}
		}
		fmt.Fprintf(&text, "  s%d: {uses: set%s, with: {n: 1}}\n", i, needs)
	}
	return text.String()
}

// A picture of many steps is the neighbourhood of one beside the list; the whole of it is rendered in parts.
func TestGraphOfManySteps(t *testing.T) {
	s := newSite(t, options{recipes: map[string]string{"many": manySteps("many", 5000)}, idle: true})
	b := s.open(rita, "#/recipes/many")
	b.sees(".found", "5000 of 5000 steps")
	b.see(node("s0"))
	b.is("document.querySelectorAll('.node').length < 100", true)
	b.is("document.querySelectorAll('.found button').length < 100", true)
	b.fill(".find", "s4321")
	b.sees(".found", "1 of 5000")
	b.keys(kb.Enter)
	b.see(node("s4321") + ".picked")
	b.see(node("s4301"))
	b.axe("the neighbourhood of a step")
	b.is(query+".get('around')", "s4321")
	b.press("All 5000 steps")
	b.see(".minimap .frame")
	b.see(node("s4321") + ".picked") // in view
	b.is("[...document.querySelectorAll('.sheet .node[data-id]')].length < 700", true)
	b.press("Fit")
	b.see(".sheet.far .texture")
	b.is("document.querySelectorAll('.sheet *').length < 60", true)
	b.axe("a graph from afar")
	b.drag(".minimap", 20, 20, 5, 5)
	b.press("Neighbourhood")
	b.is("document.querySelectorAll('.node').length < 100", true)
}

// From afar, where no text can be read, states have signs beside colours.
func TestGraphFromAfar(t *testing.T) {
	s := newSite(t, options{recipes: map[string]string{"many": strings.Replace(manySteps("many", 200), "s199: {uses: set,", "s199: {uses: set, when: 'false',", 1)}, idle: true})
	b := s.open(rita, "#/runs/"+s.run("many", nil))
	b.press("Fit")
	b.see(".sheet.far .texture.succeeded")
	b.is("document.querySelector('.sheet .texture-sign.succeeded').getAttribute('d').split('M').length - 1", 199)
	b.is("document.querySelector('.sheet .texture-sign.skipped').getAttribute('d').split('M').length - 1", 1)
	b.is("['succeeded', 'skipped'].map((s) => document.querySelector('.minimap .texture-sign.' + s)?.getAttribute('d').length > 10)", []bool{true, true})
}

// Tab goes from step to step, and leaves the picture at both ends.
func TestGraphByTab(t *testing.T) {
	s, ids := asking(t, 1, options{})
	b := s.open(olga, "#/runs/"+ids[0]+"/graph")
	b.see(node("ask"))
	b.is("document.querySelector('.canvas').focus(), document.activeElement.className", "canvas")
	now := "document.activeElement.getAttribute('data-id')"
	b.keys("\t")
	b.is(now, "ask")
	b.keys("\t")
	b.is(now, "tell")
	b.do(chromedp.KeyEvent("\t", chromedp.KeyModifiers(kb.ModifierShift)))
	b.is(now, "ask")
	b.keys(kb.Enter)
	b.is(query+".get('step')", "ask")
	b.sees(".detail .json", "approve") // it shows, and the picture is narrower
	b.keys("\t")
	b.is(now, "tell")
	b.keys("\t")
	b.is("!!document.activeElement.closest('.canvas')", false)
}

// Names that objects have of themselves are names of steps.
func TestNamesOfSteps(t *testing.T) {
	s := newSite(t, options{recipes: map[string]string{"refund": refund}, idle: true})
	b := s.open(rita, "#/recipes")
	got := value[[]string](b, `import(document.scripts[0].src.replace('app', 'states')).then(({sumUp}) => {
		const sums = sumUp([{step: '__proto__', status: 'failed'}, {step: 'toString', status: 'running', items: {succeeded: 37, running: 2, failed: 1}},
			{step: 'toString/constructor', status: 'running', items: {failed: 1, succeeded: 37, running: 2}},
			{step: 'hasOwnProperty#1/a', status: 'succeeded'}, {step: 'hasOwnProperty#2/a', status: 'waiting'}]);
		return [...sums].map(([id, {state, text}]) => [id, state, text].join(' '));
	})`)
	want := []string{"__proto__ failed ", "toString running 37/40, 1 ✗", "toString/constructor failed 37/40, 1 ✗", "hasOwnProperty/a waiting ×2, 1 ‖"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%q", got)
	}
}
