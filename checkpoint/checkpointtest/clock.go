package checkpointtest

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/braise-run/braise/checkpoint"
)

// editLease changes what the medium says of a run's lease.
func (h *harness) editLease(id string, edit func(l *checkpoint.Lease)) {
	h.Helper()
	if h.opts.EditLease == nil {
		h.Skip("the leases are counted by a server's clock")
	}
	h.opts.EditLease(h.T, h.s, id, func(l checkpoint.Lease) checkpoint.Lease { edit(&l); return l })
}

// testWallClock sets the wall clock by an hour, which is to say, the time on the wall that a lease was given. A living
// owner's run is not taken, and a dead owner's is free.
func testWallClock(h *harness) {
	for i, set := range []time.Duration{-time.Hour, time.Hour} {
		living, dead := fmt.Sprint("living-", i), fmt.Sprint("dead-", i)
		l, err := h.s.Create(h.ctx, makeRun(living, 0), "me", time.Minute)
		h.want("Create", err, nil)
		h.editLease(living, func(l *checkpoint.Lease) { l.Until = l.Until.Add(set) })
		_, err = h.s.Claim(h.ctx, living, "other", long)
		h.want("Claim of a living owner's run", err, checkpoint.ErrBusy)
		h.want("Delete of a living owner's run", h.s.Delete(h.ctx, living), checkpoint.ErrBusy)
		if sum, _ := h.load(living); !sum.Held {
			h.Errorf("set by %v: a living owner does not hold its run", set)
		}
		h.append(l, 1, note("a"))

		_, err = h.s.Create(h.ctx, makeRun(dead, 0), "me", time.Minute)
		h.want("Create", err, nil)
		h.editLease(dead, func(l *checkpoint.Lease) {
			l.Until = l.Until.Add(set)
			l.Ends -= 2 * time.Minute // it was given two minutes ago
		})
		if sum, _ := h.load(dead); sum.Held {
			h.Errorf("set by %v: a dead owner holds its run", set)
		}
		h.claim(dead, long)
	}
}

// testOtherClocks has leases that this machine's clock does not count: of another machine, another boot, an earlier
// version, and of a machine that was set back to a snapshot. They are watched for as long as they last.
func testOtherClocks(h *harness) {
	const ttl = 150 * time.Millisecond
	foreign := map[string]func(l *checkpoint.Lease){
		"another machine": func(l *checkpoint.Lease) { l.Clock = "other" + l.Clock[strings.IndexByte(l.Clock, '/'):] },
		"another boot":    func(l *checkpoint.Lease) { l.Clock += "other" },
		"a snapshot":      func(l *checkpoint.Lease) { l.Ends += 24 * time.Hour },
	}
	n := 0
	var claims sync.WaitGroup
	for name, edit := range foreign {
		for _, set := range []time.Duration{-time.Hour, time.Hour} {
			n++
			id := fmt.Sprint("run-", n)
			_, err := h.s.Create(h.ctx, makeRun(id, 0), "me", ttl)
			h.want("Create", err, nil)
			h.editLease(id, func(l *checkpoint.Lease) { edit(l); l.Until = l.Until.Add(set) })
			claims.Go(func() {
				began := time.Now()
				if _, err := h.s.Claim(h.ctx, id, "second", 0); err != nil {
					h.Errorf("%s, the wall clock set by %v: Claim: %v", name, set, err)
				}
				if took := time.Since(began); took < ttl {
					h.Errorf("%s, the wall clock set by %v: the run was taken after %v, want %v", name, set, took, ttl)
				}
			})
		}
	}
	claims.Wait()

	// As long as it is renewed, it does not end, whatever the wall clock says.
	_, err := h.s.Create(h.ctx, makeRun("living", 0), "me", 10*time.Second)
	h.want("Create", err, nil)
	away := func(l *checkpoint.Lease) { l.Clock, l.Until = "other/boot/time", l.Until.Add(-time.Hour) }
	h.editLease("living", away)
	claimed := make(chan error)
	go func() { _, err := h.s.Claim(h.ctx, "living", "other", long); claimed <- err }()
	for renewed := false; !renewed; {
		select {
		case err := <-claimed:
			h.want("Claim of a run whose lease is renewed", err, checkpoint.ErrBusy)
			renewed = true
		case <-time.After(20 * time.Millisecond):
			h.editLease("living", func(l *checkpoint.Lease) { l.Ends++ })
		}
	}

	// An earlier version wrote the time on the wall only. Such a lease lasts 15 seconds from when it was seen.
	_, err = h.s.Create(h.ctx, makeRun("old", 0), "me", long)
	h.want("Create", err, nil)
	h.editLease("old", func(l *checkpoint.Lease) {
		l.Clock, l.Ends, l.Length, l.Until = "", 0, 0, time.Now().Add(5*time.Second)
	})
	if sum, _ := h.load("old"); !sum.Held {
		h.Error("a lease of an earlier version does not hold")
	}
	_, err = h.s.Claim(h.ctx, "old", "other", long)
	h.want("Claim", err, checkpoint.ErrBusy)
	h.editLease("old", func(l *checkpoint.Lease) { // it was given back
		l.Owner, l.Until = "", time.Now().Add(-time.Second)
	})
	h.claim("old", long)
}

