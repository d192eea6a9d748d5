package page_test

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/braise-run/braise/runtime"
)

// The trace is filtered by kind, step and words, and an event unfolds, all by keyboard and all in the URL.
func TestTrace(t *testing.T) {
	s, id := newDesk(t)
	b := s.open(rita, "#/runs/"+id+"/trace")
	b.sees("[role=status]", "47 events")
	b.sees(".event", "run.start")
	b.keys("/")
	b.is("document.activeElement.type", "search")
	b.fill("[type=search]", "bad item")
	b.sees("[role=status]", "1 of 47")
	b.sees(".event", "verify[1]")
	b.is("location.hash.includes('q=bad+item')", true)
	b.fill("[type=search]", kb.Backspace)
	b.sees("[role=status]", "47 events")
	b.is("document.activeElement.blur(), true", true)
	b.keys("jjj")
	b.is("document.activeElement.closest('[role=listitem]').ariaPosInSet", "3")
	b.keys("\r")
	b.sees(".event .json", "seq: 3")
	b.is("location.hash.includes('event=3')", true)
	b.is(`[...document.querySelectorAll(".event")].every((e, i, all) => !i ||
		Math.abs(e.getBoundingClientRect().top - all[i - 1].getBoundingClientRect().bottom) < 1)`, true)
	b.keys(kb.End)
	b.is("document.activeElement.innerText.includes('run.end')", true)
	b.is("document.querySelector('.events').scrollTop + document.querySelector('.events').clientHeight >= document.querySelector('.events').scrollHeight - 1", true)
	b.keys(kb.Home)
	b.is("document.querySelector('.events').scrollTop", 0)
	b.goTo("#/runs/" + id + "/trace?in=verify&kind=step.end&clock=1")
	b.sees("[role=status]", "3 of 47")
	b.click(".event.bad .fold")
	b.sees(".event .json", "model.failed")
	b.is("/^\\d\\d:\\d\\d:\\d\\d/.test(document.querySelector('.event time').innerText)", true)
	b.press("verify[1]")
	b.sees(".detail h2", "verify[1]")
	b.goTo("#/runs/" + id + "/trace?q=no+such+word")
	b.sees(".empty", "No event")
}

// many makes n times four events: of calls of a tool in items.
func many(t testing.TB, n int) (*site, string) {
	s := newSite(t, options{idle: true, tools: []runtime.Tool{echo}, recipes: map[string]string{"many": `apiVersion: braise/v1
name: many
inputs: {list: array}
steps:
  a: {uses: test.echo, foreach: {in: "${{ inputs.list }}", as: i}, with: {n: "${{ i }}"}}
  b: {uses: test.echo, foreach: {in: "${{ inputs.list }}", as: i}, with: {n: "${{ i }}"}}
  c: {uses: test.echo, foreach: {in: "${{ inputs.list }}", as: i}, with: {n: "${{ i }}"}}
  d: {uses: test.echo, foreach: {in: "${{ inputs.list }}", as: i}, with: {n: "${{ i }}"}}
output: done
`}})
	list := make([]any, n)
	for i := range list {
		list[i] = int64(i)
	}
	return s, s.run("many", map[string]any{"list": list})
}

// Of many events only those rows exist that are seen, wherever one looks.
func TestTraceOfManyEvents(t *testing.T) {
	s, id := many(t, 1000)
	b := s.open(rita, "#/runs/"+id+"/trace")
	b.sees("[role=status]", " events")
	b.is("!document.querySelector('.trace [role=status]').innerText.includes('reading')", true)
	b.is("document.querySelectorAll('.event').length < 80", true)
	b.is("document.querySelector('.events').focus(), true", true)
	b.do(chromedp.KeyEvent(kb.End))
	b.sees(".event", "run.end")
	b.is("document.activeElement.innerText.includes('run.end')", true)
	b.is("document.querySelectorAll('.event').length < 80", true)
	b.do(chromedp.KeyEvent(kb.Home))
	b.is("document.activeElement.innerText.includes('run.start')", true)
}

// BenchmarkTrace prints how quick the trace of 100,000 events is.
func BenchmarkTrace(b *testing.B) {
	s, id := many(b, 8400)
	p := s.open(rita, "#/runs/"+id+"/result")
	for b.Loop() {
		p.goTo("#/runs/" + id + "/result")
		p.see(".result")
		p.is(`window.marks = {}, window.seen = new MutationObserver(() => {
			if (document.querySelector('.event')) marks.first ??= performance.now();
		}), seen.observe(document.body, {childList: true, subtree: true}), true`, true)
		p.is("marks.go = performance.now(), location.hash = '#/runs/"+id+"/trace', true", true)
		p.see(".event")
		p.is("!document.querySelector('.trace [role=status]').innerText.includes('reading')", true)
		p.is("marks.whole = performance.now(), true", true)
		b.ReportMetric(value[float64](p, `(() => {const all = performance.getEntriesByType('resource').filter((e) => e.name.includes('/events'));
			return marks.first - all.find((e) => e.startTime > marks.go).responseEnd})()`), "ms/first-picture")
		b.ReportMetric(value[float64](p, "marks.whole - marks.go"), "ms/all-read")
		b.ReportMetric(value[float64](p, `new Promise((done) => {
			const box = document.querySelector('.events'), times = [];
			let last = performance.now();
			const frame = (now) => {
				times.push(now - last);
				last = now;
				box.scrollTop += 2000;
				if (times.length < 120) requestAnimationFrame(frame);
				else done(times.sort((a, b) => a - b)[114]);
			};
			requestAnimationFrame(frame);
		})`), "ms/frame-p95")
		b.ReportMetric(value[float64](p, `new Promise((done) => {
			const input = document.querySelector('[type=search]');
			const from = performance.now();
			input.value = '4711';
			input.dispatchEvent(new Event('input', {bubbles: true}));
			requestAnimationFrame(() => setTimeout(() => done(performance.now() - from)));
		})`), "ms/filter")
		b.ReportMetric(value[float64](p, "parseInt(document.querySelector('.trace [role=status]').innerText.split(' of ')[1])"), "events")
	}
}
