package page_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	browserp "github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/braise-run/braise/history"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/serve"
)

// door stands before a server: it counts the streams, cuts them, and lets nobody through while it is shut.
type door struct {
	mu      sync.Mutex
	shut    bool
	refuse  int            // the status of streams; 0: they are let through
	streams map[int]func() // cut the streams that are open
	asked   int            // how many were
}

func (d *door) front(next http.Handler) http.Handler {
	d.streams = map[int]func(){}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		d.mu.Lock()
		shut, refuse, stream := d.shut, d.refuse, strings.HasSuffix(r.URL.Path, "/stream")
		d.mu.Unlock()
		if shut {
			panic(http.ErrAbortHandler)
		}
		if stream {
			conn := http.NewResponseController(w)
			d.mu.Lock()
			d.asked++
			n := d.asked
			d.streams[n] = func() { _ = conn.SetWriteDeadline(time.Now().Add(-time.Hour)); _ = conn.SetReadDeadline(time.Now()) }
			d.mu.Unlock()
			defer func() {
				d.mu.Lock()
				defer d.mu.Unlock()
				delete(d.streams, n)
			}()
			if refuse != 0 {
				w.Header().Set("Retry-After", "1")
				w.WriteHeader(refuse)
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func (d *door) set(shut bool, refuse int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shut, d.refuse = shut, refuse
}

func (d *door) count() (open, asked int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.streams), d.asked
}

// settles waits until as many streams are open.
func (d *door) settles(t testing.TB, want int) {
	t.Helper()
	until(t, func() bool { open, _ := d.count(); return open == want },
		func() string { open, _ := d.count(); return fmt.Sprintf("%d streams are open, want %d", open, want) })
}

// renewed waits until there is one stream, which was asked for after the first so many.
func (d *door) renewed(t testing.TB, before int) {
	t.Helper()
	until(t, func() bool { open, asked := d.count(); return open == 1 && asked > before },
		func() string { return "the stream does not begin anew" })
}

// follows watches a run, and keeps the numbers of its events and its end in a list of the page.
func (b *tab) follows(id string) {
	b.Helper()
	b.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`window.got ??= {}, window.got[%[1]q] = [], import(document.scripts[0].src.replace('app', 'live')).then(({watchRun}) => watchRun(%[1]q, 0, {
		event: (e) => window.got[%[1]q].push(e.seq), end: (phase) => window.got[%[1]q].push('end ' + phase)}))`, id)))
}

// told waits until all events of a run have come, each once and in order, and its end.
func (b *tab) told(id, phase string) {
	b.Helper()
	b.is(fmt.Sprintf("window.got[%q].at(-1)", id), "end "+phase)
	b.is(fmt.Sprintf("window.got[%q].slice(0, -1).every((n, i) => n === i + 1) && window.got[%[1]q].length > 2", id), true)
}

func asking(t *testing.T, n int, o options) (*site, []string) {
	t.Helper()
	o.recipes, o.idle = map[string]string{"asks": asks}, true
	s := newSite(t, o)
	ids := []string{}
	for i := range n {
		ids = append(ids, s.run("asks", map[string]any{"order": i}))
	}
	return s, ids
}

// conns counts the connections of a server.
type conns struct {
	mu  sync.Mutex
	all map[net.Conn]http.ConnState
}

func (c *conns) told(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all == nil {
		c.all = map[net.Conn]http.ConnState{}
	}
	c.all[conn] = state
	if state == http.StateClosed {
		delete(c.all, conn)
	}
}

// busy is how many connections carry a request.
func (c *conns) busy() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, state := range c.all {
		if state == http.StateActive {
			n++
		}
	}
	return n
}

// Twelve tabs of a browser show twelve runs, live, over one connection: with one for each, HTTP/1.1 would not let the
// seventh load.
func TestTwelveTabs(t *testing.T) {
	d, c := &door{}, &conns{}
	s, ids := asking(t, 12, options{front: d.front, conns: c.told})
	one := func() {
		t.Helper()
		d.settles(t, 1)
		until(t, func() bool { return c.busy() == 1 }, func() string { return fmt.Sprint(c.busy(), " connections are in use, want 1") })
	}
	tabs := []*tab{s.open(rita, "#/runs/"+ids[0])}
	for _, id := range ids[1:] {
		tabs = append(tabs, tabs[0].beside("#/runs/"+id))
	}
	for i, b := range tabs {
		b.sees(".facts", ids[i])
		b.sees("h1 .state", "waiting")
		b.see(node("tell") + ".pending")
		b.follows(ids[i])
		b.is(fmt.Sprintf("window.got[%q].length > 0", ids[i]), true)
	}
	one()
	for i, b := range tabs {
		s.answer(ids[i], "approve")
		b.sees("h1 .state", "ok")
		b.see(node("tell") + ".succeeded")
		b.told(ids[i], "ok")
	}
	tabs[0].goTo("#/runs") // or nothing is watched any more
	tabs[0].see("tbody tr")
	one()
}

