package page_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	cdpruntime "github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"github.com/braise-run/braise/adapters/script"
	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/sqlite"
	"github.com/braise-run/braise/recipe"
	"github.com/braise-run/braise/runtime"
	"github.com/braise-run/braise/serve"
	"github.com/braise-run/braise/trace"
	"github.com/braise-run/braise/worker"
	"github.com/braise-run/braise/workflow"
)

// patience is how long a test waits for what must happen; it is long, as machines of tests are busy.
const patience = 30 * time.Second

// chromium is one browser for all tests of the package.
var chromium = sync.OnceValues(func() (context.Context, error) {
	path := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		return nil, errors.New("NO CHROMIUM (apt-get install chromium)")
	}
	alloc, _ := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.WSURLReadTimeout(patience), chromedp.WindowSize(1280, 900))...)
	ctx, stop := chromedp.NewContext(alloc)
	stopBrowser = stop
	return ctx, chromedp.Do(ctx)
})

var stopBrowser = func() {}

func TestMain(m *testing.M) {
	flag.Parse()
	code := m.Run()
	stopBrowser()
	os.Exit(code)
}

// browser returns the browser. Without one the test is skipped, but fails where the variable CI is true.
func browser(t testing.TB) context.Context {
	t.Helper()
	if testing.Short() {
		t.Skip("with a browser, not in short tests")
	}
	ctx, err := chromium()
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
	return ctx
}

// The people of the tests, by their tokens.
const (
	olga  = "operator-0123456789abcdef" // operates
	rita  = "reader-0123456789abcdef"   // reads
	anton = "answerer-0123456789abcdef" // answers, in the group support
)

// site is a server on a loopback port over a SQLite file, with a worker in the same process unless it is idle.
type site struct {
	testing.TB
	store   checkpoint.Store
	rt      *runtime.Runtime // of the runs, with the store; By is ada
	server  *serve.Server
	http    *httptest.Server
	recipes []serve.Recipe
}

// options change a site.
type options struct {
	recipes map[string]string // YAML by name
	answers string            // the script of the model fast, see docs/scripts.md; "": there is no model
	tools   []runtime.Tool
	idle    bool             // no worker works
	store   checkpoint.Store // nil: a new one
	change  func(*serve.Server)
	front   func(http.Handler) http.Handler // stands before the server; nil: nothing
	conns   func(net.Conn, http.ConnState)  // is told of connections; nil: nobody is
}

func compile(t testing.TB, text string) *workflow.Workflow {
	t.Helper()
	r, err := recipe.Parse("recipe.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	wf, err := workflow.Compile(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	return wf
}

// newSite serves recipes.
func newSite(t testing.TB, o options) *site {
	t.Helper()
	s := &site{TB: t, store: o.store}
	if s.store == nil {
		store, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "runs.db"), nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { store.Close() })
		s.store = store
	}
	for name, text := range o.recipes {
		s.recipes = append(s.recipes, serve.Recipe{Name: name, Workflow: compile(t, text), Source: text})
	}
	s.rt = &runtime.Runtime{Store: s.store, Tools: o.tools, By: "ada"}
	if o.answers != "" {
		model, err := script.Parse("answers.yaml", []byte(o.answers))
		if err != nil {
			t.Fatal(err)
		}
		s.rt.Models = map[string]runtime.Model{"fast": model}
	}
	plain := *s.rt
	s.server = &serve.Server{Store: s.store, Runtime: &plain, Version: "test",
		Recipes: func() []serve.Recipe { return s.recipes },
		Logger:  slog.New(slog.DiscardHandler),
		Access: serve.Access{Tokens: []serve.Token{
			{Name: "olga", Secret: olga, Roles: []serve.Role{serve.Operate}},
			{Name: "rita", Secret: rita, Roles: []serve.Role{serve.Read}},
			{Name: "anton", Secret: anton, Roles: []serve.Role{serve.Answer}, Groups: []string{"support"}},
		}}}
	if o.change != nil {
		o.change(s.server)
	}
	handler := s.server.Handler()
	if o.front != nil {
		handler = o.front(handler)
	}
	s.http = httptest.NewUnstartedServer(handler)
	s.http.Config.ConnState = o.conns
	s.http.Start()
	t.Cleanup(s.http.Close)
	s.rt.Trace = []trace.Sink{s.server.Sink()}
	if !o.idle {
		s.work()
	}
	return s
}

// work lets a worker execute runs until the test ends.
func (s *site) work() {
	w := &worker.Worker{Runtime: s.rt, Queues: []string{"default"}, Drain: time.Second}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	s.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			s.Error(err)
		}
	})
}