// testForgets has many runs that pause in their first write: the store does not remember them.
func testForgets(h *harness) {
	if h.opts.Remembered == nil {
		h.Skip("the store remembers nothing")
	}
	for i := range 20 {
		_, err := h.s.Create(h.ctx, makeRun(fmt.Sprint("run-", i), 0), "me", 0, opened("p"), minted("p", "one"),
			rec(2, checkpoint.RunPaused, ""))
		h.want("Create", err, nil)
	}
	l := h.claim("run-0", long)
	h.want("AnswerPause", h.s.AnswerPause(h.ctx, l, 4, []byte("one"), answer("p", 0)), nil)
	h.append(l, 5, opened("q"), minted("q", "two"), rec(2, checkpoint.RunPaused, ""))
	if n := h.opts.Remembered(h.s); n != 0 {
		h.Errorf("the store remembers %d runs that are paused", n)
	}
}

// testCut loses the connection in the middle of each kind of write. It is done all the same, once.
func testCut(h *harness) {
	if h.opts.Cut == nil {
		h.Skip("the store has no connection")
	}
	docs := h.s.(checkpoint.Documents)
	for i, cut := range []func(){ // the first round prepares the statements
		func() {}, func() { h.opts.Cut(h.T, h.s, false) }, func() { h.opts.Cut(h.T, h.s, true) },
	} {
		id, name := fmt.Sprint("run-", i), fmt.Sprint("round ", i, ": ")
		cut()
		l, err := h.s.Create(h.ctx, makeRun(id, 0), "me", time.Minute, note("a"))
		h.want(name+"Create", err, nil)
		cut()
		h.want(name+"Append", h.s.Append(h.ctx, l, 2, note("b"), note("c")), nil)
		cut()
		h.want(name+"Append of a pause", h.s.Append(h.ctx, l, 4, opened("p"), minted("p", "one")), nil)
		cut()
		h.want(name+"AnswerPause", h.s.AnswerPause(h.ctx, l, 6, []byte("one"), answer("p", 0)), nil)
		h.append(l, 7, note("d"))
		h.want(name+"Append again", h.s.Append(h.ctx, l, 7, note("d")), checkpoint.ErrConflict)
		h.shows(id, note("a"), note("b"), note("c"), opened("p"), minted("p", "one"), answer("p", 0), note("d"))
		cut()
		l, err = h.s.Renew(h.ctx, l, time.Minute)
		h.want(name+"Renew", err, nil)
		cut()
		h.want(name+"Release", h.s.Release(h.ctx, l), nil)
		cut()
		h.shows(id, note("a"), note("b"), note("c"), opened("p"), minted("p", "one"), answer("p", 0), note("d"))
		h.claim(id, 0)
		cut()
		_, err = h.s.Create(h.ctx, makeRun(id, 0), "me", time.Minute, note("a"))
		h.want(name+"Create again", err, checkpoint.ErrExists)
		cut()
		h.want(name+"PutDocument", docs.PutDocument(h.ctx, "c", checkpoint.Document{Name: id}), nil)
	}
	h.cutSignals()
	all, err := docs.Documents(h.ctx, "c")
	if err != nil || len(all) != 3 {
		h.Errorf("%d documents, %v", len(all), err)
	}
}

// cutSignals is testCut for signals.
func (h *harness) cutSignals() {
	h.Helper()
	signals := need[checkpoint.Signals](h)
	l := h.create("signals")
	for i, cut := range []func(){
		func() {}, func() { h.opts.Cut(h.T, h.s, false) }, func() { h.opts.Cut(h.T, h.s, true) },
	} {
		s := cancelling(fmt.Sprint(i))
		cut()
		h.want("PutSignal", signals.PutSignal(h.ctx, "signals", s), nil)
		cut()
		h.want("PutSignal again", signals.PutSignal(h.ctx, "signals", s), checkpoint.ErrExists)
		cut()
		h.want("EndSignals", signals.EndSignals(h.ctx, l, s.ID), nil)
	}
	h.signalled("signals", "0!", "1!", "2!")
}
