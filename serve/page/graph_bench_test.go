package page_test

import (
	"testing"

	"github.com/chromedp/chromedp"
)

// pan drags the picture for 240 frames, and returns the times between frames, sorted.
const pan = `(async () => {
	const box = document.querySelector('.canvas'), {left, top, width, height} = box.getBoundingClientRect();
	const send = (type, x, y) => box.dispatchEvent(new PointerEvent(type, {bubbles: true, pointerId: 1, button: 0, buttons: 1, clientX: x, clientY: y}));
	const frame = () => new Promise(requestAnimationFrame), times = [];
	let x = left + width / 2, y = top + height / 2, last = await frame();
	send('pointerdown', x, y);
	for (let i = 0; i < 240; i++) {
		x -= 16 * Math.cos(i / 40);
		y -= 16;
		send('pointermove', x, y);
		const now = await frame();
		times.push(now - last);
		last = now;
	}
	send('pointerup', x, y);
	return times.sort((a, b) => a - b);
})()`

// BenchmarkPan pans a picture of 5,000 steps: at readable size, and all of it. The goal is 34 ms for 95 of 100 frames.
func BenchmarkPan(b *testing.B) {
	s := newSite(b, options{recipes: map[string]string{"many": manySteps("many", 5000)}, idle: true})
	for b.Loop() {
		t := s.open(rita, "#/recipes/many/plan?around=*&step=s2500")
		t.see(".node.picked")
		t.do(chromedp.MouseEvent(chromedp.MouseMoved, 400, 500))
		times := value[[]float64](t, pan)
		b.ReportMetric(times[120], "near-p50-ms")
		b.ReportMetric(times[228], "near-p95-ms")
		t.press("Fit")
		t.see(".sheet.far")
		times = value[[]float64](t, pan)
		b.ReportMetric(times[120], "far-p50-ms")
		b.ReportMetric(times[228], "far-p95-ms")
	}
}