// A tab that is closed, or crashes, is forgotten: the stream begins anew without its run. The last one ends it.
func TestClosedTab(t *testing.T) {
	d := &door{}
	s, ids := asking(t, 3, options{front: d.front})
	tabs := []*tab{s.open(rita, "#/runs")}
	tabs = append(tabs, tabs[0].beside("#/runs"), tabs[0].beside("#/runs"))
	for i, b := range tabs {
		b.see("tbody tr")
		b.follows(ids[i])
		b.is(fmt.Sprintf("window.got[%q].length > 0", ids[i]), true)
	}
	for i, end := range []cdp.Command[cdp.Empty, cdp.Empty]{page.Close, page.Crash} {
		_, before := d.count()
		ctx, stop := context.WithTimeout(tabs[i+1].ctx, time.Second)
		_, _ = chromedp.Call(ctx, end, cdp.Empty{}) // who is gone does not answer
		stop()
		d.renewed(t, before) // without the tab
	}
	s.answer(ids[0], "approve")
	tabs[0].told(ids[0], "ok")
	if _, err := chromedp.Call(tabs[0].ctx, page.Close, cdp.Empty{}); err != nil {
		t.Fatal(err)
	}
	d.settles(t, 0)
}

// A stream that is cut goes on without a gap or a double, also after the server was away.
func TestStreamIsCut(t *testing.T) {
	d := &door{}
	s, ids := asking(t, 3, options{front: d.front})
	b := s.open(rita, "#/runs")
	b.see("tbody tr")
	for _, id := range ids {
		b.follows(id)
		b.is(fmt.Sprintf("window.got[%q].length > 0", id), true)
	}
	d.settles(t, 1)
	s.http.CloseClientConnections()
	s.answer(ids[0], "approve")
	b.told(ids[0], "ok")

	d.set(true, 0)
	s.http.CloseClientConnections()
	b.sees(".banner", "cannot be reached")
	b.axe("the server is away")
	s.answer(ids[1], "approve")
	d.set(false, 0)
	b.told(ids[1], "ok")
	b.is("document.querySelector('.banner').hidden", true)

	if err := s.store.Delete(t.Context(), ids[2]); err != nil { // nobody is told of it: the next stream is
		t.Fatal(err)
	}
	late := s.run("asks", map[string]any{"order": 9})
	b.follows(late)
	s.answer(late, "reject")
	b.told(late, "ok")
	b.is(fmt.Sprintf("window.got[%q].at(-1)", ids[2]), "end ")
	b.sees("tbody", "asks")
}

// Too many streams are waited for.
func TestRefusedStream(t *testing.T) {
	d := &door{}
	s, ids := asking(t, 1, options{front: d.front})
	d.set(false, 429)
	b := s.open(rita, "#/runs")
	b.see("tbody tr")
	b.see(".banner")
	b.follows(ids[0])
	d.set(false, 0)
	b.is("document.querySelector('.banner').hidden", true)
	s.answer(ids[0], "approve")
	b.told(ids[0], "ok")
}

// Who may not have a stream asks for no other; who may asks again, but not at once.
func TestNoStreamForNobody(t *testing.T) {
	d := &door{}
	s, _ := asking(t, 1, options{front: d.front})
	b := s.open("", "") // nobody is logged in, and nothing else goes on in the page
	b.see("input[name=token]")
	for status, want := range map[int]string{0: "[401,20,40000]", 403: "[403,20,40000]", 429: "[429,20,40000,true]", 503: "[503,20,40000,true]"} {
		d.set(false, status)
		got := value[string](b, `import(document.scripts[0].src.replace('app', 'stream')).then(({Hub}) => new Promise((yes) => {
			const real = window.setTimeout, all = [];
			window.setTimeout = (f, ms) => (ms !== undefined && all.push(ms >= 1500 && ms <= 2500 || ms), real(f, ms)); // drawing has no time
			const hub = new Hub(new URL('api/v1/', location.href).href);
			hub.want({send: ({status}) => status && real(() => {
				hub.pause(true);
				window.setTimeout = real;
				yes(JSON.stringify([status, ...all.slice(0, -1)]));
			})}, 1, {list: true});
		}))`)
		if got != want {
			t.Errorf("status %d, and timers of %s, want %s", status, got, want)
		}
	}
}

// alone shows the list of runs to rita, in a browser without shared workers.
func (s *site) alone() *tab {
	s.Helper()
	b := s.open("", "")
	if _, err := chromedp.Call(b.ctx, page.AddScriptToEvaluateOnNewDocument,
		page.AddScriptToEvaluateOnNewDocumentParams{Source: "delete window.SharedWorker"}); err != nil {
		s.Fatal(err)
	}
	b.do(chromedp.Navigate(s.http.URL + "/?#login=" + rita))
	b.see("tbody tr")
	b.is("typeof SharedWorker", "undefined")
	return b
}

// A browser without shared workers has a stream for each tab.
func TestNoSharedWorker(t *testing.T) {
	d := &door{}
	s, ids := asking(t, 1, options{front: d.front})
	b := s.alone()
	b.follows(ids[0])
	b.is(fmt.Sprintf("window.got[%q].length > 0", ids[0]), true)
	d.settles(t, 1)
	s.answer(ids[0], "approve")
	b.told(ids[0], "ok")
	b.sees("tbody", "ok")
}