// run executes a run of a recipe in this process, to its end or first pause, and returns its id.
func (s *site) run(name string, inputs map[string]any) string {
	s.Helper()
	for _, r := range s.recipes {
		if r.Name == name {
			out, err := r.Workflow.Run(s.Context(), inputs, s.rt)
			if err != nil {
				s.Fatal(err)
			}
			return out.RunID
		}
	}
	s.Fatalf("no recipe %s", name)
	return ""
}

// tab is a tab of a browser of its own: no other test shares its cookies.
type tab struct {
	testing.TB
	site *site
	ctx  context.Context
	mu   sync.Mutex
	bad  []string // what the browser complained about
}

// open logs somebody in, by token, and shows a place: "#/runs". With token "" nobody is logged in.
func (s *site) open(token, place string) *tab {
	s.Helper()
	return s.tab(token, place, chromedp.WithNewBrowserContext())
}

// beside opens a second tab of the same browser.
func (b *tab) beside(place string) *tab {
	b.Helper()
	return b.site.tab("", place, chromedp.WithExistingBrowserContext(chromedp.FromContext(b.ctx).BrowserContextID))
}

func (s *site) tab(token, place string, option chromedp.ContextOption) *tab {
	s.Helper()
	if token == "" {
		return s.shown(s.http.URL+"/"+place, option)
	}
	b := s.shown(s.http.URL+"/#login="+token, option)
	b.see(".top nav")
	b.goTo(place)
	return b
}

// shown opens a tab at an address, of this server or another. What the browser complains about fails the test.
func (s *site) shown(url string, option chromedp.ContextOption) *tab {
	s.Helper()
	ctx, stop := chromedp.NewContext(browser(s), option)
	s.Cleanup(stop)
	b := &tab{TB: s, site: s, ctx: ctx}
	if err := chromedp.Listen(ctx, b.hear); err != nil {
		s.Fatal(err)
	}
	b.do(chromedp.EmulateViewport(1280, 900), chromedp.Navigate(url))
	s.Cleanup(func() {
		for _, text := range b.complaints() {
			s.Errorf("the browser says: %s", text)
		}
	})
	return b
}

// complaints returns what the page and the shared workers of the browser have complained about since they were last
// asked.
func (b *tab) complaints() []string {
	if b.ctx.Err() == nil {
		for _, id := range b.workers() {
			ctx, stop := chromedp.NewContext(b.ctx, chromedp.WithTargetID(id), chromedp.WithListener(b.hear), chromedp.WithDetachOnCancel())
			limited, cancel := context.WithTimeout(ctx, patience)
			// Who listens late hears what was said before. A worker that ends meanwhile says nothing.
			_, _ = chromedp.Run(limited, chromedp.Evaluate[int]("1"))
			cancel()
			stop()
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.bad
	b.bad = nil
	return all
}

// workers returns the shared workers of the browser of a tab.
func (b *tab) workers() (ids []target.ID) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	all, err := chromedp.CallBrowser(ctx, target.GetTargets, target.GetTargetsParams{Filter: target.Filter{{}}})
	if err != nil {
		b.Fatal(err)
	}
	for _, one := range all.TargetInfos {
		if one.Type == "shared_worker" && one.BrowserContextID == chromedp.FromContext(b.ctx).BrowserContextID {
			ids = append(ids, one.TargetID)
		}
	}
	return ids
}

// closeWorkers ends the shared workers of the browser of a tab, of which there are n.
func (b *tab) closeWorkers(n int) {
	b.Helper()
	all := b.workers()
	if len(all) != n {
		b.Fatalf("%d workers are there, want %d", len(all), n)
	}
	for _, id := range all {
		if _, err := chromedp.CallBrowser(b.ctx, target.CloseTarget, target.CloseTargetParams{TargetID: id}); err != nil {
			b.Fatal(err)
		}
	}
}

// hear keeps complaints: violations of the CSP, exceptions that nothing catches, console.error.
func (b *tab) hear(event any) {
	text := ""
	switch e := event.(type) {
	case *cdpruntime.EventExceptionThrown:
		text = e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += " " + e.ExceptionDetails.Exception.Description
		}
	case *cdpruntime.EventConsoleAPICalled:
		if e.Type == cdpruntime.ConsoleAPICalledTypeError || e.Type == cdpruntime.ConsoleAPICalledTypeAssert {
			data, _ := json.Marshal(e.Args)
			text = string(data)
		}
	case *log.EventEntryAdded: // those of the network are answers like 404
		if e.Entry.Level == log.EntryLevelError && e.Entry.Source != log.EntrySourceNetwork {
			text = fmt.Sprintf("%s %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	}
	if text != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.bad = append(b.bad, text)
	}
}

// do makes browser steps.
func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.Fatalf("%v\n%s", err, b.text("body"))
	}
}

