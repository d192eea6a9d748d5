package page_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/braise-run/braise/runtime"
)

// The list has each step, filtered by state and text, and the items of a foreach by pages.
func TestSteps(t *testing.T) {
	s := newSite(t, options{recipes: map[string]string{"triage": triage}, tools: []runtime.Tool{check}, idle: true})
	id := s.run("triage", claims(250))
	b := s.open(rita, "#/runs/"+id+"/steps")
	b.count("[data-step]", 11)
	b.sees("[data-step=verify]", "249/250, 1 ✗")
	b.sees("[data-step='verify/check']", "failed")
	b.sees("[data-step='rounds#2/try']", "#2/try")
	b.sees("[data-step=constructor]", "set")
	b.press("✗failed 1")
	b.is(query+".get('state')", "failed")
	b.count("[data-step]", 2) // verify/check, and verify, which has an item that failed
	b.press("Items of verify")
	b.sees("[data-step='verify[6]']", "seven is wrong")
	b.count("[data-step]", 3)
	b.do(chromedp.Reload())
	b.count("[data-step]", 3)
	b.press("all 11")
	b.sees("[data-step='verify[3]']", "succeeded")
	b.sees(".pages", "1 to 100 of 250")
	b.press("later →")
	b.see("[data-step='verify[100]']")
	b.sees(".pages", "101 to 200 of 250")
	b.press("Items of verify")
	b.count("[data-step]", 11)

	b.fill(".steps input", "TRY")
	b.count("[data-step]", 3)
	b.sees(".steps [role=status]", "3 steps")
	b.is("document.activeElement.blur(), true", true)
	b.keys("jj" + kb.Enter)
	b.is(query+".get('step')", "rounds#2/try")
	b.see("[data-step='rounds#2/try'].picked")
	b.sees("aside", "rounds#2/try")
	b.goTo("#/runs/" + id + "/graph?step=rounds%232/try")
	b.see(node("rounds/try") + ".picked")
}

// Of a list of many steps only what is in view is rendered.
func TestManySteps(t *testing.T) {
	s := newSite(t, options{recipes: map[string]string{"many": manySteps("many", 5000)}, idle: true})
	id := s.run("many", nil)
	b := s.open(rita, "#/runs/"+id+"/steps")
	b.see("[data-step=s0]")
	b.is("document.querySelectorAll('[data-step]').length < 80", true)
	b.is("document.querySelector('.steps .rows').scrollTop = 1e9, true", true)
	b.see("[data-step=s4999]")
	b.is("document.querySelectorAll('[data-step]').length < 80", true)
	b.goTo("#/runs/" + id + "/time")
	b.see(".bar")
	b.is("document.querySelectorAll('.bar').length < 80", true)
	b.goTo("#/runs/" + id + "/graph")
	b.see(node("s0") + ".succeeded")
	b.is("document.querySelectorAll('.node').length < 100", true)
	b.press("All 5000 steps")
	b.see(".minimap .frame")
	b.press("Fit")
	b.see(".sheet.far .texture.succeeded")
	b.is("document.querySelector('.minimap .texture-sign.succeeded').getAttribute('d').split('M').length - 1", 5000)
	b.is("document.querySelectorAll('.sheet *').length < 60", true)
}

const hold = `apiVersion: braise/v1
name: hold
steps:
  first: {uses: set, with: 1}
  held: {uses: test.hold, needs: [first]}
  last: {uses: set, needs: [held], with: 1}
`