// A tab that nobody sees lets go of its stream, where it has one of its own, and has it again when it is seen.
func TestHiddenTab(t *testing.T) {
	d := &door{}
	s, ids := asking(t, 1, options{front: d.front})
	b := s.alone()
	b.follows(ids[0])
	b.is(fmt.Sprintf("window.got[%q].length > 0", ids[0]), true)
	d.settles(t, 1)
	window, err := chromedp.CallBrowser(b.ctx, browserp.GetWindowForTarget, browserp.GetWindowForTargetParams{TargetID: chromedp.FromContext(b.ctx).Target.TargetID})
	if err != nil {
		t.Fatal(err)
	}
	show := func(state browserp.WindowState) {
		t.Helper()
		if _, err := chromedp.CallBrowser(b.ctx, browserp.SetWindowBounds,
			browserp.SetWindowBoundsParams{WindowID: window.WindowID, Bounds: &browserp.Bounds{WindowState: state}}); err != nil {
			t.Fatal(err)
		}
		b.is("document.hidden", state == browserp.WindowStateMinimized)
	}
	show(browserp.WindowStateMinimized)
	d.settles(t, 0)
	s.answer(ids[0], "approve")
	show(browserp.WindowStateNormal)
	d.settles(t, 1)
	b.told(ids[0], "ok") // of all that happened meanwhile
	b.sees("tbody", "ok")
}

// A browser that is more than 10,000 events behind is told to read the run again: nothing is missing.
func TestFarBehind(t *testing.T) {
	d := &door{}
	const items = 3400 // of three events each
	list := make([]any, items)
	for i := range list {
		list[i] = int64(i)
	}
	s := newSite(t, options{idle: true, front: d.front, tools: []runtime.Tool{echo}, recipes: map[string]string{"asks": `apiVersion: braise/v1
name: asks
inputs: {list: array}
steps:
  ask: {uses: human, with: {prompt: "Go on?", decisions: [approve, reject]}}
  work: {uses: test.echo, needs: [ask], foreach: {in: "${{ inputs.list }}", as: i}, with: {n: "${{ i }}"}}
output: done
`}})
	id := s.run("asks", map[string]any{"list": list})
	b := s.open(rita, "#/runs/"+id+"/trace")
	b.sees(".event", "run.paused")
	b.is(fmt.Sprintf(`import(document.scripts[0].src.replace('app', 'live')).then(({watchRun}) => watchRun(%q, 0, {event: () => {}, reset: () => window.resets = 1 + (window.resets ?? 0)})), true`, id), true)
	d.settles(t, 1)
	d.set(true, 0)
	s.http.CloseClientConnections()
	b.sees(".banner", "cannot be reached")
	s.answer(id, "approve")
	all := fetchEvents(s, id)
	if all <= 10_000 {
		t.Fatalf("there are %d events", all)
	}
	d.set(false, 0)
	b.is("window.resets > 0", true)
	b.sees("h1 .state", "ok")
	b.is("document.querySelector('.trace [role=status]').innerText", fmt.Sprint(all, " events"))
	b.is("document.querySelector('.events').focus(), true", true)
	b.keys(kb.End)
	b.is("document.activeElement.innerText.includes('run.end')", true)
	b.is("document.activeElement.closest('[role=listitem]').ariaPosInSet", fmt.Sprint(all))
}

// fetchEvents returns how many events a run has.
func fetchEvents(s *site, id string) int64 {
	s.Helper()
	run, err := history.Load(s.Context(), s.store, id)
	if err != nil {
		s.Fatal(err)
	}
	return int64(len(run.Events))
}

// More runs than a hundred are one stream, and a name that no run can have spoils nothing.
func TestManyRunsInOneStream(t *testing.T) {
	d := &door{}
	s, ids := asking(t, 150, options{front: d.front})
	b := s.open(rita, "#/runs")
	b.see("tbody tr")
	b.follows("../x")
	for _, id := range ids {
		b.follows(id)
	}
	b.is("Object.values(window.got).filter((all) => all.length > 0).length", 150)
	d.settles(t, 1)
	s.answer(ids[149], "approve")
	b.told(ids[149], "ok")
}

// A server that is about to end sends its viewers elsewhere, at once.
func TestByeIsNoTrouble(t *testing.T) {
	drain := make(chan struct{})
	s, _ := asking(t, 1, options{change: func(s *serve.Server) { s.Drain = drain }})
	b := s.open(rita, "#/runs")
	b.see("tbody tr")
	close(drain)
	b.sees(".banner", "about to end")
}

// Log out in one tab is that in all.
func TestLogOutEverywhere(t *testing.T) {
	s, _ := asking(t, 1, options{})
	b := s.open(rita, "#/runs")
	b.see("tbody tr")
	other := b.beside("#/runs")
	other.see("tbody tr")
	b.press("Log out")
	other.see("input[name=token]")
}
