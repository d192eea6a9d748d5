package page_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/braise-run/braise/checkpoint"
	"github.com/braise-run/braise/checkpoint/sqlite"
	"github.com/braise-run/braise/runtime"
)

// gate is a store of which calls hang, or fail, while it is gone: those that the server makes for requests.
type gate struct {
	*sqlite.Store
	mu    sync.Mutex
	hangs chan struct{} // calls wait until it is closed; nil: none does
	gone  bool
}

// set says what becomes of calls from now on; those that hang are let go, and fail if the store is gone.
func (g *gate) set(hangs, gone bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.hangs != nil {
		close(g.hangs)
	}
	g.hangs, g.gone = nil, gone
	if hangs {
		g.hangs = make(chan struct{})
	}
}

func (g *gate) err(ctx context.Context) error {
	g.mu.Lock()
	hangs := g.hangs
	g.mu.Unlock()
	if hangs != nil {
		select {
		case <-hangs:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.gone {
		return errors.New("the disk is away")
	}
	return nil
}

func (g *gate) Load(ctx context.Context, id string, after int64) (checkpoint.Summary, []checkpoint.Record, error) {
	if err := g.err(ctx); err != nil {
		return checkpoint.Summary{}, nil, err
	}
	return g.Store.Load(ctx, id, after)
}

func (g *gate) List(ctx context.Context, f checkpoint.Filter) ([]checkpoint.Summary, error) {
	if err := g.err(ctx); err != nil {
		return nil, err
	}
	return g.Store.List(ctx, f)
}

func (g *gate) Count(ctx context.Context, f checkpoint.Filter, most int) (map[checkpoint.Phase]int, error) {
	if err := g.err(ctx); err != nil {
		return nil, err
	}
	return g.Store.Count(ctx, f, most)
}

func (g *gate) Pauses(ctx context.Context, f checkpoint.PauseFilter) ([]checkpoint.PauseInfo, error) {
	if err := g.err(ctx); err != nil {
		return nil, err
	}
	return g.Store.Pauses(ctx, f)
}

func (g *gate) Create(
	ctx context.Context, run checkpoint.Run, owner string, ttl time.Duration, recs ...checkpoint.Record,
) (checkpoint.Lease, error) {
	if err := g.err(ctx); err != nil {
		return checkpoint.Lease{}, err
	}
	return g.Store.Create(ctx, run, owner, ttl, recs...)
}

func (g *gate) PutSignal(ctx context.Context, id string, one checkpoint.Signal) error {
	if err := g.err(ctx); err != nil {
		return err
	}
	return g.Store.PutSignal(ctx, id, one)
}

func (g *gate) Signals(ctx context.Context, id string, open bool) ([]checkpoint.Signal, error) {
	if err := g.err(ctx); err != nil {
		return nil, err
	}
	return g.Store.Signals(ctx, id, open)
}

func (g *gate) Definition(ctx context.Context, digest string) (json.RawMessage, error) {
	if err := g.err(ctx); err != nil {
		return nil, err
	}
	return g.Store.Definition(ctx, digest)
}

// While the store hangs, and then can neither be read nor written, the page says so and keeps what it shows and what is
// typed; then it goes on by itself, and nothing was done twice.
func TestStoreIsGone(t *testing.T) {
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "runs.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	g := &gate{Store: db}
	s, ids := asking(t, 1, options{store: g})
	b := s.open(olga, "#/runs")
	b.rows(ids[0])
	inbox := b.beside("#/inbox?at=" + ids[0] + "/ask")
	inbox.sees(".pane h2", "Pay order 0?")
	one := b.beside("#/runs/" + ids[0] + "/steps")
	one.see("[data-step=ask]")
	start := b.beside("#/recipes/asks")
	start.put("order", 0, "41")

	g.set(true, false)
	inbox.press("approve")
	start.press("Start")
	b.press("●running 0") // another view
	said := func() {
		t.Helper()
		inbox.sees(".pane .trouble", "the store cannot be used")
		start.sees(".starts .trouble", "the store cannot be used")
		for _, tab := range []*tab{b, inbox, start} {
			tab.sees(".banner", "cannot use its store")
		}
		b.rows(ids[0])
		one.see("[data-step=ask]")
	}
	said() // when the server has waited for 5 s

	g.set(false, true)
	start.press("Start") // another attempt does not help
	inbox.press("approve")
	for _, tab := range []*tab{inbox, start} {
		tab.gone("button[aria-busy=true]")
	}
	said()
	start.is(fmt.Sprintf("document.querySelector(%q).value", start.field("order", 0)), "41")

	g.set(false, false)
	b.rows()
	b.press("Show all runs")
	b.rows(ids[0])
	for _, tab := range []*tab{b, inbox, start} {
		tab.is("document.querySelector('.banner').hidden", true)
	}
	start.press("Start")
	start.sees("h1 .state", "queued")
	inbox.press("approve")
	inbox.sees(".pane .said", "is recorded")
	s.work()
	b.sees("[data-run='"+ids[0]+"']", "ok")
	one.sees("[data-step=ask]", "succeeded")
	start.sees("h1 .state", "waiting")
	if all := s.runs(); len(all) != 2 {
		t.Errorf("there are runs %v", all)
	}
}

// An answer that is being written when the stream is cut shows where pieces may be missing, and is whole at its end.
func TestAnswerIsCut(t *testing.T) {
	d := &door{}
	model := slow{make(chan string)}
	s := newSite(t, options{recipes: map[string]string{"talker": talker}, idle: true, front: d.front, tools: []runtime.Tool{
		runtime.NewTool(runtime.ToolSpec{Name: "test.hold", Effect: runtime.ReadOnly}, func(context.Context, struct {
			Q string `json:"q"`
		}) (string, error) {
			return "held", nil
		})}})
	s.rt.Models = map[string]runtime.Model{"slow": model}
	s.enqueue("t1", nil, nil)
	s.work()
	b := s.open(olga, "#/runs/t1/steps?step=ask")
	b.follows("t1")
	b.is("window.got.t1.length > 2", true) // all tabs have the stream of the run
	b.sees(".detail", "asks its model")
	model.pieces <- "Dear Ada,"
	b.sees(".said.assistant:last-of-type", "Dear Ada,")
	d.settles(t, 1)
	d.set(true, 0)
	s.http.CloseClientConnections()
	d.settles(t, 0)
	model.pieces <- " we are sorry"
	d.set(false, 0)
	d.settles(t, 1)
	b.sees(".said.assistant:last-of-type", "Dear Ada, […]")
	model.pieces <- "for the lamp."
	b.sees(".said.assistant:last-of-type", "Dear Ada, […] for the lamp.")
	model.pieces <- ""
	b.sees(".said.assistant:last-of-type", "Dear Ada, we are sorryfor the lamp.")
	b.sees("h1 .state", "ok")
}

// Whose cookie is gone logs in again, and all is live as before.
func TestStreamOfNobody(t *testing.T) {
	d := &door{}
	s, ids := asking(t, 1, options{front: d.front})
	b := s.open(olga, "#/runs")
	b.rows(ids[0])
	d.settles(t, 1)
	if _, err := chromedp.Call(b.ctx, network.ClearBrowserCookies, cdp.Empty{}); err != nil {
		t.Fatal(err)
	}
	s.http.CloseClientConnections()
	b.fill("input[name=token]", olga)
	b.press("Log in")
	b.rows(ids[0])
	d.settles(t, 1)
	b.follows(ids[0])
	s.answer(ids[0], "approve")
	b.told(ids[0], "ok")
	b.sees("[data-run='"+ids[0]+"']", "ok")
}

// A shared worker that dies is replaced, without a gap or a double.
func TestSharedWorkerDies(t *testing.T) {
	d := &door{}
	s, ids := asking(t, 1, options{front: d.front})
	b := s.open(rita, "#/runs")
	b.rows(ids[0])
	b.follows(ids[0])
	b.is(fmt.Sprintf("window.got[%q].length > 0", ids[0]), true)
	d.settles(t, 1)
	_, before := d.count()
	b.closeWorkers(1)
	d.renewed(t, before)
	s.answer(ids[0], "approve")
	b.told(ids[0], "ok")
	b.sees("[data-run='"+ids[0]+"']", "ok")
}

// A machine that is connected again does not wait until somebody notices that the old stream is dead.
func TestOnlineAgain(t *testing.T) {
	d := &door{}
	s, ids := asking(t, 1, options{front: d.front})
	b := s.alone() // the browser tells pages alone that it is offline, if it is asked to
	b.rows(ids[0])
	b.follows(ids[0])
	b.is(fmt.Sprintf("window.got[%q].length > 0", ids[0]), true)
	d.settles(t, 1)
	_, before := d.count()
	for _, offline := range []bool{true, false} {
		if _, err := chromedp.Call(b.ctx, network.OverrideNetworkState, network.OverrideNetworkStateParams{Offline: offline}); err != nil {
			t.Fatal(err)
		}
		b.is("navigator.onLine", !offline)
	}
	s.answer(ids[0], "approve")
	b.told(ids[0], "ok")
	if _, asked := d.count(); asked <= before {
		t.Error("the stream is the old one")
	}
}
