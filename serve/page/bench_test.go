package page_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/sqlite"
	"github.com/braise-run/braise/runtime"
)

// fill puts n runs into a store, of which one in ten failed.
func fill(b *testing.B, s checkpoint.Store, n int) {
	const writers = 64
	from := time.Now().Add(-time.Duration(n) * time.Second)
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for i := w; i < n; i += writers {
				status := map[string]any{"status": "ok"}
				if i%10 == 0 {
					status = map[string]any{"status": "error", "error": map[string]any{"code": "tool.failed", "message": "status 503", "step": "fetch"}}
				}
				at := from.Add(time.Duration(i) * time.Second)
				ended, err := checkpoint.NewRecord(at.Add(time.Second), checkpoint.RunEnded, "", status)
				if err == nil {
					_, err = s.Create(b.Context(), checkpoint.Run{ID: fmt.Sprintf("run-%06d", i), Recipe: fmt.Sprint("recipe-", i%50),
						Digest: "sha256:0123456789abcdef", Queue: "default", StartedAt: at, By: "ada"}, "somebody", 0, ended)
				}
				if err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

// BenchmarkRuns opens the list of 100,000 runs, with nothing in the browser's cache and again. The goal is 400 ms from
// the request for the page to its first picture with runs.
func BenchmarkRuns(b *testing.B) {
	s := newSite(b, options{idle: true, recipes: map[string]string{"paced": paced(1)}})
	fill(b, s.store, 100_000)
	t := s.open(rita, "#/recipes")
	if _, err := chromedp.Call(t.ctx, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
		Source: `new MutationObserver((_, watch) => {
			if (!document.querySelector('tbody tr')) return;
			watch.disconnect();
			requestAnimationFrame(() => setTimeout(() => window.shown = performance.now()));
		}).observe(document, {childList: true, subtree: true})`}); err != nil {
		b.Fatal(err)
	}
	t.goTo("#/runs")
	for b.Loop() {
		for _, how := range []string{"first", "again"} {
			t.is("delete window.shown, true", true)
			first := how == "first"
			if _, err := chromedp.Call(t.ctx, page.Reload, page.ReloadParams{IgnoreCache: &first}); err != nil {
				b.Fatal(err)
			}
			t.is("window.shown > 0", true)
			b.ReportMetric(value[float64](t, "window.shown"), how+"-ms")
		}
	}
}

// paced is a recipe of so many calls of a tool.
func paced(calls int) string {
	var text strings.Builder
	text.WriteString("apiVersion: braise/v1\nname: paced\nsteps:\n  s0: {uses: test.pace}\n")
	for i := 1; i < calls; i++ {
		fmt.Fprintf(&text, "  s%d: {uses: test.pace, needs: [s%d]}\n", i, i-1)
	}
	return text.String()
}

// pace is a tool that takes 50 ms.
type pace struct{}

func (pace) Spec() runtime.ToolSpec { return runtime.ToolSpec{Name: "test.pace"} }

func (pace) Call(ctx context.Context, _ json.RawMessage) (json.RawMessage, error) {
	select {
	case <-time.After(50 * time.Millisecond):
	case <-ctx.Done():
	}
	return json.RawMessage("null"), ctx.Err()
}

// BenchmarkEvents measures how long it takes from an event to the picture that shows it, where the server executes the
// run and where it learns of it by the store. The goals are 400 ms and 1 s for 95 of 100 events.
func BenchmarkEvents(b *testing.B) {
	for _, where := range []string{"same", "other"} {
		b.Run(where, func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "runs.db")
			sites := make([]*site, 2)
			for i := range sites {
				store, err := sqlite.Open(b.Context(), path, nil)
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { store.Close() })
				sites[i] = newSite(b, options{idle: true, store: store, tools: []runtime.Tool{pace{}}, recipes: map[string]string{"paced": paced(100)}})
			}
			runs := sites[0]
			if where == "other" {
				runs = sites[1]
			}
			for i := 0; b.Loop(); i++ {
				id := fmt.Sprint("paced-", i)
				runs.rt.NewRunID = func() string { return id }
				t := sites[0].open(rita, "#/runs")
				t.see("main")
				done := make(chan string, 1)
				go func() { done <- runs.run("paced", nil) }()
				t.is("fetch('api/v1/runs/"+id+"').then((r) => window.there = r.ok), window.there === true", true)
				t.goTo("#/runs/" + id + "/trace")
				t.see(".event")
				late := value[[]float64](t, `new Promise((done) => {
					const box = document.querySelector('.events');
					const seen = new Set([...document.querySelectorAll('.event')].map((e) => e.dataset.i)), late = [];
					const look = () => {
						box.scrollTop = 1e6; // only what is in view is rendered
						for (const e of document.querySelectorAll('.event')) {
							if (!seen.has(e.dataset.i)) late.push(Date.now() - Date.parse(e.querySelector('time').dateTime));
							seen.add(e.dataset.i);
							if (e.innerText.includes('run.end')) done(late.sort((a, b) => a - b));
						}
					};
					new MutationObserver(() => requestAnimationFrame(() => setTimeout(look))).observe(box, {childList: true, subtree: true});
				})`)
				b.ReportMetric(float64(len(late)), "events")
				b.ReportMetric(late[len(late)/2], "p50-ms")
				b.ReportMetric(late[len(late)*95/100], "p95-ms")
				<-done
				t.do(chromedp.Navigate("about:blank"))
			}
		})
	}
}