// The bars of a past run are those of the live one; clicks and keys pick, drags enlarge.
func TestTime(t *testing.T) {
	release := make(chan struct{})
	tool := runtime.NewTool(runtime.ToolSpec{Name: "test.hold", Effect: runtime.Idempotent}, func(context.Context, struct{}) (int, error) {
		<-release
		return 1, nil
	})
	s := newSite(t, options{recipes: map[string]string{"hold": hold}, tools: []runtime.Tool{tool}})
	b := s.open(olga, "#/runs")
	s.post("/recipes/hold/runs", `{"runId": "h1"}`)
	b.goTo("#/runs/h1/time")
	const bar = "[data-step=held] .bar"
	b.see(bar + ".running")
	from, to := fmt.Sprintf("Number(document.querySelector(%q).dataset.from)", bar), fmt.Sprintf("Number(document.querySelector(%q).dataset.to)", bar)
	began, seen := value[float64](b, from), value[float64](b, to)
	b.is(fmt.Sprintf("%s > %v", to, seen), true) // it grows
	seen = value[float64](b, to)
	close(release)
	b.see(bar + ".succeeded")
	b.see("[data-step=last] .bar.succeeded")
	live := value[[]float64](b, "["+from+", "+to+"]")
	if live[0]-began > 50 || began-live[0] > 50 || live[1] < seen-1000 {
		t.Errorf("live from %v, to over %v; then %v", began, seen, live)
	}
	b.do(chromedp.Reload())
	b.see(bar + ".succeeded")
	b.is("["+from+", "+to+"]", live)
	b.count(".execution", 1)

	b.click(bar)
	b.is(query+".get('step')", "held")
	b.goTo("#/runs/h1/time")
	b.gone(".picked")
	b.keys("jj" + kb.Enter)
	b.is(query+".get('step')", "held")
	b.see(".detail") // which takes its place beside the bars

	at := value[[]float64](b, fmt.Sprintf(`((bar, track) => [bar.left - track.left, bar.width])(...[%q, '.bars .track'].map((s) => document.querySelector(s).getBoundingClientRect()))`, bar))
	b.drag(".bars .track", at[0]+at[1]*0.2, 10, at[1]*0.6, 0)
	b.is("/^[0-9]+-[0-9]+$/.test("+query+".get('t'))", true)
	wide := fmt.Sprintf("document.querySelector(%q).getBoundingClientRect().width / document.querySelector('.bars .track').getBoundingClientRect().width > 0.99", bar)
	b.is(wide, true) // a part of the bar of the held step is all that shows
	b.do(chromedp.Reload())
	b.is(wide, true)
	b.press("Fit")
	b.is(query+".get('t')", nil)
}

// Where all waits for over five minutes, time is folded.
func TestTimeFolds(t *testing.T) {
	s := newSite(t, options{recipes: map[string]string{"refund": refund}, idle: true})
	b := s.open(rita, "#/recipes")
	// A model works for 10 s, a person takes two hours in which the run is paused, then 10 s are left.
	const run = `{startedAt: '2026-01-01T00:00:00Z', endedAt: '2026-01-01T02:00:20Z',
		executions: [{from: '2026-01-01T00:00:00Z', to: '2026-01-01T00:00:10Z'}, {from: '2026-01-01T02:00:10Z', to: '2026-01-01T02:00:20Z'}],
		steps: [{step: 'draft', uses: 'model', status: 'succeeded', startedAt: '2026-01-01T00:00:00Z', endedAt: '2026-01-01T00:00:10Z'},
			{step: 'ask', uses: 'human', status: 'succeeded', startedAt: '2026-01-01T00:00:10Z', endedAt: '2026-01-01T02:00:10Z'},
			{step: 'send', uses: 'mail', status: 'succeeded', startedAt: '2026-01-01T02:00:10Z', endedAt: '2026-01-01T02:00:20Z'}]}`
	b.is(`import(document.scripts[0].src.replace('app', 'scale')).then(({stretches, position, ticks}) => {
		const list = stretches(`+run+`, 0), t = (s) => Date.parse('2026-01-01T00:00:00Z') + s * 1000;
		window.got = {at: [0, 5, 10, 7210, 7220].map((s) => Math.round(position(list, t(s)))), folded: list.map((s) => s.folded),
			ticks: ticks(list, t(0), t(7220), 4).map((at) => (at - t(0)) / 1000)};
	}), window.got`, map[string]any{"at": []int{0, 5000, 10000, 10800, 20800}, "folded": []bool{false, true, false}, "ticks": []int{0, 10, 7210, 7220}})
	// A wait of four minutes stays as it is, and so does an hour of work.
	b.is(`import(document.scripts[0].src.replace('app', 'scale')).then(({stretches}) => {
		const short = `+run+`, work = `+run+`;
		short.executions[1].from = short.steps[1].endedAt = short.steps[2].startedAt = '2026-01-01T00:04:00Z';
		work.steps[1].uses = 'agent'; work.executions = [];
		short.endedAt = short.executions[1].to = short.steps[2].endedAt = '2026-01-01T00:04:10Z';
		window.plain = [short, work].map((run) => stretches(run, 0).length);
	}), window.plain`, []int{1, 1})
}