// goTo shows a place.
func (b *tab) goTo(place string) {
	b.Helper()
	b.is("location.hash = "+strconv.Quote(place)+", true", true)
}

// until waits until something holds; else the test fails with what told says.
func until(t testing.TB, holds func() bool, told func() string) {
	t.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for deadline := time.After(patience); !holds(); {
		select {
		case <-again.C:
		case <-deadline:
			t.Fatal(told())
		}
	}
}

// is waits until an expression of JavaScript has a value. Errors, as of a page that is about to load, count as none.
func (b *tab) is(expression string, want any) {
	b.Helper()
	wanted, err := json.Marshal(want)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for last := ""; ; {
		got, err := chromedp.Run(ctx, chromedp.Evaluate[[]byte](expression))
		if err == nil && string(got) == string(wanted) {
			return
		}
		if ctx.Err() == nil {
			last = fmt.Sprint(string(got), err)
		}
		select {
		case <-ctx.Done():
			b.Fatalf("%s is %s, want %s\nThe page at %s says:\n%s", expression, last, wanted,
				value[string](b, "location.hash + JSON.stringify([...document.querySelectorAll('input')].map((i) => i.value))"), b.text("body"))
		case <-again.C:
		}
	}
}

// value returns the value of an expression of JavaScript; promises are awaited.
func value[T any](b *tab, expression string) T {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		b.Fatalf("%s: %v", expression, err)
	}
	return v
}

// see waits until something that a selector of CSS finds is visible.
func (b *tab) see(selector string) {
	b.Helper()
	b.is(fmt.Sprintf("!!document.querySelector(%q)?.checkVisibility()", selector), true)
}

// sees waits until what a selector finds has a text in it.
func (b *tab) sees(selector, text string) {
	b.Helper()
	b.is(fmt.Sprintf("[...document.querySelectorAll(%q)].some((e) => e.innerText.includes(%q))", selector, text), true)
}

// gone waits until a selector finds nothing.
func (b *tab) gone(selector string) {
	b.Helper()
	b.is(fmt.Sprintf("document.querySelectorAll(%q).length", selector), 0)
}

// count waits until a selector finds n elements.
func (b *tab) count(selector string, n int) {
	b.Helper()
	b.is(fmt.Sprintf("document.querySelectorAll(%q).length", selector), n)
}

// click clicks what a selector finds, with the mouse.
func (b *tab) click(selector string) {
	b.Helper()
	b.see(selector)
	b.do(chromedp.Click(selector))
}

// press clicks the button, link or label with a text.
func (b *tab) press(text string) {
	b.Helper()
	find := fmt.Sprintf(`[...document.querySelectorAll("button, a, label, summary")].find((e) => e.checkVisibility() && !e.disabled &&
		(e.innerText.trim() === %[1]q || e.getAttribute("aria-label") === %[1]q))`, text)
	b.is(fmt.Sprintf("(%s)?.setAttribute('data-press', ''), !!document.querySelector('[data-press]')", find), true)
	b.do(chromedp.Click("[data-press]"))
	b.do(chromedp.Evaluate[chromedp.Void]("document.querySelector('[data-press]')?.removeAttribute('data-press')"))
}

// fill types into what a selector finds, in place of what is there.
func (b *tab) fill(selector, text string) {
	b.Helper()
	b.see(selector)
	b.is(fmt.Sprintf("document.querySelector(%q).focus(), document.activeElement.select(), true", selector), true)
	b.do(chromedp.KeyEvent(text))
}

// keys types keys, wherever the focus is.
func (b *tab) keys(keys string) {
	b.Helper()
	b.do(chromedp.KeyEvent(keys))
}

// tabTo presses the tab key until what has the focus has a text or a label.
func (b *tab) tabTo(text string) {
	b.Helper()
	for range 60 {
		b.keys("\t")
		if value[bool](b, fmt.Sprintf("((e) => !!(e.innerText.trim() === %[1]q || e.ariaLabel === %[1]q || e.labels?.[0]?.innerText.trim().startsWith(%[1]q)))(document.activeElement)", text)) {
			return
		}
	}
	b.Fatalf("no tab leads to %q", text)
}

// text returns the text of what a selector finds.
func (b *tab) text(selector string) string {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](fmt.Sprintf("document.querySelector(%q)?.innerText ?? ''", selector)))
	if err != nil {
		return err.Error()
	}
	return text
}

var pictures = flag.Bool("pictures", false, "write the screenshots of the documentation, docs/page-*.png")

// shot writes a screenshot for the documentation, if that is asked for.
func (b *tab) shot(name string) {
	b.Helper()
	if !*pictures {
		return
	}
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join("..", "..", "docs", "page-"+name+".png"), png, 0o644)
	}
	if err != nil {
		b.Fatal(err)
	}
}
